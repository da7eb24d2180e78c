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
from typing import Any, ClassVar, Final


class GateError(Exception):
    """An error response: status, type, code, param and message. `message` must be safe to show to any caller."""

    status: int = 500
    type: ClassVar[str] = "server_error"
    code: str = "internal_error"
    retryable: ClassVar[bool] = False

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
        self.headers = headers or {}
        if code is not None:
            self.code = code
        if status is not None:
            self.status = status

    @property
    def retry_after(self) -> float | None:
        """The seconds in the Retry-After header, which may be a date (RFC 9110 10.2.3); None without a valid header."""
        value = self.headers.get("Retry-After", "")
        if value.isascii() and value.isdigit():
            return float(value)
        return _count_seconds_until(value) if value else None

    def body(self) -> dict[str, str]:
        """The strings `message`, `type`, `param` and `code`, which every wire format puts into its error body."""
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}


def _count_seconds_until(date: str) -> float | None:
    from email.utils import parsedate_to_datetime  # few upstreams send a date

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


class RequestError(GateError):
    """The request is wrong and the caller can correct it. Raised directly for a body that is not valid JSON."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class InvalidField(RequestError):
    """One field is invalid: `param` is its path, for example ``messages.0.role``."""

    code = "invalid_value"

    def __init__(self, param: str, message: str, **rest: Any) -> None:
        super().__init__(message, param=param, **rest)


class UnsupportedOperation(RequestError):
    """The model exists but does not support the operation."""

    code = "operation_not_supported"

    def __init__(self, message: str, *, param: str = "model", **rest: Any) -> None:
        super().__init__(message, param=param, **rest)


class AuthenticationFailed(RequestError):
    """The caller has no key, an unknown one, or sent two different ones."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class NotAllowed(RequestError):
    """The key lacks the permission."""

    status = 403
    type = "permission_error"
    code = "not_allowed"


class NotFound(RequestError):
    """The route, or the object that the request names, does not exist."""

    status = 404
    type = "not_found_error"
    code = "not_found"


class UnknownModel(NotFound):
    """No model of this name is configured."""

    code = "model_not_found"

    def __init__(self, model: str) -> None:
        shown = model if len(model) <= 100 else model[:100] + "…"
        super().__init__(
            f"The model '{shown}' does not exist. GET /v1/models lists the available models.", param="model"
        )


class MethodNotAllowed(RequestError):
    """The path does not support the method; the header `Allow` lists those that it does."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, method: str, allow: list[str]) -> None:
        allowed = ", ".join(sorted(allow))
        super().__init__(f"This path does not support {method}. Use {allowed}.", headers={"Allow": allowed})


class TooLarge(RequestError):
    """The body, or a part of it, is above a limit."""

    status = 413
    code = "request_too_large"


class UnsupportedMediaType(RequestError):
    """The route does not accept bodies of this Content-Type."""

    status = 415
    code = "unsupported_media_type"


class RateLimited(RequestError):
    """A limit of the caller is used up; try again after `retry_after` seconds."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limited"

    def __init__(
        self, message: str, *, retry_after: float, exceeded: dict[str, str] | None = None, **rest: Any
    ) -> None:
        super().__init__(message, headers={"Retry-After": str(max(1, math.ceil(retry_after)))}, **rest)
        self.exceeded = exceeded or {}
        """Of a bound in conf, as texts: `bound`, `subject`, `limit` and `used`; empty for any other limit."""
        self.levels: Any = None
        """What is left of the limits per minute that refused the request (`types.LimitLevels`); None for any other limit."""


class BlockedByGuard(RequestError):
    """A guard has refused a request or its answer; its status, code and message are those of the guard's decision."""

    code = "blocked_by_guard"


class NotReviewed(RequestError):
    """A guard that is not required did not review a request or its answer, and the caller sent ``x-gate-strict: 1``."""

    code = "not_reviewed"

    def __init__(self, guard: str) -> None:
        message = (
            f"The guard '{guard}' did not review this request or its answer (rejected because of x-gate-strict). Send the "
            "request again later, or without x-gate-strict; the gateway's log shows the cause."
        )
        super().__init__(message, param=f"guard:{guard}")


class UpstreamError(GateError):
    """The provider failed; another target may be tried."""

    status = 502
    type = "upstream_error"
    code = "upstream_error"
    retryable = True


UPSTREAM_CODES: Final = frozenset(
    {
        *("upstream_answer_too_complex", "upstream_answer_too_large", "upstream_compression_too_high"),
        *("upstream_event_too_large", "upstream_file_gone", "upstream_file_refused", "upstream_file_too_large"),
        *("upstream_file_unreachable", "upstream_lost_task", "upstream_no_video", "upstream_response_failed"),
        "upstream_wrong_media_type",
    }
)
"""The codes that the gateway gives to an UpstreamError beside those of the classes."""


class UpstreamRefused(UpstreamError):
    """The provider returned a 4xx for the request. The caller receives it; no other target is tried."""

    type = "invalid_request_error"
    code = "upstream_refused"
    retryable = False


class UpstreamKeyRefused(UpstreamError):
    """The provider refused the gateway's own key or account. The provider's error text is never shown to a caller.

    `upstream_status` is the upstream's status; 403 may concern the model only.
    """

    code = "upstream_authentication"
    upstream_status = 401


class UpstreamUnreachable(UpstreamError):
    """No connection was established: the provider has received nothing of the request."""

    code = "upstream_unreachable"


class UpstreamLost(UpstreamError):
    """The connection closed before the end of the response. The provider may have processed the request."""

    code = "upstream_lost"


class UpstreamRateLimited(UpstreamError):
    """The provider returned 429; `headers` holds its `Retry-After`, if any."""

    status = 429
    type = "rate_limit_error"
    code = "upstream_rate_limited"


class UpstreamOverloaded(UpstreamError):
    """The provider is overloaded."""

    status = 503
    code = "upstream_overloaded"


class TargetBusy(UpstreamError):
    """The provider entry runs as many requests as conf allows at a time. The provider has received nothing of this one."""

    status = 503
    type = "unavailable_error"
    code = "target_busy"


class UpstreamTimeout(UpstreamError):
    """The provider did not answer within a time limit, or reported a timeout itself."""

    status = 504
    type = "timeout_error"
    code = "upstream_timeout"


class UpstreamConnectTimeout(UpstreamTimeout):
    """No connection within the connect timeout: the provider has received nothing of the request."""


class Unavailable(GateError):
    """No target can be used now, or the gateway is shutting down."""

    status = 503
    type = "unavailable_error"
    code = "unavailable"


class PluginError(GateError):
    """Plugin `plugin` failed. `detail` is for the log and for `plugins list` and is never shown to a caller."""

    status = 503
    type = "plugin_error"
    code = "plugin_failed"
    retryable = True

    def __init__(self, plugin: str, detail: str) -> None:
        super().__init__(f"The plugin '{plugin}' failed to process this request. The gateway's log shows the cause.")
        self.plugin = plugin
        self.detail = detail


class PluginUnavailable(PluginError):
    """A wrapper that conf requires for this request cannot work, so that the request is refused instead of passed without it."""

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
    """A plugin made a value that the hook specification does not allow. The message, which says what, is for the log."""


class ConfigError(Exception):
    """Conf is invalid. `faults` are (key path, message); a key path is a tuple: ``("providers", "openai", "base_url")``."""

    def __init__(self, faults: list[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, path))}: {message}" for path, message in faults))
        self.faults = faults
