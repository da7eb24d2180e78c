"""Image edits: the effects that an instruction names, and the mask that limits them. Only for worker processes.

No model reads the instruction. One that names no known effect adds a tint, a frame and the instruction as a caption.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from hashlib import sha256

from PIL import Image, ImageChops, ImageColor, ImageDraw, ImageEnhance, ImageFilter, ImageOps

from tornado_gate_demo_media import files
from tornado_gate_demo_media.image_orders import MAX_SIDE_PIXELS, EditOrder
from tornado_gate_demo_media.lettering import Box, draw_text
from tornado_gate_demo_media.scene import choose_colours, draw_watermark
from tornado_gate_local.errors import InvalidArgument

Rgb = Image.Image
MAX_COLOR_DISTANCE = (
    40  # of 255: the largest difference from the colour of the upper left corner that counts as background
)


def apply_edit(order: EditOrder) -> Image.Image:
    """The edited image: RGBA when the result has transparency, else RGB. Raises InvalidArgument for "images" and "mask"."""
    original = files.read_picture(order.images[0], "images.0")
    others = [_read_thumbnail(data, number) for number, data in enumerate(order.images[1:], 1)]
    region = None if order.mask is None else _make_mask(files.read_picture(order.mask, "mask"), original.size)
    result = _apply_instruction(original, order, region.getbbox() if region else None)
    _draw_thumbnails(result, others)
    if region is not None:
        result = Image.composite(result, original, region)
    result = _resize(result, order.size)
    if order.finish.background == "transparent":
        result = _remove_background(result)
    if order.finish.watermark:
        draw_watermark(result)
    transparent = result.getchannel("A").getextrema()[0] != 255
    return result if transparent else result.convert("RGB")


def _read_thumbnail(data: bytes, number: int) -> Image.Image:
    """One of the further images, reduced at once: sixteen full-size images would not fit into memory."""
    picture = files.read_picture(data, f"images.{number}")
    picture.thumbnail((MAX_SIDE_PIXELS // 4, MAX_SIDE_PIXELS // 4))
    return picture


def _make_mask(mask: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The edit strength of each pixel, 0 to 255. Raises InvalidArgument for "mask"."""
    if mask.size != size:
        raise InvalidArgument(
            "mask", f"The mask must have the image's size, {size[0]}x{size[1]}, not {mask.width}x{mask.height}."
        )
    alpha = mask.getchannel("A")
    region = ImageChops.invert(alpha) if alpha.getextrema()[0] != 255 else mask.convert("L")
    if region.getbbox() is None:
        raise InvalidArgument("mask", "The mask leaves nothing to edit. Make the part to edit transparent or white.")
    return region


def _apply_instruction(original: Image.Image, order: EditOrder, where: Box | None) -> Image.Image:
    """A copy of the image with the instruction applied; the caption is drawn inside the box `where`."""
    alpha, picture = original.getchannel("A"), original.convert("RGB")
    words = order.instruction.lower()
    wanted = [(effect, turns) for pattern, effect, turns in EFFECTS if pattern.search(words)]
    if where is not None:  # a mirrored or flipped image has other pixels under the mask
        wanted = [(effect, turns) for effect, turns in wanted if not turns]
    for effect, turns in wanted:
        picture = effect(picture)
        alpha = effect(alpha) if turns else alpha
    if not wanted and not _NO_BACKGROUND.search(words):
        colours = choose_colours(
            order.instruction, random.Random(sha256(f"{order.variant}:{order.instruction}".encode()).digest())
        )
        picture = Image.blend(picture, Image.new("RGB", picture.size, colours[0]), 0.3)
        _draw_frame(picture, where, colours[0])
        _draw_caption(picture, order.instruction, where)
    picture.putalpha(alpha)
    return _remove_background(picture) if _NO_BACKGROUND.search(words) else picture


