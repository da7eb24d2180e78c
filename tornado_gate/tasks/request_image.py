"""The image of a video request: loaded, described for the record, and streamed to the store."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tornado_gate.http.fetch import pictures
from tornado_gate.types import Call, Data, FileSource, Link

DECODED_CHARS = 4 * 256 * 1024
"""Base64 that is decoded at once; a multiple of four."""


async def load_image(call: Call, image: FileSource, param: str) -> FileSource:
    """The image with its content: one at an address is downloaded, because the address may hold another when the task runs.

    Raises InvalidField for the caller's field `param`.
    """
    if isinstance(image, Link):
        picture = await pictures.read_image(call, image, param)
        return Data(media_type=picture.media_type, base64=await pictures.encode(picture.data))
    await pictures.check(image, param)
    return image


def describe_image(image: FileSource | None) -> Mapping[str, Any] | None:
    """Media type, filename and size in bytes, as the record keeps them. None without a loaded image."""
    match image:
        case None | Link():
            return None
        case Data(media_type=media_type, base64=text):
            return {"media_type": media_type, "filename": "image", "size": len(text) * 3 // 4}
        case upload:
            return {"media_type": upload.media_type, "filename": upload.filename, "size": upload.size}


def stream_image(image: FileSource | None) -> AsyncIterator[bytes] | None:
    """The bytes of a loaded image, in chunks. None without one."""
    match image:
        case None | Link():
            return None
        case Data(base64=text):
            return _decode(text)
        case upload:
            return upload.chunks()


async def _decode(text: str) -> AsyncIterator[bytes]:
    """The bytes of base64 that `pictures.check` has accepted, in either alphabet."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    for start in range(0, len(plain), DECODED_CHARS):
        piece = plain[start : start + DECODED_CHARS]
        yield base64.b64decode(piece + "=" * (-len(piece) % 4))
