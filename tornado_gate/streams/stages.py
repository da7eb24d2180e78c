"""Batched stream processing: synchronous steps that process the batches of `batches.py`.

A stream event passes about a dozen processing steps, and one chunk from the network often contains many events. A `Flow` is an
ordinary async iterator for code that iterates. Code that uses `Flow` directly reads whole batches, and adds a step to it instead
of wrapping it in another iterator. Batches contain only the items that are available: no item waits for later ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

from tornado_gate.errors import GateError
from tornado_gate.streams.batches import BatchIterator, close, make_batch_reader, release
from tornado_gate.streams.large_work import run_alone
from tornado_gate.types.wire import ResponseReader

T = TypeVar("T")
U = TypeVar("U")

END: Final = "end"
"""The normal end of the items."""

Ending = BaseException | Literal["end"] | None
"""The end of the items: an exception or END; None while more items may follow."""


def find_interruption(cancelled: asyncio.CancelledError) -> GateError | None:
    """Return the error with which the current task was ended by ``task.cancel(error)``; None for any other cancellation.

    So a request that the gateway itself ends is treated like other errors: the format renders it at the end of its stream.
    """
    error = cancelled.args[0] if cancelled.args else None
    task = asyncio.current_task()
    if not isinstance(error, GateError) or task is None:
        return None
    task.uncancel()
    return error


class Pause(NamedTuple):
    """The result of a step that must await: the flow awaits `until()`, then passes `items` to the step again."""

    items: list[Any]
    until: Callable[[], Awaitable[object]]


LARGE_BYTES: Final = 512 * 1024
"""Items above this size are processed in a thread: each megabyte takes about 10 ms."""


class Large(NamedTuple):
    """The result of a step whose next items are above LARGE_BYTES.

    The flow runs `work` in the thread of large responses, then passes `items` to the step again. `work` is a part of `take`: it
    appends results to its list, and returns True to end the flow.
    """

    items: list[Any]
    work: Callable[[list[Any]], bool | None]


class Step(Generic[T, U]):
    """A synchronous transformation of items. If it raises, the items that it appended before the error are still passed on.

    `takes_large`: `take` uses no object of the event loop, so it may get the results of a `Large` of an earlier step in the
    thread.
    """

    __slots__ = ()

    takes_large = False

    def take(self, items: list[T], out: list[U]) -> bool | Pause | Large | None:
        """Append the results for `items` to `out`. Return True to end the flow here."""
        raise NotImplementedError

    def end(self, out: list[U]) -> Large | None:
        """Append final results after the normal end of the items. After a `Large` it is called again."""

    def attribute(self, error: BaseException) -> BaseException:
        """Map an exception of the items or of this step that is not a GateError to the exception to pass on."""
        return error

    def fail(self, error: GateError) -> list[U] | GateError:
        """Handle `error` of the items or of this step: return final results that report it, or the error to pass on."""
        return error


class Attributed(Step[T, T]):
    """A step that passes items on unchanged. It maps exceptions that are not a GateError with the function `attribute`."""

    __slots__ = ("_attribute",)

    def __init__(self, attribute: Callable[[BaseException], BaseException]) -> None:
        self._attribute = attribute

    def take(self, items: list[T], out: list[T]) -> None:
        out += items

    def attribute(self, error: BaseException) -> BaseException:
        mapped = self._attribute(error)
        if mapped is not error:
            mapped.__cause__ = error
        return mapped


class Limits(Protocol):
    """The limits of the time that a flow waits for its source."""

    def begin(self) -> float:
        """Start a wait. The result is passed to the method that ends the wait."""

    def on_items(self, outer: float) -> None:
        """End a wait that has returned items."""

    def explain_error(self, outer: float, error: BaseException) -> BaseException:
        """End a wait that has raised `error`; return it, or the timeout error if the limit cancelled the wait."""

    def end(self) -> None:
        """End the limits, because the flow has ended."""


class Flow(BatchIterator[T]):
    """A flow of items from a source, processed by steps. It ends when the source or a step ends, and then closes the source.

    After an error the source is closed before further items are returned. `ending` is the ending that follows the
    finished items; None if more may follow. `limits` may be set until the first read. `reader` is the reader of the response
    whose chunks the flow has.
    """

    __slots__ = (
        "_next",
        "_paused",
        "_ready",
        "_source",
        "_steps",
        "begun",
        "ending",
        "has_failed",
        "limits",
        "reader",
    )

    def __init__(
        self,
        source: AsyncIterator[Any],
        *steps: Step[Any, Any],
        limits: Limits | None = None,
        reader: ResponseReader | None = None,
    ) -> None:
        super().__init__()
        self._source: AsyncIterator[Any] | None = source
        self._next = make_batch_reader(source)
        self._steps = list(steps)
        self._ready: list[T] = []
        self.ending: Ending = None
        self._paused: list[tuple[Step[Any, Any], Pause | Large, Ending]] = []  # the last one continues first
        self.begun = False
        self.limits = limits
        self.reader = reader

    async def fetch_batch(self) -> list[T]:
        self.begun = True
        limits = self.limits
        outer = 0.0
        while not self._ready:
            if self._paused:
                await self._resume()
                continue
            if self.ending is not None:
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
                del items  # free the memory before a possibly long wait
            if failed:
                await self._close()
        return self._take_ready()

    @property
    def is_exhausted(self) -> bool:
        return self.ending is END and not self._ready and not self._left

    def gather_body(self, hold: Callable[[int], None]) -> int:
        """Let the source deliver its rest as one item, see `HttpResponse.gather_body`. Return 0 if it cannot."""
        gather = getattr(self._source, "gather_body", None)
        return 0 if gather is None or self._left or self._ready else gather(hold)

    def add_step(self, step: Step[Any, Any]) -> None:
        """Add a step to an unread flow, see `add_step`."""
        self._steps.append(step)

    def insert_step(self, step: Step[Any, Any]) -> None:
        """Insert a step before all others. It gets the items that follow."""
        self._steps.insert(0, step)

    def push(self, items: list[Any], ending: Ending = None) -> list[T] | None:
        """Pass items of the source, or its ending, through the steps, and return the results: for a driver without a task.

        Return None if a step must wait: then a task reads the flow, which goes on from there. After an error, `has_failed` is
        true, and the driver closes the source.
        """
        self.begun = True
        self.has_failed = self._run_steps(items, ending)
        if self._paused:
            return None
        ready, self._ready = self._ready, []
        return ready

    def _take_ready(self) -> list[T]:
        """Return the finished items. A separate function, so that no traceback keeps its frame alive."""
        ready, self._ready = self._ready, []
        return ready

    async def aclose(self) -> None:
        self._left, self._ready, self.ending, self._paused = [], [], END, []
        await self._close()

    async def release(self) -> None:
        """Release the source for a reader who has all data."""
        self._left, self._ready, self.ending, self._paused = [], [], END, []
        await self._close(release)

    async def _close(self, end: Callable[[AsyncIterator[Any]], Awaitable[None]] | None = None) -> None:
        """Close the source with the function `end`, by default `close`."""
        source, self._source = self._source, None
        if source is not None:
            if self.limits is not None:
                self.limits.end()
            try:
                await (end or close)(source)
            except GateError:
                raise
            except BaseException as error:
                failure = error
                for step in self._steps:
                    failure = failure if isinstance(failure, GateError) else step.attribute(failure)
                if failure is error:
                    del failure  # avoids a reference cycle through its traceback
                    raise
                raise failure from error

    def _find_ending(self, error: BaseException, outer: float) -> Ending:
        """Return the ending for an exception of the source."""
        mapped = error if self.limits is None else self.limits.explain_error(outer, error)
        if isinstance(mapped, asyncio.CancelledError):
            return find_interruption(mapped) or mapped
        return END if isinstance(mapped, StopAsyncIteration) else mapped

    async def _raise_ending(self) -> None:
        """Raise the error that ended the flow, or StopAsyncIteration after a normal end."""
        ending, self.ending = self.ending, END
        await self._close(release if ending is END else None)
        if not isinstance(ending, BaseException):
            raise StopAsyncIteration
        try:
            raise ending
        finally:
            del ending  # avoids a reference cycle through its traceback

    async def _resume(self) -> None:
        """Continue where a step has paused: wait, or do its work in the thread."""
        step, pause, ending = self._paused.pop()
        index = self._steps.index(step)
        try:
            if isinstance(pause, Large):
                failed = await self._run_large(step, pause, ending, index)
            else:
                await pause.until()
                failed = self._run_steps(pause.items, ending, index)
        except BaseException as error:
            failed = self._run_steps([], error, index)
        del ending  # avoids a reference cycle through its traceback
        if failed:
            await self._close()

    async def _run_large(self, step: Step[Any, Any], large: Large, ending: Ending, index: int) -> bool:
        """Run the work of a step, and the steps after it, in the thread. Return whether an error occurred."""
        items: list[Any] = []
        try:
            if await _run_aside(large.work, items):
                ending = END
            elif large.items or ending is not None:
                self._paused.append((step, Pause(large.items, _continue), ending))
                ending = None
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            items, ending = _handle_error(step, error, items)
            self._run_steps(items, ending, index + 1)
            items, ending = [], None
            return True
        failed = False
        for later in self._steps[index + 1 :]:
            out: list[Any] = []
            try:
                outcome = None
                if items:
                    outcome = await _run_aside(later.take, items, out) if later.takes_large else later.take(items, out)
                if outcome or ending is not None:
                    ending = self._settle(later, outcome, ending, out)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                ending = error
            if isinstance(ending, BaseException):
                failed = True
                out, ending = _handle_error(later, ending, out)
            items = out
        self._keep_results(items, ending)
        items, ending, out = [], None, []  # a traceback may keep this frame alive
        return failed

    def _run_steps(self, items: list[Any], ending: Ending, index: int = 0) -> bool:
        """Pass items and their ending through the steps from `index`; store the results. Return whether an error occurred."""
        failed = ending is not None and isinstance(ending, BaseException)
        for step in self._steps[index:] if index else self._steps:
            out: list[Any] = []
            try:
                outcome = step.take(items, out) if items else None
                if not outcome and ending is None:
                    items = out
                    continue  # nearly always
                ending = self._settle(step, outcome, ending, out)
            except BaseException as error:
                ending = error
            if ending is not None and isinstance(ending, BaseException):
                failed = True
                out, ending = _handle_error(step, ending, out)
            items = out
        if ending is not None:
            self._paused.clear()  # a later step has ended the items
        self._ready, self.ending = items, ending
        items, ending, out = [], None, []  # a traceback may keep this frame alive
        return failed

    def _settle(
        self, step: Step[Any, Any], outcome: bool | Pause | Large | None, ending: Ending, out: list[Any]
    ) -> Ending:
        """Return the ending of a step's results, after `take` has returned `outcome`."""
        if outcome is True:
            return END
        if ending is END and not outcome:
            outcome = step.end(out)
        if outcome:
            self._paused.append((step, outcome, ending))
            return None
        return ending

    def _keep_results(self, items: list[Any], ending: Ending) -> None:
        if ending is not None:
            self._paused.clear()  # a later step has ended the items
        self._ready, self.ending = items, ending


