"""Responses of the front itself, to what the application does not get: 400, 408, 413, 417, 431, 501, 503.

`Refusals` is the interface that a front needs; `server.front_refusals` implements it with counts and logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from http.client import responses
from typing import Final, Protocol

import orjson
from tornado.httputil import HTTPInputError

from tornado_gate.errors import GateError, RequestError, TooLarge, Unavailable
from tornado_gate.http.server.response_head import render_head

MAX_REASON_LENGTH = 200


class Refused(HTTPInputError):
    """An error: a request that is refused with `error` instead of the 400 of any other HTTPInputError."""

    def __init__(self, error: GateError) -> None:
        super().__init__(error.message)
        self.error = error


class RequestTimeout(RequestError):
    """An error: the request did not arrive in time."""

    status = 408
    code = "request_timeout"


class HeadersTooLarge(RequestError):
    """An error: the head has too many bytes or fields."""

    status = 431
    code = "headers_too_large"


class ExpectationFailed(RequestError):
    """An error: the header Expect has a value that is not supported (RFC 9110 10.1.1)."""

    status = 417
    code = "expectation_failed"


class UnknownMethod(RequestError):
    """An error: HTTP has no such method (RFC 9110 15.6.2). A method that exists, but not for a path, is MethodNotAllowed."""

    status = 501
    code = "unknown_method"

    def __init__(self, method: str) -> None:
        shown = method if len(method) <= 30 else method[:30] + "…"
        super().__init__(f"HTTP has no method '{shown}'. GET /openapi.json lists the methods of all routes.")


class Limit:
    """The reason why a connection was closed or not accepted; values of a label in metrics."""

    CONNECTIONS: Final = "connections"
    ADDRESS: Final = "connections_per_address"
    HEAD_TIME: Final = "head_time"
    BODY_TIME: Final = "body_time"
    STALLED: Final = "stalled_reader"


class Refusals(Protocol):
    """A renderer of the front's own responses, which is also notified of connections that reach a limit."""

    def answer(self, error: GateError, headers: Mapping[str, str], method: str, path: str) -> bytes:
        """Return a whole response.

        `headers` (names in lower case), `method` and `path` are empty if the head could not be parsed.
        """

    def on_limit(self, limit: str, address: str) -> None:
        """Record that a connection from `address` has reached a limit, a value of `Limit`."""


class PlainRefusals:
    """A renderer of responses without logging or counting."""

    def answer(self, error: GateError, headers: Mapping[str, str], method: str, path: str) -> bytes:
        return render_refusal(error, {}, method)

    def on_limit(self, limit: str, address: str) -> None:
        """Do nothing."""


def body_too_large_error() -> TooLarge:
    """Return the error for a body above the limit of its request."""
    return TooLarge("The request body is too large. Send a smaller body.")


def too_many_connections_error() -> Unavailable:
    """Return the error for a connection beyond the limits."""
    return Unavailable(
        "The gateway has too many open connections. Close unused connections, and send the request again later.",
        code="too_many_connections",
        headers={"Retry-After": "5"},
    )


def find_error(error: HTTPInputError) -> GateError:
    """Return the error response for a request that is refused with `error`."""
    if isinstance(error, Refused):
        return error.error
    reason = str(error)[:MAX_REASON_LENGTH]
    return RequestError(f"The request is not valid HTTP/1.1: {reason}. Correct the request.", code="invalid_http")


def render_refusal(error: GateError, headers: Mapping[str, str], method: str) -> bytes:
    """Return a response with the gateway's own error body, after which the connection closes. `headers` are sent with it."""
    body = orjson.dumps({"error": error.body()})
    fields = {
        **headers,
        **error.headers,
        "Content-Type": "application/json",
        "Date": formatdate(usegmt=True),
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    head = render_head(error.status, responses.get(error.status, "Unknown"), fields.items())
    return head if method == "HEAD" else head + body
