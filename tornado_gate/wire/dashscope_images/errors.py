"""The vendor's codes to the tree of errors: the same ones come with an HTTP status, inside a task, and for one picture of many.

Source: https://www.alibabacloud.com/help/en/model-studio/error-code: 400 InvalidParameter*, InvalidURL*, BadRequest*,
DataInspectionFailed and its kin, 400 Arrearage (the account has not paid), 401 InvalidApiKey, 403 *AccessDenied, 404
ModelNotFound, 429 Throttling*, 500 InternalError*, RequestTimeOut.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.errors import UpstreamError, UpstreamRateLimited, UpstreamRefused, UpstreamTimeout
from tornado_gate.types import Call
from tornado_gate.wire.dashscope_images.response import Fault

_LONGEST: Final = 2000
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


def failure(call: Call, fault: Fault) -> UpstreamError:
    """The error for what the vendor says. Its words come down only with what is about the caller's request."""
    provider, code = call.target.provider, fault.code
    said = fault.message[:_LONGEST]
    if call.target.api_key:
        said = said.replace(call.target.api_key, "***")
    if _of_the_account(code):
        return _credentials(call)
    if code.startswith(_OF_THE_CALLER):
        text = said or f"The provider '{provider}' refused the request: {code[:100]}."
        return UpstreamRefused(text, status=400, code=code[:100])
    if code.startswith(_LIMITS):
        return UpstreamRateLimited(said or f"The provider '{provider}' is limiting requests.")
    if code.startswith(_NO_MODEL):
        text = said or f"The provider '{provider}' does not know the model."
        return UpstreamRefused(text, status=404, code=code[:100])
    if code.startswith(_TOO_LATE):
        return UpstreamTimeout(f"The provider '{provider}' answered that it ran out of time.")
    return UpstreamError(f"The provider '{provider}' failed to make the picture ({code[:100] or 'no reason given'}).")


def mended(call: Call, refused: UpstreamRefused) -> UpstreamError:
    """The error for a refusal by HTTP: one that is about the operator's account is none of the caller's."""
    return _credentials(call) if _of_the_account(refused.code) else refused


def _of_the_account(code: str) -> bool:
    return code.startswith(_OF_THE_ACCOUNT) or code.endswith("AccessDenied")


def _credentials(call: Call) -> UpstreamError:
    return UpstreamError(
        f"The provider '{call.target.provider}' refused the gateway's own account; the operator must mend it.",
        code="upstream_authentication",
    )
