"""The vendor's error codes as `UpstreamError`. The same codes come with an HTTP status, in a task, or per image.

Source: https://www.alibabacloud.com/help/en/model-studio/error-code: 400 InvalidParameter*, InvalidURL*, BadRequest*,
DataInspectionFailed and similar, 400 Arrearage (unpaid account), 401 InvalidApiKey, 403 *AccessDenied, 404
ModelNotFound, 429 Throttling*, 500 InternalError*, RequestTimeOut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.errors import UpstreamError
from tornado_gate.http.upstream_errors import KEY_REFUSED, ErrorText, error_for_status
from tornado_gate.types import Call
from tornado_gate_openai.wire.dashscope_images.response import FailureReport

_CALLER_CODES: Final = (
    "BadRequest",
    "DataInspection",
    "FaultyInput",
    "InvalidFile",
    "InvalidImage",
    "InvalidParameter",
    "InvalidPrompt",
    "InvalidURL",
    "IPInfringementSuspect",
    "data_inspection_failed",
    "invalid_parameter",
)
_RATE_LIMIT_CODES: Final = ("Throttling", "LimitRequests", "limit_requests", "limit_burst_rate", "insufficient_quota")
_UNKNOWN_MODEL_CODES: Final = ("ModelNotFound", "Model.NotFound", "model_not_found")
_ACCOUNT_CODES: Final = ("Arrearage", "InvalidApiKey", "invalid_api_key", "AccessDenied", "access_denied")
_TIMEOUT_CODES: Final = ("RequestTimeOut", "InternalError.Timeout", "ResponseTimeout")


_STATUSES_OF_CODES: Final = (
    (_CALLER_CODES, 400),
    (_RATE_LIMIT_CODES, 429),
    (_UNKNOWN_MODEL_CODES, 404),
    (_TIMEOUT_CODES, 504),
)


def make_error(
    call: Call, fault: FailureReport, status: int = 0, headers: Mapping[str, str] | None = None
) -> UpstreamError:
    """The error for a failure that came with an HTTP `status` and `headers`, or inside a response (`status` 0)."""
    provider, code, message = call.target.provider, fault.code[:100], fault.message
    status = _get_status(fault.code, status)
    if not status:
        why = code or "no reason given"
        return UpstreamError(f"The provider '{provider}' could not generate the image ({why}).")
    return error_for_status(status, provider, ErrorText(message, code=code), headers)


def _get_status(code: str, status: int) -> int:
    """The HTTP status of a code. A given `status` wins, except for codes about the gateway's account."""
    if code.startswith(_ACCOUNT_CODES) or code.endswith("AccessDenied"):
        return KEY_REFUSED
    return status or next((meant for codes, meant in _STATUSES_OF_CODES if code.startswith(codes)), 0)
