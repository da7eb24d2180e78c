"""Errors of this format: the ``error`` event, and the ``error`` member of a response that failed. Pure.

Source: openai-python 3.52, types/responses/response_error.py and response_error_event.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import GateError
from tornado_gate.http.upstream_errors import error_for_status
from tornado_gate.wire import openai_chat

_FAILED_STATUSES = ("failed", "cancelled")


def find_error(body: Any) -> GateError | None:
    """The error that a response or an event is, or None for one that is none.

    The vendor documents the ``error`` event as flat; it was seen with an ``error`` object inside, as other routes have it.
    """
    if not isinstance(body, Mapping):
        return None
    if body.get("type") == "error":
        return openai_chat.parse_error(body.get("error") or body)
    response = body.get("response") if body.get("type") == "response.failed" else body
    response = response if isinstance(response, Mapping) else body
    if response.get("error"):
        return openai_chat.parse_error(_add_known_code(response["error"]))
    if body.get("type") == "response.failed" or body.get("status") in _FAILED_STATUSES:
        return error_for_status(0, in_answer=True)
    return openai_chat.find_error(body)


def _add_known_code(error: Any) -> Any:
    """`error` with the type that the chat format's reader knows, where this format only gives a code."""
    if isinstance(error, Mapping) and error.get("code") == "invalid_prompt" and not error.get("type"):
        return {**error, "type": "invalid_request_error"}
    return error


def render_failure(error: GateError) -> dict[str, Any]:
    """The ``error`` member of a failed response, with one of the vendor's own codes."""
    code = "invalid_prompt" if 400 <= error.status < 500 else "server_error"
    return {"code": "rate_limit_exceeded" if error.status == 429 else code, "message": error.message}


def make_failed_response(response: Mapping[str, Any], error: GateError) -> dict[str, Any]:
    """`response` as one that failed with `error`."""
    return {**response, "status": "failed", "error": render_failure(error)}


def render_event(error: GateError, sequence_number: int) -> dict[str, Any]:
    """The ``error`` event."""
    return {
        "type": "error",
        "code": error.code,
        "message": error.message,
        "param": error.param,
        "sequence_number": sequence_number,
    }
