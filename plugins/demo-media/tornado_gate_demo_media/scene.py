"""The background of a new image: colours with a sun and hills, from the hash of the prompt. Only for worker processes."""

from __future__ import annotations

import colorsys
import math
import random
import re
from hashlib import sha256

from PIL import Image, ImageColor, ImageDraw

from tornado_gate_demo_media.image_orders import ImageOrder
from tornado_gate_demo_media.lettering import draw_text

Colour = tuple[int, int, int]

MARK = "local demo"
_WORD = re.compile(r"[a-z]+")


def paint(order: ImageOrder) -> Image.Image:
    """RGB of the requested size; RGBA with transparent corners for a transparent background."""
    chance = random.Random(sha256(f"{order.variant}:{order.prompt}".encode("utf-8", "surrogatepass")).digest())
    colours = choose_colours(order.prompt, chance)
    background = _paint_medallion if order.finish.background == "transparent" else _paint_landscape
    image = background(order, colours, chance)
    draw_text(image, order.prompt, _compute_inner_box(order.width, order.height, 0.7, 0.6))
    if order.finish.watermark:
        draw_watermark(image)
    return image


def choose_colours(prompt: str, chance: random.Random) -> list[Colour]:
    """Four colours: first those that the prompt names, then generated ones that match."""
    names = (word for word in _WORD.findall(prompt[:5_000].lower()) if word in ImageColor.colormap)
    named = [_parse_colour(name) for name in dict.fromkeys(names)][:3]
    hue = chance.random()
    if named:
        hue = colorsys.rgb_to_hsv(*(value / 255 for value in named[0]))[0]
    chosen = [_make_colour_of_hue(hue + step, chance) for step in (0.0, 0.08, 0.5, 0.58)]
    return (named + chosen)[:4]


def _parse_colour(name: str) -> Colour:
    red, green, blue = ImageColor.getrgb(name)[:3]
    return red, green, blue


def _make_colour_of_hue(hue: float, chance: random.Random) -> Colour:
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, 0.45 + 0.3 * chance.random(), 0.6 + 0.35 * chance.random())
    return round(red * 255), round(green * 255), round(blue * 255)


def _paint_landscape(order: ImageOrder, colours: list[Colour], chance: random.Random) -> Image.Image:
    """A landscape, painted at half the size: enlarging smooths the edges and takes a quarter of the time."""
    width, height = max(2, order.width // 2), max(2, order.height // 2)
    corners = Image.new("RGB", (2, 2))
    corners.putdata([colours[0], colours[1], colours[1], colours[2]])
    image = corners.resize((width, height), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image, "RGBA")
    _draw_circle(
        draw,
        chance.uniform(0.15, 0.85) * width,
        chance.uniform(0.12, 0.4) * height,
        0.1 * min(width, height),
        colours[3],
    )
    for layer in range(3):
        draw.polygon(
            _make_hill(width, height, 0.55 + 0.15 * layer, chance), fill=(*_darken(colours[layer], layer), 170)
        )
    return image.resize((order.width, order.height), Image.Resampling.BICUBIC)


def _make_hill(width: int, height: int, share: float, chance: random.Random) -> list[tuple[float, float]]:
    phase, waves, rise = chance.uniform(0, math.tau), chance.uniform(0.6, 2.2), chance.uniform(0.04, 0.1)
    steps = 64
    ridge = [
        (width * step / steps, height * (share + rise * math.sin(phase + math.tau * waves * step / steps)))
        for step in range(steps + 1)
    ]
    return [*ridge, (width, height), (0, height)]


def _paint_medallion(order: ImageOrder, colours: list[Colour], chance: random.Random) -> Image.Image:
    """Discs on a transparent background."""
    width, height = max(2, order.width // 2), max(2, order.height // 2)
    image = Image.new("RGBA", (width, height), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    short = min(width, height)
    _draw_circle(draw, width / 2, height / 2, 0.38 * short, colours[0])
    for colour in colours[1:]:
        x, y = (side / 2 + chance.uniform(-0.18, 0.18) * short for side in (width, height))
        _draw_circle(draw, x, y, chance.uniform(0.08, 0.2) * short, colour)
    return image.resize((order.width, order.height), Image.Resampling.BICUBIC)


def _draw_circle(draw: ImageDraw.ImageDraw, x: float, y: float, radius: float, colour: Colour) -> None:
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(*colour, 255))


def _darken(colour: Colour, layer: int) -> Colour:
    share = 0.75 - 0.18 * layer
    red, green, blue = (round(value * share) for value in colour)
    return red, green, blue


def _compute_inner_box(width: int, height: int, wide: float, high: float) -> tuple[int, int, int, int]:
    left, top = round(width * (1 - wide) / 2), round(height * (1 - high) / 2)
    return left, top, width - left, height - top


def draw_watermark(image: Image.Image) -> None:
    """Draw the mark with the origin of the image at the lower right."""
    width, height = image.size
    draw_text(image, MARK, (round(width * 0.75), round(height * 0.93), width - 1, height - 1))
