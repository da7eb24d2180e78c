"""The mapping of upstream failures to the gateway's errors: one table for HTTP, WebSockets, streams, tasks and downloads. Pure.

::

    upstream                                       error                        status  code
    401, 402, 403; key, account or credit refused  UpstreamKeyRefused             502   upstream_authentication
    408, 504                                       UpstreamTimeout                504   upstream_timeout
    429                                            UpstreamRateLimited            429   upstream_rate_limited
    503, 529                                       UpstreamOverloaded             503   upstream_overloaded
    any other 4xx                                  UpstreamRefused               same   the upstream's, or upstream_refused
    any other status                               UpstreamError                  502   upstream_error
    no connection                                  UpstreamUnreachable            502   upstream_unreachable
    no connection in time                          UpstreamConnectTimeout         504   upstream_timeout
    connection lost before the response ended      UpstreamLost                   502   upstream_lost
    a response above a bound of conf's limits      UpstreamError                  502   upstream_answer_too_large
    206 that was not requested                     UpstreamError                  502   upstream_error
    a body that grows too much by decompression    UpstreamError                  502   upstream_compression_too_high
    a file of the upstream cannot be fetched       UpstreamError                  502   upstream_file_…
    the model ended its response with an error     UpstreamError                  502   upstream_response_failed

The upstream's message is shown for a 4xx, and for any status of an error inside a successful response; never for the first row.
All classes but UpstreamRefused are retryable: another target is tried. `provider` is the name of the entry; without it the
message begins with "The upstream". Vendor-specific codes are mapped to statuses in the vendor's wire format or plugin.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import orjson

from tornado_gate.errors import (
    GateError,
    UpstreamConnectTimeout,
    UpstreamError,
    UpstreamKeyRefused,
    UpstreamLost,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from tornado_gate.http.client.content_coding import MAX_RATIO
from tornado_gate.types.wire import describe_provider

MOST_TEXT: Final = 2000
"""Maximum number of characters shown of an upstream's message."""

MOST_RETRY_SECONDS: Final = 86_400
"""The longest wait that is sent to a caller."""

_REFUSED_CERTIFICATE: Final = (
    *("ALERT_CERTIFICATE_REQUIRED", "ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_UNKNOWN"),
    *("ALERT_CERTIFICATE_EXPIRED", "ALERT_CERTIFICATE_REVOKED", "ALERT_UNSUPPORTED_CERTIFICATE"),
    *("ALERT_HANDSHAKE_FAILURE", "ALERT_ACCESS_DENIED"),
)
"""OpenSSL's names of the alerts by which a server refuses a certificate, or demands one. RFC 8446, section 6."""

_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]*)?")

MOST_REASON: Final = 100
"""Maximum number of characters shown of an upstream's finish reason."""

KEY_REFUSED: Final = 401
"""The status for vendor codes about the gateway's own key or account."""

KEY_CODES: Final = frozenset(
    {"API_KEY_INVALID", "authentication_error", "billing_error", "insufficient_quota", "invalid_api_key"}
)
"""Error codes about a key or an account that upstreams send with another status than 401 to 403.

An invalid key may be a 400 (API_KEY_INVALID), an account without credit a 429 (insufficient_quota): the caller can do nothing
about either, and waiting does not help.
"""
_ACCOUNT_MESSAGES: Final = ("Your credit balance is too low", "You have reached your specified API usage limits")
"""The beginnings of messages about an account without credit that come as a 400 without a specific code."""

_GONE: Final = (403, 404, 410)
"""The statuses of file stores for an expired URL: S3 and OSS send 403."""
_FILE_CODES: Final = {
    "invalid_url": "upstream_file_refused",
    "private_address": "upstream_file_refused",
    "too_large": "upstream_file_too_large",
    "wrong_media_type": "upstream_wrong_media_type",
}


class ErrorText(NamedTuple):
    """The parts of an upstream's error, each "" if missing. `names` are all codes and types in it.

    A code of three digits is a status and does not appear here.
    """

    message: str = ""
    param: str = ""
    code: str = ""
    names: Collection[str] = ()


NO_TEXT: Final = ErrorText()


class _Row(NamedTuple):
    statuses: Collection[int]
    error: type[UpstreamError]
    says: str
    """The message if the upstream's own message is missing or not shown."""
    advice: str = ""


