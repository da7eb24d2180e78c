"""Images: a generated background with the text of the prompt on it, and edits of input images.

No model is involved: colours and shapes follow from the hash of the prompt and from the colours that it names; the
prompt is drawn so that an image can be matched to its request. The same order gives the same image. Only the
functions' bodies import Pillow, so it is loaded in the process where they run: `POOL.run(make_image, order)`.
"""

from __future__ import annotations

import re
from typing import Final

from tornado_gate_demo_media.image_orders import (
    MAX_SIDE_PIXELS,
    MEDIA_TYPES,
    EditOrder,
    ImageOrder,
    ImageOutput,
    OutputOptions,
)
from tornado_gate_local.errors import InvalidArgument

MIN_SIDE_PIXELS: Final = 16
MAX_INPUTS: Final = 16
BACKGROUNDS: Final = ("auto", "opaque", "transparent")
LABELS: Final = {
    "512": 512,
    "0.5K": 512,
    "1K": 1_024,
    "2K": 2_048,
    "4K": 4_096,
}  # imageSize of the Gemini API, in pixels

_SIZE = re.compile(r"([0-9]{1,5})[x*]([0-9]{1,5})")
_RATIO = re.compile(r"([0-9]{1,3}):([0-9]{1,3})")


def make_image(order: ImageOrder) -> ImageOutput:
    """A new image. Raises InvalidArgument for "width", "height", "format", "background" or "compression"."""
    check_size(order.width, order.height)
    check_finish(order.finish)
    from tornado_gate_demo_media import files, scene

    return files.encode_picture(scene.paint(order), order.finish)


def edit_image(order: EditOrder) -> ImageOutput:
    """The first image with the instruction applied, only where the mask allows it.

    Raises InvalidArgument for "images" and "mask" that cannot be read or do not match, and as `make_image`.
    """
    if not 1 <= len(order.images) <= MAX_INPUTS:
        raise InvalidArgument("images", f"An edit takes 1 to {MAX_INPUTS} images, not {len(order.images)}.")
    if order.size is not None:
        check_size(*order.size)
    check_finish(order.finish)
    from tornado_gate_demo_media import files, retouch

    return files.encode_picture(retouch.apply_edit(order), order.finish)


def check_size(width: int, height: int) -> None:
    """Raises InvalidArgument for "width" or "height"."""
    for param, pixels in (("width", width), ("height", height)):
        if not MIN_SIDE_PIXELS <= pixels <= MAX_SIDE_PIXELS:
            raise InvalidArgument(
                param, f"The {param} must be {MIN_SIDE_PIXELS} to {MAX_SIDE_PIXELS} pixels, not {pixels}."
            )


def check_finish(finish: OutputOptions) -> None:
    """Raises InvalidArgument for "format", "background" or "compression"."""
    if finish.format not in MEDIA_TYPES:
        raise InvalidArgument("format", f"The image format must be one of {', '.join(MEDIA_TYPES)}.")
    if finish.background not in BACKGROUNDS:
        raise InvalidArgument("background", f"The background must be one of {', '.join(BACKGROUNDS)}.")
    if finish.background == "transparent" and finish.format == "jpeg":
        raise InvalidArgument("background", "JPEG does not support transparency. Choose png or webp.")
    if finish.compression is not None and not 0 <= finish.compression <= 100:
        raise InvalidArgument("compression", f"The compression must be 0 to 100, not {finish.compression}.")


def parse_size(text: str) -> tuple[int, int]:
    """Width and height of "1024x1536" or "1024*1536". Raises InvalidArgument for "size"."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidArgument("size", "The size must be width and height in pixels, such as 1024x1536.")
    width, height = int(match[1]), int(match[2])
    try:
        check_size(width, height)
    except InvalidArgument as error:
        raise InvalidArgument("size", error.message) from error
    return width, height


def compute_size(ratio: str, label: str = "1K") -> tuple[int, int]:
    """Width and height with about the area of the label's square, in multiples of 32 and within the limits.

    Raises InvalidArgument for "ratio", such as "16:9" and up to 8:1, and for "size", a label of `LABELS`.
    """
    match = _RATIO.fullmatch(ratio)
    wide, high = (int(match[1]), int(match[2])) if match else (0, 0)
    if not wide or not high or max(wide, high) > 8 * min(wide, high):
        raise InvalidArgument("ratio", "The aspect ratio must be width:height, such as 16:9, and at most 8:1.")
    if label.upper() not in LABELS:
        raise InvalidArgument("size", f"The resolution must be one of {', '.join(LABELS)}.")
    side = LABELS[label.upper()]
    shrink = min(1.0, MAX_SIDE_PIXELS / (side * (max(wide, high) / min(wide, high)) ** 0.5))
    width = side * shrink * (wide / high) ** 0.5
    height = side * shrink * (high / wide) ** 0.5
    return 32 * round(width / 32), 32 * round(height / 32)
