"""The handler of every request -> reply route of every format, streamed or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from tornado.iostream import StreamClosedError

from tornado_gate.codec.text_files import UnreadableFile
from tornado_gate.errors import GateError, InternalError, UpstreamError, UpstreamTimeout
from tornado_gate.guards.stream_policy import HEADER, parse_stream_policy
from tornado_gate.http.server.response_head import MAX_TEXT_LENGTH, make_header_text, replace_unprintable
from tornado_gate.ledger.costs import format_usd
from tornado_gate.ledger.entries import BODY_BYTES, find_end_user
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.pipeline.pricing import compute_answer_cost
from tornado_gate.server.dispatch import dispatch
from tornado_gate.server.handlers.authenticated import AuthenticatedHandler
from tornado_gate.server.handlers.exchange import ignore_result, set_nodelay
from tornado_gate.server.handlers.files import send_file
from tornado_gate.server.handlers.limit_headers import render_limit_headers
from tornado_gate.storage.files import MediaFile
from tornado_gate.streams import batches
from tornado_gate.streams.events import close, join_frames
from tornado_gate.streams.first_waits import call_before_wait
from tornado_gate.streams.passthrough import EVENTS
from tornado_gate.streams.timer_wheel import get_wheel
from tornado_gate.types import BufferedBody, Call, Reply, WireRequest
from tornado_gate.types.call import MORE_LOSSES_MARK, LazyExitStack
from tornado_gate.types.wire import UNCOUNTED_BYTES


class AnswerHandler(AuthenticatedHandler):
    """A handler that dispatches the request and writes the response with back-pressure.

    It closes everything that the request opened.

    `ping_seconds`: the caller's own interval of keep-alives, which begin before the first event. 0 selects the interval of conf,
    after the first event.
    """

    may_be_shed = True
    begins_early = True
    ping_seconds = 0

    wire: WireRequest | None = None  # set after the body was read

    def answer(self) -> Awaitable[None]:
        """Serve the request, and close everything that it opened, even after an error."""
        closing = LazyExitStack()
        call = self.call = self.make_call(closing)
        self.gate.requests.begin(self.snapshot)
        return self.send_answer(partial(self._read_and_answer, call), closing)

    def _read_and_answer(self, call: Call) -> Awaitable[PreparedAnswer | MediaFile]:
        """Read the body, and return the response of the part that serves the route. Raises GateError."""
        if HEADER in self.lower_headers:
            call = self.call = self._apply_stream_policy(call)
        if self.claim is not None:
            return self._read_large_and_answer(call)
        return self._answer_body(call, self.read_wire_request(call))

    async def _read_large_and_answer(self, call: Call) -> PreparedAnswer | MediaFile:
        call = self.call = call.replace(worker=partial(self.gate.worker.run, self.caller.account))
        return await self._answer_body(call, await self.read_large_wire_request(call))

    def _answer_body(self, call: Call, wire: WireRequest) -> Awaitable[PreparedAnswer | MediaFile]:
        self.wire = wire
        self.note_body(wire)
        return self._answer_with_pings(call, wire) if self.ping_seconds else self.make_answer(call, wire)

    def note_body(self, wire: WireRequest) -> None:
        """Note the data of the body that the ledger stores."""
        self.end_user = find_end_user(wire.json)
        if self.snapshot.config.ledger.bodies:
            self.recorded_body = wire.raw[:BODY_BYTES]

    async def send_answer(
        self, make: Callable[[], Awaitable[PreparedAnswer | MediaFile]], closing: LazyExitStack
    ) -> None:
        """Send the response that `make` returns, or its error, then end the request, which `requests.begin` has counted."""
        try:
            answer = await make()
            if isinstance(answer, MediaFile):
                await send_file(self, self.services.tasks.files, answer.id, time.time())
                return
            self.call = answer.call
            if self.headers_written:
                await self._continue_stream(answer.reply)
                return
            answer.call.progress.begin_response(time.monotonic() - self.started)
            self._describe(answer.call, answer.reply)
            if isinstance(answer.reply.chunks, BufferedBody):
                self._add_cost(answer.call)
                await self._end_whole(answer.reply.chunks.data)
            else:
                await self._write_reply(answer.reply)
        except GateError as error:
            if isinstance(error, UnreadableFile) and self.wire is not None:
                error.find_param(self.wire.json)
            self.fail_late(error)
        finally:
            self.wire = None
            try:
                if not closing.is_empty:
                    await closing.aclose()
            finally:
                self.gate.requests.end(self.snapshot)

    def make_answer(self, call: Call, wire: WireRequest) -> Awaitable[PreparedAnswer | MediaFile]:
        """Return the response of the part that serves the route. Raises GateError."""
        return dispatch(self.services, self.snapshot, call, wire)

    def _apply_stream_policy(self, call: Call) -> Call:
        """Return the call with the caller's wishes for a stream. Raises InvalidField."""
        policy = parse_stream_policy(self.lower_headers[HEADER])
        self.ping_seconds = policy.ping_seconds
        return call if policy.failover is None else call.replace(failover=policy.failover)

    async def _answer_with_pings(self, call: Call, wire: WireRequest) -> PreparedAnswer | MediaFile:
        """Run `make_answer`. Until it returns, a caller who has requested a stream gets keep-alives."""
        keep_alive = self.route.keep_alive(wire) if self.begins_early and self.route.keep_alive else b""
        self.written_at = time.monotonic()
        pings = KeepAliveWriter(self, keep_alive, self.ping_seconds)
        try:
            return await self.make_answer(call, wire)
        finally:
            pings.stop()

    def begin_stream(self) -> None:
        """Set the head of a stream before its target has responded: a later failure is an event of the stream."""
        self.status = 200
        self.headers["Content-Type"] = EVENTS
        if self.call is not None and self.call.charge.reservations is not None:
            self.set_headers(
                render_limit_headers(self.snapshot.formats, self.call, self.call.charge.reservations.levels)
            )

    async def _continue_stream(self, reply: Reply) -> None:
        """Write a reply after the head of its stream. Raises UpstreamError if the reply is no stream."""
        if self.call is not None and self.call.progress.first_event_seconds is None:
            self.call.progress.begin_response(time.monotonic() - self.started)
        if not reply.content_type.startswith("text/event-stream"):
            await close(reply.chunks)
            raise UpstreamError(
                "The upstream did not answer with a stream, which had begun. Send the request without 'ping'."
            )
        await self._write_reply(reply)

    def _describe(self, call: Call, reply: Reply) -> None:
        self.status = reply.status
        self.headers["Content-Type"] = reply.content_type
        if reply.headers:
            self.set_headers(reply.headers)
        self._set_own_headers(call)

    async def _write_reply(self, reply: Reply) -> None:
        try:
            if reply.content_type.startswith("text/event-stream"):
                await self._write_stream(reply)
            elif reply.content_type.startswith("application/json"):
                await self._write_whole(reply)
            else:
                await self._write_pieces(reply)
        except (GateError, StreamClosedError):
            raise
        except Exception:
            self.log_exception()
            self.fail_late(InternalError())
        finally:
            await close(reply.chunks)

    def _set_own_headers(self, call: Call) -> None:
        headers = self.headers
        if call.target.provider:
            headers["X-Gate-Provider"] = call.target.provider
            headers["X-Gate-Model"] = make_header_text(call.target.upstream_model)
        if call.losses:
            headers["X-Gate-Loss"] = _format_losses(call.losses)
        if call.charge.reservations is not None:
            self.set_headers(render_limit_headers(self.snapshot.formats, call, call.charge.reservations.levels))
        if call.additions.headers is not None:
            self.set_headers(call.additions.headers)
        if call.progress.attempts > 1:
            headers["X-Gate-Attempts"] = str(call.progress.attempts)

    def _add_cost(self, call: Call) -> None:
        """Add the cost of a complete response, if it is known."""
        cost = compute_answer_cost(self.snapshot.prices, call) if self.status < 400 else None
        if cost is not None:
            self.headers["X-Gate-Cost"] = format_usd(cost)

    async def _write_whole(self, reply: Reply) -> None:
        """Write a reply that is not a stream: with Content-Length if it is one chunk, else chunk by chunk."""
        held: bytes | None = None
        async for chunk in reply.chunks:
            if held is not None:
                await self._wait_for_reader(self.write(held))
            held = chunk
        if self.call is not None and not self.headers_written:
            self._add_cost(self.call)
        await self._end_whole(held or b"")

    async def _end_whole(self, chunk: bytes) -> None:
        """Write the last chunk and finish. Wait for a large one: the request holds its memory until then."""
        if len(chunk) > UNCOUNTED_BYTES:
            if not self.headers_written:
                self.headers["Content-Length"] = str(len(chunk))
            await self.send(chunk)
            chunk = b""
        self.end(chunk)

    async def _write_pieces(self, reply: Reply) -> None:
        """Write each chunk before the next one must be awaited, for streams and audio. The last one is one write with the end."""
        set_nodelay(self.connection)
        read, held = batches.make_batch_reader(reply.chunks), _HeldChunk(self)
        while True:
            try:
                batch = await call_before_wait(read(), held.write)
            except StopAsyncIteration:
                break
            except BaseException:
                held.write()
                raise
            for chunk in batch if len(batch) == 1 else join_frames(batch):
                held.write()
                await self._wait_for_reader(held.take_waiting())
                held.chunk = chunk
        await self._wait_for_reader(held.take_waiting())
        await self._end_whole(held.chunk)

    async def _wait_for_reader(self, waiting: Awaitable[None] | None) -> None:
        """Wait until the caller can receive more, but not beyond the total timeout, because the upstream waits too.

        Raises UpstreamTimeout.
        """
        if waiting is None:
            return
        assert self.call is not None
        try:
            async with asyncio.timeout_at(self.call.progress.ends_at):
                await waiting
        except TimeoutError:
            raise make_unread_error(self.call) from None

    async def _write_stream(self, reply: Reply) -> None:
        self.written_at = time.monotonic()
        seconds = self.ping_seconds or self.snapshot.config.server.keep_alive_seconds
        pings = KeepAliveWriter(self, reply.keep_alive, seconds)
        self.gate.metrics.requests.count_stream_opened()
        try:
            await self._write_pieces(reply)
        finally:
            pings.stop()
            self.gate.metrics.requests.count_stream_closed()

    def fail_late(self, error: GateError) -> None:
        """Send an error that the format did not render.

        After the headers, send it as the last event of a stream, or close the connection.
        """
        if not self.headers_written or "event-stream" not in self.headers.get("Content-Type", ""):
            super().fail_late(error)
            return
        self.error_code = error.code
        assert self.call is not None  # a stream has begun
        self.call.progress.note_error(error)
        wire_format = self.snapshot.formats[self.format]
        self.end(wire_format.translate_error(self.call, error, streaming=True))