_ROWS: Final = (
    _Row((408, 504), UpstreamTimeout, "{upstream} reported a timeout (status {status}). Try again."),
    _Row(
        (407,),
        UpstreamError,
        "A proxy before {upstream} refused the gateway's login (status {status}). Check `proxy` in the configuration.",
    ),
    _Row((429,), UpstreamRateLimited, "{upstream} is limiting requests (status {status}). Try again later."),
    _Row((503, 529), UpstreamOverloaded, "{upstream} is overloaded (status {status}). Try again later."),
    _Row(range(400, 500), UpstreamRefused, "{upstream} refused the request with status {status}. Check the request."),
    _Row(
        range(300, 400),
        UpstreamError,
        "{upstream} failed with status {status}: the redirect is not allowed, or there were too many.",
        "Check the provider's base_url.",
    ),
    _Row((0,), UpstreamError, "The upstream sent an error without a message."),
)
_ANY_OTHER: Final = _Row((), UpstreamError, "{upstream} failed with status {status}.")


def error_for_status(
    status: int,
    provider: str = "",
    text: ErrorText = NO_TEXT,
    headers: Mapping[str, str] | None = None,
    *,
    in_answer: bool = False,
) -> UpstreamError:
    """Return the error for an upstream's status; 0 means that the error has no status.

    `headers` are the upstream's, with lower-case names; a valid Retry-After is copied from them, at most a day. `in_answer`: the
    error is inside a successful response, so its message is from the vendor and not an error page of a proxy.
    """
    if _is_about_account(status, text):
        refused = key_refused(provider)
        refused.upstream_status = status
        refused.hidden_text = text.message[:MOST_TEXT]
        return refused
    row = next((row for row in _ROWS if status in row.statuses), _ANY_OTHER)
    shown = text.message if in_answer or (400 <= status < 500 and row.error is not UpstreamTimeout) else ""
    message = shown[:MOST_TEXT] or row.says.format(upstream=describe_provider(provider), status=status)
    if row.error is UpstreamRefused:
        return UpstreamRefused(message, status=status, param=text.param, code=text.code or None)
    retry_after = ""
    if headers and row.error in (UpstreamRateLimited, UpstreamOverloaded):
        retry_after = _read_retry_after(headers.get("retry-after", ""))
    failed = row.error(message, advice=row.advice, headers={"Retry-After": retry_after} if retry_after else None)
    failed.hidden_text = "" if shown else text.message[:MOST_TEXT]
    return failed


def _read_retry_after(value: str) -> str:
    """Return the caller's Retry-After for an upstream's, at most a day: clients wait that long. "" if it is invalid."""
    if _SECONDS.fullmatch(value):
        return str(math.ceil(min(float(value), MOST_RETRY_SECONDS)))
    seconds = GateError("", headers={"Retry-After": value}).retry_after if value.isascii() else None
    if seconds is None:
        return ""
    return value if seconds <= MOST_RETRY_SECONDS else str(MOST_RETRY_SECONDS)


def _is_about_account(status: int, text: ErrorText) -> bool:
    if status in (401, 402, 403) or not KEY_CODES.isdisjoint(text.names):
        return True
    return status == 400 and text.message.startswith(_ACCOUNT_MESSAGES)


def key_refused(provider: str = "") -> UpstreamKeyRefused:
    """Return the error for an upstream that refused the gateway's own key or account."""
    return UpstreamKeyRefused(
        f"{describe_provider(provider)} refused the gateway's own credentials.",
        advice="Check the provider's api_key and its account.",
    )


def unreachable(provider: str, advice: str = "Check its base_url.") -> UpstreamUnreachable:
    """Return the error for a failed connection: unknown host, refused, TLS error."""
    return UpstreamUnreachable(f"{describe_provider(provider)} could not be reached. Try again later.", advice=advice)


def find_tls_advice(error: Exception) -> str:
    """Return what to change if two sides do not trust each other's certificates, "" for another fault.

    With TLS 1.3 a server refuses a certificate after the handshake, when the request has already been sent.
    """
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "Its certificate is of an unknown authority or has another name: check ca_file and base_url."
    if any(alert in text for alert in _REFUSED_CERTIFICATE):
        return "It demands a certificate of the gateway, or refuses it: check client_certificate and client_key."
    return ""


def not_connected_in_time(provider: str) -> UpstreamConnectTimeout:
    """Return the error for a connection that was not open within ``timeouts.connect``."""
    return UpstreamConnectTimeout(
        f"{describe_provider(provider)} did not accept a connection within timeouts.connect. Try again later."
    )


def connection_lost(provider: str, *, answered: bool) -> UpstreamLost:
    """Return the error for a broken connection. `answered`: the head of the response had arrived."""
    when = "before the response was complete" if answered else "without a response"
    return UpstreamLost(f"{describe_provider(provider)} closed the connection {when}. Try again.")


