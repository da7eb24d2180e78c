"""Every failure a caller can see, as one tree.

::

    GateError (status, type, code, param, message)     what callers may see; the message is safe to show
    + RequestError 400               the caller can mend it
    |   InvalidField 400             one field of the body is wrong; `param` is its path
    |   UnsupportedOperation 400     the model exists but cannot do this
    |   AuthenticationFailed 401     no key, a bad key, or two different keys
    |   NotAllowed 403               the key may not do this
    |   NotFound 404                 unknown route
    |   |   UnknownModel 404
    |   MethodNotAllowed 405         `allow` lists the methods that exist
    |   TooLarge 413
    |   UnsupportedMediaType 415
    |   RateLimited 429              `retry_after` in seconds
    + UpstreamError 502              the provider's side; `retryable`: may another target be tried?
    |   UpstreamRefused              the provider's own 4xx: its status and message
    |   UpstreamKeyRefused 502       the provider refused the gateway's own key or account
    |   UpstreamUnreachable 502      no connection came about, so the provider has nothing of the request
    |   UpstreamLost 502             the connection ended before the answer did
    |   UpstreamRateLimited 429
    |   UpstreamOverloaded 503
    |   UpstreamTimeout 504
    |   |   UpstreamConnectTimeout 504   no connection in time, so the provider has nothing of the request
    + Unavailable 503                no healthy target, or the gateway is shutting down
    + PluginError 503                a plugin failed or broke its contract; its name goes to the log
    + InternalError 500              a fault of the gateway itself
    ConfigError                      conf is wrong; not a GateError, no caller ever sees it

The class is the meaning: nobody compares messages. Which fault of an upstream becomes which class is the table in
``http/upstream_errors.py``. Class to envelope happens in one place, ``GateHandler.fail``, through
the format's ``translate_error``.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar


class GateError(Exception):
    """A failure with everything an error body needs. `message` must be safe to show to any caller."""

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
        """Seconds of the Retry-After header; None without one, and where it is a date."""
        value = self.headers.get("Retry-After", "")
        return float(value) if value.isascii() and value.isdigit() else None

    def body(self) -> dict[str, str]:
        """The four strings of the error body that every wire format shares."""
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}


class RequestError(GateError):
    """The caller can mend it. Also raised as it is for a body that is no JSON."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class InvalidField(RequestError):
    """One field is wrong: `param` is its path, as in ``messages.0.role``."""

    code = "invalid_value"

    def __init__(self, param: str, message: str, **rest: Any) -> None:
        super().__init__(message, param=param, **rest)


class UnsupportedOperation(RequestError):
    """The model is known, the operation is not one of its own."""

    code = "operation_not_supported"

    def __init__(self, message: str, *, param: str = "model", **rest: Any) -> None:
        super().__init__(message, param=param, **rest)


class AuthenticationFailed(RequestError):
    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class NotAllowed(RequestError):
    status = 403
    type = "permission_error"
    code = "not_allowed"


class NotFound(RequestError):
    status = 404
    type = "not_found_error"
    code = "not_found"


class UnknownModel(NotFound):
    code = "model_not_found"

    def __init__(self, model: str) -> None:
        shown = model if len(model) <= 100 else model[:100] + "…"
        super().__init__(f"The model '{shown}' does not exist. GET /v1/models lists those that do.", param="model")


class MethodNotAllowed(RequestError):
    status = 405
    code = "method_not_allowed"

    def __init__(self, method: str, allow: list[str]) -> None:
        allowed = ", ".join(sorted(allow))
        super().__init__(f"{method} is not allowed here; allowed: {allowed}.", headers={"Allow": allowed})


class TooLarge(RequestError):
    status = 413
    code = "request_too_large"


class UnsupportedMediaType(RequestError):
    status = 415
    code = "unsupported_media_type"


class RateLimited(RequestError):
    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"

    def __init__(self, message: str, *, retry_after: float, **rest: Any) -> None:
        super().__init__(message, headers={"Retry-After": str(max(1, math.ceil(retry_after)))}, **rest)


class UpstreamError(GateError):
    """The provider failed; another target may be tried."""

    status = 502
    type = "upstream_error"
    code = "upstream_error"
    retryable = True


class UpstreamRefused(UpstreamError):
    """The provider answered with a 4xx of its own, which is the caller's answer: not a reason to try another target."""

    type = "invalid_request_error"
    code = "upstream_refused"
    retryable = False


class UpstreamKeyRefused(UpstreamError):
    """The provider refused the gateway's own key or account. Its text is never shown to a caller."""

    code = "upstream_authentication"


class UpstreamUnreachable(UpstreamError):
    """No connection came about: the provider has nothing of the request."""

    code = "upstream_unreachable"


class UpstreamLost(UpstreamError):
    """The connection ended before the answer did: nobody knows what the provider made of the request."""

    code = "upstream_lost"


class UpstreamRateLimited(UpstreamError):
    """The provider answered 429; `Retry-After` is carried in `headers` when it sent one."""

    status = 429
    type = "rate_limit_error"
    code = "upstream_rate_limited"


class UpstreamOverloaded(UpstreamError):
    status = 503
    code = "upstream_overloaded"


class UpstreamTimeout(UpstreamError):
    status = 504
    type = "timeout_error"
    code = "upstream_timeout"


class UpstreamConnectTimeout(UpstreamTimeout):
    """No connection in time: the provider has nothing of the request."""


class Unavailable(GateError):
    status = 503
    type = "unavailable_error"
    code = "unavailable"


class PluginError(GateError):
    """Plugin `plugin` failed; `detail` is for the log and for `plugins list`, never for a caller."""

    status = 503
    type = "plugin_error"
    code = "plugin_failed"
    retryable = True

    def __init__(self, plugin: str, detail: str) -> None:
        super().__init__(f"The plugin '{plugin}', which this request needs, failed. The operator's log says why.")
        self.plugin = plugin
        self.detail = detail


class InternalError(GateError):
    def __init__(self) -> None:
        super().__init__("The gateway failed to answer. Its log holds the reason under this request's x-request-id.")


class ConfigError(Exception):
    """Conf is wrong. `faults` are (key path, message), where a path is ``("providers", "openai", "base_url")``."""

    def __init__(self, faults: list[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, path))}: {message}" for path, message in faults))
        self.faults = faults
