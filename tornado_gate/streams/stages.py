"""Items that came together go on together: async iterators that give batches, and steps that work on them without waiting.

An event of a stream passes a dozen hands, and one piece from the network often holds many events. To whoever iterates, a
`Flow` is an async iterator like any other; whoever knows it takes all that is there at once, and puts a step of its own
into it in place of one more iterator around it. Nothing is held back for what has not come yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

from tornado_gate.errors import GateError

T = TypeVar("T")
U = TypeVar("U")

END: Final = "end"
"""How items end that did not fail."""

Ending = BaseException | Literal["end"] | None
"""How items have ended; None while they go on."""


class BatchIterator(Generic[T]):
    """An async iterator whose items come in batches. For one reader, who may take single items and batches by turns."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: list[T] = []  # of a batch that is read one by one, the next at the end

    def __aiter__(self) -> BatchIterator[T]:
        return self

    async def __anext__(self) -> T:
        if not self._left:
            self._left = (await self.fetch_batch())[::-1]
        return self._left.pop()

    def next_batch(self) -> Awaitable[list[T]]:
        """The next items, at least one. Raises StopAsyncIteration after the last."""
        return self._take_left() if self._left else self.fetch_batch()

    async def _take_left(self) -> list[T]:
        rest, self._left = self._left[::-1], []
        return rest

    def put_back(self, items: list[T]) -> None:
        """Give `items`, which were read already, once more before all others."""
        self._left += items[::-1]

    @property
    def is_exhausted(self) -> bool:
        """Whether it is known already that nothing comes after what was given, nor any failure."""
        return False

    async def fetch_batch(self) -> list[T]:
        """What a subclass says: as `batch`, when nothing is left of the one before."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """End it before its last item."""
        raise NotImplementedError


class Pause(NamedTuple):
    """What a step gives that must await something: `until` is awaited, then the step is given `items` again."""

    items: list[Any]
    until: Callable[[], Awaitable[object]]


class Step(Generic[T, U]):
    """What becomes of items, without waiting. What it raises comes after what it gave before that."""

    __slots__ = ()

    def take(self, items: list[T], out: list[U]) -> bool | Pause | None:
        """Append to `out` what becomes of `items`. True: that was the end, whatever else may come."""
        raise NotImplementedError

    def end(self, out: list[U]) -> None:
        """Append what follows when the items have ended well."""

    def attribute(self, error: BaseException) -> BaseException:
        """The items, or this step, ended with `error`, which is no GateError: the error as which it goes on."""
        return error

    def fail(self, error: GateError) -> list[U] | GateError:
        """The items, or this step, ended with `error`: what tells of it, or the error as which it goes on."""
        return error


class Attributed(Step[T, T]):
    """Passes items on. An error before it, or in it, that is no GateError goes on as what `attribute` gives for it."""

    __slots__ = ("_attribute",)

    def __init__(self, attribute: Callable[[BaseException], BaseException]) -> None:
        self._attribute = attribute

    def take(self, items: list[T], out: list[T]) -> None:
        out += items

    def attribute(self, error: BaseException) -> BaseException:
        found = self._attribute(error)
        if found is not error:
            found.__cause__ = error
        return found


class Limits(Protocol):
    """Limits the time for which a flow waits for its source."""

    def begin(self) -> float:
        """The wait begins. What it gives is given back when the wait has ended."""

    def on_items(self, outer: float) -> None:
        """The wait has ended with items."""

    def explain_error(self, outer: float, error: BaseException) -> BaseException:
        """The wait has ended with `error`: that, or the error for a limit by which the wait was cancelled."""

    def end(self) -> None:
        """The flow has ended."""


class Flow(BatchIterator[T]):
    """Items from a source, put through steps. Ends with its source, or with a step; closes the source then.

    After a failure the source is closed before anything else is given. `limits` may be set until the first item is asked for.
    """

    __slots__ = ("_ending", "_next", "_paused", "_ready", "_source", "_steps", "begun", "limits")

    def __init__(self, source: AsyncIterator[Any], *steps: Step[Any, Any], limits: Limits | None = None) -> None:
        super().__init__()
        self._source: AsyncIterator[Any] | None = source
        self._next = make_batch_reader(source)
        self._steps = list(steps)
        self._ready: list[T] = []
        self._ending: Ending = None
        self._paused: tuple[Step[Any, Any], Pause, Ending] | None = None
        self.begun = False
        self.limits = limits

    async def fetch_batch(self) -> list[T]:
        self.begun = True
        limits = self.limits
        outer = 0.0
        while not self._ready:
            if self._paused is not None:
                await self._resume()
                continue
            if self._ending is not None:
                await self._raise_ending()
            if limits is not None:
                outer = limits.begin()
            try:
                items = await self._next()
            except BaseException as error:
                failed = self._run_steps([], self._find_ending(error, outer))
            else:
                if limits is not None:
                    limits.on_items(outer)
                failed = self._run_steps(items, None)
                del items  # they may be many, and the next may be long in coming
            if failed:
                await self._close()
        return self._take_ready()

    @property
    def is_exhausted(self) -> bool:
        return self._ending is END and not self._ready and not self._left

    def _take_ready(self) -> list[T]:
        """What is ready. In a frame of its own, which no error's traceback leads to."""
        ready, self._ready = self._ready, []
        return ready

    async def aclose(self) -> None:
        self._left, self._ready, self._ending, self._paused = [], [], END, None
        await self._close()

    async def _close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            if self.limits is not None:
                self.limits.end()
            try:
                await close(source)
            except GateError:
                raise
            except BaseException as error:
                found = error
                for step in self._steps:
                    found = found if isinstance(found, GateError) else step.attribute(found)
                if found is error:
                    del found  # it would hold itself by its traceback
                    raise
                raise found from error

    def _find_ending(self, error: BaseException, outer: float) -> Ending:
        """What it means that the source raised `error`."""
        found = error if self.limits is None else self.limits.explain_error(outer, error)
        return END if isinstance(found, StopAsyncIteration) else found

    async def _raise_ending(self) -> None:
        """Raises how it ended; StopAsyncIteration when it ended well."""
        ending, self._ending = self._ending, END
        await self._close()
        if not isinstance(ending, BaseException):
            raise StopAsyncIteration
        try:
            raise ending
        finally:
            del ending  # it would hold itself by its traceback

    async def _resume(self) -> None:
        """Await what a step must, then go on with the items that it held, from that step."""
        assert self._paused is not None, "the caller has looked"
        (step, pause, ending), self._paused = self._paused, None
        place = self._steps.index(step)
        try:
            await pause.until()
        except BaseException as error:
            failed = self._run_steps([], error, place)
        else:
            failed = self._run_steps(pause.items, ending, place)
        del ending  # it would hold itself by its traceback
        if failed:
            await self._close()

    def _run_steps(self, items: list[Any], ending: Ending, place: int = 0) -> bool:
        """Put items through the steps from `place`, with how they have ended: what comes out is ready. Whether any failed."""
        failed = isinstance(ending, BaseException)
        for step in self._steps[place:] if place else self._steps:
            out: list[Any] = []
            try:
                taken = step.take(items, out) if items else None
                if taken is True:
                    ending = END
                elif taken:
                    self._paused, ending = (step, taken, ending), None
                elif ending is END:
                    step.end(out)
            except BaseException as error:
                ending = error
            if isinstance(ending, BaseException):
                failed = True
                out, ending = _handle_error(step, ending, out)
            items = out
        if ending is not None:
            self._paused = None  # a later step has ended the items
        self._ready, self._ending = items, ending
        items, ending, out = [], None, []  # an error holds this frame by its traceback
        return failed


