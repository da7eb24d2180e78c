"""What a picture is made from, and what comes of it. Pure."""

from __future__ import annotations

from typing import Final

from tornado_gate.types.value import Value

MAX_SIDE_PIXELS: Final = 4_096
MEDIA_TYPES: Final = {"png": "image/png", "webp": "image/webp", "jpeg": "image/jpeg"}


class OutputOptions(Value, frozen=True, kw_only=True):
    """How a picture is stored. `compression` is 0 to 100 for webp and jpeg, where 100 is the best quality.

    "auto" is opaque for a new picture, and for an edit what the first picture is.
    """

    format: str = "png"
    background: str = "auto"
    compression: int | None = None
    watermark: bool = False


class ImageOrder(Value, frozen=True, kw_only=True):
    """A new picture of `width` by `height` pixels; orders that differ in `variant` look different."""

    prompt: str
    width: int = 1_024
    height: int = 1_024
    variant: int = 0
    finish: OutputOptions = OutputOptions()


class EditOrder(Value, frozen=True, kw_only=True):
    """`images` are files; the first is edited, the others are shown small in it. No size keeps the first one's.

    `mask` is a file of the first picture's size. What is transparent in it is edited; when it has no transparency at
    all, what is white.
    """

    instruction: str
    images: tuple[bytes, ...]
    mask: bytes | None = None
    size: tuple[int, int] | None = None
    variant: int = 0
    finish: OutputOptions = OutputOptions()


class ImageOutput(Value, frozen=True, kw_only=True):
    """A file that was made. `transparent` says whether it has an alpha channel."""

    data: bytes
    media_type: str
    width: int
    height: int
    transparent: bool = False
