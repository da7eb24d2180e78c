"""The conversion of an `Entry` to the values of a row. The writer's thread makes the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from tornado_gate.config.attribution import ATTRIBUTION_HEADERS, TAG_HEADERS, USER_HEADERS
from tornado_gate.ledger.costs import compute_cost, count_quantities, find_seconds
from tornado_gate.ledger.details import render_details
from tornado_gate.ledger.estimates import is_uncharged, settle_usage
from tornado_gate.ledger.rows import clean_text, make_row_id
from tornado_gate.ledger.writing import StoredRow
from tornado_gate.telemetry.entries import Entry, find_outcome
from tornado_gate.telemetry.redaction import Scrubber
from tornado_gate.types import Progress, Usage

MAX_TAGS: Final = 20
TAG_BYTES: Final = 100
MAX_TAGS_LENGTH: Final = 4096
"""The number of characters that are read of a header with tags."""
MODEL_BYTES: Final = 300
NAME_BYTES: Final = 420
TEXT_BYTES: Final = 200
BODY_BYTES: Final = 64 * 1024
ERROR_BYTES: Final = 500
"""The part of an error's text that is kept."""
MAX_TOKENS: Final = 10**12
_SCRUBBER: Final = Scrubber()
_IDLE_OUTCOMES: Final = frozenset({"aborted", "broken"})
_FREE_OPERATIONS: Final = frozenset({"videos", "count_tokens"})
"""Operations on a video that are free, because the task that makes the video has a separate row."""

_COUNTED: Final = ("audio_input_tokens", "audio_output_tokens", "image_tokens", "image_output_tokens")
"""Token counts that are details of a row."""

VIDEO_TASK: Final = "video_tasks"
"""The operation of the row of a finished video task."""


class RowMaker:
    """A maker of the rows of one batch of entries. The entries must live as long as the maker, which keys objects by `id()`.

    The values that rows have in common are made once.
    """

    def __init__(self) -> None:
        self._common: dict[tuple[object, ...], _CommonValues] = {}

    def make_row(self, entry: Entry) -> StoredRow:
        """Return the values of a request's row."""
        meter, target, caller, status = entry.meter, entry.target, entry.caller, entry.status
        outcome = entry.outcome or find_outcome(status, entry.error_code)
        kind = (id(caller), id(target), entry.model, entry.format, entry.operation, status, outcome)
        common = self._common.get(kind)
        if common is None:
            common = self._common[kind] = _make_common_values(entry, outcome)
        usage, is_estimated = settle_usage(entry, outcome)
        is_cached = entry.progress.cached
        return (
            entry.row_id or make_row_id(entry.ended),
            clean_text(entry.request_id, TEXT_BYTES),
            *common.values,
            *_list_counts(usage),
            0 if is_cached else meter.images,
            0.0 if is_cached else find_seconds(meter, usage),
            price_row(entry, usage, outcome),
            _render_tags(caller.tags, entry.headers) if entry.headers else common.tags,
            _render_details(common.details, entry, usage, is_estimated),
        )


class _CommonValues(NamedTuple):
    """The values that the rows of many requests have in common: columns from `key` to `outcome`, the tags of the key, and
    the beginning of the details.
    """

    values: tuple[Any, ...]
    tags: str
    details: str


def _make_common_values(entry: Entry, outcome: str) -> _CommonValues:
    caller, target = entry.caller, entry.target
    texts = _render_texts(
        *(caller.id, caller.user, caller.team, entry.model, caller.name, caller.account),
        *(target.upstream_model, target.plugin, entry.format),
    )
    values = (texts.key, texts.user, texts.team, texts.model, target.provider, entry.operation, entry.status, outcome)
    return _CommonValues(values, _render_tags(caller.tags, NO_HEADERS), texts.details)


class _Texts(NamedTuple):
    """The texts that the rows of many requests have in common. `details` is the beginning of the rows' details."""

    key: str
    user: str
    team: str
    model: str
    details: str


