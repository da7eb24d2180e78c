"""JSON schemas that the descriptions of several routes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import JsonSchema

TEXT: Final[JsonSchema] = {"type": "string"}
COUNT: Final[JsonSchema] = {"type": "integer", "minimum": 0}
NUMBER: Final[JsonSchema] = {"type": "number"}
ANY_OBJECT: Final[JsonSchema] = {"type": "object", "additionalProperties": True}
NULLABLE_TEXT: Final[JsonSchema] = {"type": ["string", "null"]}
LOGIT_BIAS: Final[JsonSchema] = {"type": "object", "additionalProperties": {"type": "number"}}
STRINGS: Final[JsonSchema] = {"type": "object", "additionalProperties": {"type": "string"}}
PNG: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJ"
    "RU5ErkJggg=="
)
"""An image of one pixel."""
INPUT_KEYWORDS: Final[JsonSchema] = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "minItems": 1}]}
"""A text or several texts, tokens or parts."""

USAGE: Final[JsonSchema] = {
    "type": "object",
    "description": "Tokens, in both spellings.",
    "properties": {
        "prompt_tokens": COUNT,
        "completion_tokens": COUNT,
        "input_tokens": COUNT,
        "output_tokens": COUNT,
        "total_tokens": COUNT,
    },
    "additionalProperties": True,
}


def make_object(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> JsonSchema:
    """The JSON schema of an object with these members, and possibly others."""
    made: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": True}
    return {**made, "required": list(required)} if required else made


def make_list(item: JsonSchema) -> JsonSchema:
    """The JSON schema of the vendor's lists."""
    return make_object(
        ("object", "data"),
        object={"const": "list"},
        data={"type": "array", "items": dict(item)},
        has_more={"type": "boolean"},
        first_id=NULLABLE_TEXT,
        last_id=NULLABLE_TEXT,
    )
