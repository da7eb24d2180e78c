"""Pictures as the upstream takes them: an address that it opens itself, or base64 without anything before it.

Source: https://app.klingai.com/global/dev/document-api/apiReference/model/imageToVideo, `image`: .jpg or .png, at most 10 MB, 300
pixels at least on each side, an aspect ratio from 1:2.5 to 2.5:1.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Final

from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch.pictures import Picture, picture_of
from tornado_gate.types import Call, FileSource, Link

MOST_BYTES: Final = 10 * 1024 * 1024
LEAST_PIXELS: Final = 300
WIDEST: Final = 2.5
_KINDS: Final = ("image/png", "image/jpeg")


async def sendable(call: Call, source: FileSource, param: str) -> tuple[str, Picture | None]:
    """What to send for a picture, and the picture itself unless it is elsewhere.

    Raises InvalidField for one that the upstream would not take: it says so only in the task, minutes later.
    """
    if isinstance(source, Link):
        return source.url, None
    picture = await picture_of(call, source, param)
    _check(picture, param)
    text = await asyncio.to_thread(base64.b64encode, picture.data)
    return text.decode("ascii"), picture


def _check(picture: Picture, param: str) -> None:
    width, height = picture.width, picture.height
    if picture.media_type not in _KINDS:
        message = f"'{param}' is {picture.media_type}; PNG and JPEG are taken."
        raise InvalidField(param, message, code="wrong_media_type")
    if len(picture.data) > MOST_BYTES:
        message = f"'{param}' has {len(picture.data):,} bytes; {MOST_BYTES:,} are allowed."
        raise InvalidField(param, message, code="image_too_large")
    if min(width, height) < LEAST_PIXELS:
        message = f"'{param}' has {width} by {height} pixels; each side must have {LEAST_PIXELS} at least."
        raise InvalidField(param, message, code="invalid_image")
    if max(width, height) > WIDEST * min(width, height):
        message = f"'{param}' has {width} by {height} pixels; its ratio must be between 1:{WIDEST:g} and {WIDEST:g}:1."
        raise InvalidField(param, message, code="invalid_image")