def answer_too_large(provider: str, most: int, key: str) -> UpstreamError:
    """Return the error for a response above `most` bytes, the value of the conf key `key`."""
    return UpstreamError(
        f"{describe_provider(provider)} sent a response of more than {most} bytes, the limit {key} of the configuration.",
        code="upstream_answer_too_large",
    )


def partial_answer(provider: str) -> UpstreamError:
    """Return the error for a part of a response (RFC 9110 15.3.7), which would be taken for the whole response."""
    return UpstreamError(
        f"{describe_provider(provider)} sent only a part of its response (status 206), although no part was requested. Try again."
    )


def compression_too_high(provider: str) -> UpstreamError:
    """Return the error for a compressed response that is much larger after decompression."""
    return UpstreamError(
        f"{describe_provider(provider)} sent a compressed response that grows by more than a factor of {MAX_RATIO}. "
        "No compression was requested; turn it off at the upstream.",
        code="upstream_compression_too_high",
    )


def bad_answer(provider: str) -> UpstreamError:
    """Return the error for a response that violates HTTP or the WebSocket handshake."""
    return UpstreamError(
        f"{describe_provider(provider)} sent a response that is not valid HTTP.", advice="Check its base_url."
    )


def invalid_header(provider: str, name: str) -> UpstreamError:
    """Return the error for a header of a response with characters that a header may not have (RFC 9110 5.5)."""
    return UpstreamError(
        f"{describe_provider(provider)} sent the header {name} with characters outside of ASCII.",
        advice="Check the provider's base_url.",
    )


def not_sent(provider: str) -> UpstreamError:
    """Return the error for a request that cannot be written as HTTP. The message contains no value, which may be a key."""
    return UpstreamError(
        f"The request to the provider '{provider}' could not be sent: its URL or a header is not valid.",
        advice="Check the provider's base_url, api_key and headers.",
    )


def response_failed(reason: str = "") -> UpstreamError:
    """Return the error for a response whose finish reason is "error", in formats without such a finish reason.

    `reason` is the upstream's own word for it, for example MALFORMED_FUNCTION_CALL.
    """
    shown = f" ({reason[:MOST_REASON]})" if reason and reason != "error" else ""
    return UpstreamError(
        f"The model did not complete its response: the upstream ended it with an error{shown}. "
        "Send the request again, or change its prompt or tools.",
        code="upstream_response_failed",
    )


def file_error(code: str, problem: str = "", *, status: int = 0) -> UpstreamError:
    """Return the error for a file of an upstream that cannot be read.

    `code` is the fetcher's code, `problem` its message, `status` the status of the file server.
    """
    if status in _GONE:
        return UpstreamError(
            "The upstream's file has expired or was deleted. Send the request again.", code="upstream_file_gone"
        )
    message = f"The upstream's file could not be fetched. {problem}".rstrip()
    return UpstreamError(message, code=_FILE_CODES.get(code, "upstream_file_unreachable"))


def parse_error_body(body: bytes) -> ErrorText:
    """Return the error in an upstream's error body.

    Vendors put it in ``error.message`` (OpenAI, Anthropic, Google), ``error`` as a string (Ollama), ``message``
    (Mistral, Cohere) or ``detail`` (vLLM behind FastAPI); some wrap the object in an array (Google's streams).
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return NO_TEXT
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return NO_TEXT
    error = value.get("error")
    return error_text({**value, "message": error} if isinstance(error, str) else error or value)


def error_text(error: Any) -> ErrorText:
    """Return the parts of an error object; a string becomes the message."""
    if not isinstance(error, Mapping):
        return ErrorText(message=error[:MOST_TEXT] if isinstance(error, str) else "")
    code, message = error.get("code"), error.get("message") or error.get("detail")
    return ErrorText(_text(message), _text(error.get("param")), "" if _is_status(code) else _text(code), _names(error))


def status_in(error: Mapping[str, Any], *names: str) -> int:
    """Return the HTTP status in one of the members `names`, as a number or as digits; 0 without one."""
    return next((int(error[name]) for name in names if _is_status(error.get(name))), 0)


def _is_status(value: Any) -> bool:
    digits = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    return len(digits) == 3 and digits.isascii() and digits.isdigit() and not isinstance(value, bool)


def _names(error: Mapping[str, Any]) -> frozenset[str]:
    """Return the codes and types of an error object; Google puts them into ``reason`` of its ``details``."""
    details = error.get("details")
    reasons = (
        [detail.get("reason") for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    )
    names = (error.get("type"), error.get("code"), error.get("status"), *reasons)
    return frozenset(name for name in names if isinstance(name, str))


def _text(value: Any) -> str:
    if value is None or value is True or value is False:
        return ""
    return value[:MOST_TEXT] if isinstance(value, str) else orjson.dumps(value).decode()[:MOST_TEXT]
