"""Counters in words of 64 bits: sliding windows, open requests by process, and the usage of a day and a month. No I/O.

A counter is a slot of `WORDS` words in one array, which several processes may share; the caller holds its lock. `redis.lua` does
the same in Redis.

**Window.** A minute is divided into buckets of half a second. Each bucket has a sum and the moment of its last request. A bucket
leaves the window as a whole, 60 seconds after that moment. No request leaves too early, and none leaves more than half a second
late. So the sum of any 60 seconds never exceeds the limit, and no caller waits longer than 60 seconds.

**Open requests** are counted for each process, by its lease. The open requests of a process that has died are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tornado_gate.ledger.spending import Period

WORDS: Final = 128
WINDOW_SECONDS: Final = 60
BUCKET_MS: Final = 500
RING: Final = WINDOW_SECONDS * 1000 // BUCKET_MS + 1
"""The number of buckets in a window: the buckets of 60 seconds, and the current one."""

ID_1, ID_2, KIND, TOTAL, NEWEST, TOUCHED, DATA = 0, 1, 2, 3, 4, 5, 7
"""The indexes of words in a slot. `NEWEST` is the last bucket of a window that was used, `TOUCHED` the Unix second of the last
change.
"""
DAY, MONTH, USED, READ_AT = 3, 4, 7, 11
"""The indexes of words in a slot with periods: the Unix seconds at which day and month begin, four sums, and the time of the last
reading of the ledger.
"""
WINDOW, OPEN_REQUESTS, PERIOD_SUMS = 1, 2, 3
"""The kinds of slots."""
OFFSET_BITS: Final = 9
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
"""The low bits of a bucket. They hold the millisecond after its last request, counted from its beginning; the other bits hold the
sum.
"""
COUNT_BITS: Final = 20
COUNT_MASK: Final = (1 << COUNT_BITS) - 1
MOST_LEASES: Final = WORDS - DATA

Words = memoryview
"""A memoryview of signed 64-bit integers."""
_NO_LEASES: Final = memoryview(bytes(8 * MOST_LEASES)).cast("q")


# Windows


def advance_window(words: Words, base: int, now: int) -> int:
    """Remove the amounts older than a minute at `now`, in milliseconds. Return the remaining sum."""
    bucket, offset = divmod(now, BUCKET_MS)
    newest, data = words[base + NEWEST], base + DATA
    if bucket != newest:
        if bucket < newest and newest - bucket < RING:
            return words[base + TOTAL]  # another process read the clock a moment later
        total = words[base + TOTAL]
        if 0 < bucket - newest < RING:
            for passed in range(newest + 1, bucket + 1):
                index = data + passed % RING
                if words[index]:
                    total -= words[index] >> OFFSET_BITS
                    words[index] = 0
        else:  # all buckets are too old, or the machine and its clock were restarted
            total = 0
            for index in range(data, data + RING):
                words[index] = 0
        words[base + TOTAL] = total
        words[base + NEWEST] = bucket
    oldest = data + (bucket + 1) % RING
    value = words[oldest]
    if value and value & OFFSET_MASK <= offset:
        words[base + TOTAL] -= value >> OFFSET_BITS
        words[oldest] = 0
    return words[base + TOTAL]


def add_to_window(words: Words, base: int, now: int, amount: int) -> None:
    """Count `amount` at `now`, the moment to which the window was advanced."""
    bucket, offset = divmod(now, BUCKET_MS)
    newest = words[base + NEWEST]
    if bucket < newest:
        bucket, offset = newest, 0
    index = base + DATA + bucket % RING
    value = words[index]
    words[index] = ((value >> OFFSET_BITS) + amount) << OFFSET_BITS | max(value & OFFSET_MASK, offset + 1)
    words[base + TOTAL] += amount


def take_from_window(words: Words, base: int, then: int, amount: int) -> None:
    """Remove `amount` counted at `then`, if it has not left the window."""
    bucket, newest = then // BUCKET_MS, words[base + NEWEST]
    if newest - RING < bucket <= newest:
        index = base + DATA + bucket % RING
        value = words[index]
        amount = min(amount, value >> OFFSET_BITS)
        remainder = (value >> OFFSET_BITS) - amount
        words[index] = remainder << OFFSET_BITS | value & OFFSET_MASK if remainder else 0
        words[base + TOTAL] -= amount


def find_wait(words: Words, base: int, now: int, excess: int) -> float:
    """Return the seconds until at least `excess` of the window's sum has left it, if no amount is added."""
    newest = words[base + NEWEST]
    for bucket in range(newest - RING + 1, newest + 1):
        value = words[base + DATA + bucket % RING]
        excess -= value >> OFFSET_BITS
        if value and excess <= 0:
            return _count_seconds(bucket, value, now)
    return float(WINDOW_SECONDS)