@lru_cache(4096)
def _render_texts(  # noqa: PLR0913, PLR0917  each decides the texts
    key: str, user: str, team: str, model: str, name: str, account: str, upstream_model: str, plugin: str, format: str
) -> _Texts:
    details = {
        "key_name": clean_text(name, NAME_BYTES),
        "account": clean_text(account, NAME_BYTES),
        "upstream_model": clean_text(upstream_model, MODEL_BYTES),
        "plugin": plugin,
        "format": format,
    }
    rendered = render_details(details)
    return _Texts(
        clean_text(key, NAME_BYTES),
        clean_text(user, NAME_BYTES),
        clean_text(team, NAME_BYTES),
        clean_text(model, MODEL_BYTES),
        "{" if rendered == "{}" else rendered[:-1] + ",",
    )


def _render_details(begin: str, entry: Entry, usage: Usage, is_estimated: bool) -> str:
    """Render the details of a row. Most rows do not use `render_details`, because it takes three times as long."""
    progress, characters = entry.progress, entry.meter.characters
    first = progress.first_event_seconds
    text = f'{begin}"total_ms":{entry.total_ms:.3f},"attempts":{progress.attempts}'
    if first is not None:
        text += f',"first_byte_ms":{first * 1000:.3f}'
    if (
        usage.audio_input_tokens is not None
        or usage.audio_output_tokens is not None
        or usage.image_tokens is not None
        or usage.image_output_tokens is not None
    ):
        counts = {name: getattr(usage, name) for name in _COUNTED}
        text += "".join([f',"{name}":{min(count, MAX_TOKENS)}' for name, count in counts.items() if count is not None])
    if entry.headers:
        text += f',"attribution":{_render_attribution(entry.headers)}'
    if (entry.end_user or entry.headers) and (user := _find_end_user(entry)):
        text += f',"end_user":{orjson.dumps(user).decode()}'
    if is_estimated or entry.error_code or entry.body or characters or progress.cached:
        rare = {
            "cached": bool(progress.cached),
            "characters": 0 if progress.cached else characters,
            "estimated": is_estimated,
            "error_code": clean_text(entry.error_code, TEXT_BYTES),
            **(_render_error_texts(progress) if entry.error_code else {}),
            "body": clean_text(entry.body[:BODY_BYTES].decode("utf-8", "replace"), BODY_BYTES) if entry.body else None,
        }
        text += f",{render_details(rare)[1:-1]}"
    return text + "}"


def _render_error_texts(progress: Progress) -> dict[str, str]:
    """Return the texts of an error, without what looks like a key, because upstreams quote parts of a request."""
    texts = {"error_message": progress.error_message, "error_detail": progress.error_detail}
    return {name: clean_text(_SCRUBBER.scrub_text(text, ERROR_BYTES), ERROR_BYTES) for name, text in texts.items()}


def _list_counts(usage: Usage) -> tuple[int | None, ...]:
    """Return the counts of tokens in the order of the table's columns. Absurd counts of an upstream are bounded."""
    written, for_an_hour = usage.cache_write_tokens, usage.cache_write_1h_tokens
    if written is not None and for_an_hour is not None:
        written = max(0, written - for_an_hour)
    counts = (
        usage.input_tokens,
        usage.cache_read_tokens,
        written,
        for_an_hour,
        usage.output_tokens,
        usage.reasoning_tokens,
    )
    if (usage.input_tokens or 0) + (usage.output_tokens or 0) < MAX_TOKENS:
        return counts
    return tuple([None if count is None else min(count, MAX_TOKENS) for count in counts])