def _handle_error(step: Step[Any, Any], error: BaseException, out: list[Any]) -> tuple[list[Any], Ending]:
    """What a step gives, and how that ends, when the items or itself ended with `error` after it gave `out`."""
    error = error if isinstance(error, GateError) else step.attribute(error)
    if not isinstance(error, GateError):
        return out, error
    told = step.fail(error)
    # Not into `out`: frames in the error's traceback know that, and it would hold itself
    return (out + told, END) if isinstance(told, list) else (out, told)


def add_step(items: AsyncIterator[T], step: Step[T, U]) -> Flow[U]:
    """`items` after one more step. They belong to what is returned, which may be what they were in already."""
    if isinstance(items, Flow) and not items.begun:
        items._steps.append(step)
        return cast("Flow[U]", items)
    return Flow(items, step)


def make_batch_reader(items: AsyncIterator[T]) -> Callable[[], Awaitable[list[T]]]:
    """What gives the next batch of `items`: of what is no flow, one after the other."""
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
    """`items` as they come together."""
    return _BatchesIterator(items)


class DeferredItems(BatchIterator[T]):
    """Items that are all there once something was awaited, which begins when they are read. `source` is closed at the end."""

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
    """End an async generator that nobody will read on; anything else has nothing to close."""
    aclose = getattr(items, "aclose", None)
    if aclose is not None:
        await aclose()


# The names that plugins written for 0.1 use. They go with 0.3.
then = add_step
reader = make_batch_reader
in_batches = iterate_batches
Batched = BatchIterator
Later = DeferredItems
