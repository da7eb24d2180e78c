"""What a store of counters does: `embedded.EmbeddedStore` and `redis_store.RedisStore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tornado_gate.ledger.spending import Period, Used
from tornado_gate.types import Bound


class StoreUnavailable(Exception):
    """The store cannot be used now."""


class Level(NamedTuple):
    """What is used of a bound. `wait` is the time until what was refused fits, 0 if nothing was; `reset` until all is free."""

    bound: Bound
    used: int
    wait: float = 0.0
    reset: float = 0.0


class Moment(NamedTuple):
    """When something was reserved: on the store's clock in milliseconds, and in which day and month (UTC)."""

    clock: int
    day: int
    month: int


class Outcome(NamedTuple):
    """The levels of all bounds, after a reservation; or of those that refused it, then `moment` is None.

    `unread` are bounds whose counters are new: the ledger must be read before they can be used.
    """

    levels: Sequence[Level]
    moment: Moment | None
    unread: Sequence[Bound] = ()


class Store(Protocol):
    """Counters that belong to bounds. Nothing of a request is reserved when one bound refuses it."""

    @property
    def name(self) -> str: ...

    async def reserve(self, bounds: Sequence[Bound], amounts: Sequence[int]) -> Outcome:
        """Reserve one amount for each bound. Raises StoreUnavailable."""

    def change(self, bounds: Sequence[Bound], amounts: Sequence[int], moment: Moment) -> None:
        """Add to what was reserved at `moment`; negative amounts return it. Done soon if it cannot be done at once."""

    async def read(self, bounds: Sequence[Bound]) -> Sequence[Level]:
        """What is used of each bound. Raises StoreUnavailable."""

    async def raise_used(self, used: Mapping[Bound, Used], period: Period) -> None:
        """Take over what the ledger has, where it is more. Raises StoreUnavailable."""

    def list_old(self, now: float) -> list[Bound]:
        """Bounds in use whose ledger should be read again."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...
