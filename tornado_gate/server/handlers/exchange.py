"""One request and its response on a caller's connection, through Tornado's public `HTTPMessageDelegate` and `HTTPConnection`.

The routes of wire formats use this class instead of Tornado's `RequestHandler`, whose templates, cookies, ETags, forms and
arguments they do not need: a minimal request through `RequestHandler` costs 50 % more than the HTTP server alone. All other
handlers are RequestHandlers.
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
    HTTPInputError,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError

from tornado_gate.errors import GateError, InternalError, RateLimited, RequestError
from tornado_gate.http.server.response_head import clean_header_value
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.cors import is_private, make_cors_headers
from tornado_gate.server.handlers.limit_headers import render_limit_headers
from tornado_gate.types import Call

log = logging.getLogger(__name__)

MAX_CACHED_HOSTS = 1000
MAX_CACHED_HOST_LENGTH = 255
MAX_ARGUMENTS = 100
CLIENT_CLOSED_STATUS = 499
"""The status in metrics and logs when the caller disconnected before its response."""


class CallerConnection(Protocol):
    """The connection of a caller: Tornado's `HTTP1Connection`, or the connection of `http.server.front`.

    `write` and `write_headers` raise StreamClosedError, or return a future that does, when the caller has disconnected.
    """

    def set_close_callback(self, callback: object) -> None: ...
    def set_max_body_size(self, max_body_size: int) -> None: ...
    def write_headers(
        self, start_line: ResponseStartLine, headers: HTTPHeaders, chunk: bytes | None = None
    ) -> Awaitable[None]: ...
    def write(self, chunk: bytes) -> Awaitable[None]: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...

    # `http.server.front` also has `send` and `send_head`, which return None if the caller need not wait, instead of a future.


class CallerRequest:
    """The attributes of Tornado's HTTPServerRequest that routes of formats need; the query is parsed on first use.

    Raises HTTPInputError for a Host that HTTPServerRequest rejects.
    """

    __slots__ = ("_arguments", "connection", "headers", "lowered", "method", "path", "protocol", "query", "version")

    _sane_hosts: ClassVar[set[str]] = set()

    def __init__(self, connection: HTTPConnection, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        self.method = start_line.method
        self.version = start_line.version
        self.path, _, self.query = start_line.path.partition("?")
        self.headers = headers
        self.lowered = common.lower_header_names(headers)
        self.connection = connection
        self.protocol: str = getattr(getattr(connection, "context", None), "protocol", "http")
        self._arguments: Mapping[str, list[bytes]] | None = None
        host = self.lowered.get("host")
        if host not in self._sane_hosts:
            self._check_host(host)

    def _check_host(self, host: str | None) -> None:
        """Let Tornado check the Host. Up to MAX_CACHED_HOSTS valid ones are cached. An empty Host names no HTTP host."""
        if host == "":
            raise HTTPInputError("the Host header is empty")
        request = HTTPServerRequest(
            start_line=RequestStartLine(self.method, "/", self.version),
            headers=self.headers,
            connection=self.connection,
        )
        if (
            host is not None
            and len(self._sane_hosts) < MAX_CACHED_HOSTS
            and len(request.host) <= MAX_CACHED_HOST_LENGTH
        ):
            self._sane_hosts.add(request.host)

    @property
    def remote_ip(self) -> str:
        """Return the IP address of the connection's other end, as in HTTPServerRequest."""
        return getattr(getattr(self.connection, "context", None), "remote_ip", "")

    @property
    def host(self) -> str:
        """Return the host, as in HTTPServerRequest."""
        return self.lowered.get("host", "127.0.0.1")

    @property
    def query_arguments(self) -> Mapping[str, list[bytes]]:
        """Return the arguments, as in HTTPServerRequest.

        Raises RequestError for an invalid query or more than MAX_ARGUMENTS parameters.
        """
        if self._arguments is None:
            try:
                self._arguments = parse_qs_bytes(self.query, keep_blank_values=True, max_num_fields=MAX_ARGUMENTS)
            except ValueError:
                message = f"The query string is invalid or has more than {MAX_ARGUMENTS} parameters."
                raise RequestError(message, code="invalid_query") from None
        return self._arguments


