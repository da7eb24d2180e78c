"""The image of a video request: loaded, described for the record, and streamed to the store."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tornado_gate.http.fetch import pictures
from tornado_gate.types import Call, Data, FileSource, Link

DECODED_CHARS = 4 * 256 * 1024
"""The number of Base64 characters that are decoded in one step; a multiple of four."""


async def load_image(call: Call, image: FileSource, param: str) -> FileSource:
    """Return the image with its content.

    An image at an address is downloaded now, because the address may change before the task runs.

    Raises InvalidField for the caller's field `param`.
    """
    if isinstance(image, Link):
        picture = await pictures.read_image(call, image, param)
        return Data(media_type=picture.media_type, base64=await pictures.encode(picture.data))
    await pictures.check(image, param)
    return image


def describe_image(image: FileSource | None) -> Mapping[str, Any] | None:
    """Return media type, filename and size in bytes, for the record. Return None without a loaded image."""
    match image:
        case None | Link():
            return None
        case Data(media_type=media_type, base64=text):
            return {"media_type": media_type, "filename": "image", "size": len(text) * 3 // 4}
        case upload:
            return {"media_type": upload.media_type, "filename": upload.filename, "size": upload.size}


def stream_image(image: FileSource | None) -> AsyncIterator[bytes] | None:
    """Return the bytes of a loaded image, in chunks. Return None without one."""
    match image:
        case None | Link():
            return None
        case Data(base64=text):
            return _decode(text)
        case upload:
            return upload.chunks()


async def _decode(text: str) -> AsyncIterator[bytes]:
    """Yield the bytes of base64 that `pictures.check` has accepted, in either alphabet."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    for start in range(0, len(plain), DECODED_CHARS):
        piece = plain[start : start + DECODED_CHARS]
        yield base64.b64decode(piece + "=" * (-len(piece) % 4))
