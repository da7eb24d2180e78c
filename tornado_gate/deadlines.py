"""Time limits around whatever a plugin or an upstream does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from tornado_gate.errors import UpstreamTimeout
from tornado_gate.stream import close
from tornado_gate.types import Timeouts

T = TypeVar("T")
Blame = Callable[[BaseException], BaseException]

NEVER = float("inf")


class Deadlines:
    """The time one attempt has; counts from when it is made, inside the running loop. All in seconds.

    One timer serves all limits of an attempt, as those of a stream come and go with every event: a limit is a number that is
    set and unset, and the timer looks at it when it rings, which is seldom.
    """

    __slots__ = (
        *("_due", "_ends", "_first", "_timeouts", "_provider"),
        *("_cancelled", "_in_gap", "_loop", "_rang", "_rings_at", "_task", "_timer"),
    )

    def __init__(self, timeouts: Timeouts, provider: str, *, streaming: bool) -> None:
        self._timeouts = timeouts
        self._provider = provider
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._ends = now + timeouts.total
        # Nothing comes of a whole answer before all of it is made, so its first event may take as long as the whole.
        self._first = now + min(timeouts.first_event, timeouts.total) if streaming else self._ends
        self._due = self._rings_at = NEVER
        self._rang = self._in_gap = False
        self._cancelled = 0
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def first(self, awaitable: Awaitable[T]) -> T:
        """What must be there by the first event. Raises UpstreamTimeout."""
        self._set(self._first)
        try:
            return await awaitable
        except BaseException as error:
            self.stop()
            if self._is_ours(error):
                raise UpstreamTimeout(f"The provider '{self._provider}' did not begin to answer in time.") from None
            raise
        finally:
            self._due = NEVER

    def alive(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """`chunks`; each one is a sign of life, also when no event comes of it, as with the pings of an upstream that thinks."""
        return _Alive(self, chunks)

    def between(self, items: AsyncIterator[T], blame: Blame | None = None) -> AsyncIterator[T]:
        """`items`, each within the gap after the one before and all within the total. Raises UpstreamTimeout.

        `blame` is given what they raise, and gives what is raised instead.
        """
        return _Between(self, items, blame)

    def stop(self) -> None:
        """No limit any more, and nothing left in the loop."""
        self._due = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._rings_at = NEVER

    def _set(self, due: float) -> None:
        """From here until it is unset, the task that runs now may wait until `due`."""
        self._due = due
        self._rang = False
        self._task = task = asyncio.current_task(self._loop)
        self._cancelled = task.cancelling() if task is not None else 0
        if due < self._rings_at:
            if self._timer is not None:
                self._timer.cancel()
            self._ring_at(due)

    def _ring_at(self, due: float) -> None:
        self._rings_at = due
        self._timer = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._rings_at = NEVER
        if self._due == NEVER:
            return
        if self._loop.time() < self._due:
            self._ring_at(self._due)
        elif self._task is not None:
            self._rang = True
            self._task.cancel()

    def _is_ours(self, error: BaseException) -> bool:
        """Whether a cancellation is the timer's alone, and not also that of somebody who wants the task to end."""
        if not self._rang or not isinstance(error, asyncio.CancelledError) or self._task is None:
            return False
        self._rang = False
        return self._task.uncancel() <= self._cancelled

    def _begin_gap(self, seconds: float) -> float:
        """Limit what is awaited next; the limit that holds around it, which is put back afterwards."""
        outer = self._due
        self._in_gap = outer == NEVER
        if self._in_gap or seconds != NEVER:  # else what holds around it is narrower already
            self._set(min(outer, self._ends, self._loop.time() + seconds))
        return outer

    def _put_off(self) -> None:
        """A sign of life in a gap."""
        if self._in_gap and self._due != NEVER:
            self._due = min(self._ends, self._loop.time() + self._timeouts.gap)

    def _gap_error(self, error: BaseException) -> BaseException:
        if not self._is_ours(error):
            return error
        return UpstreamTimeout(f"The provider '{self._provider}' fell silent in the middle of its answer.")


class _Between(Generic[T]):
    """Items of an attempt under its limits; ends with the last of them, and closes what it reads from."""

    __slots__ = ("_blame", "_gap", "_items", "_limits")

    def __init__(self, limits: Deadlines, items: AsyncIterator[T], blame: Blame | None) -> None:
        self._limits = limits
        self._items = items
        self._blame = blame
        self._gap = NEVER  # what comes before the first item is not a gap

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        limits = self._limits
        outer = limits._begin_gap(self._gap)
        try:
            item = await anext(self._items)
        except StopAsyncIteration:
            limits._due = outer
            await self.aclose()
            raise
        except BaseException as error:
            limits._due = outer
            await self.aclose()
            ended = limits._gap_error(error) if outer == NEVER else error
            if self._blame is not None:
                ended = self._blame(ended)
            if ended is error:
                del ended  # it would hold itself by its traceback
                raise
            raise ended from error
        limits._due = outer
        self._gap = limits._timeouts.gap
        return item

    async def aclose(self) -> None:
        """End it before its last item."""
        if self._limits._due == NEVER:
            self._limits.stop()
        await close(self._items)


class _Alive:
    """Chunks of an attempt, each of which puts off the end of the gap."""

    __slots__ = ("_chunks", "_limits")

    def __init__(self, limits: Deadlines, chunks: AsyncIterator[bytes]) -> None:
        self._limits = limits
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        self._limits._put_off()
        return chunk

    async def aclose(self) -> None:
        await close(self._chunks)