class Exchange(HTTPMessageDelegate):
    """A handler that calls `prepare`, then `data_received` for the body, then `answer`. Each subclass serves one kind of route.

    `is_shared`: web pages of other origins may read the response, if conf allows their origin.
    """

    is_shared = True
    interruption: GateError | None = None

    # The state of a request that has just begun; a class attribute costs nothing until it changes.
    call: Call | None = None  # set after authentication
    error_code = outcome = end_user = ""
    recorded_body = b""
    ledger_headers: Mapping[str, str] | None = None
    sent_bytes = 0
    body_read = headers_written = finished = False
    work: asyncio.Task[None] | None = None  # set while its coroutine has not ended
    work_started = False
    status = 200

    def __init__(
        self,
        gate: Gate,
        request: CallerRequest,
        format: str = "",
        operation: str = "",
        connection: HTTPConnection | None = None,
    ) -> None:
        """Create an exchange. If a client has repeated a head, `connection` replaces the connection of the request."""
        self.started = time.monotonic()
        self.gate = gate
        self.snapshot = gate.snapshot
        self.request = request
        self.connection: CallerConnection = connection or request.connection  # type: ignore[assignment]  # Tornado declares its base class
        self.request_id = common.get_request_id(request.lowered)
        self.format = format
        self.operation = operation
        self.headers = self.make_first_headers()

    # Implemented by subclasses

    def prepare(self) -> Awaitable[None] | None:
        """Check the request before the body is read. Raises GateError, directly or when awaited."""

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Receive the next bytes of the body. Return an awaitable that ends when the connection may read more, or None."""

    def answer(self) -> Awaitable[None]:
        """Serve the request. Called when the body is complete, and cancelled when the caller disconnects."""
        raise NotImplementedError

    def make_partial_call(self) -> Call | None:
        """Return the call for the access log when the request ends before its call exists; None without a caller."""
        return None

    def release(self) -> None:
        """Release the resources of the request. Called after every end of a request, possibly more than once."""

    # Receiving the request

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
        self.work_started = True
        try:
            await waiting
        except asyncio.CancelledError:
            self._on_caller_left()
        except Exception as error:
            self._refuse_before_body(error)
        finally:
            self.work = None

    def _refuse_before_body(self, error: Exception) -> None:
        """Send the error response for an exception before the body; an unexpected error becomes InternalError."""
        if not isinstance(error, GateError):
            self.log_exception()
            error = InternalError()
        self.fail(error)

    def finish(self) -> None:
        """Start `answer`, because the request is complete."""
        if not self.finished:
            self.body_read = True
            self.start_work()

    def find_client(self) -> str:
        """Return the IP address of the caller, for the access log."""
        server = self.snapshot.config.server
        if server.trusted_proxies:
            return common.find_request_origin(self.request, server).address
        return self.request.remote_ip or ""

    def start_work(self) -> None:
        """Run `answer` in a task."""
        self.work_started = False
        self.work = asyncio.get_running_loop().create_task(self._run())

    def refuse(self, error: GateError) -> bool:
        """Send an error that the HTTP server has found in the body. Return False if the response has ended."""
        if self.finished:
            return False
        self.fail(error)
        return True

    def on_connection_close(self) -> None:
        """Cancel the request after the caller has disconnected, which closes the upstream connection immediately."""
        if self.work is not None:
            self.work.cancel()
        if (
            self.work is None or not self.work_started
        ):  # a task that is cancelled before its first step runs no `finally`
            self._on_caller_left()

    def interrupt(self, error: GateError) -> None:
        """End the response with `error`, because the gateway shuts down."""
        if self.work is not None and not self.finished:
            self.interruption = error
            self.work.cancel(error)  # `streams.stages` raises the error instead

    async def _run(self) -> None:
        self.work_started = True
        running = self.gate.requests.running
        running.add(self)
        try:
            await self.answer()
            if not self.finished:
                self.end()
        except asyncio.CancelledError:
            if self.interruption is None:
                self._on_caller_left()
            elif not self.finished:
                self.fail_late(self.interruption)
        except StreamClosedError:
            if not self.finished:
                self.outcome = "aborted"
        except Exception:
            self.log_exception()
            if self.headers_written:
                self.error_code = InternalError.code
                self.cut()
            else:
                self.fail(InternalError())
        finally:
            running.discard(self)
            self.work = None
            self._end_exchange()

    def _on_caller_left(self) -> None:
        """Record CLIENT_CLOSED_STATUS for metrics and the access log; the caller does not receive it."""
        if not self.headers_written:
            self.status = CLIENT_CLOSED_STATUS
        if not self.finished:
            self.outcome = "aborted"
        self._end_exchange()

    def _end_exchange(self) -> None:
        if self.finished:
            return
        self.finished = True
        self.release()
        self.call = self.call or self.make_partial_call()
        common.record_request(self)

    # Writing the response

    def clear(self) -> None:
        """Reset the headers to the headers of every response."""
        self.status = 200
        self.headers = self.make_first_headers()

    def make_first_headers(self) -> dict[str, str]:
        """Return the headers of every response to this caller, with names as they are sent."""
        headers = common.make_default_headers(self.request_id)
        if self.snapshot.config.cors.origins:
            headers |= self.find_cors_headers()
        return headers

    def find_cors_headers(self) -> dict[str, str]:
        """Return the headers that say whether pages of the request's origin may read the response."""
        cors = self.snapshot.config.cors
        if not cors.origins or not self.is_shared or is_private(self.request.path):
            return {}
        return make_cors_headers(cors, self.request.lowered.get("origin", ""))

    def set_status(self, status: int) -> None:
        self.status = status

    def set_header(self, name: str, value: str) -> None:
        self.headers[capitalize_header_name(name)] = value

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Set the headers of a reply or an error. Names are normalised, so that no header is sent twice."""
        for name, value in headers.items():
            self.headers[capitalize_header_name(name)] = value

    def write(self, chunk: bytes) -> Awaitable[None] | None:
        """Write a chunk of the body. Return an awaitable that ends when the caller can receive more, or None if it can now.

        Raises StreamClosedError, immediately or when awaited, when the caller has disconnected.
        """
        self.sent_bytes += len(chunk)
        self.written_at = time.monotonic()
        return self._send(chunk) if self.headers_written else self._write_head(chunk)

    async def send(self, chunk: bytes) -> None:
        """Call `write` for a chunk and wait until the caller can receive more."""
        waiting = self.write(chunk)
        if waiting is not None:
            await waiting

    def end(self, chunk: bytes = b"") -> None:
        """Write the last chunk and finish. If no chunk was written before, the response gets a Content-Length."""
        self.sent_bytes += len(chunk)
        if not self.headers_written:
            if self.status not in (204, 304):
                self.headers.setdefault("Content-Length", str(len(chunk)))
            ignore_result(self._write_head(chunk if self.request.method != "HEAD" else b""))
        elif chunk:
            ignore_result(getattr(self.connection, "send_last", self._send)(chunk))
        self.connection.set_close_callback(None)
        self.connection.finish()
        self._end_exchange()

    def fail(self, error: GateError) -> None:
        """Send an error response in the format of the route. Call it only before the status line was sent."""
        self.headers = self.make_first_headers()
        self.error_code = error.code
        self.status = error.status
        self.set_headers(error.headers)
        self.headers["Content-Type"] = "application/json"
        if error.status == 429 and isinstance(error, RateLimited) and error.levels is not None:
            self.set_headers(render_limit_headers(self.snapshot.formats, self.call, error.levels, self.format))
        if not self.body_read and common.has_body(self.request.lowered):
            self.headers["Connection"] = "close"  # the next bytes are the rest of this body, not a request
        self.call = self.call or self.make_partial_call()
        self.end(common.render_error_envelope(self.snapshot, self.format, self.call, error))

    def fail_late(self, error: GateError) -> None:
        """Send an error, even after the status line was sent. The response ends there. The usage ledger gets its texts."""
        self.call = self.call or self.make_partial_call()
        if self.call is not None:
            self.call.progress.note_error(error)
        if not self.headers_written:
            self.fail(error)
            return
        self.error_code = error.code
        self.cut()

    def cut(self) -> None:
        """Close the connection in the middle of a response, so that the client sees that it is incomplete."""
        self.connection.close()

    def _write_head(self, chunk: bytes) -> Awaitable[None] | None:
        self.headers["Date"] = format_date_header()
        connection = self.connection
        self._send = getattr(connection, "send", connection.write)
        send_head = getattr(connection, "send_head", self._write_tornado_head)
        waiting: Awaitable[None] | None = send_head(
            self.status, responses.get(self.status, "Unknown"), self.headers, chunk
        )
        self.headers_written = True  # an invalid header raises before anything is sent
        return waiting

    def _write_tornado_head(self, status: int, reason: str, fields: dict[str, str], chunk: bytes) -> Awaitable[None]:
        headers = HTTPHeaders()
        for name, value in fields.items():
            headers[name] = clean_header_value(value)
        if self.gate.readiness.is_draining or self.gate.readiness.is_closing:
            headers["Connection"] = "close"
        return self.connection.write_headers(ResponseStartLine("", status, reason), headers, chunk)

    def log_exception(self) -> None:
        """Log the exception that is being handled, with its traceback."""
        kind = sys.exc_info()[0]
        fields = {"request_id": self.request_id}
        log.exception("request failed: %s", kind.__name__ if kind else "unknown", extra={"fields": fields})


@lru_cache(1000)
def capitalize_header_name(name: str) -> str:
    """Return the name of a header in Tornado's spelling, such as ``X-Request-Id``."""
    return "-".join(word.capitalize() for word in name.split("-"))


_cached_date = (0, "")


def format_date_header() -> str:
    """Return the value of the Date header, cached for a second."""
    global _cached_date  # noqa: PLW0603  a cache with one entry
    now = int(time.time())
    if _cached_date[0] != now:
        _cached_date = (now, formatdate(now, usegmt=True))
    return _cached_date[1]


def set_nodelay(connection: CallerConnection) -> None:
    """Disable Nagle's algorithm, so that small chunks are sent immediately. `http.server.front` does so for every connection."""
    tornado_stream = getattr(connection, "stream", None)
    if tornado_stream is not None:
        tornado_stream.set_nodelay(True)


def ignore_result(writing: Awaitable[None] | None) -> None:
    """Let a write finish in the background and ignore its exception."""
    if isinstance(writing, asyncio.Future):
        writing.add_done_callback(_consume_result)


def _consume_result(done: asyncio.Future[None]) -> None:
    """Retrieve the exception of a write, so that a disconnected caller is not logged as an error."""
    if not done.cancelled():
        done.exception()
