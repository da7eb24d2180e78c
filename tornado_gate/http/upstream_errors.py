"""Which error a caller gets for what an upstream did: one table for HTTP, WebSockets, streams, tasks and downloads. Pure.

::

    upstream                                       error                        status  code
    401, 403; a code that names our key, account   UpstreamKeyRefused             502   upstream_authentication
    408, 504                                       UpstreamTimeout                504   upstream_timeout
    429                                            UpstreamRateLimited            429   upstream_rate_limited
    503, 529                                       UpstreamOverloaded             503   upstream_overloaded
    any other 4xx                                  UpstreamRefused               same   the upstream's, or upstream_refused
    any other status                               UpstreamError                  502   upstream_error
    no connection                                  UpstreamUnreachable            502   upstream_unreachable
    no connection in time                          UpstreamConnectTimeout         504   upstream_timeout
    the connection ended before the answer did     UpstreamLost                   502   upstream_lost
    a file that it made cannot be fetched          UpstreamError                  502   upstream_file_…

The upstream's message is shown with a 4xx, and with any status inside an answer that began well; never with the first row. The
retryable classes (all but UpstreamRefused) let another target be tried. A `provider` is the name of the entry; without one the
message says "The upstream". A vendor's own codes become statuses where the vendor is known: in its wire format or its plugin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import orjson

from tornado_gate.errors import (
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
from tornado_gate.types.wire import describe_provider

MOST_TEXT: Final = 2000
"""Characters of an upstream's message that are shown."""

KEY_REFUSED: Final = 401
"""The status for a vendor's codes that are about the gateway's own key or account."""

KEY_CODES: Final = frozenset({"API_KEY_INVALID", "authentication_error", "billing_error", "invalid_api_key"})
"""What upstreams say of a key or an account when they do not say it by the status: Google, for one, answers 400."""

_GONE: Final = (403, 404, 410)
"""How stores of files answer to an address that has expired: S3 and OSS say 403."""
_FILE_CODES: Final = {
    "invalid_url": "upstream_file_refused",
    "private_address": "upstream_file_refused",
    "too_large": "upstream_file_too_large",
    "wrong_media_type": "upstream_wrong_media_type",
}


class ErrorText(NamedTuple):
    """What an upstream says of its error, each "" when it says nothing. `names` are all codes and types in it.

    A code that is a number of three digits is a status, and none here.
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
    """The message where the upstream's own is not shown, or there is none."""


_ROWS: Final = (
    _Row((408, 504), UpstreamTimeout, "{upstream} answered that it ran out of time."),
    _Row((429,), UpstreamRateLimited, "{upstream} is limiting requests."),
    _Row((503, 529), UpstreamOverloaded, "{upstream} is overloaded."),
    _Row(range(400, 500), UpstreamRefused, "{upstream} refused the request with status {status}."),
    _Row(
        range(300, 400),
        UpstreamError,
        "{upstream} failed with status {status}: a redirect that is not followed, or one too many.",
    ),
    _Row((0,), UpstreamError, "The upstream's answer failed."),
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
    """The error for an upstream's status; 0 is an error that names none.

    `headers` are the upstream's, with lower-case names; their Retry-After comes along. `in_answer` says that the error is a
    member of an answer that began well: its message is then the vendor's own words, not the page of a proxy.
    """
    if status in (401, 403) or not KEY_CODES.isdisjoint(text.names):
        return key_refused(provider)
    row = next((row for row in _ROWS if status in row.statuses), _ANY_OTHER)
    shown = text.message if in_answer or (400 <= status < 500 and row.error is not UpstreamTimeout) else ""
    message = shown[:MOST_TEXT] or row.says.format(upstream=describe_provider(provider), status=status)
    if row.error is UpstreamRefused:
        return UpstreamRefused(message, status=status, param=text.param, code=text.code or None)
    if headers and "retry-after" in headers and row.error in (UpstreamRateLimited, UpstreamOverloaded):
        return row.error(message, headers={"Retry-After": headers["retry-after"]})
    return row.error(message)


def key_refused(provider: str = "") -> UpstreamKeyRefused:
    """The upstream refused the gateway's own key, or the account that it belongs to."""
    return UpstreamKeyRefused(
        f"{describe_provider(provider)} refused the gateway's own credentials; check the provider's api_key and its account."
    )


def unreachable(provider: str) -> UpstreamUnreachable:
    """No connection: no such host, refused, bad TLS."""
    return UpstreamUnreachable(f"{describe_provider(provider)} could not be reached; check the provider's base_url.")


def not_connected_in_time(provider: str) -> UpstreamConnectTimeout:
    """No connection within ``timeouts.connect``."""
    return UpstreamConnectTimeout(f"{describe_provider(provider)} did not accept a connection in time.")


def connection_lost(provider: str, *, answered: bool) -> UpstreamLost:
    """The connection ended: in the answer, or before it."""
    when = "before its answer was complete" if answered else "without an answer"
    return UpstreamLost(f"{describe_provider(provider)} broke off the connection {when}.")


def bad_answer(provider: str) -> UpstreamError:
    """What came is not HTTP, or not the answer that the protocol demands."""
    return UpstreamError(f"{describe_provider(provider)} sent an answer that is not valid HTTP.")


def not_sent(provider: str) -> UpstreamError:
    """The request cannot be written as HTTP. No value is shown, which may be a key."""
    return UpstreamError(
        f"The request to the provider '{provider}' could not be sent: its URL or a header is not valid. "
        "Check the provider's base_url, api_key and headers."
    )


def file_error(code: str, what: str = "", *, status: int = 0) -> UpstreamError:
    """A file of an upstream's cannot be had. `code` is the fetcher's, `what` its sentence, `status` the file server's."""
    if status in _GONE:
        return UpstreamError("The upstream does not have the file any more that it made.", code="upstream_file_gone")
    message = f"The upstream's file could not be fetched. {what}".rstrip()
    return UpstreamError(message, code=_FILE_CODES.get(code, "upstream_file_unreachable"))


def parse_error_body(body: bytes) -> ErrorText:
    """What an upstream's error body says.

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
    """What an error object says; a string is its message."""
    if not isinstance(error, Mapping):
        return ErrorText(message=error[:MOST_TEXT] if isinstance(error, str) else "")
    code, message = error.get("code"), error.get("message") or error.get("detail")
    return ErrorText(_text(message), _text(error.get("param")), "" if _is_status(code) else _text(code), _names(error))


def status_in(error: Mapping[str, Any], *names: str) -> int:
    """The HTTP status that stands in one of the members `names`, as a number or as digits; 0 without one."""
    return next((int(error[name]) for name in names if _is_status(error.get(name))), 0)


def _is_status(value: Any) -> bool:
    digits = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    return len(digits) == 3 and digits.isascii() and digits.isdigit() and not isinstance(value, bool)


def _names(error: Mapping[str, Any]) -> frozenset[str]:
    """The codes and types of an error object; Google's stand in the ``reason`` of its ``details``."""
    details = error.get("details")
    reasons = [each.get("reason") for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    found = (error.get("type"), error.get("code"), error.get("status"), *reasons)
    return frozenset(name for name in found if isinstance(name, str))


def _text(value: Any) -> str:
    if value is None or value is True or value is False:
        return ""
    return value[:MOST_TEXT] if isinstance(value, str) else orjson.dumps(value).decode()[:MOST_TEXT]
