"""The parameters and the output of images. Pure."""

from __future__ import annotations

from typing import Final

from tornado_gate.types.value import Value

MAX_SIDE_PIXELS: Final = 4_096
MEDIA_TYPES: Final = {"png": "image/png", "webp": "image/webp", "jpeg": "image/jpeg"}


class OutputOptions(Value, frozen=True, kw_only=True):
    """How an image is encoded. `compression` is 0 to 100 for webp and jpeg, where 100 is the best quality.

    The background "auto" is opaque for a new image; an edit keeps that of its first image.
    """

    format: str = "png"
    background: str = "auto"
    compression: int | None = None
    watermark: bool = False


class ImageOrder(Value, frozen=True, kw_only=True):
    """A new image of `width` by `height` pixels; orders with another `variant` look different."""

    prompt: str
    width: int = 1_024
    height: int = 1_024
    variant: int = 0
    finish: OutputOptions = OutputOptions()


class EditOrder(Value, frozen=True, kw_only=True):
    """`images` are bytes of image files: the first is edited, the others are drawn small on it. `size` None keeps its size.

    `mask` is a file of the first image's size. Its transparent part is edited; without transparency, its white part.
    """

    instruction: str
    images: tuple[bytes, ...]
    mask: bytes | None = None
    size: tuple[int, int] | None = None
    variant: int = 0
    finish: OutputOptions = OutputOptions()


class ImageOutput(Value, frozen=True, kw_only=True):
    """An encoded image. `transparent` says whether it has an alpha channel."""

    data: bytes
    media_type: str
    width: int
    height: int
    transparent: bool = False
