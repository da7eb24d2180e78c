"""The frames of a video: a background that is painted once, and small shapes that move over it. Only for worker processes.

Frames are made as planes of luma and chroma, as the codec takes them: converting each frame from RGB would cost more
than drawing it. The colours are BT.601, the default of players that ignore colour tags.
"""

from __future__ import annotations

import math
import random
from hashlib import sha256
from typing import Final

import av
from av.video.reformatter import ColorRange, Colorspace
from PIL import Image, ImageDraw, ImageFont, ImageOps

from tornado_gate.types.value import Value
from tornado_gate_demo_media import files
from tornado_gate_demo_media.image_orders import ImageOrder, OutputOptions
from tornado_gate_demo_media.lettering import MAX_CHARACTERS, MIN_FONT_SIZE, draw_text
from tornado_gate_demo_media.scene import Colour, choose_colours, draw_watermark, paint
from tornado_gate_demo_media.video_order import VideoOrder

BLACK, WHITE, GREY = 16, 235, 128  # luma of black and white; chroma of both
CROSSING_SECONDS: Final = 2.5  # about the time that the ball and the band of light take from one side to the other
HOP_SECONDS: Final = 0.8
FADE_SECONDS: Final = 0.5
BRIGHTER: Final = 90  # of 255: the opacity in the middle of the band of light


class YuvPlanes(Value, frozen=True):
    """An image as one plane of luma and two of chroma; `halved` means that chroma has half the width and height."""

    luma: Image.Image
    blue: Image.Image
    red: Image.Image
    halved: bool

    def copy(self) -> YuvPlanes:
        return YuvPlanes(self.luma.copy(), self.blue.copy(), self.red.copy(), self.halved)

    def blend(self, other: YuvPlanes, share: float) -> YuvPlanes:
        """A mix of both images with `share` of the other one."""
        return YuvPlanes(
            Image.blend(self.luma, other.luma, share),
            Image.blend(self.blue, other.blue, share),
            Image.blend(self.red, other.red, share),
            self.halved,
        )


class BallSprite(Value, frozen=True):
    """A disc of one colour. `mask` is its shape in luma size, `small` in the size of the chroma planes."""

    mask: Image.Image
    small: Image.Image
    colour: tuple[int, int, int]  # luma and chroma

    def draw(self, planes: YuvPlanes, x: int, y: int) -> None:
        """Draw it with its upper left corner at even coordinates, so that chroma and luma match."""
        x, y = x - x % 2, y - y % 2
        luma, blue, red = self.colour
        planes.luma.paste(luma, _compute_box(self.mask, x, y), self.mask)
        if planes.halved:
            x, y = x // 2, y // 2
        planes.blue.paste(blue, _compute_box(self.small, x, y), self.small)
        planes.red.paste(red, _compute_box(self.small, x, y), self.small)


