"""Reservations: the limiter reserves before a request is served, and settles after it.

It uses the store of conf, or the store of this machine while Redis is away. A reservation counts in the minute, the day and the
month in which the request was admitted. Unused amounts are returned there. Usage beyond the estimate counts when it is known.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from tornado_gate.admission.bounds import GATEWAY, OPEN, REQUESTS, make_bound
from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.refusals import find_lowest, make_refusal, render_headers
from tornado_gate.admission.store import Level, Outcome, Store, StoreUnavailable
from tornado_gate.errors import RateLimited
from tornado_gate.ledger.costs import MAX_COST
from tornado_gate.ledger.spending import Used, find_period
from tornado_gate.types import Bound
from tornado_gate.types.bounds import Moment, Reservation, Reservations

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 5.0
PROBE_SECONDS: Final = 0.5
GUESSES: Final = 3
"""The number of times that an estimate is lowered to the remaining amount. Other requests may take some of it between two
attempts.
"""
NO_MOMENT: Final = Moment(0, 0, 0)
ALWAYS_REFUSED: Final = make_bound(GATEWAY, "", "requests_per_minute", -1)
"""A bound beside which a store reserves nothing. The store still reports the other bounds that refuse."""
MOST_TOKENS: Final = 10**12
"""The maximum number of tokens of one request: the sum of a bucket has 55 bits."""

Reader = Callable[[Sequence[Bound]], Mapping[Bound, Used]]
"""Reads from the ledger what the subjects of bounds have used in the current day and month. Blocks; raises Exception."""


class LimiterMetrics(Protocol):
    """The events that the limiter reports; `telemetry.metrics.admission.LimitMetrics` is the implementation."""

    def count_refusal(self, bound: str, subject: str) -> None: ...
    def observe_store(self, store: str, seconds: float) -> None: ...
    def set_store_away(self, away: bool) -> None: ...
    def count_dropped_counters(self, count: int) -> None: ...


def counts_amounts(reservations: Reservations) -> bool:
    """Return whether a reservation is settled to the tokens or the money that the request has used."""
    return any(bound.family not in (REQUESTS, OPEN) for each in reservations.list_all() for bound in each.bounds)


class Limiter:
    """The bounds of a process. `remote` is the store of conf; None selects the store of this machine."""

    def __init__(
        self, local: EmbeddedStore, remote: Store | None, read_ledger: Reader, metrics: LimiterMetrics
    ) -> None:
        self.local = local
        self.remote = remote
        self._read_ledger = read_ledger
        self._metrics = metrics
        self._is_remote_away = False
        self._reading: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._releasing: set[asyncio.Task[Outcome]] = set()
        self._local_failed_at = float("-inf")

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self._watch_ledger(), name="read the spending of budgets")]
        if self.remote is not None:
            try:
                await self.remote.start()
            except StoreUnavailable as error:
                self._note_remote_away(error)
            self._tasks.append(asyncio.create_task(self._watch_remote(self.remote), name="watch the store of limits"))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self.remote is not None:
            await self.remote.close()
        await self.local.close()

    @property
    def is_degraded(self) -> bool:
        """Return whether requests are counted on this machine although conf names a store for several machines."""
        return self._is_remote_away

    async def reserve(
        self, bounds: tuple[Bound, ...], amounts: Sequence[int], least: Sequence[int] | None = None
    ) -> tuple[Reservation, Sequence[Level]]:
        """Reserve an amount for each bound, or nothing at all. Raises RateLimited for the bound that refuses.

        `least` are smaller amounts, for `amounts` that are estimates. If less than an estimate is left of a bound, the remaining
        amount is reserved.
        """
        began = time.perf_counter()
        store = self.remote if self.remote is not None and not self._is_remote_away else self.local
        least = amounts if least is None else least
        try:
            outcome, amounts = await self._reserve_in(store, bounds, amounts, least)
        except StoreUnavailable as error:
            store, outcome, amounts = await self._reserve_without(store, bounds, amounts, least, error)
        self._metrics.observe_store(store.name, time.perf_counter() - began)
        if outcome.moment is not None:
            return Reservation(bounds, list(amounts), outcome.moment, store), outcome.levels
        refusal = _make_refusal(outcome.levels, bounds, amounts)
        self._metrics.count_refusal(refusal.exceeded["bound"], refusal.exceeded["subject"])
        raise refusal

    def try_reserve(
        self, bounds: tuple[Bound, ...], amounts: Sequence[int]
    ) -> tuple[Reservation, Sequence[Level]] | None:
        """Reserve like `reserve`, without waiting. Return None, without an effect, if that is impossible or a bound refuses."""
        if self.remote is not None:
            return None
        began = time.perf_counter()
        try:
            outcome = self.local.try_reserve(bounds, amounts)
        except StoreUnavailable:
            return None
        if outcome is None or outcome.moment is None:
            return None
        self._metrics.observe_store(self.local.name, time.perf_counter() - began)
        return Reservation(bounds, list(amounts), outcome.moment, self.local), outcome.levels

    async def _reserve_in(
        self, store: Store, bounds: tuple[Bound, ...], amounts: Sequence[int], least: Sequence[int]
    ) -> tuple[Outcome, Sequence[int]]:
        """Return the outcome, and the amounts that were reserved or rejected."""
        outcome = await self._reserve_amounts(store, bounds, amounts)
        for _ in range(GUESSES):
            fitting = None if outcome.moment is not None else _fit_amounts(outcome.levels, bounds, amounts, least)
            if fitting is None:
                break
            amounts = fitting
            outcome = await self._reserve_amounts(store, bounds, amounts)
        return outcome, amounts

    async def _reserve_amounts(self, store: Store, bounds: tuple[Bound, ...], amounts: Sequence[int]) -> Outcome:
        outcome = await self._reserve_uninterrupted(store, bounds, amounts)
        if outcome.unread:
            await self._read_again(store, outcome.unread)
            outcome = await self._reserve_uninterrupted(store, bounds, amounts)
            if outcome.unread:
                raise StoreUnavailable("the counters of days and months cannot be begun")
        return outcome

    async def _reserve_uninterrupted(self, store: Store, bounds: tuple[Bound, ...], amounts: Sequence[int]) -> Outcome:
        """Reserve, and return the reservation if the caller leaves while the store answers."""
        if store is self.local:
            return await store.reserve(bounds, amounts)
        task = asyncio.ensure_future(store.reserve(bounds, amounts))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._releasing.add(task)
            task.add_done_callback(lambda done: self._release(done, store, bounds, amounts))
            raise

    def _release(
        self, done: asyncio.Task[Outcome], store: Store, bounds: tuple[Bound, ...], amounts: Sequence[int]
    ) -> None:
        self._releasing.discard(done)
        if not done.cancelled() and done.exception() is None and (moment := done.result().moment) is not None:
            store.change(bounds, [-amount for amount in amounts], moment)

    async def _reserve_without(
        self,
        store: Store,
        bounds: tuple[Bound, ...],
        amounts: Sequence[int],
        least: Sequence[int],
        error: StoreUnavailable,
    ) -> tuple[Store, Outcome, Sequence[int]]:
        """Reserve on this machine while the store of conf is away. If that fails too, admit without counting."""
        reason = error
        if store is self.remote:
            self._note_remote_away(error)
            try:
                return self.local, *await self._reserve_in(self.local, bounds, amounts, least)
            except StoreUnavailable as local_error:
                reason = local_error
        now = time.monotonic()
        if now - self._local_failed_at > CHECK_SECONDS:
            self._local_failed_at = now
            log.error("limits and budgets are not counted: %s", reason)
        return self.local, Outcome([], NO_MOMENT), amounts

    # After the request

    def settle(self, reservation: Reservation, tokens: int, cost: int) -> None:
        """Settle a request that has ended to its usage, in tokens and nano-dollars. Remove it from the open requests."""
        used = _bound_used(tokens, cost)
        changes = []
        for bound, amount in zip(reservation.bounds, reservation.amounts, strict=True):
            if bound.family == REQUESTS:
                changes.append(0)
            elif bound.family == OPEN:
                changes.append(-amount)
            else:
                changes.append(used["usd" if bound.name.startswith("usd") else "tokens"] - amount)
        self._change(reservation, changes)

    def cancel(self, reservation: Reservation) -> None:
        """Return the whole reservation of a request that was not admitted."""
        self._change(reservation, [-amount for amount in reservation.amounts])

    def add_used(self, reservation: Reservation, tokens: int, cost: int) -> None:
        """Count a running request's usage beyond its estimate now. `used` is its total usage."""
        used = _bound_used(tokens, cost)
        changes = [0] * len(reservation.bounds)
        for index, bound in enumerate(reservation.bounds):
            if bound.family not in (REQUESTS, OPEN):
                more = used["usd" if bound.name.startswith("usd") else "tokens"] - reservation.amounts[index]
                if more > 0:
                    changes[index] = more
                    reservation.amounts[index] += more
        if any(changes) and reservation.store is not None and reservation.moment is not NO_MOMENT:
            reservation.store.change(reservation.bounds, changes, reservation.moment)

    def _change(self, reservation: Reservation, changes: Sequence[int]) -> None:
        if reservation.store is not None and reservation.moment is not NO_MOMENT and any(changes):
            reservation.store.change(reservation.bounds, changes, reservation.moment)
        reservation.store = None

    def make_exhausted_error(self, levels: Sequence[Level]) -> RateLimited:
        """Return the error that ends a session which has used more than a bound allows."""
        error = make_refusal(levels, {level.bound: 0 for level in levels}, time.time())
        self._metrics.count_refusal(error.exceeded["bound"], error.exceeded["subject"])
        return error

    async def read(self, bounds: Sequence[Bound]) -> Sequence[Level]:
        """Return the usage of each bound, and an empty list while no store can be used."""
        store = self.remote if self.remote is not None and not self._is_remote_away else self.local
        with suppress(StoreUnavailable):
            return await store.read(bounds)
        return ()

    def describe(self, reservation: Reservation) -> list[Any]:
        """Return a reservation as JSON values, for a task that another process may settle.

        Amounts that end with the request are omitted.
        """
        kept = [
            [bound.kind, bound.subject, bound.name, amount]
            for bound, amount in zip(reservation.bounds, reservation.amounts, strict=True)
            if bound.family not in (REQUESTS, OPEN)
        ]
        return [list(reservation.moment), kept] if kept and reservation.moment is not NO_MOMENT else []

    def leave(self, reservation: Reservation) -> None:
        """Leave a reservation that `describe` has returned to the process that settles it."""
        kept = [index for index, bound in enumerate(reservation.bounds) if bound.family in (REQUESTS, OPEN)]
        reservation.bounds = tuple(reservation.bounds[index] for index in kept)
        reservation.amounts = [reservation.amounts[index] for index in kept]

    def restore(self, described: Sequence[Any]) -> Reservation:
        """Return the reservation that `describe` described, in any process."""
        moment, kept = described
        bounds = tuple(make_bound(kind, subject, name, 0) for kind, subject, name, _ in kept)
        store = self.remote if self.remote is not None and not self._is_remote_away else self.local
        return Reservation(bounds, [amount for *_, amount in kept], Moment(*moment), store)

    # Days and months

    async def _read_again(self, store: Store, bounds: Iterable[Bound]) -> None:
        """Read from the ledger what the subjects of bounds have used. Requests for the same subjects wait for one reading."""
        bound_of_counter = {bound.counter: bound for bound in bounds}
        missing = [bound for counter, bound in bound_of_counter.items() if counter not in self._reading]
        if missing:
            task = asyncio.create_task(self._read_subjects(store, missing))
            for bound in missing:
                self._reading[bound.counter] = task
            task.add_done_callback(lambda _: [self._reading.pop(bound.counter, None) for bound in missing])
        for task in {self._reading[counter] for counter in bound_of_counter if counter in self._reading}:
            await asyncio.shield(task)

    async def _read_subjects(self, store: Store, bounds: Sequence[Bound]) -> None:
        period = find_period(time.time())
        try:
            used = dict(await asyncio.to_thread(self._read_ledger, bounds))
        except Exception as error:  # any error of the database: amounts counted from now on still count
            log.warning("budgets count only what is used from now on: the ledger cannot be read: %s", error)
            used = {}
        await store.raise_used({bound: used.get(bound, Used()) for bound in bounds}, period)

    async def _watch_ledger(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            store = self.remote if self.remote is not None and not self._is_remote_away else self.local
            with suppress(StoreUnavailable):
                old = store.list_old(time.time())
                if old:
                    await self._read_again(store, old)

    # The store of conf

    def _note_remote_away(self, error: Exception) -> None:
        if not self._is_remote_away:
            self._is_remote_away = True
            self._metrics.set_store_away(True)
            log.error(
                "the store of limits is away (limits.store in conf); requests are counted on this machine only: %s",
                error,
            )

    async def _watch_remote(self, remote: Store) -> None:
        """Detect when the store of conf can be used again."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            if not self._is_remote_away:
                continue
            try:
                await remote.start()
            except StoreUnavailable:
                continue
            self._is_remote_away = False
            self._metrics.set_store_away(False)
            log.warning("the store of limits can be used again")


class TrialLimiter(Limiter):
    """A limiter that refuses what `limiter` would refuse now. It reserves nothing, and counts no refusal."""

    def __init__(self, limiter: Limiter) -> None:
        super().__init__(limiter.local, limiter.remote, limiter._read_ledger, limiter._metrics)
        self._is_remote_away = limiter._is_remote_away
        self._reading = limiter._reading

    async def reserve(
        self, bounds: tuple[Bound, ...], amounts: Sequence[int], least: Sequence[int] | None = None
    ) -> tuple[Reservation, Sequence[Level]]:
        least = amounts if least is None else least
        needed = [min(amount, max(1, lowest)) for amount, lowest in zip(amounts, least, strict=True)]
        store = self.remote if self.remote is not None and not self._is_remote_away else self.local
        with suppress(StoreUnavailable):  # then requests are admitted without counting
            outcome = await self._reserve_amounts(store, (*bounds, ALWAYS_REFUSED), (*needed, 0))
            levels = [level for level in outcome.levels if level.bound is not ALWAYS_REFUSED]
            if levels:
                raise _make_refusal(levels, bounds, amounts)
        return Reservation(bounds, list(amounts), NO_MOMENT, None), ()


def _make_refusal(levels: Sequence[Level], bounds: Iterable[Bound], amounts: Iterable[int]) -> RateLimited:
    """Return the error for a request that `levels` refuse, with the remaining amounts in its headers."""
    refusal = make_refusal(levels, dict(zip(bounds, amounts, strict=True)), time.time())
    refusal.levels = find_lowest(levels)
    refusal.headers = {**refusal.headers, **render_headers(refusal.levels)}
    return refusal


def _bound_used(tokens: int, cost: int) -> Mapping[str, int]:
    """Return a request's usage by the unit of bounds. Clamp absurd counts of an upstream, so that they fit into a counter."""
    return {"tokens": min(tokens, MOST_TOKENS), "usd": min(cost, MAX_COST)}


def _fit_amounts(
    refused: Iterable[Level], bounds: Iterable[Bound], amounts: Iterable[int], least: Iterable[int]
) -> list[int] | None:
    """Return the amounts with estimates lowered to the remainder of the bounds that refused them.

    Return None if `least` does not fit.
    """
    remaining = {level.bound: level.bound.limit - level.used for level in refused}
    fitting = []
    for bound, amount, lowest in zip(bounds, amounts, least, strict=True):
        room = remaining.get(bound, amount)
        if bound in remaining and max(1, lowest) > room:
            return None
        fitting.append(min(amount, room))
    return fitting
