"""Read and write image files with Pillow. Only for worker processes."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from PIL import Image, ImageOps

from tornado_gate_demo_media.image_orders import MEDIA_TYPES, ImageOutput, OutputOptions
from tornado_gate_local.errors import InvalidArgument

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MAX_PIXELS = 50_000_000  # of an input image: 200 MB when decoded


def read_picture(data: bytes, param: str) -> Image.Image:
    """The first frame as RGBA, upright. Raises InvalidArgument for a damaged file, no image, or too many pixels."""
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as opened:
            if opened.width * opened.height > MAX_PIXELS:  # known before anything is decoded
                raise InvalidArgument(
                    param, f"The image has more than {MAX_PIXELS:,} pixels in total. Send a smaller one."
                )
            opened.load()
            return ImageOps.exif_transpose(opened).convert("RGBA")
    except InvalidArgument:
        raise
    except Exception as error:  # the exception that Pillow raises depends on the damage
        raise InvalidArgument(
            param, f"The file is damaged or not an image. Send one of {', '.join(FORMATS)}."
        ) from error


def encode_picture(image: Image.Image, finish: OutputOptions) -> ImageOutput:
    """Encode an RGB or RGBA image. Transparency becomes white when the format or the order does not allow it."""
    if image.mode == "RGBA" and (finish.format == "jpeg" or finish.background == "opaque"):
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    buffer = BytesIO()
    image.save(buffer, finish.format.upper(), **_make_options(finish))
    return ImageOutput(
        data=buffer.getvalue(),
        media_type=MEDIA_TYPES[finish.format],
        width=image.width,
        height=image.height,
        transparent=image.mode == "RGBA",
    )


def _make_options(finish: OutputOptions) -> dict[str, Any]:
    quality = 85 if finish.compression is None else finish.compression
    match finish.format:
        case "png":
            return {"compress_level": 4}
        case "webp":
            return {"quality": quality, "method": 2}
        case _:
            return {"quality": max(1, min(quality, 95))}