class VideoScene:
    """The frames of an order, made one by one; with an image, the first frame is that image without additions."""

    def __init__(self, order: VideoOrder) -> None:
        """Paint the background. Raises InvalidArgument for "image"."""
        self.width, self.height = order.width, order.height
        self.frames, self.fps = order.frames, order.fps
        self.pixel_format = "yuv444p" if order.has_odd_side else "yuv420p"
        self._bare: YuvPlanes | None = None
        if order.image is None:
            self._ground = self._convert_to_planes(_paint_order(order))
        else:
            picture = _read_covering(order.image, (order.width, order.height))
            self._bare = self._convert_to_planes(_draw_watermark(picture.copy(), order))
            draw_text(picture, _shorten_prompt(order.prompt), _compute_caption_box(order.width, order.height))
            self._ground = self._convert_to_planes(_draw_watermark(picture, order))
        # A whole number of crossings plus a half, so that the last frame differs from the first.
        self._crossings = max(1, round(order.seconds / CROSSING_SECONDS)) + 0.5
        self._ball = self._new_ball(choose_colours(order.prompt, _make_random(order))[3])
        self._band = _new_band(max(8, self.width // 6), self.height)
        self._font = ImageFont.load_default(max(MIN_FONT_SIZE, self.height // 36))

    def make_frame(self, number: int) -> av.VideoFrame:
        """Frame `number`, counted from 0."""
        if number == 0 and self._bare is not None:
            return self._make_video_frame(self._bare)
        planes = self._get_background(number)
        crossed = self._crossings * number / self.frames
        self._draw_band(planes, crossed)
        self._draw_ball(planes, crossed, number / self.fps)
        self._draw_frame_number(planes, number)
        return self._make_video_frame(planes)

    def _get_background(self, number: int) -> YuvPlanes:
        """A copy of the background. The text over an input image fades in."""
        fading = max(1, min(round(FADE_SECONDS * self.fps), self.frames // 4))
        if self._bare is not None and number < fading:
            return self._bare.blend(self._ground, number / fading)
        return self._ground.copy()

    def _draw_band(self, planes: YuvPlanes, crossed: float) -> None:
        """Draw the band of light, which moves from left to right repeatedly."""
        x = round(crossed % 1 * (self.width + self._band.width)) - self._band.width
        planes.luma.paste(WHITE, _compute_box(self._band, x, 0), self._band)

    def _draw_ball(self, planes: YuvPlanes, crossed: float, seconds: float) -> None:
        """Draw the ball, which moves to and fro along the top, above the text, and bounces."""
        room = self.width - self._ball.mask.width
        high = max(0, round(self.height * 0.19) - self._ball.mask.height)
        x = (1 - abs(1 - crossed % 2)) * room
        y = high * (1 - abs(math.sin(math.pi * seconds / HOP_SECONDS)))
        self._ball.draw(planes, round(x), round(y))

    def _draw_frame_number(self, planes: YuvPlanes, number: int) -> None:
        """Draw the frame number at the lower left, if it fits, above a progress bar."""
        thick = 2 * max(1, self.height // 180)
        done = self.width * (number + 1) // self.frames
        done -= done % 2
        _fill(planes, (0, self.height - thick, self.width, self.height), BLACK)
        _fill(planes, (0, self.height - thick, done, self.height), WHITE)
        text = f"{number + 1}/{self.frames}"
        _, _, wide, high = (math.ceil(side) for side in self._font.getbbox(text))
        if wide + 8 <= self.width // 2:
            left, bottom = 4, self.height - thick - 2
            top = bottom - high - 4
            _fill(planes, (left - 2, top, left + wide + 4, bottom), BLACK)
            ImageDraw.Draw(planes.luma).text((left, top), text, fill=WHITE, font=self._font)

    def _new_ball(self, colour: Colour) -> BallSprite:
        across = max(6, min(self.width, self.height) // 9)
        across += across % 2
        large = Image.new("L", (across * 4, across * 4), 0)
        ImageDraw.Draw(large).ellipse((0, 0, across * 4 - 1, across * 4 - 1), fill=255)
        mask = large.reduce(4)
        small = large.reduce(8) if self.pixel_format == "yuv420p" else mask
        return BallSprite(mask, small, _convert_to_yuv(colour))

    def _convert_to_planes(self, picture: Image.Image) -> YuvPlanes:
        """Convert an RGB image."""
        coloured = av.VideoFrame.from_bytes(picture.convert("RGBA").tobytes(), *picture.size, format="rgba")
        frame = coloured.reformat(
            format=self.pixel_format, dst_colorspace=Colorspace.ITU601, dst_color_range=ColorRange.MPEG
        )
        luma, blue, red = (
            Image.frombytes("L", (plane.line_size, plane.height), bytes(plane)).crop((0, 0, plane.width, plane.height))
            for plane in frame.planes
        )
        return YuvPlanes(luma, blue, red, self.pixel_format == "yuv420p")

    def _make_video_frame(self, planes: YuvPlanes) -> av.VideoFrame:
        frame = av.VideoFrame(self.width, self.height, self.pixel_format)
        for plane, image in zip(frame.planes, (planes.luma, planes.blue, planes.red), strict=True):
            wide = image if plane.line_size == plane.width else image.crop((0, 0, plane.line_size, plane.height))
            plane.update(wide.tobytes())
        return frame


def _make_random(order: VideoOrder) -> random.Random:
    return random.Random(sha256(f"{order.seed}:{order.prompt}".encode("utf-8", "surrogatepass")).digest())


def _paint_order(order: VideoOrder) -> Image.Image:
    """The image of the prompt. Its variant depends on the whole prompt, of which only the beginning is drawn."""
    picture = ImageOrder(
        prompt=_shorten_prompt(order.prompt),
        width=order.width,
        height=order.height,
        variant=_make_random(order).getrandbits(64),
        finish=OutputOptions(watermark=order.watermark),
    )
    return paint(picture)


def _draw_watermark(picture: Image.Image, order: VideoOrder) -> Image.Image:
    if order.watermark:
        draw_watermark(picture)
    return picture


def _shorten_prompt(prompt: str) -> str:
    """The beginning of the prompt, as it is drawn."""
    text = prompt.strip()
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"


def _read_covering(data: bytes, size: tuple[int, int]) -> Image.Image:
    """The image in RGB, cropped to its middle when the aspect ratio differs; white where it is transparent."""
    picture = ImageOps.fit(files.read_picture(data, "image"), size, Image.Resampling.BICUBIC)
    return Image.alpha_composite(Image.new("RGBA", size, "white"), picture).convert("RGB")


def _compute_caption_box(width: int, height: int) -> tuple[int, int, int, int]:
    return round(width * 0.08), round(height * 0.62), round(width * 0.92), round(height * 0.9)


def _new_band(width: int, height: int) -> Image.Image:
    """The opacity of a slanted band of light, highest in its middle."""
    slant = width // 2
    line = Image.new("L", (width + slant, 1), 0)
    for x in range(width):
        line.putpixel((x, 0), round(BRIGHTER * math.sin(math.pi * (x + 0.5) / width) ** 2))
    return line.resize((width + slant, height)).transform(
        (width + slant, height), Image.Transform.AFFINE, (1, slant / height, -slant, 0, 1, 0)
    )


def _convert_to_yuv(colour: Colour) -> tuple[int, int, int]:
    """BT.601, limited range."""
    red, green, blue = (value / 255 for value in colour)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    return round(16 + 219 * luma), round(128 + 224 * (blue - luma) / 1.772), round(128 + 224 * (red - luma) / 1.402)


def _fill(planes: YuvPlanes, box: tuple[int, int, int, int], luma: int) -> None:
    """Fill a box without colour."""
    planes.luma.paste(luma, box)
    if planes.halved:
        left, top, right, bottom = box
        box = (left // 2, top // 2, (right + 1) // 2, (bottom + 1) // 2)
    planes.blue.paste(GREY, box)
    planes.red.paste(GREY, box)


def _compute_box(mask: Image.Image, x: int, y: int) -> tuple[int, int, int, int]:
    return x, y, x + mask.width, y + mask.height
