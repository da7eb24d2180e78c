"""Errors of this format: the ``error`` event, and the ``error`` member of a failed response. No I/O.

Source: openai-python 3.52, types/responses/response_error.py and response_error_event.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import GateError
from tornado_gate.http.upstream_errors import error_for_status
from tornado_gate_openai.wire import chat

_FAILED_STATUSES = ("failed", "cancelled")


def find_error(body: Any) -> GateError | None:
    """Return the error in a response or an event, or None if it is not an error.

    The vendor documents the ``error`` event as flat; it also occurs with an inner ``error`` object, as on other routes.
    """
    if not isinstance(body, Mapping):
        return None
    if body.get("type") == "error":
        return chat.parse_error(body.get("error") or body)
    response = body.get("response") if body.get("type") == "response.failed" else body
    response = response if isinstance(response, Mapping) else body
    if response.get("error"):
        return chat.parse_error(_add_known_code(response["error"]))
    if body.get("type") == "response.failed" or body.get("status") in _FAILED_STATUSES:
        return error_for_status(0, in_answer=True)
    return chat.find_error(body)


def _add_known_code(error: Any) -> Any:
    """Return `error` with the ``type`` that `openai_chat.parse_error` expects, for a code that has no type in this format."""
    if isinstance(error, Mapping) and error.get("code") == "invalid_prompt" and not error.get("type"):
        return {**error, "type": "invalid_request_error"}
    return error


def render_failure(error: GateError) -> dict[str, Any]:
    """Return the ``error`` member of a failed response, with one of the vendor's codes."""
    code = "invalid_prompt" if 400 <= error.status < 500 else "server_error"
    return {"code": "rate_limit_exceeded" if error.status == 429 else code, "message": error.message}


def make_failed_response(response: Mapping[str, Any], error: GateError) -> dict[str, Any]:
    """Return a copy of `response` with status "failed" and `error`."""
    return {**response, "status": "failed", "error": render_failure(error)}


def render_event(error: GateError, sequence_number: int) -> dict[str, Any]:
    """Return the ``error`` event."""
    return {
        "type": "error",
        "code": error.code,
        "message": error.message,
        "param": error.param,
        "sequence_number": sequence_number,
    }
