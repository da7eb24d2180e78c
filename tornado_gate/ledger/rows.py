"""Rows of the ledger: ids that sort by time, texts that every database accepts, and the values that reports return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.database.usage_tables import ID_CHARACTERS
from tornado_gate.types.value import Value, field

MICROSECONDS: Final = 1_000_000
HOUR: Final = 3600
DAY: Final = 86400
NANO_DOLLARS: Final = 1_000_000_000
LEAST_STREAMED_SHARE: Final = 0.1
"""The share of a request's time after the first event, from which on the response counts as streamed."""
_TIME_DIGITS = 14
_LAST_MICROSECOND = 16**_TIME_DIGITS - 1


def make_row_id(microseconds: int, rest: str = "") -> str:
    """Return the id of a row whose request ended at `microseconds` since 1970. `rest`: ten hexadecimal digits, default
    random.
    """
    return f"{microseconds:014x}{rest or make_unique_id()[: ID_CHARACTERS - _TIME_DIGITS]}"


def find_first_id(moment: float) -> str:
    """Return the smallest id of a row whose request ended at `moment` (Unix seconds) or later."""
    return f"{min(max(round(moment * MICROSECONDS), 0), _LAST_MICROSECOND):014x}"


def find_moment(row_id: str) -> float:
    """Return the moment in Unix seconds at which the request of a row ended."""
    return int(row_id[:_TIME_DIGITS], 16) / MICROSECONDS


def clean_text(text: str, most_bytes: int) -> str:
    """Return `text` as every database stores it: without NUL and lone surrogates, and of at most `most_bytes` in UTF-8."""
    if text.isascii() and len(text) <= most_bytes and "\0" not in text:
        return text
    whole = text[:most_bytes].replace("\0", "�").encode("utf-8", "replace")
    return whole[:most_bytes].decode("utf-8", "ignore")


class UsageQuery(Value, frozen=True, kw_only=True):
    """The scope of a usage report: Unix times from `start` to before `end`, the grouping, and filters. "" and 0 filter
    nothing.

    `group_by` are names of key, user, team, model, provider, operation, status, tag, end_user, day, hour (UTC). `keys`,
    `users` and `end_users` limit the report to several of them; "" means requests without one. Without such a list,
    there is no limit.
    """

    start: float
    end: float
    group_by: tuple[str, ...] = ()
    user: str = ""
    team: str = ""
    key: str = ""
    model: str = ""
    provider: str = ""
    tag: str = ""
    status: int = 0
    end_user: str = ""
    keys: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    end_users: tuple[str, ...] = ()

    @property
    def names_end_users(self) -> bool:
        """Return whether the report needs the rows of requests, because totals do not have end users."""
        return bool("end_user" in self.group_by or self.end_user or self.end_users)


class UsageRow(Value, frozen=True, kw_only=True):
    """The sums of one group. `group` has the value of each name in `group_by`: ids, names, ``2026-11-22`` for a day,
    ``2026-11-22T13:00:00Z`` for an hour.

    `errors` are requests that were refused, failed or broke off. `input_tokens` includes `cached_input_tokens`; `cost` is in
    nano-dollars, of the requests with a known price.
    """

    group: Mapping[str, str] = field(default_factory=dict)
    requests: int = 0
    errors: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    images: int = 0
    seconds: float = 0.0
    cost: int = 0
    unpriced_requests: int = 0

    @property
    def cost_usd(self) -> float | None:
        """Return the cost in US dollars; None if the price of any request is unknown."""
        return None if self.unpriced_requests else self.known_cost_usd

    @property
    def known_cost_usd(self) -> float:
        """Return the cost in US dollars of the requests with a known price."""
        return self.cost / NANO_DOLLARS


class RequestRow(Value, frozen=True, kw_only=True):
    """One request: every column of the ledger. Token counts are None where the upstream reported no count.

    `model` is the name in the request, `upstream_model` the model that served it. `outcome` is ``complete``, ``broken``
    (the response ended before it was complete), ``aborted`` (the caller left), ``refused`` (4xx) or ``failed`` (5xx).
    `cost` is in nano-dollars, None if the price is unknown. `estimated`: token counts are an estimate. `cached`: a
    wrapper responded from its cache, so the request used no tokens. `end_user` is the user that the caller names.
    `attribution` is the session and the application that the caller's headers name. `error_message` is the message that the
    caller received; `error_detail`, for administrators only, is the advice for them and what the upstream said.
    """

    id: str
    moment: float
    request_id: str
    key: str
    key_name: str
    account: str
    user: str
    team: str
    model: str
    upstream_model: str
    provider: str
    plugin: str
    operation: str
    format: str
    status: int
    error_code: str
    outcome: str
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    image_tokens: int | None = None
    image_output_tokens: int | None = None
    images: int = 0
    seconds: float = 0.0
    characters: int = 0
    estimated: bool = False
    cached: bool = False
    first_byte_ms: float | None = None
    total_ms: float = 0.0
    attempts: int = 0
    cost: int | None = None
    tags: tuple[str, ...] = ()
    end_user: str = ""
    attribution: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    error_message: str = ""
    error_detail: str = ""

    @property
    def cost_usd(self) -> float | None:
        return None if self.cost is None else self.cost / NANO_DOLLARS

    @property
    def tokens_per_second(self) -> float | None:
        """Return the output tokens for each second after the first event; of the whole time for a response in one piece.

        None without output tokens.
        """
        if not self.output_tokens or self.cached or self.total_ms <= 0:
            return None
        streamed_ms = self.total_ms - (self.first_byte_ms or 0.0)
        is_streamed = streamed_ms >= LEAST_STREAMED_SHARE * self.total_ms
        return self.output_tokens * 1000 / (streamed_ms if is_streamed else self.total_ms)
