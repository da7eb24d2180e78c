"""All exceptions of the gateway that a caller can receive, and `ConfigError`.

::

    GateError (status, type, code, param, message)     sent to the caller; the message holds no secrets
    + RequestError 400               the request is wrong; the caller can correct it
    |   InvalidField 400             one field of the body is wrong; `param` is its path
    |   UnsupportedOperation 400     the model does not support the operation
    |   AuthenticationFailed 401     no key, a bad key, or two different keys
    |   NotAllowed 403               the key lacks the permission
    |   NotFound 404                 unknown route
    |   |   UnknownModel 404
    |   MethodNotAllowed 405         the header `Allow` lists the methods of the route
    |   TooLarge 413
    |   UnsupportedMediaType 415
    |   RateLimited 429              `retry_after` in seconds
    + UpstreamError 502              the provider failed; `retryable`: another target may be tried
    |   UpstreamRefused              the provider returned a 4xx: its status and message
    |   UpstreamKeyRefused 502       the provider refused the gateway's own key or account
    |   UpstreamUnreachable 502      no connection; the provider has received nothing
    |   UpstreamLost 502             the connection closed before the end of the response
    |   UpstreamRateLimited 429
    |   UpstreamOverloaded 503
    |   TargetBusy 503               the gateway's own limit of requests to the provider at a time; no fault of the provider
    |   UpstreamTimeout 504
    |   |   UpstreamConnectTimeout 504   connect timeout; the provider has received nothing
    + Unavailable 503                no healthy target, or the gateway is shutting down
    + PluginError 503                a plugin raised an unexpected error or violated its contract; logged with its name
    |   PluginUnavailable 503        a required wrapper cannot work; no other target is tried
    + InternalError 500              an unexpected error in the gateway
    ContractError                    a plugin's value breaks its contract; not a GateError, becomes a PluginError
    ConfigError                      conf is invalid; not a GateError, never sent to a caller

Code distinguishes errors by class, never by message text. ``http/upstream_errors.py`` maps statuses and codes of upstreams to
these classes. The handler's ``fail`` method renders an error in the caller's wire format with the format's ``translate_error``.
"""

from __future__ import annotations

import math
import time
import types
from collections.abc import Mapping
from typing import Any, ClassVar, Final


class GateError(Exception):
    """An error response: status, type, code, param and message. `message` must be safe to show to any caller."""

    status: int = 500
    type: ClassVar[str] = "server_error"
    code: str = "internal_error"
    retryable: ClassVar[bool] = False
    headers: Mapping[str, str] = types.MappingProxyType({})

    def __init__(
        self,
        message: str,
        *,
        param: str = "",
        code: str | None = None,
        status: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if headers is not None:
            self.headers = headers
        if code is not None:
            self.code = code
        if status is not None:
            self.status = status

    @property
    def retry_after(self) -> float | None:
        """Return the seconds in the Retry-After header, which may be a date (RFC 9110 10.2.3); None without a valid header."""
        value = self.headers.get("Retry-After", "")
        if value.isascii() and value.isdigit():
            return float(value)
        return _count_seconds_until(value) if value else None

    def body(self) -> dict[str, str]:
        """Return the strings `message`, `type`, `param` and `code`, which every wire format puts into its error body."""
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}

    @property
    def operator_message(self) -> str:
        """Return the message for an administrator of the gateway."""
        return self.message


def _count_seconds_until(date: str) -> float | None:
    from email.utils import parsedate_to_datetime  # few upstreams send a date

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


