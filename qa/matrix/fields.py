"""The row of a matrix: one field of a request, a body with it, and a body without it.

The tables are in `chat`, `responses`, `completions`, `messages` and `generate`, and for the operations beyond chat in
`embeddings`, `moderations`, `images`, `edits`, `audio` and `made`. A value with a mark (`mark-…`, base64 of one, or a
known image) must occur in the upstream request: a body that changed for another reason does not count.
"""

from __future__ import annotations

import base64
import copy
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ABSENT: Final = object()
"""For `instead`: the field is not in the body."""

MODEL: Final = "asked-model"
UNKNOWN: Final = "field_of_tomorrow"
"""A field that no vendor has."""

PICTURE: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


def png(red: int, green: int, blue: int) -> str:
    """The base64 of a PNG of one pixel in the given colour."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    pixel = chunk(b"IDAT", zlib.compress(bytes((0, red, green, blue))))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + header + pixel + chunk(b"IEND", b"")).decode()


SECOND: Final = png(200, 0, 0)
MASK: Final = png(0, 200, 0)
FETCHED: Final = png(0, 0, 200)
"""The image at LINK."""
PICTURES: Final = (PICTURE, SECOND, MASK, FETCHED)
LINK: Final = "https://pictures.example/mark-picture.png"
PDF: Final = "JVBERi0xLjQKbWFyay1wZGYK"
SOUND: Final = "bWFyay1zb3VuZC0x"
"""Base64 of "mark-sound-1"."""
PLAIN: Final = "bWFyay10ZXh0LTEu"
"""Base64 of "mark-text-1."."""

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A file of a form, as the value of its field."""

    filename: str
    media_type: str
    data: bytes = field(repr=False)


def picture_file(picture: str, filename: str = "picture.png") -> Attached:
    """A file from the base64 of an image."""
    return Attached(filename=filename, media_type="image/png", data=base64.b64decode(picture))


@dataclass(frozen=True, slots=True)
class Idle:
    """Why a field may leave the outgoing body unchanged. `kind` is the word on the page.

    `only` names the plugins of the upstreams for which this is true; empty means all.
    """

    kind: str
    reason: str
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Field:
    """One row. `at` is the place in the body (``messages.0.name``); `kind` distinguishes rows of one place.

    `body` has `value` there; `without` is the same body with another value there, or with none. `needs` is a field of both
    bodies on which this one depends: when it is refused, this one counts as refused too.
    """

    at: str
    kind: str
    value: Any
    body: Mapping[str, Any]
    without: Mapping[str, Any]
    idle: Idle | None = None
    needs: str = ""

    @property
    def place(self) -> str:
        """The place without indexes: ``messages[].name``."""
        return re.sub(r"\.\d+", "[]", self.at)

    @property
    def name(self) -> str:
        return f"{self.place}: {self.kind}" if self.kind else self.place


@dataclass(frozen=True, slots=True)
class Group:
    """Rows under one heading."""

    title: str
    fields: tuple[Field, ...]


def row(
    base: Mapping[str, Any],
    at: str,
    value: Any,
    kind: str = "",
    *,
    instead: Any = ABSENT,
    idle: Idle | None = None,
    needs: str = "",
) -> Field:
    """The row of `value` at the place `at` of `base`; its `without` has `instead` there, or no value."""
    body = put(base, at, value)
    without = put(base, at, instead) if instead is not ABSENT else removed(body, at)
    return Field(at=at, kind=kind, value=value, body=body, without=without, idle=idle, needs=needs)


def put(base: Mapping[str, Any], at: str, value: Any) -> dict[str, Any]:
    """A copy of `base` with `value` at the place `at`; missing objects on the path are created."""
    body: dict[str, Any] = copy.deepcopy(dict(base))
    *steps, last = _steps(at)
    place: Any = body
    for step in steps:
        if isinstance(place, dict) and step not in place:
            place[step] = {}
        place = place[step]
    if isinstance(place, list) and last == len(place):
        place.append(copy.deepcopy(value))
    else:
        place[last] = copy.deepcopy(value)
    return body


def removed(base: Mapping[str, Any], at: str) -> dict[str, Any]:
    """A copy of `base` without the value at `at`, and without the objects that become empty."""
    body: dict[str, Any] = copy.deepcopy(dict(base))
    steps = _steps(at)
    while steps:
        place: Any = body
        for step in steps[:-1]:
            place = place[step]
        del place[steps[-1]]
        steps = steps[:-1] if place == {} else []
    return body


def find_value(body: Any, at: str) -> Any:
    """The value at the place `at` of `body`, or ABSENT."""
    for step in _steps(at):
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return body


def _steps(at: str) -> list[str | int]:
    return [int(step) if step.isdecimal() else step for step in at.split(".")]


def answer_only(reason: str) -> Idle:
    """The field changes only the response to the caller, which the gateway makes."""
    return Idle("answer only", reason)


def anyway(reason: str, *only: str) -> Idle:
    """The field requests what also happens without it, at the plugins `only` or at all."""
    return Idle("anyway", reason, only)


def issuer_only(reason: str) -> Idle:
    """Only the upstream that issued the value can read it; the core removes it for every other one."""
    return Idle("issuer only", reason)


LABEL: Final = anyway("a label that the vendor's API insists on; it has no effect")
ALWAYS_STRICT: Final = anyway("an answer always keeps to its schema there", "anthropic", "gemini", "local")
TOOLS_STRICT: Final = anyway("a call always keeps to its schema there", "local")
