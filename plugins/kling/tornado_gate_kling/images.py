"""Input images in the upstream's form: a URL, which the upstream opens, or base64 without a prefix.

Source: https://app.klingai.com/global/dev/document-api/apiReference/model/imageToVideo, `image`: .jpg or .png, at most 10 MB, 300
pixels at least on each side, an aspect ratio from 1:2.5 to 2.5:1.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Final

from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch.pictures import ImageFile, read_image
from tornado_gate.types import Call, FileSource, Link

MAX_BYTES: Final = 10 * 1024 * 1024
MIN_PIXELS: Final = 300
MAX_ASPECT_RATIO: Final = 2.5
_IMAGE_TYPES: Final = ("image/png", "image/jpeg")


async def prepare_image(call: Call, source: FileSource, param: str) -> tuple[str, ImageFile | None]:
    """Return (value to send, the image), or (URL, None) for an image that the upstream opens itself.

    Raises InvalidField for an invalid image. The upstream would report it only minutes later, in the task.
    """
    if isinstance(source, Link):
        return source.url, None
    picture = await read_image(call, source, param)
    _check_picture(picture, param)
    text = await asyncio.to_thread(base64.b64encode, picture.data)
    return text.decode("ascii"), picture


def _check_picture(picture: ImageFile, param: str) -> None:
    width, height = picture.width, picture.height
    if picture.media_type not in _IMAGE_TYPES:
        message = f"'{param}' is {picture.media_type}; use PNG or JPEG."
        raise InvalidField(param, message, code="wrong_media_type")
    if len(picture.data) > MAX_BYTES:
        message = f"'{param}' has {len(picture.data):,} bytes; the limit is {MAX_BYTES:,}."
        raise InvalidField(param, message, code="image_too_large")
    if min(width, height) < MIN_PIXELS:
        message = f"'{param}' has {width} by {height} pixels; each side must have at least {MIN_PIXELS}."
        raise InvalidField(param, message, code="invalid_image")
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        limits = f"1:{MAX_ASPECT_RATIO:g} and {MAX_ASPECT_RATIO:g}:1"
        message = f"'{param}' has {width} by {height} pixels; the aspect ratio must be between {limits}."
        raise InvalidField(param, message, code="invalid_image")
