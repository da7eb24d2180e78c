"""The check of a finished video while it is downloaded."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tornado_gate.codec.media_types import sniff
from tornado_gate.codec.video_boxes import BoxFollower
from tornado_gate.errors import UpstreamError
from tornado_gate.types import UpstreamResponse

MAX_LENGTH_DIGITS = 18
"""The maximum number of digits of a Content-Length that are read."""
VIDEO_TYPES = frozenset({"video/mp4", "video/webm", "video/quicktime", "video/x-matroska"})
SNIFFED_BYTES = 64
"""The beginning that shows whether a file is a video; no video is smaller."""


def get_announced_length(incoming: UpstreamResponse) -> int:
    """Return the announced length of a file in bytes; 0 if it is missing or the file is compressed."""
    length = incoming.headers.get("content-length", "")
    if "content-encoding" in incoming.headers or not length.isdecimal():
        return 0
    return int(length[:MAX_LENGTH_DIGITS])


class VideoCheck:
    """A check of the chunks of a video; `size` is the number of bytes that have arrived.

    A file that is no video is refused by its first bytes, independent of the declared type. So is a file that is incomplete.
    """

    def __init__(self, incoming: UpstreamResponse) -> None:
        self._chunks = incoming.chunks
        self.size = 0

    async def read_chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks. Raises UpstreamError."""
        beginning, boxes = b"", BoxFollower()
        async for chunk in self._chunks:
            self.size += len(chunk)
            boxes.take(chunk)
            if len(beginning) >= SNIFFED_BYTES:
                yield chunk
                continue
            beginning += chunk
            if len(beginning) >= SNIFFED_BYTES:
                if sniff(beginning) not in VIDEO_TYPES:
                    raise UpstreamError("The upstream sent no video.", code="upstream_no_video")
                yield beginning
        if len(beginning) < SNIFFED_BYTES:
            raise UpstreamError("The upstream sent an empty file for the video.", code="upstream_no_video")
        if boxes.is_cut:
            raise UpstreamError("The upstream sent a video without its end.", code="upstream_no_video")
