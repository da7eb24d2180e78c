"""Response schemas in OpenAI's formats, and the subset of JSON schema that they enforce. Pure.

Formats of other vendors have no ``strict``: their models always follow the schema. OpenAI's follow it only with ``strict: true``,
and reject a strict schema outside the subset: all properties required, closed objects, no other keywords than those below.

Source: developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas" (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import ChatRequest, ResponseFormat
from tornado_gate.wire.json_schema import close_objects

_KEYWORDS: Final = frozenset(
    (
        "$schema", "$id", "$ref", "$defs", "definitions", "title", "description", "type", "enum", "const", "anyOf",
        "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "pattern", "format",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    )
)  # fmt: skip
_FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_MAPS: Final = ("properties", "$defs", "definitions")


def render_json_schema(request: ChatRequest, wanted: ResponseFormat) -> dict[str, Any]:
    """The members of a ``json_schema`` format: ``name`` and ``strict``, which other formats lack, and ``schema``."""
    schema, strict = wanted.schema, wanted.strict
    if strict is None and schema is not None and not request.wire_format.startswith("openai"):
        closed = close_objects(schema)
        strict = is_strict(closed)
        schema = closed if strict else schema
    members = {"name": wanted.name or "response", "description": wanted.description, "schema": schema, "strict": strict}
    return {name: member for name, member in members.items() if member is not None}


def is_strict(schema: Any) -> bool:
    """Whether a schema is accepted with ``strict: true``: an object at the top, and everything in the subset."""
    return isinstance(schema, Mapping) and schema.get("type") == "object" and _is_in_subset(schema)


def _is_in_subset(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not schema or not schema.keys() <= _KEYWORDS:
        return False
    if "type" not in schema and not schema.keys() & {"$ref", "anyOf", "enum", "const"}:
        return False
    if "format" in schema and schema["format"] not in _FORMATS:
        return False
    kinds = schema.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]) and not _is_closed(schema):
        return False
    inner = [one for name in _MAPS if isinstance(schema.get(name), Mapping) for one in schema[name].values()]
    inner += schema["anyOf"] if isinstance(schema.get("anyOf"), list) else []
    inner += [schema["items"]] if "items" in schema else []
    return all(map(_is_in_subset, inner))


def _is_closed(schema: Mapping[str, Any]) -> bool:
    names, required = schema.get("properties"), schema.get("required", [])
    return (
        isinstance(names, Mapping)
        and isinstance(required, list)
        and schema.get("additionalProperties") is False
        and set(names) == set(required)
    )
