"""The rule by which accounts share storage of limited size. It is defined here, once, for every store.

*A store that evicts:* when it is full, the largest account loses items, its first ones first, until there is enough
room. So an account below an equal share (the limit divided by the number of accounts) loses no item to others. A single
account may use the whole storage. A new account needs no reserve, because it takes room from the largest account.

*A store that keeps its items until they expire:* an account may hold at most as many bytes as are then still free. So
one account alone fills at most half of the storage, two a third each, and there is always room for one more.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


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


def may_hold(needed: int, held_by_account: int, held_by_all: int, limit: int) -> bool:
    """Return whether an account may add `needed` bytes to a store that keeps its items. The rest must stay as large as
    its share.
    """
    return held_by_account + needed <= limit - held_by_all - needed
