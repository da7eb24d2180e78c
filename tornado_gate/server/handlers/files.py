"""Stored files as responses: range and conditional requests, read from the disk, with back-pressure."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import aclosing
from email.utils import formatdate
from typing import Protocol

from tornado.httputil import HTTPHeaders
from tornado.iostream import StreamClosedError

from tornado_gate.errors import GateError, RequestError
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.storage.files import MediaFile, MediaStore, ReadableFile, format_content_disposition

_RANGE = re.compile(r"bytes=\s*([0-9]{0,100})-([0-9]{0,100})\s*", re.IGNORECASE)
_ETAG = re.compile(r'\*|"[^"]*"')
# A stored file may be a page with scripts, and it has the same origin as the console.
_CONTENT_SECURITY_POLICY = "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'"


class RangeNotSatisfiable(RequestError):
    """An error: the range begins after the end of the file."""

    status = 416
    code = "range_not_satisfiable"


class FileRequest(Protocol):
    """The fields of a request that sending a file needs."""

    @property
    def method(self) -> str | None: ...
    @property
    def headers(self) -> HTTPHeaders: ...


class ResponseWriter(Protocol):
    """The handler through which a file is sent: a `GateHandler` or an `Exchange`."""

    snapshot: Snapshot

    @property
    def request(self) -> FileRequest: ...

    def set_status(self, status_code: int) -> None: ...
    def set_header(self, name: str, value: str) -> None: ...
    async def send(self, chunk: bytes) -> None: ...
    def end(self) -> None: ...
    def cut(self) -> None: ...


async def send_file(outlet: ResponseWriter, store: MediaStore, file_id: str, until: float) -> None:
    """Send the file or the requested range, or redirect to the store; a cache may keep it until `until` (Unix seconds).

    Raises NotFound, RangeNotSatisfiable, MediaUnavailable.
    """
    if url := await store.find_redirect(file_id, outlet.request.method or "GET", until):
        _redirect(outlet, url)
        return
    async with store.open_for_reading(file_id) as (kept, file):
        span = _find_requested_range(outlet.request, kept)
        _set_file_headers(outlet, kept, int(until))
        if _is_not_modified(outlet.request, kept):
            outlet.set_status(304)
            outlet.end()
            return
        first, end = span or (0, kept.size)
        if span is not None:
            outlet.set_status(206)
            outlet.set_header("Content-Range", f"bytes {first}-{end - 1}/{kept.size}")
        outlet.set_header("Content-Length", str(end - first))
        if outlet.request.method == "HEAD":
            outlet.end()
        else:
            await _send_bytes(outlet, file, first, end)


def _redirect(outlet: ResponseWriter, url: str) -> None:
    outlet.set_status(307)
    outlet.set_header("Location", url)
    outlet.set_header("Cache-Control", "private, no-store")
    outlet.set_header("Referrer-Policy", "no-referrer")
    outlet.end()


def _set_file_headers(outlet: ResponseWriter, kept: MediaFile, expires: int) -> None:
    seconds_left = int(min(kept.expires, expires) - time.time())
    outlet.set_header("Content-Type", kept.media_type)
    outlet.set_header("Content-Disposition", format_content_disposition(kept))
    outlet.set_header("Content-Security-Policy", _CONTENT_SECURITY_POLICY)
    outlet.set_header("Referrer-Policy", "no-referrer")
    outlet.set_header("Accept-Ranges", "bytes")
    outlet.set_header("ETag", _make_etag(kept))
    outlet.set_header("Last-Modified", _format_last_modified(kept))
    outlet.set_header("Cache-Control", f"private, max-age={max(0, seconds_left)}")


def _is_not_modified(request: FileRequest, kept: MediaFile) -> bool:
    tags = _ETAG.findall(request.headers.get("If-None-Match", ""))
    return "*" in tags or _make_etag(kept) in tags


def _find_requested_range(request: FileRequest, kept: MediaFile) -> tuple[int, int] | None:
    """Return the requested range, if `If-Range` matches this file; else None. Only GET has ranges (RFC 9110 14.2)."""
    condition = request.headers.get("If-Range", "").strip()
    if request.method != "GET" or _is_not_modified(request, kept):
        return None
    if condition and condition not in (_make_etag(kept), _format_last_modified(kept)):
        return None
    return parse_range(request.headers.get("Range", ""), kept.size)


async def _send_bytes(outlet: ResponseWriter, file: ReadableFile, first: int, end: int) -> None:
    """Send part of a file. Disconnect a client that reads no data for too long; a paused player reconnects with a Range."""
    stall_seconds = outlet.snapshot.config.server.stalled_reader_seconds
    is_begun = False
    try:
        async with aclosing(file.read_range(first, end)) as chunks:
            async for chunk in chunks:
                is_begun = True
                async with asyncio.timeout(stall_seconds):
                    await outlet.send(chunk)
        outlet.end()
    except StreamClosedError:
        raise  # the caller disconnected; this exception is an OSError too
    except GateError:
        if not is_begun:
            raise
        outlet.cut()
    except (OSError, EOFError):  # TimeoutError, an OSError: the caller reads no data
        outlet.cut()  # cut, so that the client sees an incomplete file


def parse_range(header: str, size: int) -> tuple[int, int] | None:
    """Return (first byte, byte after the last) in a file of `size` bytes; None, the whole file, for several or invalid ranges.

    Raises RangeNotSatisfiable (RFC 9110 14.1.2, 15.5.17).
    """
    match = _RANGE.fullmatch(header)
    if match is None or not any(match.groups()):
        return None
    begin, last = match.groups()
    if not begin:
        first, end = max(0, size - int(last)), size
    else:
        first, end = int(begin), min(size, int(last) + 1) if last else size
        if last and int(last) < first:
            return None
    if first >= end:
        message = (
            f"The requested range begins after the end of the file, which has {size} bytes. Request a range within it."
        )
        raise RangeNotSatisfiable(message, headers={"Content-Range": f"bytes */{size}"})
    return first, end


def _make_etag(kept: MediaFile) -> str:
    return f'"{kept.id}"'  # the content of an id is immutable


def _format_last_modified(kept: MediaFile) -> str:
    return formatdate(kept.created, usegmt=True)
