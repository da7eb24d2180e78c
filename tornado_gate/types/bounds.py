"""Limits and budgets, and what one request reserves of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tornado_gate.types.value import State, Value, field


class Budget(Value, frozen=True, kw_only=True):
    """The most that may be spent; None: no bound.

    `usd_per_day`, `usd_per_month`, `tokens_per_day` and `tokens_per_month` are US dollars and tokens in a UTC calendar day or
    month.
    """

    usd_per_day: float | None = None
    usd_per_month: float | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None


NO_BUDGET = Budget()


class Limits(Value, frozen=True, kw_only=True):
    """What the keys of a team may do together, by `requests_per_minute`, `tokens_per_minute`, `concurrent_requests`; None: no
    limit.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None


NO_LIMITS = Limits()


class Bound(NamedTuple):
    """What one `subject` (an id or a name) may use at most. `kind` is that of the subject: key, user, team, model, provider,
    gateway.

    `name` is the bound's name in conf, `limit` its value, for US dollars in nano-dollars. `counter` identifies the counter of
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
    """What is left of a limit per minute: `remaining` of `limit`; `reset` is the time in seconds until all of it is available
    again.
    """

    limit: int
    remaining: int
    reset: float


class LimitLevels(NamedTuple):
    """What is left of the limits on `requests` and `tokens` per minute: of those that concern a request, the one that leaves
    least. None: no limit.
    """

    requests: LimitLevel | None = None
    tokens: LimitLevel | None = None


NO_LEVELS = LimitLevels()


class Moment(NamedTuple):
    """When something was reserved: `clock` is that of the store in milliseconds; `day` and `month` are in UTC."""

    clock: int
    day: int
    month: int


class ReservationStore(Protocol):
    """The counters in which something is reserved: a store of `limits.store`."""

    def change(self, bounds: Sequence[Bound], amounts: Sequence[int], moment: Moment) -> None:
        """Add `amounts` to what was reserved at `moment`; negative amounts return it."""


class Reservation(State):
    """The `amounts` that were reserved for `bounds` at a `moment` in a `store`. Empty `bounds`: nothing is reserved."""

    bounds: tuple[Bound, ...]
    amounts: list[int]
    moment: Moment
    store: ReservationStore | None


class Reservations(State):
    """The reservations of one request: `of_request` for its caller and its model, `of_target` for the account that serves it.

    `has_begun`: only the request itself is counted, because guards review it; the rest is reserved when it is admitted. `levels`
    are what is left of the limits per minute.
    """

    of_request: list[Reservation] = field(default_factory=list)
    of_target: Reservation | None = None
    has_begun: bool = False
    levels: LimitLevels = NO_LEVELS

    def list_all(self) -> list[Reservation]:
        """Return the reservations for the request and for its target."""
        return self.of_request if self.of_target is None else [*self.of_request, self.of_target]
