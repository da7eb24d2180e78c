"""The families of image models and the values that each accepts. No I/O.

Families one, two and three are defined by the service's contract; values that it leaves open (quality, style) follow the
vendor's documentation of the models in the row. The newest models of family three accept nearly any size.

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
"""Request fields that only family three supports."""


class SizeLimits(Value, frozen=True, kw_only=True):
    """Limits of a free size: pixels of each side, the divisor of each side, and the highest ratio of long to short side."""

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
        """Return the limits in words; `times` is the separator between width and height."""
        words = f"WIDTH{times}HEIGHT with sides from {self.least} to {self.most} pixels"
        words += f" that are multiples of {self.multiple}" if self.multiple > 1 else ""
        return words + (f" and an aspect ratio of at most {self.ratio}:1" if self.ratio else "")


class ModelFamily(Value, frozen=True, kw_only=True):
    """One family. `models` are patterns of the vendor's model names; `name` is the value in conf, "" for the fallback.

    `max_prompt_length` is in characters. `sizes` are names, or width and height in pixels; `sides` are the limits of other
    sizes, None if there are none. `qualities` of None means any. `unsupported_fields` are the fields that it rejects.
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
        """Return whether `size`, a name such as ``auto`` or pixels such as ``1024x1536``, is accepted."""
        if size in self.sizes:
            return True
        sides = _SIZE.fullmatch(size)
        return bool(self.sides and sides and self.sides.is_allowed(int(sides[1]), int(sides[2])))

    def describe_sizes(self, times: str = "x") -> str:
        """Return the sizes in words; `times` is the separator. Names such as ``auto`` are listed only if it is ``x``."""
        named = [size.replace("x", times) for size in self.sizes if times == "x" or _SIZE.fullmatch(size)]
        words = [format_choices(named)] if named else []
        return " or ".join([*words, *([self.sides.describe(times)] if self.sides else [])])

    def find_size_of_ratio(self, ratio: str) -> str | None:
        """Return the size that has exactly the aspect ratio `ratio` (such as "3:2"), or None."""
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
"""The families in the order of matching: the first with a matching model pattern is used."""
_FAMILY_BY_NAME: Final[Mapping[str, ModelFamily]] = {
    family.name: family for family in (FAMILY_ONE, FAMILY_TWO, FAMILY_THREE)
}


def find_family_by_model(model: str) -> ModelFamily | None:
    """Return the family of a model name, with or without a provider prefix and a slash, or None."""
    own = model.rpartition("/")[2]
    return next((family for family in FAMILIES if any(fnmatchcase(own, name) for name in family.models)), None)


def find_family(call: Call) -> ModelFamily:
    """Return the family of the requested model, whichever target serves it: from conf, else from the model's name."""
    if family := _FAMILY_BY_NAME.get(str(call.facts.get("image_family"))):
        return family
    return find_family_by_model(call.model) or NO_FAMILY


def describe_owners(field: str) -> str:
    """Return the names of the families that support a field, in words, for an error message."""
    names = [name for name, family in _FAMILY_BY_NAME.items() if field not in family.unsupported_fields]
    return f"family {' and '.join(names)}"


def uses_family_three(body: Mapping[str, Any]) -> bool:
    """Return whether a body, not yet validated, has fields or values that only family three supports."""
    said = {name: value for name, value in body.items() if value is not None}
    return (
        any(name in said for name in _FAMILY_THREE_FIELDS)
        or said.get("stream") in (True, "true")
        or (said.get("size") in FAMILY_THREE.sizes and said["size"] not in FAMILY_ONE.sizes)
        or said.get("quality") in ("low", "medium", "high")
    )
