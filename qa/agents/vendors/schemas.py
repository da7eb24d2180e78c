"""What OpenAI requires of a tool's schema."""

from __future__ import annotations

from typing import Any

from qa.agents.conversation import RefusedError


def check_strict_schema(name: str, schema: dict[str, Any] | None, strict: bool) -> None:
    """Raises RefusedError for parameters that are no object, and for a strict schema that leaves members open."""
    schema = schema or {"type": "object", "properties": {}}
    if schema.get("type") != "object" or schema.keys() & {"oneOf", "anyOf", "allOf", "enum", "not"}:
        raise RefusedError(
            f"Invalid schema for function '{name}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/"
            "'not' at the top level."
        )
    if strict:
        _check_closed(name, schema)


def _check_closed(name: str, schema: Any) -> None:
    if isinstance(schema, list):
        for one in schema:
            _check_closed(name, one)
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("properties"), dict):
        if schema.get("additionalProperties") is not False:
            raise RefusedError(
                f"Invalid schema for function '{name}': 'additionalProperties' is required to be supplied and to be false."
            )
        if missing := schema["properties"].keys() - set(schema.get("required", ())):
            raise RefusedError(
                f"Invalid schema for function '{name}': 'required' must include every key. Missing '{missing}'."
            )
        for one in schema["properties"].values():
            _check_closed(name, one)
    for word in ("items", "anyOf", "$defs"):
        inner = schema.get(word)
        _check_closed(name, list(inner.values()) if word == "$defs" and isinstance(inner, dict) else inner)
