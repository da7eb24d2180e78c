"""Errors in the wire format, in one of two dialects.

Every caller gets the strings `message`, `type`, `param` and `code`, and Google's name of the status. For Google's SDK and
Vercel's provider for Google, `code` is the HTTP status as a number: Google's SDK compares it, and Vercel's provider shows no
message without it.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.errors import GateError, RateLimited
from tornado_gate.types import Call
from tornado_gate_gemini.format.paths import SDK_HEADER
from tornado_gate_gemini.wire.generate import get_status_name

VERCEL_AGENT_PREFIX: Final = "ai-sdk-"  # ai-sdk-google/…, ai-sdk-provider-utils/…


def render_error(call: Call | None, error: GateError) -> dict[str, Any]:
    """Return the JSON object of an error body or an error chunk."""
    body: dict[str, Any] = {**error.body(), "status": get_status_name(error.status)}
    if call is not None and (SDK_HEADER in call.headers or VERCEL_AGENT_PREFIX in call.headers.get("user-agent", "")):
        body["code"] = error.status
    if isinstance(error, RateLimited) and error.exceeded:
        body["details"] = describe_quota(error)
    return {"error": body}


def describe_quota(error: RateLimited) -> list[dict[str, Any]]:
    """The details of a request that a bound has refused, as of google.rpc: QuotaFailure and RetryInfo.

    Source: google/rpc/error_details.proto; a violation has the fields that the vendor's API sends for generateContent.
    """
    bound, subject = error.exceeded["bound"], error.exceeded["subject"]
    violation = {
        "subject": subject,
        "description": error.message,
        "quotaMetric": f"tornado-gate/{bound}",
        "quotaId": f"{bound}_per_{subject}",
        "quotaValue": error.exceeded["limit"],
    }
    return [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{error.retry_after or 0:g}s"},
    ]


def render_error_body(call: Call | None, error: GateError) -> bytes:
    return orjson.dumps(render_error(call, error))


def render_error_frame(call: Call | None, error: GateError) -> bytes:
    """Return the server-sent event that ends a failed stream."""
    return sse.render(render_error_body(call, error))