class RequestError(GateError):
    """An error that the caller can correct. Raised directly for a body that is not valid JSON."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class InvalidField(RequestError):
    """An invalid field: `param` is its path, for example ``messages.0.role``."""

    code = "invalid_value"

    def __init__(self, param: str, message: str, **rest: Any) -> None:
        super().__init__(message, param=param, **rest)


class UnsupportedOperation(RequestError):
    """An error: the model exists but does not support the operation."""

    code = "operation_not_supported"

    def __init__(self, message: str, *, param: str = "model", **rest: Any) -> None:
        super().__init__(message, param=param, **rest)


class AuthenticationFailed(RequestError):
    """An error: the caller has no key, an unknown key, or sent two different keys."""

    headers = types.MappingProxyType({"WWW-Authenticate": "Bearer"})  # RFC 9110 15.5.2 requires a challenge
    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class NotAllowed(RequestError):
    """An error: the key lacks the permission."""

    status = 403
    type = "permission_error"
    code = "not_allowed"


class NotFound(RequestError):
    """An error: the route, or the object that the request names, does not exist."""

    status = 404
    type = "not_found_error"
    code = "not_found"


class UnknownModel(NotFound):
    """An error: no model of this name is configured."""

    code = "model_not_found"

    def __init__(self, model: str) -> None:
        shown = model if len(model) <= 100 else model[:100] + "…"
        super().__init__(
            f"The model '{shown}' does not exist. GET /v1/models lists the available models.", param="model"
        )


class MethodNotAllowed(RequestError):
    """An error: the path does not support the method; the header `Allow` lists the supported methods."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, method: str, allow: list[str]) -> None:
        allowed = ", ".join(sorted(allow))
        super().__init__(f"This path does not support {method}. Use {allowed}.", headers={"Allow": allowed})


class TooLarge(RequestError):
    """An error: the body, or a part of it, is above a limit."""

    status = 413
    code = "request_too_large"


class UnsupportedMediaType(RequestError):
    """An error: the route does not accept bodies of this Content-Type."""

    status = 415
    code = "unsupported_media_type"


class RateLimited(RequestError):
    """An error: a limit of the caller is used up. The caller may try again after `retry_after` seconds."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limited"

    def __init__(
        self, message: str, *, retry_after: float, exceeded: dict[str, str] | None = None, **rest: Any
    ) -> None:
        super().__init__(message, headers={"Retry-After": str(max(1, math.ceil(retry_after)))}, **rest)
        self.exceeded = exceeded or {}
        """The exceeded bound in conf, as texts: `bound`, `subject`, `limit` and `used`. Empty for any other limit."""
        self.levels: Any = None
        """The remainder of the limits per minute that refused the request (`types.LimitLevels`); None for any other limit."""


class BlockedByGuard(RequestError):
    """An error: a guard has refused a request or its response. Status, code and message come from the guard's decision."""

    code = "blocked_by_guard"


class NotReviewed(RequestError):
    """An error: an optional guard did not review a request or its response, and the caller sent ``x-gate-strict: 1``."""

    code = "not_reviewed"

    def __init__(self, guard: str) -> None:
        message = (
            f"The guard '{guard}' did not review this request or its answer (rejected because of x-gate-strict). Send the "
            "request again later, or without x-gate-strict; the gateway's log shows the cause."
        )
        super().__init__(message, param=f"guard:{guard}")


TELL_AN_ADMINISTRATOR: Final = " Tell an administrator of the gateway."


class UpstreamError(GateError):
    """An error: the provider failed; another target may be tried.

    `advice` is for administrators only, who can change the provider entry; the message then leads the caller to them.
    `hidden_text` is the upstream's own error text where no caller receives it. Request pages show both to administrators.
    """

    status = 502
    type = "upstream_error"
    code = "upstream_error"
    retryable = True
    hidden_text: str = ""

    def __init__(self, message: str, *, advice: str = "", **rest: Any) -> None:
        super().__init__(message + TELL_AN_ADMINISTRATOR if advice else message, **rest)
        self.advice = advice

    @property
    def operator_message(self) -> str:
        """Return the message for an administrator, with the advice."""
        return f"{self.message.removesuffix(TELL_AN_ADMINISTRATOR)} {self.advice}".rstrip()


