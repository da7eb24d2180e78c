"""The store of counters that the processes of one machine share (`counter_file.py`).

The lock is held for less than a millisecond. While another process holds it, the event loop continues. A reservation tries again
soon. An amount that a request returns is noted, and applied when the lock is free.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tornado_gate.admission.bounds import OPEN, PERIOD_NAMES, PERIODS
from tornado_gate.admission.counter_file import CounterFile, read_clock
from tornado_gate.admission.counters import (
    DAY,
    MONTH,
    OPEN_REQUESTS,
    PERIOD_SUMS,
    READ_AT,
    TOTAL,
    TOUCHED,
    USED,
    WINDOW,
    Words,
    add_open,
    add_to_window,
    advance_window,
    begin_period,
    drop_dead_leases,
    find_reset,
    find_wait,
    raise_used,
    take_from_window,
)
from tornado_gate.admission.leases import Leases
from tornado_gate.admission.store import Level, Outcome, StoreUnavailable
from tornado_gate.ledger.spending import Period, Used, find_period
from tornado_gate.types import Bound
from tornado_gate.types.bounds import Moment

log = logging.getLogger(__name__)

TRIES: Final = 20
SPIN_SECONDS: Final = 0.000_02
RETRY_SECONDS: Final = 0.001
LOCK_SECONDS: Final = 2.0
"""The time without the lock after which the store counts as unavailable: the process that holds the lock was stopped."""
UNREAD_SECONDS: Final = 600
"""The unused time after which a counter of days and months is read from the ledger before its next use, because its bound was
off.
"""
REREAD_SECONDS: Final = 60
"""The interval of reading the ledger again. It may have more than the counter: requests that ended while the bound was off or
Redis was away.
"""
MOST_PENDING: Final = 100_000
CONCURRENCY_WAIT: Final = 1.0

_KINDS: Final = {PERIODS: PERIOD_SUMS, OPEN: OPEN_REQUESTS}
_WORD_OF: Final = {name: USED + index for index, name in enumerate(PERIOD_NAMES)}

Change = tuple[Sequence[Bound], Sequence[int], Moment]


class EmbeddedStore:
    """Counters in files below `folder`. `wall` is the clock of days and months, in Unix seconds; `clock` is the clock of windows.

    `on_drop` receives the number of counters that were dropped because there were too many.
    """

    name = "embedded"

    def __init__(
        self,
        folder: Path,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], int] = read_clock,
        on_drop: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._leases = Leases(folder / "processes")
        self._file = CounterFile(folder / "counters", on_drop, self._leases.is_alive)
        self._wall = wall
        self._clock = clock
        self._lease = 0
        self._period = find_period(0)
        self._pending: deque[Change] = deque(maxlen=MOST_PENDING)
        self._retry: asyncio.TimerHandle | None = None
        self._used_periods: dict[tuple[int, int], Bound] = {}

    async def start(self) -> None:
        """Do nothing: the file is opened when a bound is first used."""

    async def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._file.is_open:
            if self._pending:
                with suppress(StoreUnavailable):
                    await self._wait_for_lock()
                    self._file.unlock()
            self._leases.close()
            self._file.close()

    async def reserve(self, bounds: Sequence[Bound], amounts: Sequence[int]) -> Outcome:
        if not self._try_lock():
            await self._wait_for_lock()
        try:
            return self._reserve(bounds, amounts)
        finally:
            self._file.unlock()

    def try_reserve(self, bounds: Sequence[Bound], amounts: Sequence[int]) -> Outcome | None:
        """Reserve like `reserve`, without waiting. Return None while another process has the lock."""
        if not self._try_lock():
            return None
        try:
            return self._reserve(bounds, amounts)
        finally:
            self._file.unlock()

    def _reserve(self, bounds: Sequence[Bound], amounts: Sequence[int]) -> Outcome:
        bases, words = self._find_slots(bounds)
        now, wall = self._clock(), self._wall()
        period = self._find_period(wall)
        refused, unread = [], []
        for bound, amount, base in zip(bounds, amounts, bases, strict=True):
            used = self._count(bound, base, now, period)
            words[base + TOUCHED] = int(wall)  # a refused bound must be kept too
            if bound.family == PERIODS:
                self._used_periods[bound.counter] = bound
                if wall - words[base + READ_AT] > UNREAD_SECONDS:
                    unread.append(bound)
            if used + amount > bound.limit:
                if bound.family == OPEN:
                    used = drop_dead_leases(words, base, self._leases.is_alive)
                if used + amount > bound.limit:
                    excess = used + amount - bound.limit
                    refused.append(Level(bound, used, self._find_wait(bound, base, now, wall, excess)))
        if unread or refused:
            return Outcome(refused, None, unread)
        levels = []
        for bound, amount, base in zip(bounds, amounts, bases, strict=True):
            used = self._add(bound, base, now, amount)
            levels.append(Level(bound, used, 0.0, self._find_reset(bound, base, now, wall)))
        return Outcome(levels, Moment(now, period.day, period.month))

    async def read(self, bounds: Sequence[Bound]) -> Sequence[Level]:
        if not self._try_lock():
            await self._wait_for_lock()
        try:
            bases, _ = self._find_slots(bounds)
            now, wall = self._clock(), self._wall()
            period = self._find_period(wall)
            return [
                Level(bound, self._count(bound, base, now, period), 0.0, self._find_reset(bound, base, now, wall))
                for bound, base in zip(bounds, bases, strict=True)
            ]
        finally:
            self._file.unlock()

    def change(self, bounds: Sequence[Bound], amounts: Sequence[int], moment: Moment) -> None:
        self._pending.append((bounds, amounts, moment))
        self._apply_soon()

    async def raise_used(self, used: Mapping[Bound, Used], period: Period) -> None:
        await self._wait_for_lock()
        try:
            bases, words = self._find_slots(tuple(used))
            now = self._wall()
            for base, usage in zip(bases, used.values(), strict=True):
                begin_period(words, base, self._find_period(now))
                if (words[base + DAY], words[base + MONTH]) == (period.day, period.month):
                    sums = (usage.day_cost, usage.month_cost, usage.day_tokens, usage.month_tokens)
                    raise_used(words, base, sums, int(now))
        finally:
            self._file.unlock()

    def list_old(self, now: float) -> list[Bound]:
        if not self._used_periods or not self._try_lock():
            return []
        try:
            used, self._used_periods = tuple(self._used_periods.values()), {}
            bases, words = self._find_slots(used)
            pairs = zip(used, bases, strict=True)
            return [bound for bound, base in pairs if now - words[base + READ_AT] > REREAD_SECONDS]
        finally:
            self._file.unlock()

    # One counter

    def _find_slots(self, bounds: Sequence[Bound]) -> tuple[list[int], Words]:
        """Return the slots of the bounds, and the words of the file that has them. Raises StoreUnavailable if it cannot grow."""
        find_slot = self._file.find_slot
        while True:
            words = self._file.words
            try:
                bases = [find_slot(bound.counter, _KINDS.get(bound.family, WINDOW)) for bound in bounds]
            except OSError as error:
                raise StoreUnavailable(f"{self._file.path} cannot grow: {error}") from error
            if words is self._file.words:  # otherwise the file has become larger
                return bases, words

    def _count(self, bound: Bound, base: int, now: int, period: Period) -> int:
        """Return the current usage."""
        words = self._file.words
        if bound.family == PERIODS:
            if words[base + DAY] != period.day:
                begin_period(words, base, period)
            return words[base + _WORD_OF[bound.name]]
        return words[base + TOTAL] if bound.family == OPEN else advance_window(words, base, now)

    def _add(self, bound: Bound, base: int, now: int, amount: int) -> int:
        """Add an amount, and return the new usage."""
        words = self._file.words
        if bound.family == PERIODS:
            words[base + _WORD_OF[bound.name]] += amount
            return words[base + _WORD_OF[bound.name]]
        if bound.family == OPEN:
            if not add_open(
                words, base, self._get_lease(), amount
            ):  # all entries of the slot belong to processes that were killed
                drop_dead_leases(words, base, self._leases.is_alive)
                add_open(words, base, self._lease, amount)
        elif amount:
            add_to_window(words, base, now, amount)
        return words[base + TOTAL]

    def _find_wait(self, bound: Bound, base: int, now: int, wall: float, excess: int) -> float:
        if bound.family == OPEN:
            return CONCURRENCY_WAIT
        if bound.family == PERIODS:
            return self._find_reset(bound, base, now, wall)
        return find_wait(self._file.words, base, now, excess)

    def _find_reset(self, bound: Bound, base: int, now: int, wall: float) -> float:
        if bound.family == OPEN:
            return 0.0
        if bound.family == PERIODS:
            ends = self._period.next_day if bound.name.endswith("day") else self._period.next_month
            return max(0.0, ends - wall)
        return find_reset(self._file.words, base, now)

    def _find_period(self, wall: float) -> Period:
        if not self._period.day <= wall < self._period.next_day:
            self._period = find_period(wall)
        return self._period

    def _get_lease(self) -> int:
        if not self._lease:
            self._lease = self._file.make_lease()
            self._leases.hold(self._lease)
        return self._lease

    # Returned amounts

    def _apply_soon(self) -> None:
        if self._retry is not None:
            return
        try:
            if self._try_lock():
                self._file.unlock()
                return
        except StoreUnavailable:
            return
        self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._apply_again)

    def _apply_again(self) -> None:
        self._retry = None
        self._apply_soon()

    def _apply_pending(self) -> None:
        while self._pending:
            bounds, amounts, moment = self._pending[0]
            bases, words = self._find_slots(bounds)
            self._pending.popleft()
            now = self._clock()
            period = self._find_period(self._wall())
            for bound, amount, base in zip(bounds, amounts, bases, strict=True):
                if amount:
                    self._count(bound, base, now, period)
                    self._change(words, bound, base, amount, now, moment)

    def _change(self, words: Words, bound: Bound, base: int, amount: int, now: int, moment: Moment) -> None:
        if bound.family == OPEN:
            if self._lease:
                add_open(words, base, self._lease, amount)
        elif bound.family == PERIODS:
            began = moment.day if bound.name.endswith("day") else moment.month
            if amount > 0 or words[base + (DAY if bound.name.endswith("day") else MONTH)] == began:
                word = base + _WORD_OF[bound.name]
                words[word] = max(0, words[word] + amount)
        elif amount > 0:
            add_to_window(words, base, now, amount)
        else:
            take_from_window(words, base, moment.clock, -amount)

    # The lock

    def _try_lock(self) -> bool:
        """Lock the file, and apply the noted changes. Return False while another process has it. Raises StoreUnavailable."""
        try:
            for _ in range(TRIES):
                if (self._file.is_open or self._file.open()) and self._file.try_lock():
                    self._apply_under_lock()
                    return True
                time.sleep(SPIN_SECONDS)
        except OSError as error:
            raise StoreUnavailable(f"{self._file.path} cannot be used: {error}") from error
        return False

    def _apply_under_lock(self) -> None:
        """Apply the noted changes. If that fails, for example on a full disk, release the lock for other processes."""
        try:
            if self._pending:
                self._apply_pending()
        except BaseException:
            self._file.unlock(is_whole=False)
            raise

    async def _wait_for_lock(self) -> None:
        ends = time.monotonic() + LOCK_SECONDS
        while not self._try_lock():
            if time.monotonic() > ends:
                raise StoreUnavailable(f"{self._file.path} is locked by a process that does not run")
            await asyncio.sleep(RETRY_SECONDS)
