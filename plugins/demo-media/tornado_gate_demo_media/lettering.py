"""Text in an image: wrapped, as large as fits, light on a dark panel. Only for worker processes.

Pillow has one font with Latin letters only; other scripts use a system font that has them, and are drawn as empty
boxes without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from tornado_gate.types.value import Value

MAX_CHARACTERS = 600  # characters of a text that are drawn
MIN_FONT_SIZE = 11  # pixels; smaller text is not legible
OTHER_FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "wqy-zenhei.ttc",
    "Arial Unicode.ttf",
    "Arial.ttf",
)
LINE_SPACING = 1.25  # of the font size
LIGHT = (255, 255, 255, 255)
DARK = (0, 0, 0, 150)
MISSING = "\U0010fffe"

AnyFont = ImageFont.FreeTypeFont | ImageFont.ImageFont
Box = tuple[int, int, int, int]  # left, top, right, bottom


class FittedText(Value, frozen=True):
    """Lines that fit, and their font of `size` pixels."""

    lines: tuple[str, ...]
    font: AnyFont
    size: int

    @property
    def line_height(self) -> int:
        return max(1, round(self.size * LINE_SPACING))

    @property
    def width(self) -> int:
        return round(max(map(self.font.getlength, self.lines), default=0))

    @property
    def height(self) -> int:
        return self.line_height * len(self.lines)


def draw_text(image: Image.Image, text: str, box: Box) -> Box:
    """Draw `text` on a panel in the middle of `box`. Returns the box of the panel; an empty one without text."""
    left, top, right, bottom = box
    margin = max(2, min(right - left, bottom - top) // 24)
    setting = fit_text(text, right - left - 2 * margin, bottom - top - 2 * margin)
    middle, centre = (left + right) // 2, (top + bottom) // 2
    if not setting.lines:
        return middle, centre, middle, centre
    wide, high = setting.width // 2 + margin, setting.height // 2 + margin
    panel = (max(left, middle - wide), max(top, centre - high), min(right, middle + wide), min(bottom, centre + high))
    draw = ImageDraw.Draw(image, "RGBA")
    draw.rounded_rectangle(panel, radius=margin, fill=DARK)
    y = centre - setting.height // 2
    for line in setting.lines:
        draw.text((middle, y + setting.line_height // 2), line, fill=LIGHT, font=setting.font, anchor="mm")
        y += setting.line_height
    return panel


def fit_text(text: str, width: int, height: int) -> FittedText:
    """The largest setting of `text` that fits `width` by `height` pixels; cut when it does not fit at the smallest size."""
    text = text.strip()[:MAX_CHARACTERS]
    size = max(MIN_FONT_SIZE, min(height // 3, width // 6))
    while True:
        font = choose_font(text, size)
        lines = wrap(text, font, width)
        setting = FittedText(tuple(lines), font, size)
        if setting.height <= height:
            return setting
        if size <= MIN_FONT_SIZE:
            return FittedText(_cut_lines(lines, max(1, height // setting.line_height), font, width), font, size)
        size = max(MIN_FONT_SIZE, int(size * 0.88))


def _cut_lines(lines: list[str], most: int, font: AnyFont, width: int) -> tuple[str, ...]:
    *kept, last = lines[:most]
    while last and font.getlength(last + "…") > width:
        last = last[:-1]
    return (*kept, last.rstrip() + "…")


def wrap(text: str, font: AnyFont, width: int) -> list[str]:
    """Lines of at most `width` pixels, broken between words, and inside a word only when it is wider."""
    lines: list[str] = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}" if line else word
            if font.getlength(longer) <= width:
                line = longer
                continue
            if line:
                lines.append(line)
            *full, line = _split_word(word, font, width)
            lines += full
        if line:
            lines.append(line)
    return lines


def _split_word(word: str, font: AnyFont, width: int) -> list[str]:
    """A word cut into pieces that fit; at least one letter each."""
    pieces, piece = [], ""
    for letter in word:
        if piece and font.getlength(piece + letter) > width:
            pieces.append(piece)
            piece = ""
        piece += letter
    return [*pieces, piece]


def choose_font(text: str, size: int) -> AnyFont:
    """The font that has the most letters of the text."""
    letters = frozenset(letter for letter in text if not letter.isspace())
    name = "" if max(letters, default="a") < "\u0180" else _choose_font_name(_sample_letters(letters))
    return ImageFont.truetype(name, size) if name else ImageFont.load_default(size)


def _sample_letters(letters: frozenset[str]) -> tuple[str, ...]:
    """About twenty of the letters, from the whole range."""
    return tuple(sorted(letters)[:: max(1, len(letters) // 20)])


@lru_cache(maxsize=64)
def _choose_font_name(sample: tuple[str, ...]) -> str:
    fonts = {name: font for name in OTHER_FONTS if (font := _load_font(name)) is not None}
    counts = {
        name: _count_known_letters(font, sample) for name, font in {"": ImageFont.load_default(16), **fonts}.items()
    }
    return max(counts, key=counts.__getitem__)


def _load_font(name: str) -> AnyFont | None:
    try:
        return ImageFont.truetype(name, 16)
    except OSError:
        return None


def _count_known_letters(font: AnyFont, letters: Sequence[str]) -> int:
    missing = bytes(font.getmask(MISSING))
    return sum(bytes(font.getmask(letter)) != missing for letter in letters)
