"""One connection to an upstream: sends a request, parses the response, and is then reused or closed.

It is reused only if the response ended exactly where its head defines, no data followed, and the whole request had been sent:
otherwise the next response could belong to another request.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Protocol, cast

import httptools

from tornado_gate.http.client.content_coding import make_inflater
from tornado_gate.http.client.direct_body import LAST_BYTES, DirectBody
from tornado_gate.http.client.faults import ConnectionBroken, MalformedResponse
from tornado_gate.http.client.head import (
    HEADER_NAMES,
    IDLE_SECONDS,
    announces_body,
    parse_idle_seconds,
)
from tornado_gate.http.client.request import Origin
from tornado_gate.http.client.response import MAX_LENGTH_DIGITS, HttpResponse

UNREAD_BYTES = 64 * 1024
"""Above this many unread bytes, reading from the network pauses until the reader continues (back-pressure)."""

HEAD_BYTES = 64 * 1024
"""Maximum size of a head, and of trailers and other data outside of the body."""

JOIN_BYTES = 16 * 1024
"""Up to this size, head and body are joined; a longer body is passed to the kernel beside its head, which saves a copy of it."""

MIN_BYTES_PAST_PARSER = 128 * 1024
"""If at least this much of a sized body is missing, the rest bypasses the parser, which would copy every byte."""

MAX_GATHERED_BYTES = 8 * 1024 * 1024
"""The maximum size of a body that is given to its reader in one piece: nothing may work on a longer one without a pause."""


class SizedBody(Protocol):
    """A body that is sent in chunks; `length` in bytes."""

    @property
    def length(self) -> int: ...

    def chunks(self) -> AsyncIterator[bytes]: ...


class ConnectionOwner(Protocol):
    """The pool, which is notified when a connection becomes idle or is lost."""

    def on_connection_idle(self, connection: ClientConnection) -> None: ...
    def on_connection_lost(self, connection: ClientConnection) -> None: ...


class ClientConnection(asyncio.Protocol):
    """A connection that `loop.create_connection` creates. `begin_request` is called for one request at a time."""

    __slots__ = (
        "_answer",
        "_bodiless",
        "_bounded",
        "_came",
        "_direct",
        "_head",
        "_headers",
        "_home",
        "_input",
        "_keep",
        "_left",
        "_length",
        "_loop",
        "_parser",
        "_sender",
        "_silent",
        "_transport",
        "_writable",
        "answered",
        "idle_seconds",
        "on_body",
        "origin",
    )

    def __init__(
        self,
        home: ConnectionOwner,
        origin: Origin,
        loop: asyncio.AbstractEventLoop,
        opened: socket.socket | None = None,
    ) -> None:
        """Create a connection. `opened` is the socket of the transport; without it `has_input` cannot look at it."""
        self.origin = origin
        self.idle_seconds = IDLE_SECONDS  # the time for which the upstream keeps an idle connection open
        self.answered = 0  # complete responses after which the connection stayed open
        self._input: select.poll | None = None  # looks at the socket without reading; takes a microsecond
        if opened is not None:
            self._input = select.poll()
            self._input.register(opened, select.POLLIN)
        self._home = home
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answer: HttpResponse | None = None
        self._bodiless = False
        self._bounded = False  # the response's head defines where its body ends
        self._keep = False
        self._headers: dict[str, str] = {}  # headers of the response, until its head is complete; then trailers, unread
        self._head = 0  # `_silent` before the current data, plus the headers parsed from it
        self._silent = 0  # bytes received since the last byte of a body
        self._came: list[bytes] = []  # the response's body, until it is read or complete; else data to discard
        # The parser calls this directly, without a method of this class: one read may hold hundreds of chunks.
        self.on_body: Callable[[bytes], None] = self._came.append
        self._length = ""  # Content-Length, until the first bytes of the body arrive
        self._left = 0  # bytes of the body still missing that bypass the parser
        self._direct: DirectBody | None = None  # the buffer of a body that is given in one piece
        self._sender: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether `on_connection_lost` has not been called yet."""
        return self._transport is not None

    @property
    def is_usable(self) -> bool:
        """Return whether the connection is open and not closing."""
        return self._transport is not None and not self._transport.is_closing()

    def has_input(self) -> bool:
        """Return whether data or the end of the connection has arrived and is unread: the upstream has closed an idle connection.

        The event loop reports it only after its next poll, when a request may already have been written.
        """
        return self._input is not None and bool(self._input.poll(0))

    def begin_request(self, head: bytes, body: bytes | SizedBody, *, bodiless: bool = False) -> HttpResponse:
        """Send a request and return its response, whose head has not arrived; it may have a fault already.

        `bodiless`: the response has no body, as for HEAD.
        """
        self._answer = answer = HttpResponse(self, self._loop, self._came)
        self._headers = answer.headers
        self._bodiless = bodiless
        self._keep = False
        self._silent = 0
        self._length = ""
        transport = self._transport
        if transport is None:
            answer.fail(ConnectionBroken("the connection was closed before it was used", unanswered=True, unsent=True))
        elif not isinstance(body, bytes):
            transport.write(head)
            self._sender = self._loop.create_task(self._send_pieces(body))
        elif len(body) <= JOIN_BYTES:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        return answer

    # Called by the response's reader.

    def gather_body(self, hold: Callable[[int], None]) -> int:
        """Begin to gather the body, see `HttpResponse.gather_body`."""
        missing = self._left or int(self._length or 0)
        size = missing + sum(map(len, self._came))
        transport = self._transport
        if missing < MIN_BYTES_PAST_PARSER or size > MAX_GATHERED_BYTES or transport is None:
            return 0
        hold(size)
        self._left, self._length = missing, ""
        self._direct = DirectBody(self, self._loop, self._came, missing)
        self._came.clear()
        transport.set_protocol(self._direct)
        transport.resume_reading()
        return size

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close immediately and discard unsent data."""
        self._stop_sending()
        if self._transport is not None:
            self._transport.abort()

    # Sending.

    async def _send_pieces(self, body: SizedBody) -> None:
        """Send all of `body` with back-pressure; a response may arrive during it."""
        pieces, missing = body.chunks(), body.length
        try:
            async for piece in pieces:
                missing -= len(piece)
                if missing < 0 or self._transport is None:
                    break
                self._transport.write(piece)
                if self._writable is not None:
                    await self._writable
            if missing and self._transport is not None:
                raise ValueError(f"the body differs from its length by {abs(missing)} bytes or more")
            self._sender = None
        except Exception as error:
            self._sender = None
            self._fail_response(ConnectionBroken(f"the request's body failed: {type(error).__name__}: {error}"))
        finally:
            closing = getattr(pieces, "aclose", None)
            if closing is not None:
                await closing()

    def _stop_sending(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = self._new_parser()

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # RFC 9112 2.2 and 7.1: deviations that a recipient may accept.
        parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        return parser

    def data_received(self, data: bytes) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None:
            self.abort()  # data without a request
            return
        came = self._came
        before = len(came)
        self._head = self._silent
        self._silent += len(data)
        try:
            if self._left:
                self._append_past_parser(answer, data)
            else:
                parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keep = False
            if not answer.ended:
                self._fail_response(MalformedResponse(str(error.__context__ or error)))
                return
        if answer.ended:
            self._finish_response()
        elif len(came) > before:
            self._silent = 0
            if self._length:
                self._decide_parser_bypass()
            answer.size += len(data)
            if answer.size > UNREAD_BYTES and not answer.paused and self._transport is not None:
                answer.paused = True
                self._transport.pause_reading()
        elif self._silent > HEAD_BYTES:
            self._fail_response(MalformedResponse("more than 64 KiB of data outside of the body"))
        if answer.status and (answer.waiter is not None or answer.listener is not None):
            answer.notify_change()

    def _decide_parser_bypass(self) -> None:
        """Decide whether the remaining body bypasses the parser, after the first bytes of an incomplete body."""
        missing = int(self._length) - sum(map(len, self._came))
        self._length = ""
        if missing >= MIN_BYTES_PAST_PARSER:
            self._left = missing

    def _append_past_parser(self, answer: HttpResponse, data: bytes) -> None:
        """Append data of a sized body without the parser; pass data after the body to the parser. Raises the parser's errors."""
        missing, direct = self._left, self._direct
        append = self._came.append if direct is None else direct.append
        if len(data) < missing:
            append(data)
            self._left -= len(data)
            return
        append(data[:missing])
        if direct is not None:
            self._came.append(direct.take())
            self._direct = None
        self._left = 0
        answer.end()
        self._parser = self._new_parser()  # the old one still expects this body
        if len(data) > missing:
            self._parser.feed_data(data[missing:])

    # Called by the buffer of a body.

    def on_nearly_whole(self) -> None:
        self._left, self._silent = LAST_BYTES, 0
        if self._transport is not None:
            self._transport.set_protocol(self)

    def on_progress(self) -> None:
        if self._answer is not None:
            self._answer.notify_change()

    def eof_received(self) -> None:
        answer = self._answer
        if answer is None:
            self.abort()
        elif answer.status and not self._bounded and self._is_end_authentic():
            self._keep = False
            answer.end()
            self._finish_response()
            answer.notify_change()
        else:
            self._fail_response(self._make_broken_fault("the upstream closed the connection", answer))

    def _is_end_authentic(self) -> bool:
        """Return whether the upstream itself ended the connection: over TLS, an attacker could have ended the TCP connection."""
        tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        if tls is None:
            return True
        try:
            return not tls.read(1)
        except ssl.SSLZeroReturnError:
            return True
        except ssl.SSLError:
            return False

    def _make_broken_fault(self, reason: str, answer: HttpResponse) -> ConnectionBroken:
        """Return the fault for a connection that ended. Call it while the state of sending is known."""
        unanswered = not self._silent and not answer.status
        transport = self._transport
        unwritten = transport is not None and transport.get_write_buffer_size() > 0
        incomplete = self._sender is not None or self._writable is not None or unwritten
        return ConnectionBroken(reason, unanswered=unanswered, unsent=unanswered and incomplete)

    def connection_lost(self, exc: Exception | None) -> None:
        answer = self._answer
        fault = None if answer is None else self._make_broken_fault(f"the connection broke: {exc or 'closed'}", answer)
        self._transport = self._parser = self._input = self._direct = None
        self._stop_sending()
        self.resume_writing()
        if fault is not None:
            self._fail_response(fault)
        self._home.on_connection_lost(self)

    def _finish_response(self) -> None:
        """End a complete response: return the connection to the pool, or close it."""
        answer, transport = self._answer, self._transport
        self._answer = None
        self._came.clear()  # data after the response
        if not self._keep or self._sender or self._writable or transport is None or transport.get_write_buffer_size():
            self.abort()
            return
        if answer is not None and answer.paused:
            self.resume()  # otherwise the end of the connection would go unnoticed
        self.answered += 1
        self._home.on_connection_idle(self)

    def _fail_response(self, fault: ConnectionBroken | MalformedResponse) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.fail(fault)
        self.abort()

    # Called by the parser. Data after the end of a response is ignored, and the connection is not reused.

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.ended:
            self._keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._silent > HEAD_BYTES:  # otherwise the limit cannot be exceeded
            self._head += len(name) + len(value) + 4
            if self._head > HEAD_BYTES:
                raise MalformedResponse("more than 64 KiB of headers")
        headers, key = self._headers, HEADER_NAMES[name]
        text = value.decode("utf-8", "surrogateescape").strip()
        headers[key] = text if key not in headers else f"{headers[key]}, {text}"

    def on_headers_complete(self) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None or answer.status:
            return
        status, headers = parser.get_status_code(), answer.headers
        if status < 200:
            self._skip_early_head(status, headers)
            return
        length = headers.get("content-length")
        self._bounded = length is not None or "transfer-encoding" in headers
        if "transfer-encoding" in headers and headers["transfer-encoding"].lower() != "chunked":
            raise MalformedResponse("unsupported Transfer-Encoding; only chunked is supported")
        if "content-encoding" in headers:
            answer.set_inflater(make_inflater(headers["content-encoding"]))
        self._keep = (
            parser.should_keep_alive() and not self._bodiless and (status != 204 or not announces_body(headers))
        )
        if "keep-alive" in headers:
            self.idle_seconds = parse_idle_seconds(headers["keep-alive"])
        answer.status = status
        self._headers = {}
        if self._bodiless:
            answer.end()
        elif length is not None and len(length) <= MAX_LENGTH_DIGITS:
            self._length = length

    @staticmethod
    def _skip_early_head(status: int, headers: dict[str, str]) -> None:
        """Ignore the head of an interim response. Raises MalformedResponse for a status that the upstream must not send."""
        headers.clear()
        if status == 101:
            raise MalformedResponse("status 101 without an upgrade request")
        if status < 100:
            raise MalformedResponse(f"invalid status {status}")

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is not None and answer.status and not answer.ended:
            answer.end()
