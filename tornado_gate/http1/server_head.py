"""The head of a request: bytes -> a start line, headers and how the body is framed; pure.

llhttp (httptools) reads it in its strict mode; what it is lenient in is refused here, so that no two readers of one
connection can disagree about where a request ends (RFC 9112 11.2). Verdicts beside those of Tornado's own front:

    case                                               Tornado      here
    LF without CR, in the head                         accepted     400
    Content-Length: 5, 5; the same length twice        accepted     400
    Transfer-Encoding in HTTP/1.0                      accepted     400
    HTTP/1.2 to HTTP/1.9                               accepted     400
    methods that IANA does not know; those of RTSP     the router   400
    targets that are neither /path, * nor a URL        the router   400
    bytes above 0x7E in the target                     accepted     400
    a size of a chunk with more than 16 digits         accepted     400
    a head that is too large                           closed       431

and the same in everything else: Content-Length with Transfer-Encoding, lengths that are not digits, any coding but exactly
`chunked`, controls, folded lines, space before the colon, names that are no token, HTTP/0.9, HTTP/2, chunk extensions and
trailers are refused by both. A missing, repeated or impossible Host is refused by Tornado's HTTPServerRequest for both.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from tornado.httputil import HTTPHeaders, HTTPInputError, RequestStartLine

CHUNKED = -1
END = b"\r\n\r\n"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LENGTH = re.compile(r"[0-9]{1,18}")
_VERSIONS = {b"HTTP/1.1": "HTTP/1.1", b"HTTP/1.0": "HTTP/1.0"}
_KNOWN_NAMES = 1000


class Head(NamedTuple):
    """What was asked. `body`: how many bytes follow, or CHUNKED. `keep`: the client lets the connection stay open."""

    start_line: RequestStartLine
    headers: HTTPHeaders
    body: int
    keep: bool
    upgrade: bool


def find_end(data: bytes, seen: int) -> int:
    """Where the head in `data` ends; -1 when it has not yet. The first `seen` bytes were looked at before.

    Raises HTTPInputError for a line that ends in LF alone: who writes such never sends what is waited for.
    """
    end = data.find(END, max(0, seen - 3))
    if end < 0 and data.count(b"\n", seen) != data.count(b"\r\n", max(0, seen - 1)):
        raise HTTPInputError("a line ends in LF without CR")
    return end + len(END) if end >= 0 else -1


def parse(head: bytes) -> Head:
    """`head` from its request line to its empty line. Raises HTTPInputError."""
    if not head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r"):
        raise HTTPInputError("CR or LF alone")
    start_line = _start_line(head)
    headers = _Fields()
    try:
        HttpRequestParser(headers).feed_data(head)
    except HttpParserUpgrade:
        pass  # CONNECT, or a change of protocols, which is for the handler to take or to leave
    except HttpParserError as error:
        raise HTTPInputError(str(error.__context__ or error)) from None
    connection = headers.found("Connection").lower()
    body = _body(start_line, headers)
    return Head(
        start_line,
        headers,
        body,
        _keep(start_line, headers, connection),
        body == 0 and headers.found("Upgrade").lower() == "websocket" and _upgrades(start_line, connection),
    )


class _Fields(HTTPHeaders):
    """Headers that the parser fills. They were checked by it; adding them by `add` would check them again, for 1.5 µs each."""

    def __init__(self) -> None:
        self._as_list: dict[str, list[str]] = {}
        self._combined_cache: dict[str, str] = {}

    def on_header(self, raw_name: bytes, raw_value: bytes) -> None:
        """Called by the parser."""
        name = _NAMES.get(raw_name) or _learn(raw_name)
        value = raw_value.decode("latin-1").strip(" \t")
        if name in self._as_list:
            self._as_list[name].append(value)
        else:
            self._as_list[name] = [value]

    def found(self, name: str) -> str:
        """The value of `name`, which is written as Tornado does; "" when there is none. `get` takes 1 µs to find nothing."""
        values = self._as_list.get(name)
        return ",".join(values) if values else ""

    def copy(self) -> HTTPHeaders:
        """Of Tornado's own type."""
        return HTTPHeaders(self)

    __copy__ = copy


_NAMES: dict[bytes, str] = {}
"""Names of headers as they came -> as Tornado writes them."""


def _learn(raw_name: bytes) -> str:
    name = raw_name.decode("latin-1")
    if not _TOKEN.fullmatch(name):
        raise HTTPInputError(f"Invalid header name {name!r}")
    name = "-".join(word.capitalize() for word in name.split("-"))
    if len(_NAMES) < _KNOWN_NAMES and len(raw_name) < 64:
        _NAMES[raw_name] = name
    return name


def _start_line(head: bytes) -> RequestStartLine:
    parts = head[: head.find(b"\r\n")].split(b" ")
    version = _VERSIONS.get(parts[-1])
    if version is None or len(parts) != 3:
        raise HTTPInputError("Malformed HTTP request line")
    return RequestStartLine(parts[0].decode("latin-1"), parts[1].decode("latin-1"), version)


def _body(start_line: RequestStartLine, headers: _Fields) -> int:
    if "Transfer-Encoding" in headers:
        coding = headers["Transfer-Encoding"]
        if "Content-Length" in headers or coding.lower() != "chunked" or start_line.version != "HTTP/1.1":
            raise HTTPInputError(f"Unsupported Transfer-Encoding {coding}")
        return CHUNKED
    if "Content-Length" not in headers:
        return 0
    length = headers["Content-Length"]
    if not _LENGTH.fullmatch(length):
        raise HTTPInputError(f"Only integer Content-Length is allowed: {length}")
    return int(length)


def _keep(start_line: RequestStartLine, headers: _Fields, connection: str) -> bool:
    modern = start_line.version == "HTTP/1.1"
    if not connection or (modern and connection == "keep-alive"):
        return modern
    options = {option.strip() for option in connection.split(",")}
    if modern or "close" in options:
        return "close" not in options
    return "keep-alive" in options and ("Content-Length" in headers or start_line.method in ("GET", "HEAD"))


def _upgrades(start_line: RequestStartLine, connection: str) -> bool:
    options = [option.strip() for option in connection.split(",")]
    return start_line.method == "GET" and start_line.version == "HTTP/1.1" and "upgrade" in options
