"""Timeouts for the work of plugins and upstreams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from tornado_gate.errors import UpstreamTimeout
from tornado_gate.streams.stages import Attributed, Flow, add_step
from tornado_gate.streams.timer_wheel import get_wheel
from tornado_gate.types import Timeouts
from tornado_gate.types.wire import ResponseReader

T = TypeVar("T")
ErrorMapper = Callable[[BaseException], BaseException]

NEVER = float("inf")


class Deadlines:
    """The timeouts of one attempt, in seconds from the creation of this object inside the running loop, or from `begun_at`.

    `first_event` limits the time to the first event of a stream. It also limits the time to the first bytes of the body of a
    whole response, which has no event before it is complete (there `whole` replaces it, if present). Between its further bytes
    `gap` applies, and to all of it `total`. With `slow_start`, for operations that send no data until the work is done, only
    `total` applies before the response.

    All timeouts of an attempt share one entry in the timer wheel, because a stream sets and resets a timeout for every event. A
    timeout is a number. It is compared with the time only when the wheel's timer fires. The timeouts apply while an item is
    awaited. Code that passes items on must limit its own waits to `ends_at`, the end of the total timeout.
    """

    __slots__ = (
        *("_due", "_first", "_timeouts", "_provider", "ends_at", "gap"),
        *(
            "_begun",
            "_cancelled",
            "_in_gap",
            "_listener",
            "_loop",
            "_over",
            "_rang",
            "_rings_at",
            "_slot",
            "_streaming",
            "_task",
            "_wheel",
        ),
    )

    def __init__(
        self,
        timeouts: Timeouts,
        provider: str,
        *,
        streaming: bool,
        slow_start: bool = False,
        begun_at: float | None = None,
    ) -> None:
        self._timeouts = timeouts
        self._streaming = streaming
        self._provider = provider
        self._wheel = get_wheel()
        self._loop = self._wheel.loop
        now = self._loop.time() if begun_at is None else begun_at
        self.ends_at = now + timeouts.total
        first_event = timeouts.first_event if streaming or timeouts.whole is None else timeouts.whole
        self._first = self.ends_at if slow_start else now + min(first_event, timeouts.total)
        self._due = self._rings_at = NEVER
        self.gap = NEVER  # the wait for the first item is not a gap
        self._rang = self._in_gap = False
        self._begun = False  # the first bytes of a whole response have arrived
        self._over = False  # the last item has arrived
        self._cancelled = 0
        self._task: asyncio.Task[object] | None = None
        self._listener: Callable[[], None] | None = None  # called instead, if no task waits
        self._slot: int | None = None  # in the timer wheel

    async def wait_for_first_event(self, awaitable: Awaitable[T]) -> T:
        """Return the result of `awaitable`, limited by the first-event timeout. Raises UpstreamTimeout."""
        self._set_limit(self._first)
        try:
            return await awaitable
        except BaseException as error:
            self.stop()
            if self._is_own_cancellation(error):
                raise self.make_first_event_error() from None
            raise
        finally:
            self._due = NEVER
            if self._over:
                self.stop()

    def expect_whole(self) -> None:
        """Limit the time to the first event by `first_event`.

        Called if the caller gets a whole response, although the upstream streams.
        """
        self._streaming = False

    def make_first_event_error(self) -> UpstreamTimeout:
        """Return the error for a response that has not begun in time."""
        if self._loop.time() >= self.ends_at:
            return self._make_total_error()
        advice = "" if self._streaming else " Request a stream, or raise timeouts.whole for this model."
        return UpstreamTimeout(
            f"The provider '{self._provider}' did not start its response in time (first_event timeout).{advice}"
        )

    def _make_total_error(self) -> UpstreamTimeout:
        limit = f"did not finish its response within {self._timeouts.total:g} s (total timeout)"
        return UpstreamTimeout(f"The provider '{self._provider}' {limit}.")

    def _make_gap_error(self) -> UpstreamTimeout:
        return UpstreamTimeout(
            f"The provider '{self._provider}' sent no data for {self._timeouts.gap:g} s (gap timeout)."
        )

    def extend_gap_on_chunks(
        self, chunks: AsyncIterator[bytes], reader: ResponseReader | None = None
    ) -> AsyncIterator[bytes]:
        """Return `chunks`; each one restarts the gap timeout, even if it yields no event (an upstream's pings, for example).

        `reader` counts the memory of parsers that read the result, see `stages.find_reader`. An unread flow without limits is
        not wrapped.
        """
        if isinstance(chunks, Flow) and not chunks.begun and chunks.limits is None and chunks.reader is reader:
            chunks.limits = _SignsOfLife(self)
            return chunks
        return Flow(chunks, limits=_SignsOfLife(self), reader=reader)

    def limit_gaps(self, items: AsyncIterator[T], blame: ErrorMapper | None = None) -> AsyncIterator[T]:
        """Return `items` with the gap timeout between two items and the total timeout for all. Raises UpstreamTimeout.

        `blame` maps an exception of the items to the one to raise. An unread flow from `extend_gap_on_chunks` is not wrapped
        again: then the gap timeout applies between its chunks.
        """
        if isinstance(items, Flow) and not items.begun and self._may_limit(items):
            items.limits = self
        else:
            items = Flow(items, limits=self)
        return add_step(items, _Begins(self, blame or _same))

    def limit_source(self, flow: Flow[T], blame: ErrorMapper) -> None:
        """Limit a flow like `limit_gaps`, although it has its steps already. Some of its items may have been pushed.

        A flow that `limit_gaps` has limited needs nothing.
        """
        if flow.limits is self:
            return
        if flow.begun:
            self.begin_gaps()
        flow.limits = self
        flow.insert_step(_Begins(self, blame))

    def _may_limit(self, items: Flow[T]) -> bool:
        limits = items.limits
        return limits is None or (isinstance(limits, _SignsOfLife) and limits.deadlines is self)

    def stop(self) -> None:
        """Cancel all timeouts and remove the entry from the timer wheel."""
        self._due = NEVER
        if self._slot is not None:
            self._wheel.remove(self._slot, self)
            self._slot = None
            self._rings_at = NEVER

    def _set_limit(self, due: float) -> None:
        """Cancel the current task at `due`, a time of the loop, unless the limit is reset before."""
        self._due = due
        self._rang = False
        self._task = task = asyncio.current_task(self._loop)
        self._cancelled = task.cancelling() if task is not None else 0
        if due < self._rings_at:
            self._move_timer(due)

    def _move_timer(self, due: float) -> None:
        if self._slot is not None:
            self._wheel.remove(self._slot, self)
        self._schedule_timer(due)

    def _schedule_timer(self, due: float) -> None:
        self._rings_at = due
        self._slot = self._wheel.add(due, self)

    def on_timer(self) -> None:
        """Cancel the task if its limit has passed, else schedule the timer again. The timer wheel calls this."""
        self._slot = None
        self._rings_at = NEVER
        if self._due == NEVER:
            return
        if self._loop.time() < self._due:
            self._schedule_timer(self._due)
        elif self._listener is not None:
            self._listener()
        elif self._task is not None:
            self._rang = True
            self._task.cancel()

    def _is_own_cancellation(self, error: BaseException) -> bool:
        """Return whether only the timer has cancelled the task; False if another cancellation is pending too."""
        if not self._rang or not isinstance(error, asyncio.CancelledError) or self._task is None:
            return False
        self._rang = False
        return self._task.uncancel() <= self._cancelled

    # For a driver without a task.

    def watch(self, listener: Callable[[], None] | None) -> None:
        """Call `listener`, instead of cancelling a task, when a limit has passed. None ends this, and the current limit."""
        self._listener = listener
        self._due = NEVER

    def limit_items(self, has_items: bool, is_begun: bool) -> None:
        """Limit the time until the next items. `has_items`: some have arrived, so the gap timeout applies.

        `is_begun`: the response has begun, so the first-event timeout is over.
        """
        due = self.ends_at if is_begun else self._first
        if has_items and (gap_ends := self._loop.time() + self._timeouts.gap) < due:
            due = gap_ends
        self._due = due
        if due < self._rings_at:
            self._move_timer(due)

    def limit_reading(self) -> None:
        """Limit the time until the caller has read what was sent: only the total timeout applies."""
        self._due = due = self.ends_at
        if due < self._rings_at:
            self._move_timer(due)

    def make_late_error(self, *, is_begun: bool) -> UpstreamTimeout:
        """Return the error for a limit of `limit_items` that has passed."""
        if not is_begun:
            return self.make_first_event_error()
        return self._make_total_error() if self._loop.time() >= self.ends_at else self._make_gap_error()

    # The interface `stages.Limits`.

    def begin(self) -> float:
        """Start the limit for the next wait. Return the outer limit, to restore afterwards."""
        outer = self._due
        self._in_gap = outer == NEVER
        if self._in_gap or self.gap != NEVER:  # otherwise the outer limit is narrower
            self._set_limit(min(outer, self.ends_at, self._loop.time() + self.gap))
        return outer

    def on_items(self, outer: float) -> None:
        self._due = self.ends_at if self._begun and outer != NEVER else outer

    def explain_error(self, outer: float, error: BaseException) -> BaseException:
        self._due = outer
        is_outer = outer != NEVER and not self._begun  # `wait_for_first_event` explains it
        if is_outer or not self._is_own_cancellation(error):
            return error
        return self._make_total_error() if self._loop.time() >= self.ends_at else self._make_gap_error()

    def end(self) -> None:
        """End the limits at the end of the items: only a wait for the first event, if there is one, stays limited."""
        self._over = True
        if self._due == NEVER:
            self.stop()

    def begin_gaps(self) -> None:
        """Start the gap timeout, because the first item has arrived."""
        self.gap = self._timeouts.gap
        if not (self._streaming or self._begun):
            self._begin_whole()

    def _begin_whole(self) -> None:
        """End the first-event timeout, because the first bytes of a whole response have arrived."""
        self._begun = True
        self._first = self.ends_at
        if self._due != NEVER:
            self._due = self.ends_at

    def begin_bytes(self) -> float:
        """Begin like `begin`, for further bytes of a whole response. For the first ones, return NEVER and set no limit."""
        outer = self._due
        if not self._begun or outer == NEVER or self._task is not asyncio.current_task(self._loop):
            return NEVER
        self._set_limit(min(outer, self._loop.time() + self._timeouts.gap))
        return outer

    def put_off(self) -> None:
        """Restart the gap timeout, because data has arrived."""
        if not (self._streaming or self._begun):
            self._begin_whole()
        if self._in_gap and self._due != NEVER:
            self._due = min(self.ends_at, self._loop.time() + self.gap)


class _Begins(Attributed[T]):
    """The last step of an attempt: the first item starts the gap timeout, and errors are attributed to the plugin."""

    __slots__ = ("_deadlines",)

    def __init__(self, deadlines: Deadlines, blame: ErrorMapper) -> None:
        super().__init__(blame)
        self._deadlines = deadlines

    def take(self, items: list[T], out: list[T]) -> None:
        self._deadlines.begin_gaps()
        out += items


class _SignsOfLife:
    """The limits of a chunk flow whose chunks are parsed into items: each chunk restarts the gap timeout of the items.

    A whole response is one item, which comes after its last chunk: between its chunks the gap timeout applies here.
    """

    __slots__ = ("deadlines",)

    def __init__(self, deadlines: Deadlines) -> None:
        self.deadlines = deadlines

    def begin(self) -> float:
        return self.deadlines.begin_bytes()

    def on_items(self, outer: float) -> None:
        if outer != NEVER:
            self.deadlines.on_items(outer)
        self.deadlines.put_off()

    def explain_error(self, outer: float, error: BaseException) -> BaseException:
        return error if outer == NEVER else self.deadlines.explain_error(outer, error)

    def end(self) -> None:
        """Do nothing: items may follow after the last chunk."""


def _same(error: BaseException) -> BaseException:
    return error
