"""One connection to an upstream: a request goes out, its answer is parsed, and then it is good for another or it is not.

It is only when the answer ended exactly where its own head says, nothing came after it, and all of the request had been sent:
otherwise the next answer could be somebody else's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Protocol, cast

import httptools

from tornado_gate.http.client.content_coding import make_inflater
from tornado_gate.http.client.faults import ConnectionBroken, MalformedResponse
from tornado_gate.http.client.request import Origin
from tornado_gate.http.client.response import HttpResponse

UNREAD_BYTES = 64 * 1024
"""With more of an answer unread, nothing is taken from the network until the reader comes."""

HEAD_BYTES = 64 * 1024
"""A longer head is none; the same for trailers and whatever else is not body."""

JOIN_BYTES = 256 * 1024
"""Up to here head and body are copied into one; above it the kernel is given both."""

MIN_BYTES_PAST_PARSER = 128 * 1024
"""Of a body of known length with so much still to come, the parser sees no more: it would copy every byte of it."""

LENGTH_DIGITS = 18
"""Longer lengths are all noughts or of no body that ever ends, and left to the parser."""


class SizedBody(Protocol):
    """A body that is sent in pieces; `length` in bytes."""

    @property
    def length(self) -> int: ...

    def chunks(self) -> AsyncIterator[bytes]: ...


class ConnectionOwner(Protocol):
    """Whom a connection tells what became of it."""

    def on_connection_idle(self, connection: ClientConnection) -> None: ...
    def on_connection_lost(self, connection: ClientConnection) -> None: ...


_HEADER_NAMES: dict[bytes, str] = {}
"""Names of headers as they came -> in lower case."""

_MAX_HEADER_NAMES = 512


def _intern_header_name(raw_name: bytes) -> str:
    name = raw_name.decode("latin-1").lower()
    if len(_HEADER_NAMES) < _MAX_HEADER_NAMES and len(raw_name) < 64:
        _HEADER_NAMES[raw_name] = name
    return name


class ClientConnection(asyncio.Protocol):
    """Made by `loop.create_connection`. `ask` is called for one request at a time."""

    __slots__ = (
        "_answer",
        "_bodiless",
        "_bounded",
        "_came",
        "_head",
        "_headers",
        "_home",
        "_keep",
        "_left",
        "_length",
        "_loop",
        "_parser",
        "_sender",
        "_silent",
        "_transport",
        "_writable",
        "on_body",
        "origin",
    )

    def __init__(self, home: ConnectionOwner, origin: Origin, loop: asyncio.AbstractEventLoop) -> None:
        self.origin = origin
        self._home = home
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answer: HttpResponse | None = None
        self._bodiless = False
        self._bounded = False  # the answer's head says where its body ends
        self._keep = False
        self._headers: dict[str, str] | None = None  # those of the answer, until all of them are there
        self._head = 0  # as `_silent`, before what has come just now, and with the headers that were found in it
        self._silent = 0  # bytes that came since the last one of a body
        self._came: list[bytes] = []  # of the answer's body, until it is read or complete; else what nobody gets
        # The parser's callback, without a call of ours: one read may hold hundreds of chunks.
        self.on_body: Callable[[bytes], None] = self._came.append
        self._length = ""  # of the body, as its head says, until some of it has come
        self._left = 0  # bytes of the body that are still to come, past the parser
        self._sender: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether `Home.lost` is still to come."""
        return self._transport is not None

    @property
    def is_usable(self) -> bool:
        """Whether it is open as far as anybody knows."""
        return self._transport is not None and not self._transport.is_closing()

    async def send_request(self, head: bytes, body: bytes | SizedBody, *, bodiless: bool = False) -> HttpResponse:
        """Send a request; its answer, as soon as the head is there. `bodiless`: that answer has no body, as for HEAD.

        Raises Broken and Malformed.
        """
        self._answer = answer = HttpResponse(self, self._loop, self._came)
        self._headers = answer.headers
        self._bodiless = bodiless
        self._keep = False
        self._silent = 0
        self._length = ""
        try:
            transport = self._transport
            if transport is None:
                raise ConnectionBroken("closed before it was used", unanswered=True)
            if not isinstance(body, bytes):
                transport.write(head)
                self._sender = self._loop.create_task(self._send_pieces(body))
            elif len(body) <= JOIN_BYTES:
                transport.write(head + body)
            else:
                transport.writelines((head, body))
            while not answer.status:
                if answer.fault is not None:
                    raise answer.fault
                await answer.wait_for_change()
        except BaseException:
            answer.close()
            raise
        return answer

    # What the answer's reader does.

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once, whatever is still to be sent."""
        self._stop_sending()
        if self._transport is not None:
            self._transport.abort()

    # Sending.

    async def _send_pieces(self, body: SizedBody) -> None:
        """All of `body`, at the pace of the connection; meanwhile an answer may come."""
        pieces, left = body.chunks(), body.length
        try:
            async for piece in pieces:
                left -= len(piece)
                if left < 0 or self._transport is None:
                    break
                self._transport.write(piece)
                if self._writable is not None:
                    await self._writable
            if left and self._transport is not None:
                raise ValueError(f"the body differs from its length by {abs(left)} bytes or more")
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

    # What comes.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = self._new_parser()

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # RFC 9112 2.2 and 7.1: what a recipient may take although nobody should send it.
        parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        return parser

    def data_received(self, data: bytes) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None:
            self.abort()  # nobody has asked anything
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
            self._fail_response(MalformedResponse("more than 64 KiB without a byte of the body"))
        if answer.waiter is not None and answer.status:
            answer.notify_change()

    def _decide_parser_bypass(self) -> None:
        """The first of a body has come, but not all: whether the parser shall see the rest."""
        left = int(self._length) - sum(map(len, self._came))
        self._length = ""
        if left >= MIN_BYTES_PAST_PARSER:
            self._left = left

    def _append_past_parser(self, answer: HttpResponse, data: bytes) -> None:
        """More of a body whose length is known, and what may follow it. Raises what the parser does."""
        left = self._left
        if len(data) < left:
            self._came.append(data)
            self._left -= len(data)
            return
        self._came.append(data[:left])
        self._left = 0
        answer.end()
        self._parser = self._new_parser()  # the old one waits for this body
        if len(data) > left:
            self._parser.feed_data(data[left:])

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
            self._fail_response(
                ConnectionBroken("closed by the other side", unanswered=not self._silent and not answer.status)
            )

    def _is_end_authentic(self) -> bool:
        """Whether the end is the other side's word: over TLS anybody on the way could end the TCP connection."""
        tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        if tls is None:
            return True
        try:
            return not tls.read(1)
        except ssl.SSLZeroReturnError:
            return True
        except ssl.SSLError:
            return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._parser = None
        self._stop_sending()
        self.resume_writing()
        if self._answer is not None:
            unanswered = not self._silent and not self._answer.status
            self._fail_response(ConnectionBroken(f"the connection was lost: {exc or 'closed'}", unanswered=unanswered))
        self._home.on_connection_lost(self)

    def _finish_response(self) -> None:
        """The answer is complete."""
        answer, self._answer = self._answer, None
        self._came.clear()  # what came behind the answer
        transport = self._transport
        if not self._keep or self._sender or self._writable or transport is None or transport.get_write_buffer_size():
            self.abort()
            return
        if answer is not None and answer.paused:
            self.resume()  # or the end of the connection would not be noticed
        self._home.on_connection_idle(self)

    def _fail_response(self, fault: ConnectionBroken | MalformedResponse) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.fail(fault)
        self.abort()

    # What the parser finds. An answer that has ended is told no more: what comes then only spoils the connection.

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.ended:
            self._keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._silent > HEAD_BYTES:  # else no more has come than there may be
            self._head += len(name) + len(value) + 4
            if self._head > HEAD_BYTES:
                raise MalformedResponse("more than 64 KiB of headers")
        headers = self._headers
        if headers is None:
            return  # a trailer
        key = _HEADER_NAMES.get(name) or _intern_header_name(name)
        text = value.decode("utf-8", "surrogateescape").strip()
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None or answer.status:
            return
        status, headers = parser.get_status_code(), answer.headers
        if 100 <= status < 200:
            headers.clear()
            if status == 101:
                raise MalformedResponse("a change of protocol that nobody asked for")
            return
        if status < 100:
            raise MalformedResponse(f"the status {status}")
        if "transfer-encoding" in headers and headers["transfer-encoding"].lower() != "chunked":
            raise MalformedResponse("a Transfer-Encoding other than chunked")
        if "content-encoding" in headers:
            answer.set_inflater(make_inflater(headers["content-encoding"]))
        self._keep = (
            parser.should_keep_alive() and not self._bodiless and not (status == 204 and _announces_body(headers))
        )
        self._bounded = "content-length" in headers or "transfer-encoding" in headers
        answer.status = status
        self._headers = None
        if self._bodiless:
            answer.end()
        elif len(headers.get("content-length", "")) <= LENGTH_DIGITS:
            self._length = headers.get("content-length", "")

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is not None and answer.status and not answer.ended:
            answer.end()


def _announces_body(headers: dict[str, str]) -> bool:
    """Whether a 204 announces a body, which must not be and might yet come (RFC 9110 15.3.5)."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
