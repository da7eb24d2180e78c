"""The answer to one request: Tornado's `HTTPConnection`, written into a transport.

Nothing here waits. A write returns what can be awaited; it is done at once unless the transport holds more than its
high-water mark. (In Tornado's front it is done when the kernel has everything.) Other differences: once the answer says
`Connection: close`, or cannot be told from the next one (HTTP/1.0 without a length), the connection is closed after it;
`write` before `write_headers` is refused; 1xx, 204 and 304 never have a body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Protocol

from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPOutputError,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError

from tornado_gate.http.server.head import Head

MAX_JOINED_BYTES = 64 * 1024
"""A body, or its first piece, up to this goes out in one write with the head; copying a longer one costs more than a write."""
SWITCHING = 101
_LAST_CHUNK = b"0\r\n\r\n"


class ResponseTransport(Protocol):
    """What an answer needs of the connection that it goes out on."""

    @property
    def is_stopping(self) -> bool:
        """Whether this is the last answer of the connection."""

    def send(self, data: bytes) -> asyncio.Future[None] | None:
        """Write. A future when the client takes less than is written."""

    def on_response_complete(self) -> None:
        """The answer is whole."""

    def abort(self) -> None:
        """Close at once, whatever has not gone out."""

    def switch_protocol(self, protocol: asyncio.Protocol) -> None:
        """Another protocol has the transport from now on."""


class ConnectionContext:
    """Where a connection comes from, as HTTPServerRequest reads it."""

    __slots__ = ("protocol", "remote_ip")

    def __init__(self, remote_ip: str, protocol: str) -> None:
        self.remote_ip = remote_ip
        self.protocol = protocol

    def __str__(self) -> str:
        return self.remote_ip


class RequestConnection(HTTPConnection):
    """One request and its answer."""

    __slots__ = (
        "_chunked",
        "_done",
        "_head_only",
        "_left",
        "_line",
        "_modern",
        "body_seconds",
        "close_callback",
        "context",
        "finished",
        "keep",
        "max_body_size",
        "started",
    )

    def __init__(
        self,
        line: ResponseTransport,
        context: ConnectionContext,
        head: Head,
        done: asyncio.Future[None],
        max_body_size: int,
        body_seconds: float | None,
    ) -> None:
        self._line: ResponseTransport | None = line
        self._done = done
        self._head_only = head.start_line.method == "HEAD"
        self._modern = head.start_line.version == "HTTP/1.1"
        self._chunked = False
        self._left: int | None = None
        self.context = context
        self.keep = head.keep
        self.started = False
        self.finished = False
        self.max_body_size = max_body_size
        self.body_seconds = body_seconds
        self.close_callback: Callable[[], None] | None = None

    # What handlers may change

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        """Called when the client has left before the answer was whole; not when we close."""
        self.close_callback = callback

    def set_max_body_size(self, max_body_size: int) -> None:
        """For this request, in bytes."""
        self.max_body_size = max_body_size

    def set_body_timeout(self, timeout: float) -> None:
        """For this request, in seconds."""
        self.body_seconds = timeout

    def set_nodelay(self, value: bool) -> None:
        """Nothing to do: asyncio and uvloop set TCP_NODELAY on every connection."""

    # The answer

    def write_headers(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders, chunk: bytes | None = None
    ) -> asyncio.Future[None]:
        """The head, and the first of the body with it. Raises ValueError for CR or LF in a header."""
        assert isinstance(start_line, ResponseStartLine)
        waiting = self.send_head(start_line.code, start_line.reason, headers, chunk)
        return self._done if waiting is None else waiting

    def send_head(
        self, code: int, reason: str, headers: HTTPHeaders | dict[str, str], chunk: bytes | None
    ) -> asyncio.Future[None] | None:
        """As `write_headers`; None when nothing has to be waited for. A dict spells its names as Tornado does, each once."""
        if self._line is None:
            return _make_closed_future()
        if self.started:
            raise RuntimeError("the headers have been written")
        self._choose_framing(code, headers, self._line.is_stopping)
        # Not isinstance(headers, HTTPHeaders), which asks the ABC.
        pairs = headers.items() if isinstance(headers, dict) else headers.get_all()
        data = _render(_render_status_line(code, reason), pairs)
        self.started = True
        if not chunk:
            return self._line.send(data)
        body = self._frame_chunk(chunk)
        if len(body) <= MAX_JOINED_BYTES:
            return self._line.send(data + body)
        self._line.send(data)
        return self._line.send(body)

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        """A piece of the body. Fails with StreamClosedError when the client has left."""
        waiting = self.send(chunk)
        return self._done if waiting is None else waiting

    def send(self, chunk: bytes) -> asyncio.Future[None] | None:
        """As `write`; None when nothing has to be waited for."""
        if self._line is None:
            return _make_closed_future()
        if not self.started:
            raise RuntimeError("write_headers comes first")
        return self._line.send(self._frame_chunk(chunk)) if chunk else None

    def finish(self) -> None:
        """The body is whole. Raises HTTPOutputError when its Content-Length says that it is not."""
        line = self._line
        if self.finished:
            raise RuntimeError("the answer has been finished")
        self.finished = True
        if line is None:
            return
        if self._left:
            self.close()
            raise HTTPOutputError(f"Tried to write {self._left} bytes less than Content-Length")
        if self._chunked:
            line.send(_LAST_CHUNK)
        self.end()
        line.on_response_complete()

    def close(self) -> None:
        """End the connection at once; half an answer is not made to look whole."""
        line = self._line
        self.end()
        if line is not None:
            line.abort()

    def detach(self) -> ResponseTransport:
        """End HTTP on the connection, after the head of a 101: `switch_protocol` of what is returned is to be called at once.

        Raises StreamClosedError when the client has left.
        """
        line = self._line
        if line is None:
            raise StreamClosedError
        self.end()
        return line

    def end(self) -> None:
        """Nothing can be written from now on; what points to others is let go."""
        self._line = None
        self.close_callback = None

    def _choose_framing(self, code: int, headers: HTTPHeaders | dict[str, str], last: bool) -> None:
        """How the client will know where the body ends."""
        if code == SWITCHING:
            self._left = 0
            return  # Connection names the upgrade
        length = headers.get("Content-Length")
        bodiless = self._head_only or code in (204, 304) or 100 <= code < 200
        self._chunked = self._modern and not bodiless and length is None
        if bodiless:
            self._left = 0
        elif length is not None:
            self._left = int(length)
        told = headers.get("Connection", "").lower()
        self.keep = self.keep and not last and told != "close" and (self._modern or bodiless or length is not None)
        if self._chunked:
            headers["Transfer-Encoding"] = "chunked"
        if not self.keep and self._modern:
            headers["Connection"] = "close"
        elif self.keep and not self._modern:
            headers["Connection"] = "Keep-Alive"

    def _frame_chunk(self, chunk: bytes) -> bytes:
        if self._chunked:
            return b"%x\r\n%b\r\n" % (len(chunk), chunk)
        if self._left is not None:
            self._left -= len(chunk)
            if self._left < 0:
                self.close()  # the client must not take the rest for the next answer
                raise HTTPOutputError("Tried to write more data than Content-Length")
        return chunk


@lru_cache(maxsize=128)
def _render_status_line(code: int, reason: str) -> str:
    return f"HTTP/1.1 {code} {reason}"


def _render(status_line: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [status_line, *map(": ".join, headers)]
    data = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    if not data.count(b"\r") == data.count(b"\n") == len(lines) + 1:
        bad = next(line for line in lines if "\r" in line or "\n" in line)
        raise ValueError(f"Illegal characters (CR or LF) in header: {bad!r}")
    return data


def _make_closed_future() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(StreamClosedError())
    future.exception()  # who does not await it need not hear of it
    return future