UPSTREAM_CODES: Final = frozenset(
    {
        *("upstream_answer_too_complex", "upstream_answer_too_large", "upstream_compression_too_high"),
        *("upstream_event_too_large", "upstream_file_gone", "upstream_file_refused", "upstream_file_too_large"),
        *("upstream_file_unreachable", "upstream_lost_task", "upstream_no_video", "upstream_response_failed"),
        "upstream_wrong_media_type",
    }
)
"""The codes that the gateway gives to an UpstreamError, besides the codes of the classes."""


class UpstreamRefused(UpstreamError):
    """An error: the provider returned a 4xx for the request. The caller receives it; no other target is tried."""

    type = "invalid_request_error"
    code = "upstream_refused"
    retryable = False


class UpstreamKeyRefused(UpstreamError):
    """An error: the provider refused the gateway's own key or account. No caller sees the provider's error text.

    `upstream_status` is the upstream's status; 403 may concern the model only.
    """

    code = "upstream_authentication"
    upstream_status = 401


class UpstreamUnreachable(UpstreamError):
    """An error: no connection was established, so the provider has received no part of the request."""

    code = "upstream_unreachable"


class UpstreamLost(UpstreamError):
    """An error: the connection closed before the end of the response. The provider may have processed the request."""

    code = "upstream_lost"


class UpstreamRateLimited(UpstreamError):
    """An error: the provider returned 429; `headers` holds its `Retry-After`, if any."""

    status = 429
    type = "rate_limit_error"
    code = "upstream_rate_limited"


class UpstreamOverloaded(UpstreamError):
    """An error: the provider is overloaded."""

    status = 503
    code = "upstream_overloaded"


class TargetBusy(UpstreamError):
    """An error: the provider entry already runs as many requests as conf allows. The provider has not received this request."""

    status = 503
    type = "unavailable_error"
    code = "target_busy"


class UpstreamTimeout(UpstreamError):
    """An error: the provider did not answer within a time limit, or reported a timeout itself."""

    status = 504
    type = "timeout_error"
    code = "upstream_timeout"


class UpstreamConnectTimeout(UpstreamTimeout):
    """An error: no connection within the connect timeout. The provider has received no part of the request."""


class Unavailable(GateError):
    """An error: no target can be used now, or the gateway is shutting down."""

    status = 503
    type = "unavailable_error"
    code = "unavailable"


class PluginError(GateError):
    """An error of the plugin `plugin`. `detail` is for the log and for `plugins list`; callers never see it."""

    status = 503
    type = "plugin_error"
    code = "plugin_failed"
    retryable = True

    def __init__(self, plugin: str, detail: str) -> None:
        super().__init__(f"The plugin '{plugin}' failed to process this request. The gateway's log shows the cause.")
        self.plugin = plugin
        self.detail = detail


class PluginUnavailable(PluginError):
    """An error: a wrapper that conf requires for this request cannot work.

    The request is refused instead of sent without the wrapper.
    """

    code = "plugin_unavailable"
    retryable = False

    def __init__(self, plugin: str, detail: str) -> None:
        super().__init__(plugin, detail)
        self.message = (
            f"The plugin '{plugin}' is required for this request and is not available. Send the request again later; "
            "the operator finds the cause in the gateway's log and with 'tornado-gate plugins list'."
        )


class InternalError(GateError):
    """An unexpected error in the gateway itself."""

    def __init__(self) -> None:
        super().__init__("Unexpected error in the gateway. Its log shows the cause under this response's x-request-id.")


class ContractError(Exception):
    """An error: a plugin made a value that the hook specification does not allow.

    The message is for the log and names the violation.
    """


class ConfigError(Exception):
    """An error: conf is invalid.

    `faults` are (key path, message); a key path is a tuple: ``("providers", "openai", "base_url")``.
    """

    def __init__(self, faults: list[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, path))}: {message}" for path, message in faults))
        self.faults = faults
