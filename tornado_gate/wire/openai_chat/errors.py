"""The ``error`` object of an answer that failed after its status line, as one of our errors. Pure.

Vendors disagree on where the status stands: in ``code`` as a number or a string of digits, in ``status``, or nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import (
    GateError,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
)

MASK: Final = "***"
"""What stands for a secret in an upstream's words."""

_LONGEST: Final = 2000
_KINDS: Final[tuple[tuple[tuple[int, ...], str, type[GateError]], ...]] = (
    ((429,), "rate_limit", UpstreamRateLimited),
    ((408, 504), "timeout", UpstreamTimeout),
    ((503, 529), "overloaded", UpstreamOverloaded),
)


def error_of(body: Any) -> GateError | None:
    """The error that a whole body or a stream's frame is, or None for a body that is none."""
    if not isinstance(body, dict):
        return None
    if body.get("error"):
        return parse_error(body["error"])
    return parse_error(body) if body.get("object") == "error" else None


def parse_error(error: Any) -> GateError:
    """One of our errors for the upstream's ``error`` value, which may be an object, a string or anything.

    The upstream's words are kept, but for a fault of our own key, of which callers learn nothing.
    """
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {"message": error}
    status = _status(fields)
    words = f"{fields.get('type')} {fields.get('code')}".lower()
    message = fields.get("message")
    said = message[:_LONGEST] if isinstance(message, str) and message else "The upstream's answer failed."
    if status in (401, 403) or "authentication" in words or "invalid_api_key" in words:
        return UpstreamError("The upstream refused the gateway's own credentials.")
    if 400 <= status < 500 and status not in (408, 429):
        return _refused(fields, said, status)
    for statuses, word, kind in _KINDS:
        if status in statuses or word in words:
            return kind(said)
    return _refused(fields, said, 400) if "invalid_request" in words else UpstreamError(said)


def masked(error: GateError, secret: str) -> GateError:
    """`error` without `secret`, the key of the target, in its words: some upstreams repeat what they were sent."""
    if secret:
        error.message = error.message.replace(secret, MASK)
        error.param = error.param.replace(secret, MASK)
        error.args = (error.message,)
    return error


def _refused(fields: Mapping[str, Any], said: str, status: int) -> UpstreamRefused:
    param = fields.get("param")
    return UpstreamRefused(said, param=param if isinstance(param, str) else "", status=status)


def _status(fields: Mapping[str, Any]) -> int:
    for name in ("status", "status_code", "code"):
        value = fields.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return 0