def find_reset(words: Words, base: int, now: int) -> float:
    """Return the seconds until the window is empty, if no amount is added."""
    newest = words[base + NEWEST]
    for bucket in range(newest, newest - RING, -1):
        value = words[base + DATA + bucket % RING]
        if value:
            return _count_seconds(bucket, value, now)
    return 0.0


def _count_seconds(bucket: int, value: int, now: int) -> float:
    leaves = bucket * BUCKET_MS + (value & OFFSET_MASK) + WINDOW_SECONDS * 1000
    return min(float(WINDOW_SECONDS), max(0.0, (leaves - now) / 1000))


# Open requests


def add_open(words: Words, base: int, lease: int, amount: int) -> bool:
    """Add an open request of the process with this lease, or (-1) remove one. Return False if there is no room for it."""
    first, free = base + DATA, 0
    places = range(first, first + MOST_LEASES)
    if words[first : first + MOST_LEASES] == _NO_LEASES:  # often no request is open; a search takes 1,000 bytecodes
        places, free = range(0), first
    for index in places:
        value = words[index]
        if value >> COUNT_BITS == lease and value:
            count = max(0, (value & COUNT_MASK) + amount)
            words[base + TOTAL] += count - (value & COUNT_MASK)
            words[index] = lease << COUNT_BITS | count if count else 0
            return True
        if not value and not free:
            free = index
    if amount > 0 and free:
        words[free] = lease << COUNT_BITS | amount
        words[base + TOTAL] += amount
    return amount <= 0 or free != 0


def drop_dead_leases(words: Words, base: int, is_alive: Callable[[int], bool]) -> int:
    """Remove the open requests of processes that have died. Return the number of remaining ones."""
    for index in range(base + DATA, base + DATA + MOST_LEASES):
        value = words[index]
        if value and not is_alive(value >> COUNT_BITS):
            words[base + TOTAL] -= value & COUNT_MASK
            words[index] = 0
    return words[base + TOTAL]


# Days and months


def begin_period(words: Words, base: int, period: Period) -> None:
    """Reset the sums of earlier periods. A clock that was set back keeps the later period.

    A period that begins after the next day was counted by a wrong clock, and would not end for a long time. The ledger is read
    instead.
    """
    if words[base + DAY] > period.next_day:
        words[base + DAY] = words[base + MONTH] = words[base + READ_AT] = 0
    if words[base + MONTH] < period.month:
        words[base + MONTH] = period.month
        words[base + USED + 1] = words[base + USED + 3] = 0
    if words[base + DAY] < period.day:
        words[base + DAY] = period.day
        words[base + USED] = words[base + USED + 2] = 0


def raise_used(words: Words, base: int, used: tuple[int, int, int, int], now: int) -> None:
    """Raise the sums to the ledger's sums where those are higher: some requests were not counted here."""
    for index, amount in enumerate(used, start=base + USED):
        words[index] = max(words[index], amount)
    words[base + READ_AT] = now


# Repair


def repair(words: Words, bases: Iterator[int]) -> None:
    """Compute the sums again, after a process died in the middle of a change."""
    for base in bases:
        values = words[base + DATA : base + DATA + RING].tolist()
        if words[base + KIND] == WINDOW:
            words[base + TOTAL] = sum(value >> OFFSET_BITS for value in values)
        elif words[base + KIND] == OPEN_REQUESTS:
            words[base + TOTAL] = sum(value & COUNT_MASK for value in values)


def is_idle(words: Words, base: int, now: int, month: int) -> bool:
    """Return whether a slot has no amount that still counts."""
    kind = words[base + KIND]
    if kind == WINDOW:
        return not 0 <= now // BUCKET_MS - words[base + NEWEST] < RING
    if kind == OPEN_REQUESTS:
        return words[base + TOTAL] == 0
    return words[base + MONTH] < month
