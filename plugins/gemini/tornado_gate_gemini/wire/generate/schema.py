"""Converts the vendor's schemas to JSON schemas. Pure; `wire.json_schema.simplify_schema` is the other direction.

Source: google-genai 3.4, types.Schema: upper-case types, ``nullable``, counts that may be strings (they are 64-bit in
protobuf's JSON), and ``propertyOrdering``, which JSON schema does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_COUNT_KEYWORDS: Final = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_BRANCH_KEYWORDS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")


def convert_to_json_schema(schema: Any) -> dict[str, Any]:
    """A JSON schema that accepts the same values as `schema`. A JSON schema is returned unchanged."""
    if not isinstance(schema, Mapping):
        return {}
    value: dict[str, Any] = {}
    for name, member in schema.items():
        if name in ("nullable", "propertyOrdering") or (name == "format" and member == "enum"):
            continue
        if name == "example":
            value["examples"] = [member]
        else:
            value[name] = _convert_member(name, member)
    if value.get("type") == "type_unspecified":
        del value["type"]
    return _make_nullable(value) if schema.get("nullable") is True else value


def _convert_member(name: str, member: Any) -> Any:
    if name == "type" and isinstance(member, str):
        return member.lower()
    if name in ("properties", "$defs") and isinstance(member, Mapping):
        return {key: convert_to_json_schema(inner) for key, inner in member.items()}
    if name in _BRANCH_KEYWORDS and isinstance(member, list):
        return [convert_to_json_schema(inner) for inner in member]
    if name in ("items", "additionalProperties") and isinstance(member, Mapping):
        return convert_to_json_schema(member)
    if name in _COUNT_KEYWORDS and isinstance(member, str) and member.isascii() and member.isdigit():
        return int(member)
    return member


def _make_nullable(value: dict[str, Any]) -> dict[str, Any]:
    if "type" in value:
        value["type"] = [value["type"], "null"]
        if isinstance(value.get("enum"), list):
            value["enum"] = [*value["enum"], None]
    elif isinstance(value.get("anyOf"), list):
        value["anyOf"] = [*value["anyOf"], {"type": "null"}]
    return value
