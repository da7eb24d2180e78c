"""The picture that the agents are shown, and how a mock recognises it: by its pixels, because agents re-encode pictures."""

from __future__ import annotations

import base64
import io

from PIL import Image

COLOR = (12, 160, 90)
SIDE = 48


def make_picture() -> bytes:
    """A PNG of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), COLOR).save(buffer, "PNG")
    return buffer.getvalue()


def is_picture(data: bytes) -> bool:
    """Whether these bytes are the picture, in any encoding and size."""
    with Image.open(io.BytesIO(data)) as image:
        pixel = image.convert("RGB").getpixel((image.width // 2, image.height // 2))
    assert isinstance(pixel, tuple)
    return all(abs(one - other) < 12 for one, other in zip(pixel, COLOR, strict=True))


def read_image(text: str, media_type: str) -> bytes:
    """The bytes of a picture in base64. Raises ValueError, as vendors refuse: not base64, no picture, another type than said."""
    data = base64.b64decode(text, validate=True)
    try:
        with Image.open(io.BytesIO(data)) as image:
            found = Image.MIME.get(image.format or "", "")
    except OSError:
        raise ValueError("Could not process image") from None
    if found != media_type:
        raise ValueError(f"Image does not match the provided media type {media_type}")
    return data


def read_data_url(url: str) -> bytes:
    """The bytes of a ``data:`` URL of a picture. Raises ValueError."""
    if not url.startswith("data:") or ";base64," not in url:
        raise ValueError(f"Invalid image URL: {url[:40]}")
    media_type, _, text = url[5:].partition(";base64,")
    return read_image(text, media_type)
