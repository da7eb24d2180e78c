"""The response to one request: Tornado's `HTTPConnection` on a transport.

No function here waits. A write returns an awaitable; it is already done unless the transport holds more than its high-water mark.
(In Tornado's server it is done when the kernel has all data.) Other differences: after a response with `Connection: close`, or
one without a defined end (HTTP/1.0 without a length), the connection is closed; `write` before `write_headers` raises; 1xx, 204
and 304 and responses to HEAD never have a body; characters that a header value cannot have are replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol

from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPOutputError,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError

from tornado_gate.http.server.head import Head
from tornado_gate.http.server.response_head import render_head

MAX_JOINED_BYTES = 64 * 1024
"""The maximum size of a first body chunk that is joined with the head into one write; copying a larger one costs more than a
write.
"""
SWITCHING = 101


class ResponseTransport(Protocol):
    """The interface of the connection that a response is written to."""

    @property
    def is_stopping(self) -> bool:
        """Return whether this is the last response of the connection."""

    def send(self, data: bytes) -> asyncio.Future[None] | None:
        """Write. Return a future to wait for if the write buffer is full, else None."""

    def on_response_complete(self) -> None:
        """Continue after the complete response."""

    def abort(self) -> None:
        """Close immediately and discard unsent data."""

    def switch_protocol(self, protocol: asyncio.Protocol) -> Callable[[], None]:
        """Hand the transport to another protocol. Return a function to call when the connection is closed."""


class ConnectionContext:
    """Address and protocol of a connection, as HTTPServerRequest reads them."""

    __slots__ = ("protocol", "remote_ip")

    def __init__(self, remote_ip: str, protocol: str) -> None:
        self.remote_ip = remote_ip
        self.protocol = protocol

    def __str__(self) -> str:
        return self.remote_ip


class RequestConnection(HTTPConnection):
    """One request and its response. `has_whole_body`: the body has arrived together with the head."""

    # The state of a request that has just begun; a class attribute costs nothing until it changes.
    _chunked = _head_only = started = finished = has_whole_body = False
    _left: int | None = None
    _body_end = b"0\r\n\r\n"  # of a chunked body, after the piece of `send_last`
    close_callback: Callable[[], None] | None = None
    max_body_size = 0
    body_seconds: float | None = None

    def __init__(
        self,
        line: ResponseTransport,
        context: ConnectionContext,
        head: Head,
        done: asyncio.Future[None],
    ) -> None:
        self._line: ResponseTransport | None = line
        self._done = done
        self._start_line = head.start_line  # its method and version decide the framing
        self.context = context
        self.keep = head.keep

    # Set by handlers

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        """Set the function to call if the client disconnects before the end of the response; not if the server closes."""
        self.close_callback = callback

    def set_max_body_size(self, max_body_size: int) -> None:
        """Set the limit of this request's body, in bytes."""
        self.max_body_size = max_body_size

    def set_body_timeout(self, timeout: float) -> None:
        """Set the time limit of this request's body, in seconds."""
        self.body_seconds = timeout

    def set_nodelay(self, value: bool) -> None:
        """Do nothing: asyncio and uvloop set TCP_NODELAY on every connection."""

    # The response

    def write_headers(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders, chunk: bytes | None = None
    ) -> asyncio.Future[None]:
        """Write the head and a first piece of the body. Raises ValueError for an invalid name of a header."""
        assert isinstance(start_line, ResponseStartLine)
        waiting = self.send_head(start_line.code, start_line.reason, headers, chunk)
        return self._done if waiting is None else waiting

    def send_head(
        self, code: int, reason: str, headers: HTTPHeaders | dict[str, str], chunk: bytes | None
    ) -> asyncio.Future[None] | None:
        """Write like `write_headers`, but return None if no wait is needed. A dict has Tornado's spelling of names, each once."""
        if self._line is None:
            return _make_closed_future()
        if self.started:
            raise RuntimeError("the headers have already been written")
        self._head_only = self._start_line.method == "HEAD"
        self._choose_framing(code, headers, self._line.is_stopping)
        # Not isinstance(headers, HTTPHeaders), which is slow for an ABC.
        pairs = headers.items() if isinstance(headers, dict) else headers.get_all()
        data = render_head(code, reason, pairs)
        self.started = True
        if not chunk or self._head_only:
            return self._line.send(data)
        if len(chunk) <= MAX_JOINED_BYTES:
            return self._line.send(data + self._frame_chunk(chunk))
        self._line.send(data)
        return self._send_long(chunk)

    def send_whole(self, head: str, body: bytes) -> bool:
        """Write a complete response and end it. `head` has its length and no other field about the connection.

        Return False, without an effect, if the connection closes after the response, or for a request of HTTP/1.0 or HEAD.
        """
        line, start_line = self._line, self._start_line
        if (
            line is None
            or not self.keep
            or line.is_stopping
            or start_line.version != "HTTP/1.1"
            or start_line.method == "HEAD"
            or len(body) > MAX_JOINED_BYTES
        ):
            return False
        try:
            data = head.encode("latin-1")
        except UnicodeEncodeError:
            return False
        self.started = self.finished = True
        line.send(data + body)
        self.end()
        line.on_response_complete()
        return True

    def begin_stream(self, head: str, chunk: bytes) -> asyncio.Future[None] | Literal[False] | None:
        """Write the head of a chunked response, which has its framing, and a first piece of its body.

        Return a future if a wait is needed, else None. Return False, without an effect, where `send_whole` does.
        """
        line, start_line = self._line, self._start_line
        if (
            line is None
            or not self.keep
            or line.is_stopping
            or start_line.version != "HTTP/1.1"
            or start_line.method == "HEAD"
            or len(chunk) > MAX_JOINED_BYTES
        ):
            return False
        try:
            data = head.encode("latin-1")
        except UnicodeEncodeError:
            return False
        self.started = self._chunked = True
        self._head_only = False
        return line.send(b"%b%x\r\n%b\r\n" % (data, len(chunk), chunk))

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        """Write a piece of the body. The future fails with StreamClosedError if the client has disconnected."""
        waiting = self.send(chunk)
        return self._done if waiting is None else waiting

    def send(self, chunk: bytes) -> asyncio.Future[None] | None:
        """Write like `write`, but return None if no wait is needed."""
        if self._line is None:
            return _make_closed_future()
        if not self.started:
            raise RuntimeError("call write_headers before write")
        if not chunk or self._head_only:
            return None
        length = len(chunk)
        if length > MAX_JOINED_BYTES:
            return self._send_long(chunk)
        return self._line.send(b"%x\r\n%b\r\n" % (length, chunk) if self._chunked else self._frame_chunk(chunk))

    def send_last(self, chunk: bytes) -> asyncio.Future[None] | None:
        """Write the last piece of the body like `send`. If it can, `finish` writes it together with the end of the body."""
        if not self._chunked or len(chunk) > MAX_JOINED_BYTES:
            return self.send(chunk)
        self._body_end = b"%x\r\n%b\r\n0\r\n\r\n" % (len(chunk), chunk)
        return None

    def _send_long(self, chunk: bytes) -> asyncio.Future[None] | None:
        """Send a long piece of the body without copying it."""
        line = self._line
        assert line is not None, "the callers have looked"
        if not self._chunked:
            return line.send(self._frame_chunk(chunk))
        line.send(b"%x\r\n" % len(chunk))
        line.send(chunk)
        return line.send(b"\r\n")

    def finish(self) -> None:
        """End the body. Raises HTTPOutputError if it is shorter than its Content-Length."""
        line = self._line
        if self.finished:
            raise RuntimeError("the response has already been finished")
        self.finished = True
        if line is None:
            return
        if self._left:
            self.close()
            raise HTTPOutputError(f"Tried to write {self._left} bytes less than Content-Length")
        if self._chunked:
            line.send(self._body_end)
        self.end()
        line.on_response_complete()

    def close(self) -> None:
        """Close the connection immediately; an incomplete response must not look complete."""
        line = self._line
        self.end()
        if line is not None:
            line.abort()

    def detach(self) -> ResponseTransport:
        """End HTTP on the connection after the head of a 101.

        The caller must call `switch_protocol` of the result without waiting. Raises StreamClosedError if the client has
        disconnected.
        """
        line = self._line
        if line is None:
            raise StreamClosedError
        self.end()
        return line

    def end(self) -> None:
        """Make further writes fail, and drop references to the connection and the callback."""
        self._line = None
        self.close_callback = None

    def _choose_framing(self, code: int, headers: HTTPHeaders | dict[str, str], last: bool) -> None:
        """Choose how the client finds the end of the body, and set the headers for it."""
        if code == SWITCHING:
            self._left = 0
            return  # the Connection header contains the upgrade
        length = headers.get("Content-Length")
        modern = self._start_line.version == "HTTP/1.1"
        bodiless = self._head_only or code in (204, 304) or 100 <= code < 200
        self._chunked = modern and not bodiless and length is None
        if bodiless:
            self._left = 0
        elif length is not None:
            self._left = int(length)
        connection_header = headers.get("Connection", "").lower()
        self.keep = (
            self.keep and not last and connection_header != "close" and (modern or bodiless or length is not None)
        )
        if self._chunked:
            headers["Transfer-Encoding"] = "chunked"
        if not self.keep and modern:
            headers["Connection"] = "close"
        elif self.keep and not modern:
            headers["Connection"] = "Keep-Alive"

    def _frame_chunk(self, chunk: bytes) -> bytes:
        if self._chunked:
            return b"%x\r\n%b\r\n" % (len(chunk), chunk)
        if self._left is not None:
            self._left -= len(chunk)
            if self._left < 0:
                self.close()  # the client must not read the remaining bytes as the next response
                raise HTTPOutputError("Tried to write more data than Content-Length")
        return chunk


def _make_closed_future() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(StreamClosedError())
    future.exception()  # marks the exception as retrieved
    return future