async def _continue() -> None:
    """Await the `Pause` or `Large` of a step that has only items left."""


async def _run_aside(function: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a part of a step, which runs in the thread of large responses.

    If the wait is cancelled, it ends when the part has ended: the steps must not be used before.
    """
    work = asyncio.ensure_future(run_alone(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError as cancelled:
        interruption = find_interruption(cancelled)
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        if not work.cancelled():
            work.exception()  # marks it as retrieved
        if interruption is not None:
            raise interruption from None
        raise


def _handle_error(step: Step[Any, Any], error: BaseException, out: list[Any]) -> tuple[list[Any], Ending]:
    """Return a step's results and their ending, after `error` in the items or in the step, which had appended `out`."""
    error = error if isinstance(error, GateError) else step.attribute(error)
    if not isinstance(error, GateError):
        return out, error
    outcome = step.fail(error)
    # A new list, not `out`: frames in the traceback refer to `out`, which would close a reference cycle
    return (out + outcome, END) if isinstance(outcome, list) else (out, outcome)


def find_reader(chunks: AsyncIterator[bytes]) -> ResponseReader | None:
    """Return the reader of the response whose chunks these are, for a parser that keeps a large event; None if it is unknown."""
    return chunks.reader if isinstance(chunks, Flow) else None


def add_step(items: AsyncIterator[T], step: Step[T, U]) -> Flow[U]:
    """Return `items` processed by one more step: the same flow if it is unread, else a new one. Read only the result."""
    if isinstance(items, Flow) and not items.begun:
        items._steps.append(step)
        return cast("Flow[U]", items)
    return Flow(items, step)
