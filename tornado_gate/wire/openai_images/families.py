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

from tornado_gate.codec.fields import format_choices
from tornado_gate.types import Call
from tornado_gate.types.value import Value

_SIZE: Final = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")

_FAMILY_THREE_FIELDS: Final = (
    "background",
    "moderation",
    "output_format",
    "output_compression",
    "partial_images",
    "input_fidelity",
)
"""What only family three has a word for."""


class SizeLimits(Value, frozen=True, kw_only=True):
    """Bounds of a free size: pixels of each side, what it is a multiple of, how often the shorter may fit the longer."""

    least: int
    most: int
    multiple: int = 1
    ratio: int | None = None

    def is_allowed(self, width: int, height: int) -> bool:
        short, long = sorted((width, height))
        if short < self.least or long > self.most or width % self.multiple or height % self.multiple:
            return False
        return self.ratio is None or long <= short * self.ratio

    def describe(self, times: str) -> str:
        """In words; `times` stands between the sides."""
        words = f"WIDTH{times}HEIGHT with sides from {self.least} to {self.most}"
        words += f" that are multiples of {self.multiple}" if self.multiple > 1 else ""
        return words + (f" and no longer than {self.ratio} times each other" if self.ratio else "")


class ModelFamily(Value, frozen=True, kw_only=True):
    """One row. `models` are patterns of the vendor's names; `name` is what conf says, "" for models without rules.

    `longest_prompt` is characters. `sizes` are words, or width and height in pixels; `sides` takes others. `qualities` of
    None are any. `lacks` are the fields that it refuses.
    """

    name: str
    models: tuple[str, ...] = ()
    max_prompt_length: int = 32_000
    max_images: int = 10
    sizes: tuple[str, ...]
    sides: SizeLimits | None = None
    qualities: tuple[str, ...] | None = None
    styles: tuple[str, ...] | None = None
    formats: tuple[str, ...] = ("png", "jpeg", "webp")
    unsupported_fields: tuple[str, ...] = ()

    def takes_size(self, size: str) -> bool:
        """`size` is a word, or as in ``1024x1536``."""
        if size in self.sizes:
            return True
        sides = _SIZE.fullmatch(size)
        return bool(self.sides and sides and self.sides.is_allowed(int(sides[1]), int(sides[2])))

    def describe_sizes(self, times: str = "x") -> str:
        """The sizes in words; `times` stands between the sides. Where it is no ``x`` no word is a size."""
        named = [size.replace("x", times) for size in self.sizes if times == "x" or _SIZE.fullmatch(size)]
        words = [format_choices(named)] if named else []
        return " or ".join([*words, *([self.sides.describe(times)] if self.sides else [])])

    def find_size_of_ratio(self, ratio: str) -> str | None:
        """The size that has the aspect ratio "3:2" to the pixel, or None."""
        wide, _, high = ratio.partition(":")
        if not (wide.isascii() and wide.isdecimal() and high.isascii() and high.isdecimal()):
            return None
        for size in reversed(self.sizes):
            sides = _SIZE.fullmatch(size)
            if sides and int(sides[1]) * int(high) == int(sides[2]) * int(wide):
                return size
        return None


FAMILY_ONE: Final = ModelFamily(
    name="one",
    models=("dall-e-2*",),
    max_prompt_length=1000,
    sizes=("256x256", "512x512", "1024x1024"),
    qualities=("standard", "auto"),
    unsupported_fields=(*_FAMILY_THREE_FIELDS, "style"),
)
FAMILY_TWO: Final = ModelFamily(
    name="two",
    models=("dall-e-3*",),
    max_prompt_length=4000,
    max_images=1,
    sizes=("1792x1024", "1024x1792", "1024x1024"),
    qualities=("standard", "hd", "auto"),
    styles=("vivid", "natural"),
    unsupported_fields=_FAMILY_THREE_FIELDS,
)
FAMILY_THREE: Final = ModelFamily(
    name="three",
    models=("gpt-image-*", "chatgpt-image-*"),
    sizes=("1024x1024", "1536x1024", "1024x1536", "auto"),
    qualities=("low", "medium", "high", "auto"),
    unsupported_fields=("style",),
)
FAMILY_THREE_WIDE: Final = ModelFamily(
    name="three",
    models=("gpt-image-2*",),
    sizes=FAMILY_THREE.sizes,
    sides=SizeLimits(least=16, most=3840, multiple=16, ratio=3),
    qualities=("low", "medium", "high", "xhigh", "max", "auto"),
    formats=("png", "jpeg", "webp", "gif", "svg"),
    unsupported_fields=FAMILY_THREE.unsupported_fields,
)
NO_FAMILY: Final = ModelFamily(name="", sizes=("auto",), sides=SizeLimits(least=16, most=8192))

FAMILIES: Final = (FAMILY_ONE, FAMILY_TWO, FAMILY_THREE_WIDE, FAMILY_THREE)
"""By name of the model the first row that fits counts."""
_FAMILY_BY_NAME: Final[Mapping[str, ModelFamily]] = {
    family.name: family for family in (FAMILY_ONE, FAMILY_TWO, FAMILY_THREE)
}


def find_family_by_model(model: str) -> ModelFamily | None:
    """The family of a model by the vendor's names, with or without the name of a provider before a slash."""
    own = model.rpartition("/")[2]
    return next((family for family in FAMILIES if any(fnmatchcase(own, name) for name in family.models)), None)


def find_family(call: Call) -> ModelFamily:
    """The family of the model asked for, whoever answers: what conf says of it, else what its name says."""
    if family := _FAMILY_BY_NAME.get(str(call.facts.get("image_family"))):
        return family
    return find_family_by_model(call.model) or NO_FAMILY


def describe_owners(field: str) -> str:
    """The families that have a field, in words: for those that lack it."""
    names = [name for name, family in _FAMILY_BY_NAME.items() if field not in family.unsupported_fields]
    return f"family {' and '.join(names)}"


def uses_family_three(body: Mapping[str, Any]) -> bool:
    """Whether a body, not yet checked, asks for what only family three can do."""
    said = {name: value for name, value in body.items() if value is not None}
    return (
        any(name in said for name in _FAMILY_THREE_FIELDS)
        or said.get("stream") in (True, "true")
        or (said.get("size") in FAMILY_THREE.sizes and said["size"] not in FAMILY_ONE.sizes)
        or said.get("quality") in ("low", "medium", "high")
    )
