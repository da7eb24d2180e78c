"""Convert the ``error`` object of a response that failed after its status line to a `GateError`. No I/O.

Vendors put the status in different places: in ``code`` as a number or a string of digits, in ``status``, or nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import GateError
from tornado_gate.http.upstream_errors import KEY_REFUSED, error_for_status, error_text, status_in

_STATUS_OF_WORD: Final = {"rate_limit": 429, "timeout": 504, "overloaded": 503, "invalid_request": 400}
"""HTTP status by a substring of the error's ``type`` or ``code``, for errors without a specific status."""


def find_error(body: Any) -> GateError | None:
    """Return the error in a whole body or a stream frame, or None if it is not an error."""
    if not isinstance(body, dict):
        return None
    if body.get("error"):
        return parse_error(body["error"])
    return parse_error(body) if body.get("object") == "error" else None


def parse_error(error: Any) -> GateError:
    """Return a `GateError` for the upstream's ``error`` value of any JSON type.

    The upstream's message is kept, except for errors about the provider's key, whose details are hidden from callers.
    """
    status = _get_status(error) if isinstance(error, Mapping) else 0
    return error_for_status(status, text=error_text(error), in_answer=True)


def _get_status(error: Mapping[str, Any]) -> int:
    status = status_in(error, "status", "status_code", "code")
    words = f"{error.get('type')} {error.get('code')}".lower()
    if "authentication" in words:
        return KEY_REFUSED
    if 400 <= status < 500 or status in (503, 504, 529):
        return status
    return next((meant for word, meant in _STATUS_OF_WORD.items() if word in words), status)
