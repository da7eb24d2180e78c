"""The error object, both ways. Pure.

Source: anthropic-python 2.11, types/shared/error_response.py, error_type.py and _exceptions.py; the vendor's page "Errors"
for ``request_too_large`` and for which status has which type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.http.upstream_errors import error_for_status, error_text

NO_THREADS: Final = "thread_unsupported_request"
"""The code by which the vendor's SDKs learn that they must send the whole conversation, not only its newest turn."""

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
    """For a request with ``thread`` where nobody keeps the conversation: to answer it would lose what was said before."""
    return InvalidField("thread", "Threads are not kept here: send the whole conversation.", code=NO_THREADS)


def find_error(body: Any) -> GateError | None:
    """The error that a whole body or an event of a stream is, or None for one that is none."""
    if not isinstance(body, dict):
        return None
    if body.get("type") == "error" or (body.get("error") and "type" not in body):
        return parse_error(body.get("error"))
    return None


def parse_error(error: Any) -> GateError:
    """One of our errors for the upstream's ``error`` value, which may be an object, a string or anything.

    The upstream's words are kept, but for a fault of our own key, of which callers learn nothing.
    """
    kind = error.get("type") if isinstance(error, dict) else None
    status = _STATUS_OF_TYPE.get(kind, 0) if isinstance(kind, str) else 0
    return error_for_status(status, text=error_text(error), in_answer=True)


def render_error(error: GateError, request_id: str = "") -> dict[str, Any]:
    """The body of an error answer, or the data of an ``error`` event. The inner type is the vendor's, by status."""
    kind = _TYPE_OF_STATUS.get(error.status) or ("invalid_request_error" if error.status < 500 else "api_error")
    value: dict[str, Any] = {"type": "error", "error": {**error.body(), "type": kind}}
    if error.code == NO_THREADS:
        value["error"]["details"] = {"error_code": NO_THREADS}
    return value | ({"request_id": request_id} if request_id else {})
