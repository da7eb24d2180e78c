"""Async iterators that yield their items in batches: only items that are available, so no item waits for later ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class BatchIterator(Generic[T]):
    """An async iterator that produces its items in batches. One reader only, which may mix single items and batches."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: list[T] = []  # unread items of the current batch, in reverse order

    def __aiter__(self) -> BatchIterator[T]:
        return self

    async def __anext__(self) -> T:
        if not self._left:
            self._left = (await self.fetch_batch())[::-1]
        return self._left.pop()

    def next_batch(self) -> Coroutine[Any, Any, list[T]]:
        """Return the next items, at least one. Raises StopAsyncIteration after the last."""
        return self._take_left() if self._left else self.fetch_batch()

    async def _take_left(self) -> list[T]:
        rest, self._left = self._left[::-1], []
        return rest

    def put_back(self, items: list[T]) -> None:
        """Return `items` to the front: they are the next items to be read."""
        self._left += items[::-1]

    @property
    def is_exhausted(self) -> bool:
        """Return whether it is known that neither an item nor an error follows."""
        return False

    async def fetch_batch(self) -> list[T]:
        """Return the next batch, as `next_batch`, when the current one is used up. Implemented by subclasses."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the iterator before its last item."""
        raise NotImplementedError


def make_batch_reader(items: AsyncIterator[T]) -> Callable[[], Coroutine[Any, Any, list[T]]]:
    """Return a function that reads the next batch of `items`; other async iterators yield batches of one item."""
    if isinstance(items, BatchIterator):
        return items.next_batch

    async def one() -> list[T]:
        return [await anext(items)]

    return one


class _BatchesIterator(Generic[T]):
    __slots__ = ("_next",)

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._next = make_batch_reader(items)

    def __aiter__(self) -> _BatchesIterator[T]:
        return self

    def __anext__(self) -> Awaitable[list[T]]:
        return self._next()


def iterate_batches(items: AsyncIterator[T]) -> AsyncIterator[list[T]]:
    """Yield `items` in the batches in which they arrive."""
    return _BatchesIterator(items)


class DeferredItems(BatchIterator[T]):
    """The items of one coroutine, which starts at the first read. `source` is closed at the end."""

    __slots__ = ("_make", "_source")

    def __init__(self, make: Callable[[], Awaitable[Iterable[T]]], source: AsyncIterator[Any]) -> None:
        super().__init__()
        self._make: Callable[[], Awaitable[Iterable[T]]] | None = make
        self._source = source

    async def fetch_batch(self) -> list[T]:
        make, self._make = self._make, None
        items: list[T] = []
        try:
            if make is not None:
                items = list(await make())
        finally:
            await close(self._source)
        if not items:
            raise StopAsyncIteration
        return items

    async def aclose(self) -> None:
        self._left, self._make = [], None
        await close(self._source)


async def close(items: AsyncIterator[Any]) -> None:
    """Close an async generator that will not be read further; other iterators need no closing."""
    aclose = getattr(items, "aclose", None)
    if aclose is not None:
        await aclose()


async def release(items: AsyncIterator[Any]) -> None:
    """Close an iterator whose reader has all data: its connection can be used again if the response ends soon."""
    await getattr(items, "release", partial(close, items))()
