"""A file that an upstream has made, read while it arrives: minutes of video are never whole in memory."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tornado_gate.codec.media_types import (
    SNIFFED_BYTES,
    WrongMediaType,
    normalize_media_type,
    resolve_media_type,
    sniff,
)
from tornado_gate.config.model import FetchRules
from tornado_gate.errors import UpstreamError
from tornado_gate.http.fetch.addresses import FetchRefused, too_large_error
from tornado_gate.http.fetch.connections import decode_body, get_announced_length, map_fetch_errors
from tornado_gate.http.upstream_errors import file_error
from tornado_gate.types.value import Value

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
"""What no text has: the "binary data bytes" of the MIME Sniffing standard (mimesniff.spec.whatwg.org)."""


class OpenedFile(Value, frozen=True, kw_only=True):
    """`media_type` is what the file begins like, without parameters; `length` is in bytes, None when nobody has said it;
    `url` is where the file is in the end."""

    media_type: str
    length: int | None
    url: str
    status: int
    body: FileBody

    hidden_fields = frozenset({"body"})

    def chunks(self) -> AsyncIterator[bytes]:
        """The file, once, at the reader's pace. Raises UpstreamError when it breaks off, pauses too long or is too large."""
        return self.body


class FileBody:
    """The pieces of a file, none of them empty. After a failure it fails again: half a file never looks like a whole one."""

    def __init__(self, url: str, response: aiohttp.ClientResponse, gap_seconds: float, most: int | None) -> None:
        self._url = url
        self._source = decode_body(response)
        self._gap = gap_seconds
        self._most = most
        self._size = 0
        self._kept: deque[bytes] = deque()
        self._failure: UpstreamError | None = None

    def __aiter__(self) -> FileBody:
        return self

    async def __anext__(self) -> bytes:
        piece = self._kept.popleft() if self._kept else await self._next_piece()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def peek(self) -> bytes:
        """What a file's type is told by; it is still among the pieces."""
        kept: list[bytes] = []
        while sum(map(len, kept)) < SNIFFED_BYTES and (piece := await self._next_piece()):
            kept.append(piece)
        self._kept.extend(kept)
        return b"".join(kept)[:SNIFFED_BYTES]

    async def close(self) -> None:
        self._failure = self._failure or _incomplete_file_error()
        await self._source.aclose()

    async def _next_piece(self) -> bytes:
        """The next piece, b"" at the end."""
        if self._failure:
            raise self._failure
        try:
            with as_upstream_errors(self._url, self._gap):
                return await self._read()
        except BaseException as error:  # also a cancelled reader: what was under way is lost
            self._failure = error if isinstance(error, UpstreamError) else _incomplete_file_error()
            raise

    async def _read(self) -> bytes:
        async with asyncio.timeout(self._gap):
            with map_fetch_errors():
                piece: bytes | None = b""
                while piece == b"":  # an inflater may have to see more
                    piece = await anext(self._source, None)
        self._size += len(piece or b"")
        if self._most is not None and self._size > self._most:
            raise too_large_error(self._most)
        return piece or b""


def _incomplete_file_error() -> UpstreamError:
    return file_error("unreachable_url", "It was left before its end.")


async def open_file(
    url: str, response: aiohttp.ClientResponse, rules: FetchRules, kinds: Collection[str], most: int | None
) -> OpenedFile:
    """Look at the beginning of what `response` brings. Raises Refused, TimeoutError, and UpstreamError for what is not one of
    `kinds`. Whoever calls closes the body."""
    length = get_announced_length(response)
    if most is not None and length is not None and length > most:
        raise too_large_error(most)
    body = FileBody(url, response, rules.gap_seconds, most)
    try:
        async with asyncio.timeout(rules.gap_seconds):
            beginning = await body.peek()
        media_type = _detect_media_type(beginning, response.headers.get("Content-Type", ""), kinds)
    except BaseException:
        await body.close()
        raise
    return OpenedFile(media_type=media_type, length=length, url=url, status=response.status, body=body)


def _detect_media_type(beginning: bytes, declared: str, kinds: Collection[str]) -> str:
    """By content first: what a store of files declares may be anything. What nobody knows must not be text, at least, for that
    would be an error that calls itself a video."""
    seen = sniff(beginning)
    if seen and normalize_media_type(declared).partition("/")[0] != seen.partition("/")[0]:
        declared = ""
    try:
        if not seen and not _BINARY.search(beginning) and not any(kind.startswith("text/") for kind in kinds):
            raise WrongMediaType("text")
        return resolve_media_type(beginning, declared, kinds, trusted=False)
    except WrongMediaType:
        wanted = " or ".join(f"{kind}*" if kind.endswith("/") else kind for kind in kinds)
        raise file_error("wrong_media_type", f"It is not what it should be: {wanted}.") from None


@contextmanager
def as_upstream_errors(url: str, seconds: float) -> Iterator[None]:
    """A Refused or a TimeoutError is the upstream's fault here, not the caller's. The log learns the host, for paths and
    queries may hold what gives access."""
    try:
        yield
    except FetchRefused as refused:
        log.warning("a file of an upstream, at '%s', was not read: %s", _get_host(url), refused.what)
        raise file_error(refused.code, refused.what, status=refused.status) from None
    except TimeoutError:
        log.warning("a file of an upstream, at '%s', did not come within %g seconds", _get_host(url), seconds)
        raise file_error("unreachable_url", f"Nothing came within {seconds:g} seconds.") from None


def _get_host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "")[:200]
    except ValueError:
        return ""