def make_unread_error(call: Call) -> UpstreamTimeout:
    """Return the error for a caller who has not read the response before the total timeout of the attempt."""
    name = call.target.provider
    return UpstreamTimeout(
        f"The response of the provider '{name}' was not read before the total timeout. Read it faster."
    )


def _format_losses(losses: list[str]) -> str:
    """Return the names of dropped fields, as far as they fit into a header; ``...`` replaces the rest."""
    text = replace_unprintable(",".join(losses))
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    return text[: text.rfind(",", 0, MAX_TEXT_LENGTH) + 1] + MORE_LOSSES_MARK


class _HeldChunk:
    """A chunk of a stream that is not written yet, because it may be the last one."""

    __slots__ = ("_exchange", "_waiting", "chunk")

    def __init__(self, exchange: AnswerHandler) -> None:
        self._exchange = exchange
        self.chunk = b""
        self._waiting: Awaitable[None] | None = None

    def write(self) -> None:
        """Write the chunk, if there is one."""
        chunk, self.chunk = self.chunk, b""
        if chunk:
            self._waiting = self._exchange.write(chunk)

    def take_waiting(self) -> Awaitable[None] | None:
        """Return the awaitable of the last write, if the caller must read before more is sent."""
        waiting, self._waiting = self._waiting, None
        return waiting


class KeepAliveWriter:
    """A writer of the format's keep-alive when no data was written for `seconds`. It begins the stream if necessary."""

    __slots__ = ("_exchange", "_keep_alive", "_seconds", "_slot", "_wheel")

    def __init__(self, exchange: AnswerHandler, keep_alive: bytes, seconds: float) -> None:
        self._exchange = exchange
        self._keep_alive = keep_alive
        self._seconds = seconds
        self._wheel = get_wheel()
        self._slot = self._start_timer(seconds) if keep_alive and seconds else None

    def stop(self) -> None:
        if self._slot is not None:
            self._wheel.remove(self._slot, self)

    def on_timer(self) -> None:
        silent = time.monotonic() - self._exchange.written_at
        if silent >= self._seconds:
            if not self._exchange.headers_written:
                self._exchange.begin_stream()
            ignore_result(self._exchange.write(self._keep_alive))
            silent = 0.0
        self._slot = self._start_timer(self._seconds - silent)

    def _start_timer(self, seconds: float) -> int:
        return self._wheel.add(self._wheel.loop.time() + seconds, self)
