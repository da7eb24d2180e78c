"""The rules by which accounts share a limited resource: memory, disk, places. They are defined here, once, for every holder.

*Free shares:* an account may hold at most as much as is then still free. So one account alone fills at most half of the
resource, N busy accounts 1 / (N + 1) of it each, and there is always room for one more. Source: Choudhury and Hahne, "Dynamic
queue length thresholds for shared-memory packet switches" (1998), with the factor 1.

*Fixed shares:* an account may hold at most a fixed part, and waiting accounts alternate.

*Eviction:* when a store is full, the largest account loses items, its first ones first, until there is enough room. So an
account below an equal share (the limit divided by the number of accounts) loses no item to others. A single account may use the
whole store. A new account needs no reserve, because it takes room from the largest account.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

T = TypeVar("T")

Report = Callable[[int], None]
"""Called after a change with the units that all accounts hold, for a metric."""


def may_hold(needed: int, held_by_account: int, held_by_all: int, limit: int) -> bool:
    """Return whether an account may hold `needed` units more by the rule of free shares.

    For holders that count elsewhere, such as in a store of several processes; others use `AccountShares`.
    """
    return held_by_account + needed <= limit - held_by_all - needed


class AccountShares:
    """The units of one resource that accounts hold: at most `total`, which may be replaced, and each account a free share.

    `held` is the sum. Every unit that was held is released once, with the same account. Only one thread may use it at a time.
    `report` may be set later.
    """

    __slots__ = ("_held_by", "held", "report", "total")

    def __init__(self, total: int, report: Report | None = None) -> None:
        self.total = total
        self.held = 0
        self._held_by: dict[str, int] = {}
        self.report = report

    def count_held(self, account: str) -> int:
        """Return the units that an account holds."""
        return self._held_by.get(account, 0)

    def fits_total(self, size: int) -> bool:
        """Return whether `size` units more stay within the bound of all accounts."""
        return self.held + size <= self.total

    def fits_share(self, account: str, size: int) -> bool:
        """Return whether `size` units more stay within the share of an account. A free share is also within the total."""
        return may_hold(size, self._held_by.get(account, 0), self.held, self.total)

    def hold(self, account: str, size: int) -> None:
        """Hold `size` units, without a check."""
        if not size:
            return
        self.held += size
        self._held_by[account] = self._held_by.get(account, 0) + size
        if self.report is not None:
            self.report(self.held)

    def try_hold(self, account: str, size: int) -> bool:
        """Hold `size` units if they fit the total and the share. Return whether they do."""
        fits = self.fits_share(account, size) and self.fits_total(size)
        if fits:
            self.hold(account, size)
        return fits

    def keep(self, account: str, size: int) -> Callable[[], None] | None:
        """Hold `size` units if they fit. Return the function that releases them, to be called once; None if they do not fit."""
        return partial(self.release, account, size) if self.try_hold(account, size) else None

    def release(self, account: str, size: int) -> None:
        """Release `size` of the units that an account holds."""
        if not size:
            return
        self.held -= size
        rest = self._held_by[account] - size
        if rest:
            self._held_by[account] = rest
        else:
            del self._held_by[account]
        if self.report is not None:
            self.report(self.held)


class FixedShares(AccountShares):
    """The units of one resource, of which an account may hold a quarter, so that others need not wait for one account.

    A size above a bound fits when nothing else is held within the bound.
    """

    __slots__ = ()

    PARTS = 4

    def fits_total(self, size: int) -> bool:
        return not self.held or self.held + size <= self.total

    def fits_share(self, account: str, size: int) -> bool:
        held = self._held_by.get(account, 0)
        return not held or held + size <= self.total // self.PARTS


def evict(
    excess: int,
    held: Mapping[str, int],
    list_items: Callable[[str], Iterable[tuple[int, T]]],
    remove: Callable[[T], bool],
    writer: str | None = None,
) -> int:
    """Remove items until `excess` bytes are freed: always the next item of the account that is then the largest.

    `held` are the bytes of each account. `list_items` returns an account's items with their sizes, in the order in
    which it loses them; it is called only for accounts that lose some. `remove` returns False for an item that cannot
    be removed now. `writer`, the account that needs the room, takes no room from an account that is smaller than
    itself. Returns the freed bytes.
    """
    heap = [(-size, account) for account, size in held.items()]
    heapq.heapify(heap)
    items: dict[str, Iterator[tuple[int, T]]] = {}
    freed = 0
    while freed < excess and heap:
        negative_size, account = heap[0]
        if account not in items:
            items[account] = iter(list_items(account))
        item = next(items[account], None)
        if item is None and account == writer:
            break
        if item is None:
            heapq.heappop(heap)
        elif remove(item[1]):
            freed += item[0]
            heapq.heapreplace(heap, (negative_size + item[0], account))
    return freed
