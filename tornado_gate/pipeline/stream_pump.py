"""A stream from the upstream's connection to the caller's, without a task. The events of one read go into one write.

The chunks of a stream are a `stages.Flow`: synchronous steps behind a source that waits. `StreamPump` does the waiting of a flow
whose source is the upstream's response and whose reader is the caller's connection. It runs in the function that has received
the upstream's bytes, and passes them through the steps to the caller. A task that reads the flow (`handlers/answer.py`) uses the
same steps. So the pump can leave a flow to a task at any time, and the task continues where the pump has stopped. The pump does
so if a step must wait, for example because a large event is processed in a thread. It also does so if the stream ends before its
first chunk, because a task renders the error or tries something else.

`direct.py` decides which streams have a pump.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from tornado.iostream import StreamClosedError

from tornado_gate.errors import GateError
from tornado_gate.http import upstream
from tornado_gate.http.client.response import HttpResponse
from tornado_gate.streams.deadlines import NEVER, Deadlines, ErrorMapper
from tornado_gate.streams.stages import END, Flow
from tornado_gate.types.wire import ResponseReader


class StreamReceiver(Protocol):
    """The caller's side of a stream, which is a handler."""

    def send_chunks(self, chunks: list[bytes]) -> Awaitable[None] | None:
        """Write chunks, after the head if they are the first. Return an awaitable if the caller must read before more is sent."""

    def end_stream(self, chunks: list[bytes], error: BaseException | None) -> None:
        """Write the last chunks, then end the response: normally, or with an error that the format has not rendered."""

    def leave_stream(self) -> None:
        """Continue in a task, which must read the flow, because the pump has stopped."""

    def report_unread(self) -> GateError:
        """Return the error for a caller who has not read the stream in time."""

    def fail_unexpectedly(self) -> None:
        """End the response for the exception that is being handled."""


class StreamPump:
    """A pump that reads `response`, the source of `flow`. `begun`: the first chunk was sent to the caller."""

    __slots__ = ("_deadlines", "_make_deadlines", "_reader", "_receiver", "_response", "_waiting", "begun", "flow")

    def __init__(
        self,
        flow: Flow[bytes],
        response: HttpResponse,
        reader: ResponseReader | None,
        make_deadlines: Callable[[], Deadlines],
        deadlines: Deadlines | None = None,
    ) -> None:
        """Create a pump. `deadlines` are the time limits that a step of the flow uses.

        Without them the pump calls `make_deadlines` at its first wait, because many short streams arrive in one read.
        """
        self.flow = flow
        self._response = response
        self._reader = reader
        self._make_deadlines = make_deadlines
        self._deadlines = deadlines
        self._receiver: StreamReceiver | None = None
        self._waiting: asyncio.Future[None] | None = None  # set until the caller has read
        self.begun = False

    def start(self, receiver: StreamReceiver) -> None:
        """Send the data that has arrived, and continue when more arrives."""
        self._receiver = receiver
        if self._deadlines is not None:
            self._deadlines.watch(self._on_late)
        self._on_change()

    def interrupt(self, error: GateError) -> None:
        """End a stream that has begun with `error`, because the gateway shuts down."""
        if self._waiting is None:
            self._fail(error)
        else:
            self._end([], error)

    def stop(self) -> None:
        """Close the response, unless it is complete."""
        self._detach()
        if self._deadlines is not None:
            self._deadlines.stop()
        upstream.end_answer(self._response, self._reader)

    def limit_task(self, blame: ErrorMapper) -> Deadlines:
        """Return the time limits of the task that reads the flow after the pump."""
        deadlines = self._deadlines or self._make_deadlines()
        deadlines.limit_source(self.flow, blame)
        return deadlines

    def _detach(self) -> None:
        self._receiver = self._waiting = self._response.listener = None
        if self._deadlines is not None:
            self._deadlines.watch(None)

    def _limit_time(self) -> Deadlines:
        deadlines = self._deadlines
        if deadlines is None:
            deadlines = self._deadlines = self._make_deadlines()
            deadlines.watch(self._on_late)
        return deadlines

    # Called when something has happened

    def _on_change(self) -> None:
        """Send the data that the upstream's connection has received. Wait for more, unless the pump waits for something else."""
        response, flow, receiver = self._response, self.flow, self._receiver
        assert receiver is not None
        try:
            while True:
                try:
                    piece = response.take_arrived()
                except GateError as error:
                    self._fail(error)
                    return
                if piece:
                    chunks = flow.push([piece])
                elif response.ended:
                    chunks = flow.push([], END)
                else:
                    break
                if not self._pass_on(chunks, receiver):
                    return
                if not response.ended and response.fault is None:
                    break
            response.listener = self._on_change
            deadlines = self._deadlines or self._limit_time()
            # In the common lane a step notes the first event, which may come after chunks without one.
            has_items = flow.begun if flow.limits is None else deadlines.gap != NEVER
            deadlines.limit_items(has_items, self.begun)
        except Exception:
            receiver.fail_unexpectedly()

    def _on_late(self) -> None:
        """Handle the end of a time limit."""
        receiver, deadlines = self._receiver, self._deadlines
        assert receiver is not None
        assert deadlines is not None
        try:
            if self._waiting is None:
                self._fail(deadlines.make_late_error(is_begun=self.begun))
            else:
                self._end([], receiver.report_unread())
        except Exception:
            receiver.fail_unexpectedly()

    def _on_read(self, waiting: asyncio.Future[None]) -> None:
        """Continue after the caller has read the sent data or has left."""
        if self._waiting is not waiting:
            return
        self._waiting = None
        if waiting.cancelled() or waiting.exception() is not None:
            self._end([], StreamClosedError())
        else:
            self._on_change()

    # Passing on

    def _fail(self, error: BaseException) -> None:
        """End the flow with an error of the upstream, or of the gateway."""
        receiver = self._receiver
        assert receiver is not None
        self._response.listener = None
        self._response.close()
        self._pass_on(self.flow.push([], error), receiver)

    def _pass_on(self, chunks: list[bytes] | None, receiver: StreamReceiver) -> bool:
        """Send the results of the flow. Return whether to continue reading the upstream now."""
        ending = self.flow.ending
        if chunks is None or (ending is not None and not chunks and not self.begun):
            self._detach()
            receiver.leave_stream()
            return False
        if ending is not None:
            self._end(chunks, ending if isinstance(ending, BaseException) else None)
            return False
        if not chunks:
            return True
        if self._response.ended:
            return self._pass_on_end(chunks, receiver)
        self.begun = True
        waiting = receiver.send_chunks(chunks)
        if waiting is None:
            return True
        future = self._waiting = asyncio.ensure_future(waiting)
        (self._deadlines or self._limit_time()).limit_reading()
        future.add_done_callback(self._on_read)
        return False

    def _pass_on_end(self, chunks: list[bytes], receiver: StreamReceiver) -> bool:
        """Send results of the flow together with its last ones, because the end of the response has arrived with them."""
        last = self.flow.push([], END)
        if last is not None:
            return self._pass_on(chunks + last, receiver)
        self.begun = True
        receiver.send_chunks(chunks)  # the task waits for the caller
        return self._pass_on(None, receiver)

    def _end(self, chunks: list[bytes], error: BaseException | None) -> None:
        receiver = self._receiver
        assert receiver is not None
        self.begun = True
        self._detach()
        if self._deadlines is not None:
            self._deadlines.stop()
        if error is None and not self.flow.has_failed:
            self._response.let_end()
        upstream.end_answer(self._response, self._reader)
        receiver.end_stream(chunks, error)
