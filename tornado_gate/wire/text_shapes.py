"""Shapes that several wire formats share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types.text_maps import OTHER, Object, Shape, words
from tornado_gate.types.texts import TextKind

SCHEMA: Final = Object(kind="other")
"""A JSON schema: its descriptions, values and examples are texts, its words are not."""
_SCHEMAS: Final = Object(kind="other", others=SCHEMA)
"""Schemas by names that the caller chooses."""
SCHEMA.members.update(
    {
        **words("$anchor", "$id", "$ref", "$schema", "format", "required", "type"),
        **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _SCHEMAS),
        **dict.fromkeys(
            ("items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"),
            SCHEMA,
        ),
        **dict.fromkeys(("const", "default", "enum", "example", "examples"), OTHER),
    }
)

ROLES: Final[Mapping[str, TextKind]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool_result",
    "function": "tool_result",
}

CACHE_CONTROL: Final = Object(kind="other", members=words("type", "ttl", "mode"))
ERROR: Final = Object(kind="other", members=words("type", "code", "status", "param", "reason", "@type"))
USAGE: Final = Object(
    kind="other", members=words("type", "model", "modality", "service_tier", "inference_geo", "serviceTier")
)


def both_spellings(members: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return members in camel case, and in snake case, which protobuf's JSON accepts as well."""
    snake = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): shape for name, shape in members.items()}
    return {**snake, **members}
