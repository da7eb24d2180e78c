"""Every request -> reply route of every format, streamed or not."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import replace

from tornado.iostream import StreamClosedError

from tornado_gate import pipeline, stream
from tornado_gate.errors import GateError, InternalError
from tornado_gate.handlers.files import FileHandler
from tornado_gate.handlers.keyed import KeyedHandler
from tornado_gate.types import Call, Reply
from tornado_gate.types.call import MORE_LOSSES

log = logging.getLogger(__name__)

LONGEST_HEADER = 4096
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class AnswerHandler(KeyedHandler, FileHandler):
    """Ask the pipeline, write the reply at the reader's pace; leave nothing open."""

    async def answer(self) -> None:
        """One request; what it opened is closed whatever happens."""
        with self.gate.using(self.snapshot):
            async with AsyncExitStack() as closing:
                call = self.call = replace(self.known_call, closing=closing)
                try:
                    answer = await pipeline.answer(self.gate, self.snapshot, call, await self.wire())
                    if answer.file is not None:
                        await self.send_file(self.gate.videos, answer.file.id, time.time())
                        return
                except GateError as error:
                    self.fail(error)
                    return
                assert answer.reply is not None, "an answer that is no file is a reply"
                self.call = answer.call
                call.meter.first_event_seconds = time.monotonic() - self.started
                closing.push_async_callback(stream.close, answer.reply.chunks)
                await self._write(answer.reply)

    async def _write(self, reply: Reply) -> None:
        self.set_status(reply.status)
        self.set_header("Content-Type", reply.content_type)
        for name, value in reply.headers.items():
            self.set_header(name, value)
        self._set_own_headers(self.known_call)
        try:
            if reply.content_type.startswith("text/event-stream"):
                await self._write_stream(reply)
            elif reply.content_type.startswith("application/json"):
                await self._write_whole(reply)
            else:
                await self._write_bytes(reply)
        except StreamClosedError:
            pass  # the caller left while we wrote
        except GateError as error:
            self._fail_late(error)
        except Exception:
            self.log_exception(*sys.exc_info())
            self._fail_late(InternalError())

    def _set_own_headers(self, call: Call) -> None:
        if call.target.provider:
            self.set_header("x-gate-provider", call.target.provider)
            self.set_header("x-gate-model", _printable(call.target.upstream_model))
        if call.losses:
            self.set_header("x-gate-loss", _listed(call.losses))
        for name, value in self.rate_headers.items():
            self.set_header(name, value)
        if call.meter.attempts > 1:
            self.set_header("x-gate-attempts", str(call.meter.attempts))

    async def _write_whole(self, reply: Reply) -> None:
        """One chunk gets a Content-Length; more are passed on as they come."""
        held: bytes | None = None
        async for chunk in reply.chunks:
            if held is not None:
                await self._send(held)
            held = chunk
        self.sent_bytes += len(held or b"")
        self.finish(held)

    async def _write_bytes(self, reply: Reply) -> None:
        """Sound and the like: whoever plays it wants each piece as soon as it is there."""
        self.connection.stream.set_nodelay(True)
        async for chunk in reply.chunks:
            await self._send(chunk)
        self.finish()

    async def _write_stream(self, reply: Reply) -> None:
        self.connection.stream.set_nodelay(True)  # an event is small, and must not wait for an acknowledgement
        pings = _Pings(self, reply.keep_alive, self.snapshot.config.server.keep_alive_seconds)
        self.gate.metrics.stream_opened()
        try:
            async for chunk in reply.chunks:
                pings.written()
                await self._send(chunk)
        finally:
            pings.stop()
            self.gate.metrics.stream_closed()
        self.finish()

    async def _send(self, chunk: bytes) -> None:
        self.sent_bytes += len(chunk)
        self.write(chunk)
        await self.flush()

    def _fail_late(self, error: GateError) -> None:
        """A failure that the format did not render itself. Before the headers went out it is an ordinary answer."""
        if not self._headers_written:
            self.fail(error)
            return
        wire_format = self.snapshot.formats[self.format]
        if "event-stream" not in str(self._headers.get("Content-Type")):
            self.connection.close()  # half an answer must not look whole
            return
        self.finish(wire_format.translate_error(self.call, error, streaming=True))


def _listed(losses: list[str]) -> str:
    """As many names as a header has room for; dots say that there are more."""
    text = _UNPRINTABLE.sub("?", ",".join(losses))
    if len(text) <= LONGEST_HEADER:
        return text
    return text[: text.rfind(",", 0, LONGEST_HEADER) + 1] + MORE_LOSSES


def _printable(text: str) -> str:
    """What callers wrote, as a header may hold it: names of fields and models can be anything."""
    return _UNPRINTABLE.sub("?", text[:LONGEST_HEADER])


class _Pings:
    """Writes the format's keep-alive when nothing was written for a while, between whole chunks."""

    def __init__(self, handler: AnswerHandler, keep_alive: bytes, seconds: float) -> None:
        self._handler = handler
        self._keep_alive = keep_alive
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._look) if keep_alive and seconds else None

    def written(self) -> None:
        self._last = self._loop.time()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if now - self._last >= self._seconds:
            self._handler.write(self._keep_alive)
            self._handler.flush()
            self._last = now
        self._timer = self._loop.call_later(self._last + self._seconds - now, self._look)
