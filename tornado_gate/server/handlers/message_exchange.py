"""One request that arrived as a WebSocket message, served as over HTTP.

`MessageExchange` is an `AnswerHandler` on a `MessageConnection`, which passes the response to the format's adapter and its
messages to the WebSocket. So authentication, limits, the pipeline, metrics and the access log are the same as over HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final

import orjson
from tornado.httputil import HTTPHeaders, RequestStartLine
from tornado.iostream import StreamClosedError

from tornado_gate.admission.body_budget import SMALL_BYTES
from tornado_gate.errors import GateError, InternalError, Unavailable, UpstreamError
from tornado_gate.http.websocket.connection import WebSocketConnection
from tornado_gate.pipeline.explain import check_request
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.server.handlers.answer import AnswerHandler
from tornado_gate.server.handlers.exchange import CallerRequest
from tornado_gate.server.services import Services
from tornado_gate.storage.files import MediaFile
from tornado_gate.streams import sse
from tornado_gate.targets.routing import MatchedRoute
from tornado_gate.types import Call, Reply, SocketRequest, WireRequest

EVENT_STREAM: Final = "text/event-stream"
_SHOWN_HEADERS: Final = ("x-request-id", "x-gate-", "x-ratelimit-", "retry-after")
"""The first characters of the names of response headers that a caller can use."""


class MessageContext:
    """The attributes of the caller's connection that the access log and links need, as in Tornado's HTTPServerRequest."""

    def __init__(self, remote_ip: str, protocol: str) -> None:
        self.remote_ip = remote_ip
        self.protocol = protocol


class MessageConnection:
    """The connection of one request (a `CallerConnection`): it sends the response as messages. Any number share a WebSocket."""

    def __init__(self, socket: WebSocketConnection, message: SocketRequest, context: MessageContext) -> None:
        self.context = context
        self._socket = socket
        self._message = message
        self._is_stream = False

    def set_close_callback(self, callback: object) -> None:
        """Do nothing: the session cancels its requests when the connection is lost."""

    def set_max_body_size(self, max_body_size: int) -> None:
        """Do nothing: the session limits messages."""

    def send_head(self, status: int, reason: str, headers: Mapping[str, str], chunk: bytes) -> Awaitable[None] | None:
        """Begin the response. Return an awaitable if the caller reads slowly, else None."""
        lowered = {name.lower(): value for name, value in headers.items()}
        shown = {name: value for name, value in lowered.items() if name.startswith(_SHOWN_HEADERS)}
        if status >= 300:
            return self._write(self._message.render_error(status, chunk, shown))
        if not lowered.get("content-type", "").startswith(EVENT_STREAM):
            return self._write(self._message.render_error(502, _render_error(UpstreamError(_NO_STREAM)), shown))
        self._is_stream = True
        self._message.begin(shown)
        return self.send(chunk)

    def send(self, chunk: bytes) -> Awaitable[None] | None:
        """Send the events in a chunk, which are complete. Comments, which keep an HTTP connection alive, are no messages."""
        if not self._is_stream or not chunk:
            return None
        frames = [frame for raw in sse.split(chunk) if (frame := sse.parse(raw)) is not None]
        rendered = [self._message.render_event(frame.data) for frame in frames]
        return self._write(*[text for text in rendered if text is not None])

    def finish(self) -> None:
        """Do nothing: the end of a response is its last event."""

    def close(self) -> None:
        """End the response early, after an unexpected error."""
        if not self._is_stream:
            return
        text = self._message.render_event(_render_error(InternalError()))
        if text is not None:
            self._write(text)

    async def write(self, chunk: bytes) -> None:
        """Send a chunk like `send`, and wait until the caller can receive more."""
        waiting = self.send(chunk)
        if waiting is not None:
            await waiting

    async def write_headers(self, start_line: object, headers: HTTPHeaders, chunk: bytes | None = None) -> None:
        raise NotImplementedError("`send_head` is called instead")

    def _write(self, *texts: str) -> Awaitable[None] | None:
        try:
            return self._socket.write_all(texts) if texts else None
        except ConnectionError:
            raise StreamClosedError from None


_NO_STREAM = "The response is not a stream, which a WebSocket needs."


def _render_error(error: GateError) -> bytes:
    return orjson.dumps({"error": error.body()})


class MessageExchange(AnswerHandler):
    """A request from one `SocketRequest`. Call `run` once. It needs no keep-alives, because a WebSocket has its own."""

    begins_early = False

    def __init__(
        self,
        services: Services,
        request: CallerRequest,
        matched: MatchedRoute,
        message: SocketRequest,
        key_digest: bytes,
        request_id: str,
    ) -> None:
        super().__init__(services, request, matched)
        self.request_id = request_id
        self.clear()
        self.key_digest = key_digest
        self.message = message

    async def run(self) -> None:
        """Run the request. Cancelling it closes the upstream connection immediately."""
        try:
            await self._receive()
            if not self.finished:
                self.finish()
            if self.work is not None:
                await asyncio.wait([self.work])
        except asyncio.CancelledError:
            self.on_connection_close()
            raise

    async def _receive(self) -> None:
        """Check the key and the limits, then take the body as if it arrived over HTTP."""
        preparing = self.headers_received(RequestStartLine("POST", self.request.path, "HTTP/1.1"), self.request.headers)
        if preparing is not None:
            await preparing
        if self.finished:
            return
        try:
            if self.message.size > SMALL_BYTES:
                raw = await self.gate.worker.run(self.caller.account, self.message.make_body)
            else:
                raw = self.message.make_body()
        except GateError as error:
            self.fail(error)
            return
        except Exception:
            self.log_exception()
            self.fail(InternalError())
            return
        waiting = self.data_received(raw)
        if waiting is not None:
            await waiting

    def prepare(self) -> Awaitable[None] | None:
        """Prepare as for HTTP; the key and the headers were read at the handshake."""
        self.limit = self.snapshot.config.limits.body_bytes
        if self.gate.readiness.is_closing:
            raise Unavailable("The gateway is shutting down. Connect again.", code="shutting_down")
        caller = self.gate.callers.find_cached(self.key_digest)
        if caller is None:
            return self._authenticate_by_store(self.key_digest, is_form=False)
        self._admit(caller, self.key_digest, is_form=False)
        return None

    def make_answer(self, call: Call, wire: WireRequest) -> Awaitable[PreparedAnswer | MediaFile]:
        return self._check(call, wire) if self.message.only_checked else super().make_answer(call, wire)

    async def _check(self, call: Call, wire: WireRequest) -> PreparedAnswer:
        checked = await check_request(self.gate, self.snapshot, call, wire)
        chunks = self.message.render_checked(checked.model)
        return PreparedAnswer(checked, Reply(content_type=EVENT_STREAM, chunks=chunks))
