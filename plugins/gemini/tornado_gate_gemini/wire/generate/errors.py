"""Google's ``error`` object as a `GateError`, and status names. Pure.

Source: https://cloud.google.com/apis/design/errors: ``{"error": {"code", "message", "status", "details"}}``, where `code`
is the HTTP status and `status` a name of google.rpc.Code. An invalid API key is a 400 whose details contain API_KEY_INVALID.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import GateError
from tornado_gate.http.upstream_errors import KEY_REFUSED, error_for_status, error_text, status_in
from tornado_gate_gemini.wire.generate.json_values import read_string

_STATUS_NAMES: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    416: "OUT_OF_RANGE",
    426: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_STATUS_CODES: Final[Mapping[str, int]] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def get_status_name(status: int) -> str:
    """Google's name for an HTTP status."""
    return _STATUS_NAMES.get(status, "INVALID_ARGUMENT" if 400 <= status < 500 else "INTERNAL")


def find_error(body: Any) -> GateError | None:
    """The error in a response body or stream chunk; None when the value is not an error."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict) or not body.get("error"):
        return None
    error = body["error"]
    return parse_error(error if isinstance(error, dict) else {"message": error})


def parse_error(error: Mapping[str, Any]) -> GateError:
    """A `GateError`. The upstream's message is kept, except for errors about the gateway's own key, which callers do not see."""
    text = error_text(error)
    status = status_in(error, "code") or _STATUS_CODES.get(read_string(error.get("status")), 0)
    about_key = "API_KEY" in str(error.get("details")) or "API key" in text.message
    return error_for_status(KEY_REFUSED if about_key else status, text=text, in_answer=True)
