"""Files of upstreams, read while they arrive: long videos are never completely in memory."""

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
from tornado_gate.http.client.response import SizeBound
from tornado_gate.http.fetch.addresses import FetchRefused, too_large_error
from tornado_gate.http.fetch.connections import decode_body, get_announced_length, map_fetch_errors
from tornado_gate.http.upstream_errors import file_error
from tornado_gate.types.value import Value

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
"""Bytes that do not occur in text: the "binary data bytes" of the MIME Sniffing standard (mimesniff.spec.whatwg.org)."""


class OpenedFile(Value, frozen=True, kw_only=True):
    """A file that is open. `media_type` is detected from the content, without parameters.

    `length` is in bytes, None if unknown; `url` is the final URL after redirects.
    """

    media_type: str
    length: int | None
    url: str
    status: int
    body: FileBody

    hidden_fields = frozenset({"body"})

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the content, once, with back-pressure. Raises UpstreamError if incomplete, too slow or too large."""
        return self.body


class FileBody:
    """An iterator over the non-empty chunks of a file.

    After a failure every read fails, so an incomplete file is never accepted.
    """

    def __init__(self, url: str, response: aiohttp.ClientResponse, gap_seconds: float, bound: SizeBound) -> None:
        self._url = url
        self._source = decode_body(response)
        self._gap = gap_seconds
        self._bound = bound
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
        """Return the beginning of the file, for the detection of its type. The iterator still delivers it."""
        kept: list[bytes] = []
        while sum(map(len, kept)) < SNIFFED_BYTES and (piece := await self._next_piece()):
            kept.append(piece)
        self._kept.extend(kept)
        return b"".join(kept)[:SNIFFED_BYTES]

    async def close(self) -> None:
        self._failure = self._failure or _incomplete_file_error()
        await self._source.aclose()

    async def _next_piece(self) -> bytes:
        """Return the next chunk, b"" at the end."""
        if self._failure:
            raise self._failure
        try:
            with as_upstream_errors(self._url, self._gap):
                return await self._read()
        except BaseException as error:  # a cancelled read too, which loses its chunk
            self._failure = error if isinstance(error, UpstreamError) else _incomplete_file_error()
            raise

    async def _read(self) -> bytes:
        async with asyncio.timeout(self._gap):
            with map_fetch_errors():
                piece: bytes | None = b""
                while piece == b"":  # the decompressor may need more input
                    piece = await anext(self._source, None)
        self._size += len(piece or b"")
        if self._size > self._bound.most:
            raise too_large_error(*self._bound)
        return piece or b""


def _incomplete_file_error() -> UpstreamError:
    return file_error("unreachable_url", "The download was ended early.")


async def open_file(
    url: str, response: aiohttp.ClientResponse, rules: FetchRules, kinds: Collection[str], bound: SizeBound
) -> OpenedFile:
    """Check the beginning of a response. Raises FetchRefused, TimeoutError, and UpstreamError if the file is not one of `kinds`.

    The caller closes the body.
    """
    length = get_announced_length(response)
    if length is not None and length > bound.most:
        raise too_large_error(*bound)
    body = FileBody(url, response, rules.gap_seconds, bound)
    try:
        async with asyncio.timeout(rules.gap_seconds):
            beginning = await body.peek()
        media_type = _detect_media_type(beginning, response.headers.get("Content-Type", ""), kinds)
    except BaseException:
        await body.close()
        raise
    return OpenedFile(media_type=media_type, length=length, url=url, status=response.status, body=body)


def _detect_media_type(beginning: bytes, declared: str, kinds: Collection[str]) -> str:
    """Return the media type, by content first: file stores declare wrong types.

    Unknown content must at least not be text, which would be an error page declared as a video.
    """
    detected = sniff(beginning)
    if detected and normalize_media_type(declared).partition("/")[0] != detected.partition("/")[0]:
        declared = ""
    try:
        if not detected and not _BINARY.search(beginning) and not any(kind.startswith("text/") for kind in kinds):
            raise WrongMediaType("text")
        return resolve_media_type(beginning, declared, kinds, trusted=False)
    except WrongMediaType:
        expected = " or ".join(f"{kind}*" if kind.endswith("/") else kind for kind in kinds)
        raise file_error("wrong_media_type", f"Its type is not {expected}.") from None


@contextmanager
def as_upstream_errors(url: str, seconds: float) -> Iterator[None]:
    """Map FetchRefused and TimeoutError to UpstreamError. The log contains only the host: path and query may hold credentials."""
    try:
        yield
    except FetchRefused as refused:
        log.warning("cannot read an upstream's file from '%s': %s", _get_host(url), refused.what)
        raise file_error(refused.code, refused.what, status=refused.status) from None
    except TimeoutError:
        log.warning("an upstream's file from '%s' sent no data for %g s", _get_host(url), seconds)
        raise file_error("unreachable_url", f"It sent no data for {seconds:g} seconds.") from None


def _get_host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "")[:200]
    except ValueError:
        return ""
