"""One request and its answer on a caller's connection, through Tornado's public `HTTPMessageDelegate` and `HTTPConnection`.

The routes of wire formats stand on this and not on Tornado's `RequestHandler`, which has templates, cookies, ETags, forms and
arguments that no such route needs, and pays for them on each request: a hello through it costs half as much again as the
front alone. Everything else in the house is a RequestHandler.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http.client import responses
from typing import ClassVar, Protocol

from tornado.escape import parse_qs_bytes
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError

from tornado_gate.errors import GateError, InternalError, RequestError
from tornado_gate.gateway.gate import Gate
from tornado_gate.server.handlers import common
from tornado_gate.types import Call

log = logging.getLogger(__name__)

MAX_CACHED_HOSTS = 1000
MAX_ARGUMENTS = 100
CLIENT_CLOSED_STATUS = 499
"""The status in metrics and logs of an answer that nobody waited for."""


class CallerConnection(Protocol):
    """What a caller's connection can do, of either front: Tornado's `HTTP1Connection` is one.

    `write` and `write_headers` raise StreamClosedError, or give a future that does, when the caller has left.
    """

    def set_close_callback(self, callback: object) -> None: ...
    def set_max_body_size(self, max_body_size: int) -> None: ...
    def write_headers(
        self, start_line: ResponseStartLine, headers: HTTPHeaders, chunk: bytes | None = None
    ) -> Awaitable[None]: ...
    def write(self, chunk: bytes) -> Awaitable[None]: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...

    # Our own front has `send` and `send_head` too, which give None instead of a future where nothing is to be waited for.


class CallerRequest:
    """What Tornado's HTTPServerRequest tells of a request, as far as the routes of formats ask; nothing is parsed before that.

    Raises HTTPInputError for a Host that HTTPServerRequest refuses.
    """

    __slots__ = ("_arguments", "connection", "headers", "lowered", "method", "path", "protocol", "query", "version")

    _sane_hosts: ClassVar[set[str]] = set()

    def __init__(self, connection: HTTPConnection, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        self.method = start_line.method
        self.version = start_line.version
        self.path, _, self.query = start_line.path.partition("?")
        self.headers = headers
        self.lowered = lower_header_names(headers)
        self.connection = connection
        self.protocol: str = getattr(getattr(connection, "context", None), "protocol", "http")
        self._arguments: Mapping[str, list[bytes]] | None = None
        host = self.lowered.get("host")
        if host not in self._sane_hosts:
            self._check_host(host)

    def _check_host(self, host: str | None) -> None:
        """Let Tornado judge it; a few good ones are remembered."""
        request = HTTPServerRequest(
            start_line=RequestStartLine(self.method, "/", self.version),
            headers=self.headers,
            connection=self.connection,
        )
        if host is not None and len(self._sane_hosts) < MAX_CACHED_HOSTS:
            self._sane_hosts.add(request.host)

    @property
    def host(self) -> str:
        """As HTTPServerRequest has it."""
        return self.lowered.get("host", "127.0.0.1")

    @property
    def query_arguments(self) -> Mapping[str, list[bytes]]:
        """As HTTPServerRequest has them. Raises RequestError for a query that cannot be read."""
        if self._arguments is None:
            try:
                self._arguments = parse_qs_bytes(self.query, keep_blank_values=True, max_num_fields=MAX_ARGUMENTS)
            except ValueError:
                raise RequestError("The query cannot be read.", code="invalid_query") from None
        return self._arguments


def lower_header_names(headers: Mapping[str, str]) -> dict[str, str]:
    """With names in lower case. Not to be changed: our own front gives the one dict that it has."""
    known: dict[str, str] | None = getattr(headers, "lowered", None)  # our own front has them so
    return {name.lower(): headers[name] for name in headers} if known is None else known


class Exchange(HTTPMessageDelegate):
    """Its order of calls: `prepare`, the body by `data_received`, `answer`. Each subclass is one kind of route."""

    def __init__(self, gate: Gate, request: CallerRequest, format: str = "", operation: str = "") -> None:
        self.started = time.monotonic()
        self.gate = gate
        self.snapshot = gate.snapshot
        self.request = request
        self.connection: CallerConnection = request.connection  # type: ignore[assignment]  # Tornado types it as the least of them
        self._send = getattr(self.connection, "send", self.connection.write)
        self._send_head = getattr(self.connection, "send_head", self._write_tornado_head)
        self.request_id = common.get_request_id(request.lowered)
        self.format = format
        self.operation = operation
        self.call: Call | None = None  # when it is known who asks
        self.sent_bytes = 0
        self.written_at = self.started
        self.body_read = False
        self.headers_written = False
        self.finished = False
        self.work: asyncio.Task[None] | None = None
        self.status = 200
        self.headers = common.make_default_headers(self.request_id)

    # What a subclass says

    def prepare(self) -> Awaitable[None] | None:
        """Everything that can be refused before the body is read. Raises GateError, or gives what does so in a while."""

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """The next bytes of the body. The connection reads on when what is returned is done."""

    async def answer(self) -> None:
        """What is done when the body is there. Cancelled when the caller leaves."""
        raise NotImplementedError

    def make_partial_call(self) -> Call | None:
        """What is known of the call when it ends before it has begun."""
        return None

    def release(self) -> None:
        """Give back what the request holds; called when it has ended, however it did, maybe more than once."""

    # The caller's side

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        self.connection.set_close_callback(self.on_connection_close)
        try:
            waiting = self.prepare()
        except Exception as error:
            self._refuse_before_body(error)
            return None
        if waiting is None:
            return None
        self.work = asyncio.ensure_future(self._await_preparation(waiting))
        return self.work

    async def _await_preparation(self, waiting: Awaitable[None]) -> None:
        try:
            await waiting
        except asyncio.CancelledError:
            self._on_caller_left()
        except Exception as error:
            self._refuse_before_body(error)
        finally:
            self.work = None

    def _refuse_before_body(self, error: Exception) -> None:
        """Before the body: what nobody foresaw is an answer too."""
        if not isinstance(error, GateError):
            self.log_exception()
            error = InternalError()
        self.fail(error)

    def finish(self) -> None:
        """The request is whole."""
        if not self.finished:
            self.body_read = True
            self.work = asyncio.get_running_loop().create_task(self._run())

    def on_connection_close(self) -> None:
        """The caller left: stop, and close the upstream's connection, at once."""
        if self.work is not None:
            self.work.cancel()
        else:
            self._on_caller_left()  # before its body had come

    async def _run(self) -> None:
        try:
            await self.answer()
            if not self.finished:
                self.end()
        except asyncio.CancelledError:
            self._on_caller_left()
        except StreamClosedError:
            self._end_exchange()
        except Exception:
            self.log_exception()
            if self.headers_written:
                self.cut()
                self._end_exchange()
            else:
                self.fail(InternalError())
        finally:
            self.work = None

    def _on_caller_left(self) -> None:
        """The caller has: nobody reads the status; metrics and the access log do."""
        if not self.headers_written:
            self.status = CLIENT_CLOSED_STATUS
        self._end_exchange()

    def _end_exchange(self) -> None:
        if self.finished:
            return
        self.finished = True
        self.call = self.call or self.make_partial_call()
        self.release()
        common.record_request(self)

    # The answer

    def clear(self) -> None:
        """Back to the headers that every answer has."""
        self.status = 200
        self.headers = common.make_default_headers(self.request_id)

    def set_status(self, status: int) -> None:
        self.status = status

    def set_header(self, name: str, value: str) -> None:
        self.headers[_capitalize_header_name(name)] = value

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Those of a reply or an error, however they are spelled: one name must not be sent twice."""
        for name, value in headers.items():
            self.headers[_capitalize_header_name(name)] = value

    def write(self, chunk: bytes) -> Awaitable[None] | None:
        """A piece of the body; what is returned is done when the caller takes more, None: it does now.

        Raises StreamClosedError, at once or when it is awaited, when the caller has left.
        """
        self.sent_bytes += len(chunk)
        self.written_at = time.monotonic()
        return self._send(chunk) if self.headers_written else self._write_head(chunk)

    async def send(self, chunk: bytes) -> None:
        """`write`, and wait."""
        waiting = self.write(chunk)
        if waiting is not None:
            await waiting

    def end(self, chunk: bytes = b"") -> None:
        """The rest of the answer. Without a piece before it, it is the whole, and says its length."""
        self.sent_bytes += len(chunk)
        if not self.headers_written:
            if self.status not in (204, 304):
                self.headers.setdefault("Content-Length", str(len(chunk)))
            ignore_result(self._write_head(chunk if self.request.method != "HEAD" else b""))
        elif chunk:
            ignore_result(self._send(chunk))
        self.connection.set_close_callback(None)
        self.connection.finish()
        self._end_exchange()

    def fail(self, error: GateError) -> None:
        """Answer with an error, in the envelope of the route's format. Only before the status line has gone out."""
        self.clear()
        self.status = error.status
        self.set_headers(error.headers)
        self.headers["Content-Type"] = "application/json"
        if not self.body_read and self._has_body():
            self.headers["Connection"] = "close"  # what follows on it is the rest of the body, not the next request
        self.call = self.call or self.make_partial_call()
        self.end(common.render_error_envelope(self.snapshot, self.format, self.call, error))

    def cut(self) -> None:
        """End the connection in the middle of an answer, which must not look whole."""
        self.connection.close()

    def _has_body(self) -> bool:
        headers = self.request.lowered
        return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

    def _write_head(self, chunk: bytes) -> Awaitable[None] | None:
        self.headers["Date"] = _format_date_header()
        waiting: Awaitable[None] | None = self._send_head(
            self.status, responses.get(self.status, "Unknown"), self.headers, chunk
        )
        self.headers_written = True  # a header that cannot be sent raises before anything has gone out
        return waiting

    def _write_tornado_head(self, status: int, reason: str, fields: dict[str, str], chunk: bytes) -> Awaitable[None]:
        headers = HTTPHeaders()
        for name, value in fields.items():
            headers[name] = value
        return self.connection.write_headers(ResponseStartLine("", status, reason), headers, chunk)

    def log_exception(self) -> None:
        """Name the exception that is being handled in the log."""
        kind = sys.exc_info()[0]
        fields = {"request_id": self.request_id}
        log.exception("request failed: %s", kind.__name__ if kind else "unknown", extra={"fields": fields})


@lru_cache(1000)
def _capitalize_header_name(name: str) -> str:
    """A header's name as Tornado spells it."""
    return "-".join(word.capitalize() for word in name.split("-"))


_cached_date = (0, "")


def _format_date_header() -> str:
    """The header of that name; it changes once a second."""
    global _cached_date  # noqa: PLW0603  a cache of one
    now = int(time.time())
    if _cached_date[0] != now:
        _cached_date = (now, formatdate(now, usegmt=True))
    return _cached_date[1]


def set_nodelay(connection: CallerConnection) -> None:
    """A piece is small, and must not wait for an acknowledgement of the one before. Our own front never lets it."""
    tornado_stream = getattr(connection, "stream", None)
    if tornado_stream is not None:
        tornado_stream.set_nodelay(True)


def ignore_result(writing: Awaitable[None] | None) -> None:
    """Nobody waits until this is written."""
    if isinstance(writing, asyncio.Future):
        writing.add_done_callback(_consume_result)


def _consume_result(done: asyncio.Future[None]) -> None:
    """That the caller left before is no fault."""
    if not done.cancelled():
        done.exception()
