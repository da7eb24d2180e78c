"""The interface of a store of counters; `embedded.EmbeddedStore` and `redis_store.RedisStore` implement it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tornado_gate.ledger.spending import Period, Used
from tornado_gate.types import Bound
from tornado_gate.types.bounds import Moment


class StoreUnavailable(Exception):
    """An error: the store cannot be used now."""


class Level(NamedTuple):
    """The usage of a bound.

    `wait` is the time until the refused amount fits, 0 without a refusal; `reset` is the time until all is free.
    """

    bound: Bound
    used: int
    wait: float = 0.0
    reset: float = 0.0


class Outcome(NamedTuple):
    """The levels of all bounds after a reservation.

    If it was refused, the levels of the bounds that refused it, and `moment` is None.

    `unread` are bounds with new counters: the ledger must be read before they can be used.
    """

    levels: Sequence[Level]
    moment: Moment | None
    unread: Sequence[Bound] = ()


class Store(Protocol):
    """Counters that belong to bounds. If one bound refuses a request, no amount is reserved."""

    @property
    def name(self) -> str: ...

    async def reserve(self, bounds: Sequence[Bound], amounts: Sequence[int]) -> Outcome:
        """Reserve one amount for each bound. Raises StoreUnavailable."""

    def change(self, bounds: Sequence[Bound], amounts: Sequence[int], moment: Moment) -> None:
        """Add to a reservation made at `moment`; negative amounts return it. The change may be applied a little later."""

    async def read(self, bounds: Sequence[Bound]) -> Sequence[Level]:
        """Return the usage of each bound. Raises StoreUnavailable."""

    async def raise_used(self, used: Mapping[Bound, Used], period: Period) -> None:
        """Raise each counter to the ledger's usage if that is higher. Raises StoreUnavailable."""

    def list_old(self, now: float) -> list[Bound]:
        """Return the bounds in use whose ledger should be read again."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...
