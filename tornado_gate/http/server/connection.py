"""One client connection: requests are read one after the other, and each gets its response before the next is read.

Memory is bounded: unread data is held, and above `pacing.MAX_HELD_BYTES` reading pauses (back-pressure). A connection has no
task.

A client that closes the connection or its sending half has disconnected. Its handler is notified immediately, as in Tornado's
server, even if the handler writes no data. Requests that were sent before are still served (as in Tornado). Only a client with
more than `pacing.MAX_HELD_BYTES` of such requests is noticed later, when they have been read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from tornado.httputil import HTTPConnection, HTTPInputError, HTTPMessageDelegate
from tornado.iostream import StreamClosedError

from tornado_gate.http.server.body import BodyReader, ChunkedBodyReader, FixedLengthBodyReader
from tornado_gate.http.server.head import CHUNKED, Head, LastHead, find_end, parse, remember_head
from tornado_gate.http.server.limits import ConnectionLimits
from tornado_gate.http.server.pacing import LAST_SECONDS, PacedProtocol, Phase, Times
from tornado_gate.http.server.refusals import (
    HeadersTooLarge,
    Limit,
    Refusals,
    Refused,
    RequestTimeout,
    body_too_large_error,
    find_error,
    too_many_connections_error,
)
from tornado_gate.http.server.response import ConnectionContext, RequestConnection

log = logging.getLogger(__name__)

_NO_LINE = ("", "", "")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Application(Protocol):
    """A HTTPServerConnectionDelegate of Tornado. One that notes something about heads also gets the requests that repeat them."""

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate: ...

    def take_again(self, request_conn: HTTPConnection, note: Any, body: bytes) -> HTTPMessageDelegate | None:
        """Begin a request whose head, apart from its Content-Length, has the `note` of an earlier one. Return its delegate.

        Return None, without an effect, if it must be started by `start_request`.
        """

    def on_close(self, server_conn: object) -> None: ...


class ConnectionOwner(Protocol):
    """The server of a connection: `front.HttpServer`."""

    done: asyncio.Future[None]
    application: Application
    times: Times
    header_bytes: int
    body_bytes: int
    limits: ConnectionLimits
    refusals: Refusals
    retiring: bool
    stopping: bool

    def on_connected(self, connection: ServerConnection, address: str) -> bool: ...
    def on_disconnected(self, connection: ServerConnection) -> None: ...


class ServerConnection(PacedProtocol):
    """The transport's side of a connection; `RequestConnection` is the application's side."""

    __slots__ = (
        "_body",
        "_context",
        "_delegate",
        "_head",
        "_last_head",
        "_request",
        "_seen",
        "_server",
        "_then",
    )

    _context: ConnectionContext

    def __init__(self, server: ConnectionOwner, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, server.times.stall_seconds)
        self._server = server
        self._seen = 0  # number of held bytes already searched for the end of a head
        self._head: Head | None = None
        self._last_head: LastHead | None = None
        self._body: BodyReader | None = None
        self._request: RequestConnection | None = None
        self._delegate: HTTPMessageDelegate | None = None
        self._then: Callable[[], None] | None = None

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        # As in Tornado: a Unix socket has no address.
        self._context = ConnectionContext(peer[0] if isinstance(peer, tuple) else "0.0.0.0", "http")
        if self._server.on_connected(self, self._context.remote_ip):
            self._limit_time(LAST_SECONDS if self._server.stopping else self._server.times.first_head_seconds)
        else:
            self._refuse_connection()

    def data_received(self, data: bytes) -> None:
        last = self._last_head
        if last is not None and self._phase is Phase.HEAD and not self._held and self._receive_again(last, data):
            return
        if self._phase is Phase.LINGER or self._phase is Phase.GONE:
            self._discard(data)
            return
        self._held = self._held + data if self._held else data
        if not self._scheduled:
            self._advance()
        if self._held or self._reading_paused:
            self._pause_or_resume_reading()

    def eof_received(self) -> bool:
        """Return True to keep the connection open for requests that the client sent before."""
        self._eof = True
        if self._phase is Phase.ANSWER and not self._held:
            self._on_lost()
        return self._phase in (Phase.WAIT, Phase.CUT, Phase.ANSWER, Phase.DRAIN) or self._scheduled

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()
        self._server.on_disconnected(self)
        self._server.limits.release(self)

    def _on_writable(self) -> None:
        """Continue when the client has received all data that was written."""
        if self._phase is Phase.DRAIN:
            self._expect_head()

    # Called by a response

    @property
    def is_stopping(self) -> bool:
        """Return whether the current response is the last of the connection."""
        return self._server.retiring

    def on_response_complete(self) -> None:
        """Continue after the complete response. If the request body is incomplete, the connection ends."""
        phase = self._phase
        if phase is Phase.ANSWER:
            self._expect_next_request()
        elif phase is Phase.BODY:
            self._phase = Phase.CUT
            self._loop.call_soon(self._abandon_request_body)  # later: the delegate may be inside of data_received

    def abort(self) -> None:
        """Close immediately and discard unsent data."""
        self._transport.abort()

    def switch_protocol(self, protocol: asyncio.Protocol) -> Callable[[], None]:
        """Hand the transport to another protocol, with the data that the client has sent after its request.

        The server no longer closes the connection, but counts it until the returned function is called. Raises
        StreamClosedError if the client has disconnected.
        """
        if self._phase is Phase.GONE:
            raise StreamClosedError
        assert self._phase is Phase.ANSWER, "the request is incomplete"
        transport, unread, slow = self._transport, self._held, self._waiters is not None
        if self._reading_paused:
            transport.resume_reading()
        self._on_lost()
        self._server.on_disconnected(self)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if slow:
            protocol.pause_writing()
        if unread:
            protocol.data_received(unread)
        if self._eof and not protocol.eof_received():
            transport.close()
        return lambda: self._server.limits.release(self)

    def close_if_idle(self) -> None:
        """Close the connection if it only waits for another request; called when the server stops."""
        if self._phase is Phase.HEAD and not self._held and not self._has_unread_input():
            self._close_when_written()

    def abort_if_idle(self) -> bool:
        """Close the connection immediately if it only waits for a request. Return whether it did."""
        if self._phase is not Phase.HEAD or self._has_unread_input():
            return False
        self._transport.abort()
        return True

    @property
    def waits_until(self) -> float | None:
        """Return the time, on the loop's clock, when a connection without a request is closed; None if it has a request."""
        return self._deadline if self._phase is Phase.HEAD and not self._transport.is_closing() else None

    # Requests

    def _advance(self) -> None:
        """Read held data as far as the phase allows."""
        self._scheduled = False
        try:
            if self._phase is Phase.HEAD:
                self._read_head()
            if self._phase is Phase.BODY:
                self._read_body()
        except HTTPInputError as error:
            self._refuse(error)
        except Exception:
            self._abort_after_failure()
        if self._eof and not self._scheduled:
            self._handle_eof()
        if self._reading_paused:
            self._pause_or_resume_reading()  # the held data may have been read without waiting

    def _read_head(self) -> None:
        held, last = self._held, self._last_head
        if last is not None and (end := last.find_end(held)) > 0:
            self._seen = 0
            if not self._receive_again(last, held):
                self._held = held[end:]
                self._begin_request(last.head)
            return
        first = 0
        if held.startswith(b"\r"):  # RFC 9112 2.2: one empty line before a request is allowed
            if len(held) < 4:
                return
            first = 2 if held.startswith(b"\r\n") else 0
        end = find_end(held, self._seen)
        if (end if end >= 0 else len(held)) > self._server.header_bytes:
            limit = self._server.header_bytes
            raise Refused(
                HeadersTooLarge(f"Request line and headers exceed the limit of {limit} bytes. Send fewer headers.")
            )
        if end < 0:
            self._seen = len(held)
            return
        self._seen = 0
        data = held[first:end]
        head = parse(data)
        self._held = held[end:]
        self._begin_request(head)
        self._last_head = remember_head(data, head)

    def _receive_again(self, last: LastHead, data: bytes) -> bool:
        """Receive a whole request with the head of the last one. Return False, without an effect, for any other data."""
        end = last.find_end(data)
        head = last.head
        stop = end + head.body
        if end < 0 or stop > len(data):
            return False
        try:
            if not self._repeat_request(head, data[end:stop], data[stop:]):
                return False
        except Exception:
            self._abort_after_failure()
        if self._held:
            self._pause_or_resume_reading()
        return True

    def _repeat_request(self, head: Head, body: bytes, rest: bytes) -> bool:
        """Give the application a request with a head that it has noted, and with its whole body. `rest` has arrived after it.

        Return False, without an effect, if the application takes it only step by step.
        """
        server, held = self._server, self._held
        request = RequestConnection(self, self._context, head, server.done)
        self._request = request
        self._held = rest
        self._phase = Phase.ANSWER
        self._deadline = None
        delegate = server.application.take_again(request, head.headers.note, body)
        if delegate is None:
            self._request, self._held, self._phase = None, held, Phase.HEAD
            return False
        if self._request is request:  # the response is not complete
            self._delegate = delegate
        return True

    def _begin_request(self, head: Head) -> None:
        server = self._server
        self._deadline = None  # handlers have no time limit here
        self._phase = Phase.WAIT
        self._head = head
        request = self._request = RequestConnection(self, self._context, head, server.done)
        request.max_body_size = server.body_bytes
        request.body_seconds = server.times.body_seconds
        held = self._held
        has_whole_body = request.has_whole_body = 0 < head.body <= len(held) and "expect" not in head.headers.lowered
        delegate = self._delegate = server.application.start_request(self, request)
        waiting = delegate.headers_received(head.start_line, head.headers)
        if waiting is not None:
            self._wait(waiting, self._begin_body)
        elif has_whole_body and not request.finished and head.body <= request.max_body_size:
            self._take_whole_body(head.body)
        else:
            self._begin_body()

    def _take_whole_body(self, size: int) -> None:
        """Give the application a body that has arrived together with its head."""
        held, delegate = self._held, self._delegate
        assert delegate is not None
        self._phase = Phase.BODY
        self._held = held[size:]
        waiting = delegate.data_received(held[:size])
        if waiting is not None:
            self._phase = Phase.WAIT
            self._wait(waiting, self._on_whole_body_taken)
        elif self._phase is Phase.BODY:
            self._on_request_complete()

    def _on_whole_body_taken(self) -> None:
        """Continue after the application has taken the whole body, for which it has waited."""
        request = self._request
        assert request is not None
        if request.finished:
            self._abandon_request_body()
        else:
            self._on_request_complete()

    def _begin_body(self) -> None:
        head, request = self._head, self._request
        assert head is not None
        assert request is not None
        if request.finished:
            self._abandon_request_body()
            return
        if head.body == 0:
            self._on_request_complete()
            return
        if head.body > request.max_body_size:
            raise Refused(body_too_large_error())
        if "expect" in head.headers.lowered and head.start_line.version == "HTTP/1.1" and not request.started:
            self._transport.write(_CONTINUE)
        self._body = ChunkedBodyReader() if head.body == CHUNKED else FixedLengthBodyReader(head.body)
        self._phase = Phase.BODY
        if request.body_seconds is not None:
            self._limit_time(request.body_seconds)

    def _read_body(self) -> None:
        body, request, delegate = self._body, self._request, self._delegate
        assert body is not None
        assert request is not None
        assert delegate is not None
        piece, used = body.take(self._held, request.max_body_size)
        self._held = self._held[used:]
        waiting = delegate.data_received(piece) if piece else None
        if waiting is not None:
            self._phase = Phase.WAIT
            self._wait(waiting, self._on_body_chunk_taken)
        elif self._phase is Phase.BODY:
            self._on_body_chunk_taken(bool(used))

    def _on_body_chunk_taken(self, used: bool = True) -> None:
        """Continue after the application has taken a chunk of the body."""
        request, body = self._request, self._body
        assert request is not None
        assert body is not None
        if request.finished:
            self._abandon_request_body()
        elif body.done:
            self._on_request_complete()
        else:
            self._phase = Phase.BODY
            if used and self._held:
                self._schedule()

    def _on_request_complete(self) -> None:
        self._phase = Phase.ANSWER
        self._deadline = None
        self._body = self._head = None
        delegate = self._delegate
        assert delegate is not None
        delegate.finish()

    # Waiting for the application

    def _wait(self, waiting: Awaitable[None], then: Callable[[], None]) -> None:
        self._then = then
        asyncio.ensure_future(waiting).add_done_callback(self._on_waited)

    def _on_waited(self, future: asyncio.Future[None]) -> None:
        then, self._then = self._then, None
        assert then is not None
        try:
            future.result()
            if self._phase is Phase.GONE:
                self._tell_delegate()  # the client has disconnected while the application waited
                self._request = self._delegate = None
            else:
                then()
        except HTTPInputError as error:
            self._refuse(error)
        except (Exception, asyncio.CancelledError):
            self._abort_after_failure()
        if not self._scheduled:
            self._advance()
        self._pause_or_resume_reading()

    # After the response

    def _expect_next_request(self) -> None:
        """Close the connection or wait for the next request, after request and response are complete."""
        request: Any = self._request  # a RequestConnection
        self._request = self._delegate = None
        if not request.keep:
            self._close_when_written()
        elif self._waiters is not None:
            self._phase = Phase.DRAIN
            self._limit_drain()
        else:
            self._expect_head()

    def _expect_head(self) -> None:
        """Wait for a request; only a short time if the server stops, but the head of the response has promised to wait."""
        self._phase = Phase.HEAD
        self._limit_time(LAST_SECONDS if self._server.stopping else self._server.times.idle_seconds)
        if self._held or self._eof:
            self._schedule()
            self._pause_or_resume_reading()

    def _abandon_request_body(self) -> None:
        """Skip the remainder of a request to which the application has responded before its end."""
        if self._phase not in (Phase.CUT, Phase.WAIT):
            return
        is_complete = self._head is not None and self._head.body == 0
        self._head = self._body = None
        self._tell_delegate()
        if is_complete:
            self._expect_next_request()
        else:
            self._request = self._delegate = None
            self._close_gracefully()

    def _handle_eof(self) -> None:
        if self._phase is Phase.HEAD:
            self._close_when_written()
        elif self._phase is Phase.BODY:
            self._transport.abort()
        elif self._phase is Phase.ANSWER and not self._held:
            self._loop.call_soon(self._on_client_left)  # after the handler's first await, as in Tornado

    def _on_client_left(self) -> None:
        if self._phase is Phase.ANSWER and not self._held:
            self._on_lost()
            self._transport.close()

    # Ends

    def _refuse(self, error: HTTPInputError) -> None:
        """Send an error for an invalid request, unless a response has begun, and close.

        If the application has the request, it sends the error.
        """
        log.info("malformed request from %s: %s", self._context, error)
        request, refusal = self._request, find_error(error)
        if request is not None and request.started:
            self._end_request(request)
            self._transport.abort()
            return
        refuse = getattr(self._delegate, "refuse", None)
        if refuse is not None and refuse(refusal):
            self._abandon_request_body()
            return
        fields, (method, path, _) = (
            ({}, _NO_LINE) if self._head is None else (self._head.headers.lowered, self._head[0])
        )
        if request is not None:
            self._end_request(request)
        self._transport.write(self._server.refusals.answer(refusal, fields, method, path))
        self._close_gracefully()

    def _end_request(self, request: RequestConnection) -> None:
        self._tell_delegate()
        self._request = self._delegate = None
        request.end()

    def _refuse_connection(self) -> None:
        """Close a connection beyond the limits; with a 503, unless many such connections are already closing."""
        if self._server.limits.may_linger(self):
            self._transport.write(self._server.refusals.answer(too_many_connections_error(), {}, "", ""))
            self._close_gracefully()
        else:
            self._phase = Phase.GONE
            self._transport.abort()

    def _on_timeout(self) -> None:
        """Send 408 because the head or the body has not arrived in time, or close if no request has begun."""
        waits_for_head = self._phase is Phase.HEAD
        if waits_for_head and not self._held and self._has_unread_input():
            self._limit_time(LAST_SECONDS)
            return
        if not (waits_for_head and self._held) and self._phase is not Phase.BODY:
            self._transport.abort()
            return
        self._server.refusals.on_limit(Limit.HEAD_TIME if waits_for_head else Limit.BODY_TIME, str(self._context))
        part = "head" if waits_for_head else "body"
        self._refuse(
            Refused(RequestTimeout(f"The {part} of the request did not arrive in time. Send the request again."))
        )

    def _on_stalled(self) -> None:
        self._server.refusals.on_limit(Limit.STALLED, str(self._context))
        self._transport.abort()

    def _abort_after_failure(self) -> None:
        """Abort the connection after an unexpected exception of the application."""
        log.exception("unexpected error in the application; the connection is closed")
        if self._request is not None:
            self._request.end()
        self._tell_delegate()
        self._request = self._delegate = None
        self._transport.abort()
        self._on_lost()

    def _on_lost(self) -> None:
        """Notify the application, once, that the connection has ended."""
        previous, self._phase = self._phase, Phase.GONE
        if previous is Phase.GONE:
            return
        self._held = b""
        request = self._request
        if request is not None:
            callback = request.close_callback
            request.end()
            if previous is Phase.ANSWER and callback is not None:
                self._call_safely(callback)
        if previous in (Phase.BODY, Phase.CUT):
            self._tell_delegate()
        if previous is not Phase.WAIT:
            self._request = self._delegate = None
        self._stop_timing()

    def _tell_delegate(self) -> None:
        if self._delegate is not None:
            self._call_safely(self._delegate.on_connection_close)

    @staticmethod
    def _call_safely(callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            log.exception("unexpected error in the application after its client had disconnected")
