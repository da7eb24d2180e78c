"""The schemas that the vendor accepts: any JSON schema for a tool's input, a subset where it is enforced.

Source: platform.claude.com/docs/en/build-with-claude/structured-outputs, its lists of supported and unsupported features and its
limits (read 2026-11-22). Messages: agentjido/req_llm#302 (2025-12-28),
dearlordylord/huly-mcp#66 (2026-05-26); an invalid schema: "JSON schema is invalid. It must match JSON Schema draft 2020-12".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from qa.imitations.anthropic.refusal import refuse

_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
_FORMATS: Final = (
    "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
)  # fmt: skip
_ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset(("properties", "required", "additionalProperties")),
    "array": frozenset(("items", "minItems")),
    "string": frozenset(("format", "pattern")),
}
_ANYWHERE: Final = frozenset(
    (
        *("type", "title", "description", "default", "enum", "const", "anyOf", "allOf"),
        *("$ref", "$defs", "definitions", "$schema", "examples"),
    )
)
_UNSUPPORTED_PATTERN: Final = re.compile(r"\\[1-9]|\(\?[=!<]|\\[bB]")
_MOST_STRICT, _MOST_OPTIONAL, _MOST_UNIONS = 20, 24, 16


def check_input_schema(schema: Any, path: str) -> None:
    """Raise `Refusal` unless `schema` is the JSON schema of an object."""
    if schema.get("type") != "object":
        refuse(f"{path}.type: Field required" if "type" not in schema else f"{path}.type: Input should be 'object'")
    if {"oneOf", "allOf", "anyOf"} & schema.keys():
        refuse(f"{path}: input_schema does not support oneOf, allOf, or anyOf at the top level")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        refuse(
            f"{path}: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
            "(https://json-schema.org/draft/2020-12)."
        )


def check_output_schemas(tools: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any] | None) -> None:
    """Raise `Refusal` for an enforced schema outside of the subset, and for more of them than can be compiled."""
    strict = [(number, tool["input_schema"]) for number, tool in enumerate(tools) if tool.get("strict")]
    if len(strict) > _MOST_STRICT:
        refuse(
            f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported is {_MOST_STRICT}."
        )
    enforced = [(f"tools.{number}.custom.input_schema", schema) for number, schema in strict]
    if wanted is not None:
        enforced.append(("output_config.format.schema", wanted["schema"]))
    optional = unions = 0
    for path, schema in enforced:
        for one in _walk(schema, schema, path, ()):
            properties = one.get("properties") or {}
            optional += len(properties.keys() - set(one.get("required") or ()))
            unions += sum(isinstance(member, dict) and _is_union(member) for member in properties.values())
    if optional > _MOST_OPTIONAL:
        refuse(
            f"Schemas contains too many optional parameters ({optional}), which would make grammar compilation inefficient."
        )
    if unions > _MOST_UNIONS:
        refuse(
            f"Schemas contains too many parameters with union types ({unions} parameters with type arrays or anyOf)."
        )


def _is_union(schema: Mapping[str, Any]) -> bool:
    return "anyOf" in schema or isinstance(schema.get("type"), list)


def _walk(schema: Any, root: Mapping[str, Any], path: str, seen: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Each subschema, once, after it was checked."""
    if not isinstance(schema, dict):
        refuse(f"{path}: schema must be an object")
    reference = schema.get("$ref")
    if reference is not None:
        if not str(reference).startswith("#/"):
            refuse(f"{path}: external $ref is not supported")
        if reference in seen:
            refuse(f"{path}: Circular reference detected in schema definitions")
        target: Any = root
        for step in str(reference)[2:].split("/"):
            target = target.get(step) if isinstance(target, dict) else None
        yield from _walk(target, root, path, (*seen, reference))
        return
    kind = schema.get("type")
    _check_keywords(schema, kind, path)
    yield schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from _walk(inner, root, f"{path}.properties.{name}", seen)
    if "items" in schema:
        yield from _walk(schema["items"], root, f"{path}.items", seen)
    for word in ("anyOf", "allOf"):
        for number, inner in enumerate(schema.get(word) or ()):
            if word == "allOf" and "$ref" in inner:
                refuse(f"{path}: allOf with $ref is not supported")
            yield from _walk(inner, root, f"{path}.{word}.{number}", seen)


def _check_keywords(schema: Mapping[str, Any], kind: Any, path: str) -> None:
    kinds = kind if isinstance(kind, list) else [kind]
    if kind is not None and any(one not in _TYPES for one in kinds):
        refuse(f"{path}: '{kind}' is not a supported type")
    if kind is None and not {"enum", "const", "anyOf", "allOf"} & schema.keys():
        refuse(f"{path}: Schema type is missing. Add a 'type', or one of enum, const, anyOf, allOf")
    allowed = _ANYWHERE.union(*(_ALLOWED.get(str(one), frozenset()) for one in kinds))
    for name in schema:
        if name not in allowed:
            refuse(f"{path}: For '{kind}' type, property '{name}' is not supported")
    if "object" in kinds and schema.get("additionalProperties") is not False:
        refuse(f"{path}: For 'object' type, 'additionalProperties' must be explicitly set to false")
    if schema.get("minItems") not in (None, 0, 1):
        refuse(f"{path}: For 'array' type, 'minItems' values other than 0 or 1 are not supported")
    if "format" in schema and schema["format"] not in _FORMATS:
        refuse(f"{path}: For 'string' type, format '{schema['format']}' is not supported")
    if "pattern" in schema and _UNSUPPORTED_PATTERN.search(str(schema["pattern"])):
        refuse(f"{path}: Invalid regex in pattern field")
    if any(isinstance(value, (dict, list)) for value in schema.get("enum") or ()):
        refuse(f"{path}: enum must have only strings, numbers, booleans or null")
