"""The head of a request, rendered. Input that a server could read as two requests is rejected (request smuggling).

RFC 9112 (the request line, its length), RFC 9110 5.1 and 5.5 (header names and values).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from tornado_gate.types.value import Value

DEFAULT_PORTS = {"http": 80, "https": 443}

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_FORBIDDEN_IN_URL = re.compile(r"[\x00-\x20\x7f]")
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods whose requests have no Content-Length if they have no body (RFC 9110 8.6)."""

_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be repeated without another effect (RFC 9110 9.2.2)."""

_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding"})
"""Headers that define the request's end and destination; a caller's values are not simply copied."""


_MAX_CACHED_URL_LENGTH = 1024
"""URLs of model calls are shorter; others would keep much memory."""


class Origin(NamedTuple):
    """The destination of a connection. `host` has no brackets."""

    scheme: str
    host: str
    port: int


class Address(Value, frozen=True):
    """A parsed URL: the origin to connect to, the target of the request line, the Host header."""

    origin: Origin
    target: str
    host: str


def parse_address(url: str) -> Address:
    """Parse an http(s) URL; quoted as aiohttp does it, without fragment and user. Short URLs are cached.

    Raises ValueError for any other URL, and for spaces and control characters.
    """
    return _parse_cached_address(url) if len(url) <= _MAX_CACHED_URL_LENGTH else _build_address(url, encoded=False)


@lru_cache(maxsize=1024)
def _parse_cached_address(url: str) -> Address:
    return _build_address(url, encoded=False)


def parse_exact_address(url: str) -> Address:
    """Parse like `parse_address`, but without quoting and caching: for URLs from an upstream, which may be signed."""
    return _build_address(url, encoded=url.isascii())


def _build_address(url: str, *, encoded: bool) -> Address:
    from yarl import URL

    if _FORBIDDEN_IN_URL.search(url):
        raise ValueError("the URL contains a space or a control character")
    parts = URL(url, encoded=encoded)
    if parts.scheme not in DEFAULT_PORTS or not parts.raw_host or not parts.port:
        raise ValueError("the URL is not an http or https URL with a host")
    origin = Origin(parts.scheme, parts.raw_host, parts.port)
    return Address(origin, parts.raw_path_qs, parts.host_port_subcomponent or parts.raw_host)


HeaderPairs = tuple[tuple[str, str], ...]
"""Header names and values; each name occurs once."""


@lru_cache(maxsize=512)
def _check_header_name(name: str) -> str:
    """Return a header's name in lower case. Raises ValueError if it is not a token."""
    if not _TOKEN.fullmatch(name):
        raise ValueError("the method or a header name is not a valid token")
    return name.lower()


class HeaderLines(NamedTuple):
    """Rendered headers without Host and Content-Length. `host` is the request's Host header, or None."""

    host: str | None
    rest: str


def render_header_lines(headers: HeaderPairs) -> HeaderLines:
    """Render headers. Raises ValueError for an invalid header; the message contains no value, which may be a key."""
    if _CONTROL.search("".join([value for _, value in headers])):
        raise ValueError("a header value contains a control character")
    host, rest = None, ""
    for name, value in headers:
        lower = _check_header_name(name)
        if lower not in _OWN_HEADERS:
            rest += f"{name}: {value}\r\n"
        elif lower == "host":
            host = value
        elif lower == "transfer-encoding":
            raise ValueError("Transfer-Encoding is not allowed for a body of known length")
    return HeaderLines(host, rest)


def render_head(
    method: str,
    address: Address,
    headers: Mapping[str, str],
    length: int | None,
    lines: Callable[[HeaderPairs], HeaderLines] = render_header_lines,
) -> bytes:
    """Return request line and headers. `length` in bytes becomes Content-Length and replaces a given one; None sends none.

    `lines` is `render_header_lines` or a cached version of it. Raises its ValueError.
    """
    _check_header_name(method)
    host, rest = lines(tuple(headers.items()))
    if host is None:
        host = address.host
    try:
        start = f"{method} {address.target} HTTP/1.1\r\nHost: {host}\r\n{rest}".encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("a header value contains a character outside of latin-1") from None
    return finish_head(start, length)


def finish_head(start: bytes, length: int | None) -> bytes:
    """Add Content-Length and the empty line to a head."""
    return start + b"\r\n" if length is None else b"%bContent-Length: %d\r\n\r\n" % (start, length)


def add_default_headers(headers: Mapping[str, str], usual: HeaderPairs) -> dict[str, str]:
    """Return `headers` plus the missing ones of `usual`; names are compared without case."""
    present = {name.lower() for name in headers}
    return {**headers, **{name: value for name, value in usual if name.lower() not in present}}


def is_idempotent(method: str) -> bool:
    """Return whether a request with this method may be sent again although the upstream may have processed it."""
    return method.upper() in _IDEMPOTENT


class PreparedHead(NamedTuple):
    """The part of the head that requests with the same method, URL and headers share.

    `start` is the head without Content-Length and the final empty line. `bodiless`: the response has no body. `sized`: the
    request has a Content-Length even without a body. `idempotent`: the request may be sent again although the upstream may
    have processed it.
    """

    origin: Origin
    start: bytes
    bodiless: bool
    sized: bool
    idempotent: bool


def prepare_head(
    method: str,
    url: str,
    headers: HeaderPairs,
    usual: HeaderPairs,
    lines: Callable[[HeaderPairs], HeaderLines] = render_header_lines,
    find: Callable[[str], Address] = parse_address,
) -> PreparedHead:
    """Build a `PreparedHead`.

    It depends on the arguments only, so it can be cached. Raises the ValueError of `find` and `lines`.
    """
    address, upper = find(url), method.upper()
    head = render_head(method, address, add_default_headers(dict(headers), usual), None, lines)
    return PreparedHead(address.origin, head[:-2], upper == "HEAD", upper not in _WITHOUT_BODY, is_idempotent(upper))
