"""Pictures as the upstream takes them: an address that it opens itself, or base64 without anything before it.

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
    """What to send for a picture, and the picture itself unless it is elsewhere.

    Raises InvalidField for one that the upstream would not take: it says so only in the task, minutes later.
    """
    if isinstance(source, Link):
        return source.url, None
    picture = await read_image(call, source, param)
    _check(picture, param)
    text = await asyncio.to_thread(base64.b64encode, picture.data)
    return text.decode("ascii"), picture


def _check(picture: ImageFile, param: str) -> None:
    width, height = picture.width, picture.height
    if picture.media_type not in _IMAGE_TYPES:
        message = f"'{param}' is {picture.media_type}; PNG and JPEG are taken."
        raise InvalidField(param, message, code="wrong_media_type")
    if len(picture.data) > MAX_BYTES:
        message = f"'{param}' has {len(picture.data):,} bytes; {MAX_BYTES:,} are allowed."
        raise InvalidField(param, message, code="image_too_large")
    if min(width, height) < MIN_PIXELS:
        message = f"'{param}' has {width} by {height} pixels; each side must have {MIN_PIXELS} at least."
        raise InvalidField(param, message, code="invalid_image")
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        limits = f"1:{MAX_ASPECT_RATIO:g} and {MAX_ASPECT_RATIO:g}:1"
        message = f"'{param}' has {width} by {height} pixels; its ratio must be between {limits}."
        raise InvalidField(param, message, code="invalid_image")
