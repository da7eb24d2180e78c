"""The head of a request: where it goes, and its bytes. Nothing gets onto the wire that could be read as two requests.

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
"""Methods whose request says nothing of a length when it has no body, RFC 9110 8.6."""

_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding"})
"""Headers that say where a request ends and whom it is for: what is given for them is not simply passed on."""


class Origin(NamedTuple):
    """Whom a connection is to. `host` has no brackets."""

    scheme: str
    host: str
    port: int


class Address(Value, frozen=True):
    """A URL as a request needs it: the connection, the target of the request line, the Host header."""

    origin: Origin
    target: str
    host: str


@lru_cache(maxsize=1024)
def parse_address(url: str) -> Address:
    """The parts of an http(s) URL; quoted as aiohttp does it, without its fragment and whoever stands before an ``@``.

    Raises ValueError when it is none, also for spaces and control characters, which are no slip but an attempt.
    """
    return _build_address(url, encoded=False)


def parse_exact_address(url: str) -> Address:
    """The same, but quoted as it came, and remembered nowhere: for URLs that an upstream gave, which may be signed."""
    return _build_address(url, encoded=url.isascii())


def _build_address(url: str, *, encoded: bool) -> Address:
    from yarl import URL

    if _FORBIDDEN_IN_URL.search(url):
        raise ValueError("a URL with a space or a control character")
    parts = URL(url, encoded=encoded)
    if parts.scheme not in DEFAULT_PORTS or not parts.raw_host or not parts.port:
        raise ValueError("neither an http nor an https URL with a host")
    origin = Origin(parts.scheme, parts.raw_host, parts.port)
    return Address(origin, parts.raw_path_qs, parts.host_port_subcomponent or parts.raw_host)


HeaderPairs = tuple[tuple[str, str], ...]
"""Headers: names and values, each name once."""


@lru_cache(maxsize=512)
def _check_header_name(name: str) -> str:
    """A header's name in lower case. Raises ValueError for what is no token."""
    if not _TOKEN.fullmatch(name):
        raise ValueError("a method or a header's name that is no token")
    return name.lower()


class HeaderLines(NamedTuple):
    """Headers as they are sent, Host and Content-Length apart. `host` is the one they name, if they do."""

    host: str | None
    rest: str


def render_header_lines(headers: HeaderPairs) -> HeaderLines:
    """Raises ValueError for a header that cannot be sent as it is; no value stands in the message, which may be a key."""
    if _CONTROL.search("".join([value for _, value in headers])):
        raise ValueError("a control character in a header's value")
    host, rest = None, ""
    for name, value in headers:
        lower = _check_header_name(name)
        if lower not in _OWN_HEADERS:
            rest += f"{name}: {value}\r\n"
        elif lower == "host":
            host = value
        elif lower == "transfer-encoding":
            raise ValueError("a Transfer-Encoding for a body whose length is known")
    return HeaderLines(host, rest)


def render_head(
    method: str,
    place: Address,
    headers: Mapping[str, str],
    length: int | None,
    lines: Callable[[HeaderPairs], HeaderLines] = render_header_lines,
) -> bytes:
    """Request line and headers. `length` in bytes becomes Content-Length, whatever `headers` say; None sends none.

    `lines` is `header_lines`, or that with a memory. Raises ValueError as it does.
    """
    _check_header_name(method)
    host, rest = lines(tuple(headers.items()))
    if host is None:
        host = place.host
    try:
        start = f"{method} {place.target} HTTP/1.1\r\nHost: {host}\r\n{rest}".encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("a character in a header's value that HTTP has no byte for") from None
    return finish_head(start, length)


def finish_head(start: bytes, length: int | None) -> bytes:
    """A head that lacks its length and its end."""
    return start + b"\r\n" if length is None else b"%bContent-Length: %d\r\n\r\n" % (start, length)


def add_default_headers(headers: Mapping[str, str], usual: HeaderPairs) -> dict[str, str]:
    """`headers`, and those of `usual` that they do not name, in whatever case."""
    given = {name.lower() for name in headers}
    return {**headers, **{name: value for name, value in usual if name.lower() not in given}}


class PreparedHead(NamedTuple):
    """What requests of one method, to one URL and with one set of headers, have in common.

    `start` is their head, but for its length and its end. `bodiless`: the answer has no body. `sized`: without a body, too, a
    request says how long it is.
    """

    origin: Origin
    start: bytes
    bodiless: bool
    sized: bool


def prepare_head(
    method: str,
    url: str,
    headers: HeaderPairs,
    usual: HeaderPairs,
    lines: Callable[[HeaderPairs], HeaderLines] = render_header_lines,
    find: Callable[[str], Address] = parse_address,
) -> PreparedHead:
    """Of nothing but what is given, so it can be remembered. Raises ValueError as `find` and `head` do."""
    place, upper = find(url), method.upper()
    whole = render_head(method, place, add_default_headers(dict(headers), usual), None, lines)
    return PreparedHead(place.origin, whole[:-2], upper == "HEAD", upper not in _WITHOUT_BODY)
