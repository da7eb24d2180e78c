"""The head of a request, parsed: bytes -> start line, headers and the framing of the body; pure.

llhttp (httptools) parses in its strict mode. Where it is lenient, this module rejects, so that no two parsers of one connection
can disagree about the end of a request (RFC 9112 11.2). Differences from Tornado's server:

    case                                               Tornado      here
    LF without CR, in the head                         accepted     400
    Content-Length: 5, 5; the same length twice        accepted     400
    Transfer-Encoding in HTTP/1.0                      accepted     400
    HTTP/1.2 to HTTP/1.9                               accepted     400
    methods outside of IANA's registry; RTSP methods   the router   501, in `tornado_front` too
    targets other than /path, * and URLs               the router   400
    bytes above 0x7E in the target                     accepted     400
    a chunk size with more than 16 digits              accepted     400
    a head that is too large                           closed       431
    more than MAX_FIELDS headers                       accepted     431
    the target * with another method than OPTIONS      accepted     400
    Expect with another value than 100-continue        ignored      417
    100 Continue for HTTP/1.0                          sent         not sent (RFC 9110 10.1.1)
    chunk extensions, trailers                         400          ignored, up to a limit (RFC 9112 7.1)
    a URL as a target                                  404          served; it replaces the Host (RFC 9112 3.2.2)

Everything else is equal: Content-Length with Transfer-Encoding, lengths that are not digits, any coding except exactly `chunked`,
control characters, folded lines, space before the colon, names that are not tokens, HTTP/0.9 and HTTP/2 are rejected by both. A
missing, repeated or invalid Host is rejected by Tornado's HTTPServerRequest for both.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from tornado.httputil import HTTPHeaders, HTTPInputError, RequestStartLine

from tornado_gate.http.server.refusals import ExpectationFailed, HeadersTooLarge, Refused, UnknownMethod

CHUNKED = -1
MAX_FIELDS = 200
"""Maximum number of headers: each costs time to parse and to translate, and no client sends more."""
HEAD_END = b"\r\n\r\n"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_URL = re.compile(r"https?://([^/?#]+)([^#]*)", re.IGNORECASE)
_LENGTH_DIGITS = 18
_VERSIONS = {b"HTTP/1.1": "HTTP/1.1", b"HTTP/1.0": "HTTP/1.0"}
_MAX_HEADER_NAMES = 1000
_MAX_REQUEST_LINES = 256
_MAX_CACHED_LINE_BYTES = 128
_MAX_REPEATED_BYTES = 8 * 1024
"""The maximum size of a head that is kept for comparison with the next one of its connection."""


class Head(NamedTuple):
    """A parsed head. `body`: number of body bytes, or CHUNKED. `keep`: the client allows reuse of the connection."""

    start_line: RequestStartLine
    headers: HeaderFields
    body: int
    keep: bool


class LastHead:
    """The last head of a connection, divided at the value of its Content-Length: most clients repeat it on a connection.

    A head with the same bytes around another length needs no parsing. Made only for a head that an application may get again
    (`HeaderFields.note`), which has a Content-Length and no expectation. It is kept as long as its connection, whose client
    has sent the key that may be in it.
    """

    __slots__ = ("_after", "_after_size", "_before", "_digits", "_start", "_stop", "head")

    def __init__(self, data: bytes, head: Head) -> None:
        """Divide `data`, the bytes of `head`. Raises ValueError if the length cannot be found in them."""
        name = data.lower().index(b"\r\ncontent-length:")
        value = data.index(b":", name) + 1
        end = data.index(b"\r\n", value)
        self._digits = data[value:end].lstrip(b" \t")
        self._start = end - len(self._digits)
        self._stop = self._start + _LENGTH_DIGITS + 2
        self._before, self._after = data[: self._start], data[end:]
        self._after_size = len(self._after)
        self.head = head

    def find_end(self, data: bytes) -> int:
        """Return the end of the head in `data` if it is this one, with any length; `head` has its length then. Else return -1."""
        start = self._start
        if not data.startswith(self._before):
            return -1
        end = data.find(b"\r\n", start, self._stop)
        if end < 0 or not data.startswith(self._after, end):
            return -1
        digits = data[start:end]
        if digits != self._digits:
            if not digits.isdigit():
                return -1
            head = self.head
            self.head = Head(head.start_line, head.headers.copy_with_length(digits.decode()), int(digits), head.keep)
            self._digits = digits
        return end + self._after_size


def remember_head(data: bytes, head: Head) -> LastHead | None:
    """Return what recognizes `head` if the connection's client repeats it; None if the application does not want that."""
    if (
        head.headers.note is None
        or head.body <= 0
        or len(data) > _MAX_REPEATED_BYTES
        or "expect" in head.headers.lowered
    ):
        return None
    return LastHead(data, head)