def price_row(entry: Entry, usage: Usage, outcome: str) -> int | None:
    """Return the cost in nano-dollars; None if the price is unknown. A request without an upstream's work is free.

    If the caller received a cost with a complete response, the caller pays that cost.
    """
    meter, progress, charge, target = entry.meter, entry.progress, entry.charge, entry.target
    if charge.is_counted_elsewhere or progress.cached or not target.provider or entry.operation in _FREE_OPERATIONS:
        return 0
    if is_uncharged(progress, outcome):
        return 0
    is_used = usage.total_tokens is not None or meter.images or meter.characters or find_seconds(meter, usage)
    if not is_used and (outcome in _IDLE_OUTCOMES or not progress.model):
        return 0
    if charge.cost is not None and outcome == "complete":
        return charge.cost
    price = entry.prices.find_price(target.provider, target.upstream_model) if entry.prices else None
    return None if price is None else compute_cost(price, count_quantities(usage, meter))


def select_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers that a row needs, shortened, because entries stay in memory while the database hangs."""
    if _READ_NAMES.isdisjoint(headers):
        return NO_HEADERS
    return {name: text[:MAX_TAGS_LENGTH] for name, text in headers.items() if name in _READ_NAMES}


def _render_tags(of_key: tuple[str, ...], headers: Mapping[str, str]) -> str:
    of_headers: tuple[str, ...] = ()
    if not headers.keys().isdisjoint(TAG_HEADERS):
        of_headers = tuple([headers[name][:MAX_TAGS_LENGTH] for name in TAG_HEADERS if name in headers])
    return _render_known_tags(of_key, of_headers) if of_key or of_headers else "[]"


@lru_cache(1000)
def _render_known_tags(of_key: tuple[str, ...], of_headers: tuple[str, ...]) -> str:
    return orjson.dumps(collect_tags(of_key, of_headers)).decode()


def collect_tags(of_key: Iterable[str], of_headers: Iterable[str]) -> list[str]:
    """Return the tags of the key, then the tags of comma-separated headers: no repetition, at most MAX_TAGS of
    TAG_BYTES each.
    """
    texts = [*of_key, *(tag for text in of_headers for tag in decode_header(text).split(","))]
    cleaned = (clean_text(tag.strip(), TAG_BYTES).strip() for tag in texts)
    return list(dict.fromkeys(tag for tag in cleaned if tag))[:MAX_TAGS]


def decode_header(text: str) -> str:
    """Return the text of a header that was sent in UTF-8. The bytes of headers arrive as Latin-1."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode("utf-8")
    except ValueError:
        return text


def _find_end_user(entry: Entry) -> str:
    user = entry.end_user
    if not user and not entry.headers.keys().isdisjoint(USER_HEADERS):
        user = next(decode_header(entry.headers[name]) for name in USER_HEADERS if name in entry.headers)
    return clean_text(user, TEXT_BYTES) if user else ""


def _render_attribution(headers: Mapping[str, str]) -> str:
    """Return the members of ATTRIBUTION_HEADERS that the headers contain, as JSON."""
    names = _ATTRIBUTION_NAMES & headers.keys()
    return _render_known_attribution(*[(name, headers[name][:TEXT_BYTES]) for name in sorted(names)]) if names else "{}"


_ATTRIBUTION_NAMES: Final = frozenset(name for names in ATTRIBUTION_HEADERS.values() for name in names)
_READ_NAMES: Final = _ATTRIBUTION_NAMES.union(TAG_HEADERS, USER_HEADERS)
NO_HEADERS: Final[Mapping[str, str]] = {}


@lru_cache(1000)
def _render_known_attribution(*items: tuple[str, str]) -> str:
    headers = dict(items)
    attribution = {
        member: clean_text(decode_header(next(headers[name] for name in names if name in headers)), TEXT_BYTES)
        for member, names in ATTRIBUTION_HEADERS.items()
        if not headers.keys().isdisjoint(names)
    }
    return orjson.dumps(attribution).decode()


def find_end_user(body: Mapping[str, Any]) -> str:
    """Return the caller's user that a body names: ``safety_identifier``, ``user``, or ``metadata.user_id``; "" without
    one.
    """
    user = body.get("safety_identifier") or body.get("user")
    if user is None:
        metadata = body.get("metadata")
        if metadata is None:
            return ""
        user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    return user[:TEXT_BYTES] if isinstance(user, str) else ""