def _draw_frame(picture: Image.Image, where: Box | None, colour: tuple[int, int, int]) -> None:
    left, top, right, bottom = where or (0, 0, *picture.size)
    thick = max(1, min(right - left, bottom - top) // 40)
    ImageDraw.Draw(picture).rectangle((left, top, right - 1, bottom - 1), outline=colour, width=thick)


def _draw_caption(picture: Image.Image, text: str, where: Box | None) -> None:
    if where is None:
        width, height = picture.size
        where = (round(width * 0.05), round(height * 0.76), round(width * 0.95), round(height * 0.95))
    draw_text(picture, text, where)


def _draw_thumbnails(result: Image.Image, others: list[Image.Image]) -> None:
    """Draw the further images, small, in a row along the top."""
    side = max(1, min(result.width // max(4, len(others) + 1), result.height // 4))
    for number, other in enumerate(others):
        small = ImageOps.contain(other, (side - side // 10, side - side // 10))
        result.alpha_composite(small, (side // 10 + number * side, side // 10))


def _resize(picture: Image.Image, size: tuple[int, int] | None) -> Image.Image:
    """The whole image in `size`, on a blurred background of itself; without a size it is only reduced to the limit."""
    if size is None:
        if max(picture.size) <= MAX_SIDE_PIXELS:
            return picture
        return ImageOps.contain(picture, (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
    if picture.size == size:
        return picture
    whole = ImageOps.contain(picture, size)
    if whole.size == size:
        return whole
    ground = ImageOps.fit(picture, (64, 64)).filter(ImageFilter.GaussianBlur(4)).resize(size)
    ground.alpha_composite(whole, ((size[0] - whole.width) // 2, (size[1] - whole.height) // 2))
    return ground


def _remove_background(picture: Image.Image) -> Image.Image:
    """Make the pixels transparent whose colour is close to that of the upper left corner."""
    corner = picture.getpixel((0, 0))
    ground = Image.new("RGB", picture.size, corner[:3] if isinstance(corner, tuple) else 0)
    red, green, blue = ImageChops.difference(picture.convert("RGB"), ground).split()
    distance = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    result = picture.copy()
    result.putalpha(
        ImageChops.darker(
            picture.getchannel("A"), distance.point(lambda value: 255 if value > MAX_COLOR_DISTANCE else 0)
        )
    )
    return result


def _make_grey(picture: Rgb) -> Rgb:
    return ImageOps.grayscale(picture).convert("RGB")


def _make_sepia(picture: Rgb) -> Rgb:
    return ImageOps.colorize(ImageOps.grayscale(picture), "#2b1a0b", "#ffe8c4")


def _make_blur(picture: Rgb) -> Rgb:
    return picture.filter(ImageFilter.GaussianBlur(max(2, min(picture.size) // 60)))


def _make_outline(picture: Rgb) -> Rgb:
    return ImageOps.invert(ImageOps.grayscale(picture.filter(ImageFilter.FIND_EDGES))).convert("RGB")


def _make_brightness_effect(share: float) -> Callable[[Rgb], Rgb]:
    return lambda picture: ImageEnhance.Brightness(picture).enhance(share)


def _make_colour_effect(name: str) -> Callable[[Rgb], Rgb]:
    """Dark pixels stay dark and bright ones bright; the others take the colour."""
    return lambda picture: Image.blend(
        picture, ImageOps.colorize(ImageOps.grayscale(picture), "black", "white", mid=ImageColor.getrgb(name)), 0.65
    )


Effect = Callable[[Rgb], Rgb]
_COLOURS = ("red", "green", "blue", "yellow", "orange", "purple", "pink", "cyan", "magenta", "brown", "gold", "teal")
_NO_BACKGROUND = re.compile(r"\bremove (?:the )?background\b|\btransparent\b")
# Words of an instruction, the effect, and whether it moves pixels (then it is applied to the alpha channel too).
EFFECTS: tuple[tuple[re.Pattern[str], Effect, bool], ...] = (
    (re.compile(r"\b(?:gr[ae]y(?:scale)?|black.and.white|monochrome)\b"), _make_grey, False),
    (re.compile(r"\b(?:sepia|vintage)\b"), _make_sepia, False),
    (re.compile(r"\bblur"), _make_blur, False),
    (re.compile(r"\bsharp"), lambda picture: picture.filter(ImageFilter.UnsharpMask(4, 200, 2)), False),
    (re.compile(r"\b(?:invert|negative)"), ImageOps.invert, False),
    (re.compile(r"\b(?:sketch|outline|drawing)"), _make_outline, False),
    (re.compile(r"\b(?:posteri[sz]e|poster|cartoon|comic)"), lambda picture: ImageOps.posterize(picture, 2), False),
    (re.compile(r"\b(?:bright|lighter|lighten)"), _make_brightness_effect(1.5), False),
    (re.compile(r"\b(?:dark|night)"), _make_brightness_effect(0.5), False),
    *((re.compile(rf"\b{name}\b"), _make_colour_effect(name), False) for name in _COLOURS),
    (re.compile(r"\bmirror|\bflip(?! (?:it )?(?:upside|vertical))"), ImageOps.mirror, True),
    (re.compile(r"\bupside.down|\bflip (?:it )?vertical"), ImageOps.flip, True),
)
