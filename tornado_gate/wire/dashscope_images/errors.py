"""The vendor's codes to the tree of errors: the same ones come with an HTTP status, inside a task, and for one picture of many.

Source: https://www.alibabacloud.com/help/en/model-studio/error-code: 400 InvalidParameter*, InvalidURL*, BadRequest*,
DataInspectionFailed and its kin, 400 Arrearage (the account has not paid), 401 InvalidApiKey, 403 *AccessDenied, 404
ModelNotFound, 429 Throttling*, 500 InternalError*, RequestTimeOut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.errors import UpstreamError
from tornado_gate.http.upstream_errors import KEY_REFUSED, ErrorText, error_for_status
from tornado_gate.types import Call
from tornado_gate.wire.dashscope_images.response import Fault

_OF_THE_CALLER: Final = (
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
_LIMITS: Final = ("Throttling", "LimitRequests", "limit_requests", "limit_burst_rate", "insufficient_quota")
_NO_MODEL: Final = ("ModelNotFound", "Model.NotFound", "model_not_found")
_OF_THE_ACCOUNT: Final = ("Arrearage", "InvalidApiKey", "invalid_api_key", "AccessDenied", "access_denied")
_TOO_LATE: Final = ("RequestTimeOut", "InternalError.Timeout", "ResponseTimeout")


_STATUSES: Final = ((_OF_THE_CALLER, 400), (_LIMITS, 429), (_NO_MODEL, 404), (_TOO_LATE, 504))


def failure(call: Call, fault: Fault, status: int = 0, headers: Mapping[str, str] | None = None) -> UpstreamError:
    """The error for what the vendor says, by HTTP with `status` and `headers`, or inside an answer."""
    provider, code, said = call.target.provider, fault.code[:100], fault.message
    status = _status(fault.code, status)
    if not status:
        why = code or "no reason given"
        return UpstreamError(f"The provider '{provider}' failed to make the picture ({why}).")
    return error_for_status(status, provider, ErrorText(said, code=code), headers)


def _status(code: str, status: int) -> int:
    """The status of a code; that by HTTP stands, unless the code is about the operator's account."""
    if code.startswith(_OF_THE_ACCOUNT) or code.endswith("AccessDenied"):
        return KEY_REFUSED
    return status or next((meant for codes, meant in _STATUSES if code.startswith(codes)), 0)
