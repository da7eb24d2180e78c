"""The Anthropic error object, in both directions. Pure.

Source: anthropic-python 2.11, types/shared/error_response.py, error_type.py and _exceptions.py; the vendor's page "Errors"
for ``request_too_large`` and for the error type of each status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.http.upstream_errors import error_for_status, error_text

NO_THREADS: Final = "thread_unsupported_request"
"""Error code after which the vendor's SDKs send the whole conversation instead of only the newest turn."""

_TYPE_OF_STATUS: Final[Mapping[int, str]] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STATUS_OF_TYPE: Final[Mapping[str, int]] = {
    "authentication_error": 401,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "request_too_large": 413,
    "timeout_error": 504,
}


def threads_unsupported_error() -> InvalidField:
    """The error for a request with ``thread``: the gateway does not store Anthropic threads, so earlier turns would be lost."""
    return InvalidField(
        "thread",
        "'thread' is not supported: threads are not stored here. Send the whole conversation in 'messages'.",
        code=NO_THREADS,
    )


def find_error(body: Any) -> GateError | None:
    """The error in a response body or stream event; None when the value is not an error."""
    if not isinstance(body, dict):
        return None
    if body.get("type") == "error" or (body.get("error") and "type" not in body):
        return parse_error(body.get("error"))
    return None


def parse_error(error: Any) -> GateError:
    """A `GateError` for the upstream's ``error`` value, which may be an object, a string or any other JSON.

    The upstream's message is kept, except for errors about the gateway's own API key, which callers do not see.
    """
    kind = error.get("type") if isinstance(error, dict) else None
    status = _STATUS_OF_TYPE.get(kind, 0) if isinstance(kind, str) else 0
    return error_for_status(status, text=error_text(error), in_answer=True)


def render_error(error: GateError, request_id: str = "") -> dict[str, Any]:
    """The body of an error response, or the data of an ``error`` event. `error.status` selects the vendor's error type."""
    kind = _TYPE_OF_STATUS.get(error.status) or ("invalid_request_error" if error.status < 500 else "api_error")
    value: dict[str, Any] = {"type": "error", "error": {**error.body(), "type": kind}}
    if error.code == NO_THREADS:
        value["error"]["details"] = {"error_code": NO_THREADS}
    return value | ({"request_id": request_id} if request_id else {})
