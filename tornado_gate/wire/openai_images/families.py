"""The families of image models: one table of what each takes. Pure.

Rows one, two and three are the service's contract; what it leaves open (quality, style) is what the vendor says of the
models named in the row. The newest models of family three take nearly any size.

Source: openai-python 3.52, types/image_generate_params.py and image_edit_params.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from tornado_gate.codec.fields import listed
from tornado_gate.types import Call
from tornado_gate.types.value import Value

_SIZE: Final = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")

_THREES: Final = (
    "background",
    "moderation",
    "output_format",
    "output_compression",
    "partial_images",
    "input_fidelity",
)
"""What only family three has a word for."""


class Sides(Value, frozen=True, kw_only=True):
    """Bounds of a free size: pixels of each side, what it is a multiple of, how often the shorter may fit the longer."""

    least: int
    most: int
    multiple: int = 1
    ratio: int | None = None

    def take(self, width: int, height: int) -> bool:
        short, long = sorted((width, height))
        if short < self.least or long > self.most or width % self.multiple or height % self.multiple:
            return False
        return self.ratio is None or long <= short * self.ratio

    def said(self, times: str) -> str:
        """In words; `times` stands between the sides."""
        words = f"WIDTH{times}HEIGHT with sides from {self.least} to {self.most}"
        words += f" that are multiples of {self.multiple}" if self.multiple > 1 else ""
        return words + (f" and no longer than {self.ratio} times each other" if self.ratio else "")


class Family(Value, frozen=True, kw_only=True):
    """One row. `models` are patterns of the vendor's names; `name` is what conf says, "" for models without rules.

    `longest_prompt` is characters. `sizes` are words, or width and height in pixels; `sides` takes others. `qualities` of
    None are any. `lacks` are the fields that it refuses.
    """

    name: str
    models: tuple[str, ...] = ()
    longest_prompt: int = 32_000
    most_images: int = 10
    sizes: tuple[str, ...]
    sides: Sides | None = None
    qualities: tuple[str, ...] | None = None
    styles: tuple[str, ...] | None = None
    formats: tuple[str, ...] = ("png", "jpeg", "webp")
    lacks: tuple[str, ...] = ()

    def takes_size(self, size: str) -> bool:
        """`size` is a word, or as in ``1024x1536``."""
        if size in self.sizes:
            return True
        sides = _SIZE.fullmatch(size)
        return bool(self.sides and sides and self.sides.take(int(sides[1]), int(sides[2])))

    def allowed_sizes(self, times: str = "x") -> str:
        """The sizes in words; `times` stands between the sides. Where it is no ``x`` no word is a size."""
        named = [size.replace("x", times) for size in self.sizes if times == "x" or _SIZE.fullmatch(size)]
        words = [listed(named)] if named else []
        return " or ".join([*words, *([self.sides.said(times)] if self.sides else [])])

    def size_of_ratio(self, ratio: str) -> str | None:
        """The size that has the aspect ratio "3:2" to the pixel, or None."""
        wide, _, high = ratio.partition(":")
        if not (wide.isascii() and wide.isdecimal() and high.isascii() and high.isdecimal()):
            return None
        for size in reversed(self.sizes):
            sides = _SIZE.fullmatch(size)
            if sides and int(sides[1]) * int(high) == int(sides[2]) * int(wide):
                return size
        return None


ONE: Final = Family(
    name="one",
    models=("dall-e-2*",),
    longest_prompt=1000,
    sizes=("256x256", "512x512", "1024x1024"),
    qualities=("standard", "auto"),
    lacks=(*_THREES, "style"),
)
TWO: Final = Family(
    name="two",
    models=("dall-e-3*",),
    longest_prompt=4000,
    most_images=1,
    sizes=("1792x1024", "1024x1792", "1024x1024"),
    qualities=("standard", "hd", "auto"),
    styles=("vivid", "natural"),
    lacks=_THREES,
)
THREE: Final = Family(
    name="three",
    models=("gpt-image-*", "chatgpt-image-*"),
    sizes=("1024x1024", "1536x1024", "1024x1536", "auto"),
    qualities=("low", "medium", "high", "auto"),
    lacks=("style",),
)
THREE_WIDE: Final = Family(
    name="three",
    models=("gpt-image-2*",),
    sizes=THREE.sizes,
    sides=Sides(least=16, most=3840, multiple=16, ratio=3),
    qualities=("low", "medium", "high", "xhigh", "max", "auto"),
    formats=("png", "jpeg", "webp", "gif", "svg"),
    lacks=THREE.lacks,
)
NO_FAMILY: Final = Family(name="", sizes=("auto",), sides=Sides(least=16, most=8192))

FAMILIES: Final = (ONE, TWO, THREE_WIDE, THREE)
"""By name of the model the first row that fits counts."""
_BY_NAME: Final[Mapping[str, Family]] = {family.name: family for family in (ONE, TWO, THREE)}


def family_named(model: str) -> Family | None:
    """The family of a model by the vendor's names, with or without the name of a provider before a slash."""
    own = model.rpartition("/")[2]
    return next((family for family in FAMILIES if any(fnmatchcase(own, name) for name in family.models)), None)


def family_of(call: Call) -> Family:
    """The family of the model asked for, whoever answers: what conf says of it, else what its name says."""
    if family := _BY_NAME.get(str(call.facts.get("image_family"))):
        return family
    return family_named(call.model) or NO_FAMILY


def owners(field: str) -> str:
    """The families that have a field, in words: for those that lack it."""
    names = [name for name, family in _BY_NAME.items() if field not in family.lacks]
    return f"family {' and '.join(names)}"


def uses_family_three(body: Mapping[str, Any]) -> bool:
    """Whether a body, not yet checked, asks for what only family three can do."""
    said = {name: value for name, value in body.items() if value is not None}
    return (
        any(name in said for name in _THREES)
        or said.get("stream") in (True, "true")
        or (said.get("size") in THREE.sizes and said["size"] not in ONE.sizes)
        or said.get("quality") in ("low", "medium", "high")
    )
