"""Limits and budgets, and the amounts that one request reserves of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tornado_gate.types.value import State, Value, field


class Budget(Value, frozen=True, kw_only=True):
    """The maximum spending; None: no bound.

    `usd_per_day`, `usd_per_month`, `tokens_per_day` and `tokens_per_month` are US dollars and tokens in a UTC calendar day or
    month.
    """

    usd_per_day: float | None = None
    usd_per_month: float | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None


NO_BUDGET = Budget()


class Limits(Value, frozen=True, kw_only=True):
    """The limits that the keys of a team share: `requests_per_minute`, `tokens_per_minute`, `concurrent_requests`; None: no
    limit.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None


NO_LIMITS = Limits()


class Bound(NamedTuple):
    """The maximum usage of one `subject` (an id or a name). `kind` is the subject's kind: key, user, team, model, provider,
    gateway.

    `name` is the bound's name in conf. `limit` is its value; US dollars are in nano-dollars. `counter` identifies the counter of
    the `family` (requests, tokens, open, periods: `admission/bounds.py`). `title` is the subject's name for people, "" if it is
    `subject` itself.
    """

    kind: str
    subject: str
    name: str
    limit: int
    family: str
    counter: tuple[int, int]
    title: str = ""


class LimitLevel(NamedTuple):
    """The unused part of a limit per minute: `remaining` of `limit`. `reset` is the time in seconds until the whole limit is
    available again.
    """

    limit: int
    remaining: int
    reset: float


class LimitLevels(NamedTuple):
    """The unused parts of the limits on `requests` and `tokens` per minute. If several limits apply to a request, the limit with
    the smallest unused part counts. None: no limit.
    """

    requests: LimitLevel | None = None
    tokens: LimitLevel | None = None


NO_LEVELS = LimitLevels()


class Moment(NamedTuple):
    """The time of a reservation: `clock` is the store's clock in milliseconds; `day` and `month` are in UTC."""

    clock: int
    day: int
    month: int


class ReservationStore(Protocol):
    """The counters that hold reservations: a store of `limits.store`."""

    def change(self, bounds: Sequence[Bound], amounts: Sequence[int], moment: Moment) -> None:
        """Add `amounts` to the reservation of `moment`; negative amounts release it."""


class Reservation(State):
    """The `amounts` that were reserved for `bounds` at a `moment` in a `store`. With empty `bounds` there is no reservation."""

    bounds: tuple[Bound, ...]
    amounts: list[int]
    moment: Moment
    store: ReservationStore | None


class Reservations(State):
    """The reservations of one request: `of_request` for its caller and its model, `of_target` for the account that serves it.

    `has_begun`: only the request itself is counted, because guards review it. The other amounts are reserved when it is
    admitted. `levels` are the unused parts of the limits per minute.
    """

    of_request: list[Reservation] = field(default_factory=list)
    of_target: Reservation | None = None
    has_begun: bool = False
    levels: LimitLevels = NO_LEVELS

    def list_all(self) -> list[Reservation]:
        """Return the reservations for the request and for its target."""
        return self.of_request if self.of_target is None else [*self.of_request, self.of_target]
