"""Time limits around whatever a plugin or an upstream does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from tornado_gate.errors import UpstreamTimeout
from tornado_gate.streams.stages import Attributed, Flow, add_step
from tornado_gate.streams.timer_wheel import get_wheel
from tornado_gate.types import Timeouts

T = TypeVar("T")
ErrorMapper = Callable[[BaseException], BaseException]

NEVER = float("inf")


class Deadlines:
    """The time one attempt has; counts from when it is made, inside the running loop. All in seconds.

    One place in the wheel serves all limits of an attempt, as those of a stream come and go with every event: a limit is a
    number that is set and unset, and is looked at when the wheel comes round, which is seldom.
    """

    __slots__ = (
        *("_due", "_ends", "_first", "_timeouts", "_provider", "gap"),
        *("_cancelled", "_in_gap", "_loop", "_over", "_rang", "_rings_at", "_slot", "_task", "_wheel"),
    )

    def __init__(self, timeouts: Timeouts, provider: str, *, streaming: bool) -> None:
        self._timeouts = timeouts
        self._provider = provider
        self._wheel = get_wheel()
        self._loop = self._wheel.loop
        now = self._loop.time()
        self._ends = now + timeouts.total
        # Nothing comes of a whole answer before all of it is made, so its first event may take as long as the whole.
        self._first = now + min(timeouts.first_event, timeouts.total) if streaming else self._ends
        self._due = self._rings_at = NEVER
        self.gap = NEVER  # what comes before the first item is not a gap
        self._rang = self._in_gap = False
        self._over = False  # the last item has come
        self._cancelled = 0
        self._task: asyncio.Task[object] | None = None
        self._slot: int | None = None  # of the wheel

    async def wait_for_first_event(self, awaitable: Awaitable[T]) -> T:
        """What must be there by the first event. Raises UpstreamTimeout."""
        self._set_limit(self._first)
        try:
            return await awaitable
        except BaseException as error:
            self.stop()
            if self._is_own_cancellation(error):
                raise UpstreamTimeout(f"The provider '{self._provider}' did not begin to answer in time.") from None
            raise
        finally:
            self._due = NEVER
            if self._over:
                self.stop()

    def extend_gap_on_chunks(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """`chunks`; each one is a sign of life, also when no event comes of it, as with the pings of an upstream that thinks."""
        return Flow(chunks, limits=_SignsOfLife(self))

    def limit_gaps(self, items: AsyncIterator[T], blame: ErrorMapper | None = None) -> AsyncIterator[T]:
        """`items`, each within the gap after the one before and all within the total. Raises UpstreamTimeout.

        `blame` is given what they raise, and gives what is raised instead. A flow of `alive` chunks that nobody has read from
        stays one flow: its chunks are what the gaps are between.
        """
        if isinstance(items, Flow) and not items.begun and self._may_limit(items):
            items.limits = self
        else:
            items = Flow(items, limits=self)
        return add_step(items, _Begins(self, blame or _same))

    def _may_limit(self, items: Flow[T]) -> bool:
        limits = items.limits
        return limits is None or (isinstance(limits, _SignsOfLife) and limits.deadlines is self)

    def stop(self) -> None:
        """No limit any more, and nothing left in the loop."""
        self._due = NEVER
        if self._slot is not None:
            self._wheel.remove(self._slot, self)
            self._slot = None
            self._rings_at = NEVER

    def _set_limit(self, due: float) -> None:
        """From here until it is unset, the task that runs now may wait until `due`."""
        self._due = due
        self._rang = False
        self._task = task = asyncio.current_task(self._loop)
        self._cancelled = task.cancelling() if task is not None else 0
        if due < self._rings_at:
            if self._slot is not None:
                self._wheel.remove(self._slot, self)
            self._schedule_timer(due)

    def _schedule_timer(self, due: float) -> None:
        self._rings_at = due
        self._slot = self._wheel.add(due, self)

    def on_timer(self) -> None:
        """For the wheel."""
        self._slot = None
        self._rings_at = NEVER
        if self._due == NEVER:
            return
        if self._loop.time() < self._due:
            self._schedule_timer(self._due)
        elif self._task is not None:
            self._rang = True
            self._task.cancel()

    def _is_own_cancellation(self, error: BaseException) -> bool:
        """Whether a cancellation is the timer's alone, and not also that of somebody who wants the task to end."""
        if not self._rang or not isinstance(error, asyncio.CancelledError) or self._task is None:
            return False
        self._rang = False
        return self._task.uncancel() <= self._cancelled

    # What limits a flow; see `flow.Limits`.

    def begin(self) -> float:
        """Limit what is awaited next. Gives the limit that holds around it, which is put back afterwards."""
        outer = self._due
        self._in_gap = outer == NEVER
        if self._in_gap or self.gap != NEVER:  # else what holds around it is narrower already
            self._set_limit(min(outer, self._ends, self._loop.time() + self.gap))
        return outer

    def on_items(self, outer: float) -> None:
        self._due = outer

    def explain_error(self, outer: float, error: BaseException) -> BaseException:
        self._due = outer
        if outer != NEVER or not self._is_own_cancellation(error):
            return error
        return UpstreamTimeout(f"The provider '{self._provider}' fell silent in the middle of its answer.")

    def end(self) -> None:
        """The items are: nothing is limited any more but what waits for the first event, if that does."""
        self._over = True
        if self._due == NEVER:
            self.stop()

    def begin_gaps(self) -> None:
        """The first item is there: from here on there are gaps."""
        self.gap = self._timeouts.gap

    def put_off(self) -> None:
        """A sign of life in a gap."""
        if self._in_gap and self._due != NEVER:
            self._due = min(self._ends, self._loop.time() + self.gap)


class _Begins(Attributed[T]):
    """Where the items of an attempt come out: the first begins the gaps, and errors are the plugin's."""

    __slots__ = ("_deadlines",)

    def __init__(self, deadlines: Deadlines, blame: ErrorMapper) -> None:
        super().__init__(blame)
        self._deadlines = deadlines

    def take(self, items: list[T], out: list[T]) -> None:
        self._deadlines.begin_gaps()
        out += items


class _SignsOfLife:
    """Chunks of an attempt that somebody makes items of: each puts off the end of the gap in which they are awaited."""

    __slots__ = ("deadlines",)

    def __init__(self, deadlines: Deadlines) -> None:
        self.deadlines = deadlines

    def begin(self) -> float:
        return NEVER

    def on_items(self, outer: float) -> None:
        self.deadlines.put_off()

    def explain_error(self, outer: float, error: BaseException) -> BaseException:
        return error

    def end(self) -> None:
        """The items may go on."""


def _same(error: BaseException) -> BaseException:
    return error
