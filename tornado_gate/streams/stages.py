"""Items that came together go on together: async iterators that give batches, and steps that work on them without waiting.

An event of a stream passes a dozen hands, and one piece from the network often holds many events. To whoever iterates, a
`Flow` is an async iterator like any other; whoever knows it takes all that is there at once, and puts a step of its own
into it in place of one more iterator around it. Nothing is held back for what has not come yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Generic, Literal, TypeVar, cast

from tornado_gate.errors import GateError

T = TypeVar("T")
U = TypeVar("U")

END: Final = "end"
"""How items end that did not fail."""

Ending = BaseException | Literal["end"] | None
"""How items have ended; None while they go on."""


class Batched(Generic[T]):
    """An async iterator whose items come in batches. For one reader, who may take single items and batches by turns."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: list[T] = []  # of a batch that is read one by one, the next at the end

    def __aiter__(self) -> Batched[T]:
        return self

    async def __anext__(self) -> T:
        if not self._left:
            self._left = (await self.more())[::-1]
        return self._left.pop()

    def batch(self) -> Awaitable[list[T]]:
        """The next items, at least one. Raises StopAsyncIteration after the last."""
        return self._rest() if self._left else self.more()

    async def _rest(self) -> list[T]:
        rest, self._left = self._left[::-1], []
        return rest

    @property
    def over(self) -> bool:
        """Whether it is known already that nothing comes after what was given, nor any failure."""
        return False

    async def more(self) -> list[T]:
        """What a subclass says: as `batch`, when nothing is left of the one before."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """End it before its last item."""
        raise NotImplementedError


class Step(Generic[T, U]):
    """What becomes of items, without waiting. What it raises comes after what it gave before that."""

    __slots__ = ()

    def take(self, items: list[T], out: list[U]) -> bool | None:
        """Append to `out` what becomes of `items`. True: that was the end, whatever else may come."""
        raise NotImplementedError

    def end(self, out: list[U]) -> None:
        """Append what follows when the items have ended well."""

    def fail(self, error: GateError) -> list[U] | GateError:
        """The items, or this step, ended with `error`: what tells of it, or the error as which it goes on."""
        return error


class Flow(Batched[T]):
    """Items from a source, put through steps. Ends with its source, or with a step; closes the source then."""

    __slots__ = ("_begun", "_ending", "_next", "_ready", "_source", "_steps")

    def __init__(self, source: AsyncIterator[Any], *steps: Step[Any, Any]) -> None:
        super().__init__()
        self._source: AsyncIterator[Any] | None = source
        self._next = reader(source)
        self._steps = list(steps)
        self._begun = False
        self._ready: list[T] = []
        self._ending: Ending = None

    async def more(self) -> list[T]:
        self._begun = True
        while not self._ready:
            if self._ending is not None:
                await self._end()
            try:
                items = await self._next()
            except StopAsyncIteration:
                self._put([], END)
            except GateError as error:
                self._put([], error)
            except BaseException:
                await self.aclose()
                raise
            else:
                self._put(items, None)
                del items  # they may be many, and the next may be long in coming
        return self._taken()

    @property
    def over(self) -> bool:
        return self._ending is END and not self._ready and not self._left

    def _taken(self) -> list[T]:
        """What is ready. In a frame of its own, which no error's traceback leads to."""
        ready, self._ready = self._ready, []
        return ready

    async def aclose(self) -> None:
        self._left, self._ready, self._ending = [], [], END
        await self._close()

    async def _close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            await close(source)

    async def _end(self) -> None:
        """Raises how it ended; StopAsyncIteration when it ended well."""
        ending, self._ending = self._ending, END
        await self._close()
        if not isinstance(ending, BaseException):
            raise StopAsyncIteration
        try:
            raise ending
        finally:
            del ending  # it would hold itself by its traceback

    def _put(self, items: list[Any], ending: Ending) -> None:
        """Put items through all steps, with how they have ended: what comes out is ready."""
        told: list[Any] | GateError | None = None
        for step in self._steps:
            out: list[Any] = []
            try:
                if items and step.take(items, out):
                    ending = END
                elif ending is END:
                    step.end(out)
            except BaseException as error:
                ending = error
            if ending is not None and isinstance(ending, GateError):
                told = step.fail(ending)
                # Not into `out`: frames in the error's traceback know that, and it would hold itself
                out, ending = (out + told, END) if isinstance(told, list) else (out, told)
            items = out
        self._ready, self._ending = items, ending
        items, ending, out, told = [], None, [], None  # an error holds this frame by its traceback


def then(items: AsyncIterator[T], step: Step[T, U]) -> Flow[U]:
    """`items` after one more step. They belong to what is returned, which may be what they were in already."""
    if isinstance(items, Flow) and not items._begun:
        items._steps.append(step)
        return cast("Flow[U]", items)
    return Flow(items, step)


def reader(items: AsyncIterator[T]) -> Callable[[], Awaitable[list[T]]]:
    """What gives the next batch of `items`: of what is no flow, one after the other."""
    if isinstance(items, Batched):
        return items.batch

    async def one() -> list[T]:
        return [await anext(items)]

    return one


class _InBatches(Generic[T]):
    __slots__ = ("_next",)

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._next = reader(items)

    def __aiter__(self) -> _InBatches[T]:
        return self

    def __anext__(self) -> Awaitable[list[T]]:
        return self._next()


def in_batches(items: AsyncIterator[T]) -> AsyncIterator[list[T]]:
    """`items` as they come together."""
    return _InBatches(items)


class Later(Batched[T]):
    """Items that are all there once something was awaited, which begins when they are read. `source` is closed at the end."""

    __slots__ = ("_make", "_source")

    def __init__(self, make: Callable[[], Awaitable[Iterable[T]]], source: AsyncIterator[Any]) -> None:
        super().__init__()
        self._make: Callable[[], Awaitable[Iterable[T]]] | None = make
        self._source = source

    async def more(self) -> list[T]:
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
    """End an async generator that nobody will read on; anything else has nothing to close."""
    aclose = getattr(items, "aclose", None)
    if aclose is not None:
        await aclose()
