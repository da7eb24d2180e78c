"""The responses in the memory of one process, bounded in bytes and number, shared fairly by accounts.

When the store is full, the largest account loses its responses, least recently used first. All stores of the gateway
that evict follow this rule (`tornado_gate.account_shares`). So no account can displace the responses of smaller ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from tornado_gate.account_shares import evict

ENTRY_BYTES: Final = 600
"""The approximate memory of a response in addition to its body."""
FREED_PART: Final = 0.02
"""The part of the store that is freed at a time, so that not every new response searches for the largest account."""


class Answer(NamedTuple):
    """The response of an upstream: complete, and with status 200. `stored` is a time of the store's clock."""

    body: bytes
    headers: Mapping[str, str]
    stored: float

    @property
    def size(self) -> int:
        return len(self.body) + ENTRY_BYTES


class AnswerStore:
    """The responses by account and key. `reserved` bytes belong to responses that are still arriving; they count as held."""

    def __init__(self, max_bytes: int, max_entries: int, keep_seconds: float, clock: Callable[[], float]) -> None:
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._answers: dict[str, OrderedDict[bytes, Answer]] = {}  # of each account, least recently used first
        self._held: dict[str, int] = {}
        self.reserved = 0
        self.total_bytes = 0
        self.entries = 0

    @property
    def now(self) -> float:
        return self._clock()

    def find(self, account: str, key: bytes) -> Answer | None:
        """Return the response, unless it is older than `keep_seconds`."""
        answers = self._answers.get(account)
        answer = answers.get(key) if answers else None
        if answers is None or answer is None:
            return None
        if self._clock() - answer.stored >= self._keep_seconds:
            self._remove_answer(account, key)
            return None
        answers.move_to_end(key)
        return answer

    def reserve(self, size: int) -> bool:
        """Return whether `size` more bytes of an arriving response may be held. If so, they are counted until
        `release`.

        Arriving responses take at most half of the store, so that many large ones together do not empty it.
        """
        if self.reserved + size > self._max_bytes // 2:
            return False
        self.reserved += size
        return True

    def release(self, size: int) -> None:
        self.reserved -= size

    def add(self, account: str, key: bytes, answer: Answer) -> None:
        """Store a response in place of an older one. It is not stored if the account has no more room."""
        self._remove_answer(account, key)
        if answer.size > self._max_bytes:
            return
        self._make_room(account, answer.size)
        if self.total_bytes + answer.size > self._max_bytes or self.entries >= self._max_entries:
            return
        self._answers.setdefault(account, OrderedDict())[key] = answer
        self._held[account] = self._held.get(account, 0) + answer.size
        self.total_bytes += answer.size
        self.entries += 1

    def _make_room(self, account: str, size: int) -> None:
        excess = self.total_bytes + size - self._max_bytes
        if excess > 0:
            excess = max(excess, int(self._max_bytes * FREED_PART))
            held = {**self._held, account: self._held.get(account, 0) + size}
            evict(excess, held, partial(self._list_items, count=False), self._remove_item, account)
        if self.entries >= self._max_entries:
            excess = max(1, int(self._max_entries * FREED_PART))
            numbers = {name: len(answers) for name, answers in self._answers.items()}
            numbers[account] = numbers.get(account, 0) + 1
            evict(excess, numbers, partial(self._list_items, count=True), self._remove_item, account)

    def _list_items(self, account: str, *, count: bool) -> Iterator[tuple[int, tuple[str, bytes]]]:
        for key, answer in list(self._answers.get(account, {}).items()):
            yield (1 if count else answer.size), (account, key)

    def _remove_item(self, item: tuple[str, bytes]) -> bool:
        self._remove_answer(*item)
        return True

    def _remove_answer(self, account: str, key: bytes) -> None:
        answers = self._answers.get(account)
        removed = answers.pop(key, None) if answers is not None else None
        if answers is None or removed is None:
            return
        self.total_bytes -= removed.size
        self.entries -= 1
        self._held[account] -= removed.size
        if not answers:
            del self._answers[account], self._held[account]