def find_end(data: bytes, searched: int) -> int:
    """Return the end of the head in `data`; -1 if it is incomplete. The first `searched` bytes were searched before.

    Raises HTTPInputError for a line that ends in LF alone: such a client would never send the expected end.
    """
    end = data.find(HEAD_END, max(0, searched - 3))
    if end < 0 and data.count(b"\n", searched) != data.count(b"\r\n", max(0, searched - 1)):
        raise HTTPInputError("a line ends in LF without CR")
    return end + len(HEAD_END) if end >= 0 else -1


def parse(head: bytes) -> Head:
    """Parse a head from its request line to its empty line. Raises HTTPInputError, `Refused` for a status other than 400."""
    lines = head.count(b"\r\n")
    if not lines == head.count(b"\n") == head.count(b"\r"):
        raise HTTPInputError("CR or LF alone")
    if lines > MAX_FIELDS + 2:
        raise Refused(HeadersTooLarge(f"The request has more than {MAX_FIELDS} headers. Send fewer headers."))
    start_line = _parse_start_line(head)
    headers = HeaderFields()
    try:
        HttpRequestParser(headers).feed_data(head)
    except HttpParserUpgrade:
        pass  # CONNECT, or an upgrade, which the handler accepts or ignores
    except HttpParserError as error:
        check_method(start_line.method)
        raise HTTPInputError(str(error.__context__ or error)) from None
    if headers.repeats:
        headers.join()
    lowered = headers.lowered
    if start_line.path[:1] != "/":
        start_line = _resolve_target(start_line, headers)
    if "expect" in lowered:
        _check_expectation(start_line, lowered)
    connection = lowered.get("connection", "").lower()
    body = _get_body_length(start_line, lowered)
    return Head(start_line, headers, body, _is_keep_alive(start_line, lowered, connection))


def check_method(method: str) -> None:
    """Raise Refused, with 501, for a method that llhttp does not know (RFC 9110 9.1). Names that are not tokens do not raise."""
    if _TOKEN.fullmatch(method) and not _is_known_method(method):
        raise Refused(UnknownMethod(method))


@lru_cache(maxsize=64)
def _is_known_method(method: str) -> bool:
    try:
        HttpRequestParser(object()).feed_data(f"{method} / HTTP/1.1\r\n\r\n".encode())
    except HttpParserUpgrade:
        pass  # CONNECT
    except HttpParserError:
        return False
    return True


class HeaderFields(HTTPHeaders):
    """The headers that the parser has filled and checked; `add` would check them again, which takes 1.5 µs each.

    `lowered` has the same values by lower-case name; a change of headers must change both. A lookup in it takes a tenth of the
    time of `get`, which has to normalize the name first.
    """

    repeats = False
    """Whether a name occurred more than once; then `lowered` is valid only after `join`."""

    note: object | None = None
    """What the application has found out from these headers. It may get them again, with another Content-Length only."""

    def __init__(self) -> None:
        self._as_list: dict[str, list[str]] = {}
        self._combined_cache: dict[str, str] = {}
        self.lowered: dict[str, str] = {}

    def on_header(self, raw_name: bytes, raw_value: bytes) -> None:
        """Add a header; called by the parser."""
        name, lower = _HEADER_NAMES.get(raw_name) or _intern_header_name(raw_name)
        value = raw_value.decode("latin-1").strip(" \t")
        if lower in self.lowered:
            self._as_list[name].append(value)
            self.repeats = True
        else:
            self._as_list[name] = [value]
            self.lowered[lower] = value

    def copy_with_length(self, length: str) -> HeaderFields:
        """Return a copy with another Content-Length, and with the same `note`."""
        copied = HeaderFields()
        copied._as_list = {**self._as_list, "Content-Length": [length]}
        copied.lowered = {**self.lowered, "content-length": length}
        copied.note = self.note
        return copied

    def join(self) -> None:
        """Join the values of repeated headers, once at the end: joining each would take quadratic time."""
        self.lowered = {name.lower(): ",".join(values) for name, values in self._as_list.items()}

    def add(self, name: str, value: str, *, _chars_are_bytes: bool = True) -> None:
        """Add a header as HTTPHeaders.add."""
        super().add(name, value, _chars_are_bytes=_chars_are_bytes)
        self.lowered[name.lower()] = self[name]

    def __setitem__(self, name: str, value: str) -> None:
        super().__setitem__(name, value)
        self.lowered[name.lower()] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        del self.lowered[name.lower()]

    def copy(self) -> HTTPHeaders:
        """Return a copy of Tornado's own type."""
        return HTTPHeaders(self)

    __copy__ = copy


