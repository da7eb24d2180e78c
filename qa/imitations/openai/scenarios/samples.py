"""Models, tools, schemas and media that the scenarios share."""

from __future__ import annotations

import base64
from typing import Any, Final

from qa.imitations.openai.turns import PIXEL

OLD: Final = ("gpt-4o", "gpt-4.1")
O_SERIES: Final = ("o1", "o3", "o3-mini", "o4-mini")
SWITCHABLE: Final = ("gpt-5.1", "gpt-5.2", "gpt-5.4")
"""Models with the effort none by default."""
THINKERS: Final = ("o3", "gpt-5", "gpt-5.4", "gpt-5.5", "gpt-5.6-sol", "gpt-6-astra")
NEW: Final = ("gpt-5.4", "gpt-5.5", "gpt-5.6-sol", "gpt-6-astra")
EVERY: Final = (*OLD, "o1", "o3", "o3-mini", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5.1", "gpt-5.2", *NEW)
SOME: Final = ("gpt-4o", "o4-mini", "gpt-5", "gpt-5.2", "gpt-5.4", "gpt-5.6-sol")
SEEING: Final = ("gpt-4o", "o3", "gpt-5", "gpt-5.4", "gpt-5.6-sol")

PDF: Final = base64.b64encode(b"%PDF-1.7 a page about the sky").decode()
TEXT_FILE: Final = base64.b64encode(b"a text about the sky").decode()
WAV: Final = base64.b64encode(b"RIFF----WAVEfmt ").decode()
IMAGE_URL: Final = f"data:image/png;base64,{PIXEL}"

CITY: Final[dict[str, Any]] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED: Final[dict[str, Any]] = {**CITY, "additionalProperties": False}
OPEN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 1}, "unit": {"enum": ["C", "F"]}},
    "required": ["city"],
}
OPTIONAL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "near": {"type": "array", "items": CITY},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["city"],
}
"""`note` may be null for the caller, too."""
NESTED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"days": {"type": "array", "items": CITY}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["days", "note"],
}
RECURSIVE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name", "children"],
    "additionalProperties": False,
}
DEFINED: Final[dict[str, Any]] = {
    "type": "object",
    "$defs": {"place": CITY},
    "properties": {
        "from": {"$ref": "#/$defs/place", "description": "where it starts"},
        "to": {"$ref": "#/$defs/place"},
    },
    "required": ["from", "to"],
}


def nest(levels: int) -> dict[str, Any]:
    """A closed schema of so many nested objects."""
    schema: dict[str, Any] = {"type": "string"}
    for number in range(levels):
        name = f"level{number}"
        schema = {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
    return schema


def make_wide(count: int) -> dict[str, Any]:
    """A closed schema with an enum of so many values."""
    values = [f"value-{number}" for number in range(count)]
    return {
        "type": "object",
        "properties": {"choice": {"type": "string", "enum": values}},
        "required": ["choice"],
        "additionalProperties": False,
    }
