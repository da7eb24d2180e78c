"""The families of image models and the values that each accepts. No I/O.

The families are data: `families.yaml`, with sources. A model's family is its ``image_family`` in conf. Without this setting,
the model's name decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib import resources
from typing import Any, Final

import msgspec
import yaml

from tornado_gate.codec.fields import format_choices
from tornado_gate.types import Call
from tornado_gate.types.model_names import canonicalize_name
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
    sizes, None if no other size is allowed. `qualities` of None means any. `unsupported_fields` are the fields that it rejects.
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


NO_FAMILY: Final = ModelFamily(name="", sizes=("auto",), sides=SizeLimits(least=16, most=8192))


def _load_families() -> tuple[ModelFamily, ...]:
    """The rows of families.yaml; ``source`` is for readers."""
    text = resources.files(__package__).joinpath("families.yaml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = yaml.safe_load(text)
    return tuple(
        msgspec.convert({name: value for name, value in row.items() if name != "source"}, ModelFamily) for row in rows
    )


FAMILIES: Final = _load_families()
"""The families in the order of matching: the first with a matching model pattern is used."""
_FAMILY_BY_NAME: Final[Mapping[str, ModelFamily]] = {family.name: family for family in FAMILIES}
"""By the value of ``image_family`` in conf. Of several rows the last has the name."""


def find_family_by_model(model: str) -> ModelFamily | None:
    """Return the family of a model name, with or without a provider prefix and a slash, or None."""
    own = canonicalize_name(model).rpartition("/")[2]
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
    members = {name: value for name, value in body.items() if value is not None}
    one, three = _FAMILY_BY_NAME["one"], _FAMILY_BY_NAME["three"]
    return (
        any(name in members for name in _FAMILY_THREE_FIELDS)
        or members.get("stream") in (True, "true")
        or (members.get("size") in three.sizes and members["size"] not in one.sizes)
        or members.get("quality") in ("low", "medium", "high")
    )
