"""Errors on the wire, in one of two dialects.

Every caller gets the four strings and Google's name for the status. One that names itself as Google's SDK, or as Vercel's
provider for Google, gets `code` as the number that the SDK compares with, or without which it shows no message at all.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.errors import GateError
from tornado_gate.types import Call
from tornado_gate.wire.gemini_generate import get_status_name
from tornado_gate_format_gemini.paths import SDK_HEADER

VERCEL_AGENT_PREFIX: Final = "ai-sdk-"  # ai-sdk-google/…, ai-sdk-provider-utils/…


def render_error(call: Call | None, error: GateError) -> dict[str, Any]:
    """The object that an error body or an error chunk is."""
    said: dict[str, Any] = {**error.body(), "status": get_status_name(error.status)}
    if call is not None and (SDK_HEADER in call.headers or VERCEL_AGENT_PREFIX in call.headers.get("user-agent", "")):
        said["code"] = error.status
    return {"error": said}


def render_error_body(call: Call | None, error: GateError) -> bytes:
    return orjson.dumps(render_error(call, error))


def render_error_frame(call: Call | None, error: GateError) -> bytes:
    """The frame that ends a stream of server-sent events."""
    return sse.render(render_error_body(call, error))