_HEADER_NAMES: dict[bytes, tuple[str, str]] = {}
"""Header names as received -> as Tornado writes them, and in lower case."""


def _intern_header_name(raw_name: bytes) -> tuple[str, str]:
    name = raw_name.decode("latin-1")
    if not _TOKEN.fullmatch(name):
        raise HTTPInputError(f"Invalid header name {name!r}")
    names = "-".join(word.capitalize() for word in name.split("-")), name.lower()
    if len(_HEADER_NAMES) < _MAX_HEADER_NAMES and len(raw_name) < 64:
        _HEADER_NAMES[raw_name] = names
    return names


def _parse_start_line(head: bytes) -> RequestStartLine:
    line = head[: head.find(b"\r\n")]
    if len(line) > _MAX_CACHED_LINE_BYTES or b"?" in line:  # a query may hold a key, which must not be cached
        return _parse_request_line(line)
    return _parse_request_line_cached(line)


def _parse_request_line(line: bytes) -> RequestStartLine:
    parts = line.split(b" ")
    version = _VERSIONS.get(parts[-1])
    if version is None or len(parts) != 3:
        raise HTTPInputError("Malformed HTTP request line")
    return RequestStartLine(parts[0].decode("latin-1"), parts[1].decode("latin-1"), version)


_parse_request_line_cached = lru_cache(maxsize=_MAX_REQUEST_LINES)(_parse_request_line)
"""Cached: most requests begin with one of a few lines."""


def _resolve_target(start_line: RequestStartLine, headers: HeaderFields) -> RequestStartLine:
    """Return the request line for a target that is no path: ``*`` of OPTIONS, or a URL, whose host replaces the header Host.

    Raises HTTPInputError (RFC 9112 3.2).
    """
    method, target, version = start_line
    if target == "*" and method == "OPTIONS":
        return start_line
    match = _URL.fullmatch(target)
    hosts = headers.get_list("Host")
    if match is None or len(hosts) > 1 or not (hosts or version == "HTTP/1.0"):
        raise HTTPInputError("the request target must be a path or a URL, with one Host header")
    headers["Host"] = match[1]
    path = match[2]
    return RequestStartLine(method, path if path.startswith("/") else "/" + path, version)


def _check_expectation(start_line: RequestStartLine, lowered: dict[str, str]) -> None:
    """Raise Refused for an expectation other than 100-continue. HTTP/1.0 has no expectations (RFC 9110 10.1.1)."""
    if start_line.version == "HTTP/1.1" and lowered["expect"].lower() != "100-continue":
        raise Refused(ExpectationFailed("The header 'Expect' must be '100-continue'. Remove it or change its value."))


def _get_body_length(start_line: RequestStartLine, lowered: dict[str, str]) -> int:
    coding, length = lowered.get("transfer-encoding"), lowered.get("content-length")
    if coding is not None:
        if length is not None or coding.lower() != "chunked" or start_line.version != "HTTP/1.1":
            raise HTTPInputError(f"Unsupported Transfer-Encoding {coding}")
        return CHUNKED
    if length is None:
        return 0
    if not (length.isascii() and length.isdecimal() and len(length) <= _LENGTH_DIGITS):
        raise HTTPInputError(f"Only integer Content-Length is allowed: {length}")
    return int(length)


def _is_keep_alive(start_line: RequestStartLine, lowered: dict[str, str], connection: str) -> bool:
    modern = start_line.version == "HTTP/1.1"
    if not connection or (modern and connection == "keep-alive"):
        return modern
    options = {option.strip() for option in connection.split(",")}
    if modern or "close" in options:
        return "close" not in options
    return "keep-alive" in options and ("content-length" in lowered or start_line.method in ("GET", "HEAD"))
