"""Response schemas in OpenAI's formats, and the subset of JSON schema that they enforce. Pure.

Formats of other vendors have no ``strict``: their models always follow the schema. OpenAI's follow it only with ``strict:
true``, and reject a strict schema outside the subset: all properties required, closed objects, a type everywhere, no members
beside a reference, only the keywords below, and not too large.

Source: developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas" (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
_TYPE_NAMES: Final[Mapping[type, str]] = {str: "string", bool: "boolean", int: "integer", float: "number"}
MAX_DEPTH: Final = 10
MAX_PROPERTIES: Final = 5000
MAX_ENUM_VALUES: Final = 1000
MAX_LETTERS: Final = 120_000
"""Characters in the names of properties and definitions, enum values and const values."""
MAX_ENUM_LETTERS: Final = 15_000
"""Characters in an enum of more than `LONG_ENUM` values."""
LONG_ENUM: Final = 250


def render_json_schema(request: ChatRequest, output: ResponseFormat) -> dict[str, Any]:
    """The members of a ``json_schema`` format: ``name`` and ``strict``, which other formats lack, and ``schema``."""
    schema, strict = output.schema, output.strict
    if strict is None and schema is not None and not request.wire_format.startswith("openai"):
        enforced = make_strict(schema)
        strict = enforced is not None
        schema = schema if enforced is None else enforced
    members = {
        "name": output.name or "response",
        "description": output.description,
        "schema": schema,
        "strict": strict,
    }
    return {name: member for name, member in members.items() if member is not None}


def make_strict(schema: Any) -> dict[str, Any] | None:
    """`schema` with closed objects and what else the subset requires, with the same meaning; None when it is outside."""
    ready = _prepare(close_objects(schema), schema, 0)
    return ready if isinstance(ready, dict) and is_strict(ready) else None


def is_strict(schema: Any) -> bool:
    """Return whether a schema is accepted with ``strict: true``.

    It needs an object at the top, stays in the subset, and is not too large.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return False
    return _is_in_subset(schema, 0) and _is_small(schema)


def _prepare(schema: Any, root: Any, depth: int) -> Any:
    """Replace references with members beside them by their definitions, and add the type of enums and constants."""
    if not isinstance(schema, Mapping) or depth > 3 * MAX_DEPTH:
        return schema
    value = dict(schema)
    if "$ref" in value and len(value) > 1 and (target := _find_definition(value["$ref"], root)) is not None:
        beside = {name: member for name, member in value.items() if name != "$ref"}
        value = {**close_objects(target), **beside}
    words = value["enum"] if isinstance(value.get("enum"), list) else [value["const"]] if "const" in value else []
    kinds = {_TYPE_NAMES.get(type(word)) for word in words}
    if "type" not in value and len(kinds) == 1 and None not in kinds:
        value["type"] = kinds.pop()
    for name in _MAPS:
        if isinstance(value.get(name), Mapping):
            value[name] = {key: _prepare(inner, root, depth + 1) for key, inner in value[name].items()}
    if isinstance(value.get("anyOf"), list):
        value["anyOf"] = [_prepare(inner, root, depth + 1) for inner in value["anyOf"]]
    if "items" in value:
        value["items"] = _prepare(value["items"], root, depth + 1)
    return value


def _find_definition(reference: Any, root: Any) -> Mapping[str, Any] | None:
    """The definition of a reference such as ``#/$defs/place``; None for any other reference."""
    match str(reference).split("/"):
        case ["#", "$defs" | "definitions" as place, name]:
            definition = (root.get(place) or {}).get(name) if isinstance(root, Mapping) else None
            return definition if isinstance(definition, Mapping) else None
    return None


def _is_in_subset(schema: Any, depth: int) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _KEYWORDS or depth > MAX_DEPTH:
        return False
    if not schema.keys() & {"type", "$ref", "anyOf"} or ("$ref" in schema and len(schema) > 1):
        return False
    if "format" in schema and schema["format"] not in _FORMATS:
        return False
    types = schema.get("type")
    kinds = types if isinstance(types, list) else [types]
    if ("object" in kinds and not _is_closed(schema)) or ("array" in kinds and "items" not in schema):
        return False
    deeper = depth + ("properties" in schema or "items" in schema)
    inner = [
        (member, deeper if name == "properties" else depth) for name in _MAPS for member in _list_values(schema, name)
    ]
    inner += [(member, depth) for member in (schema["anyOf"] if isinstance(schema.get("anyOf"), list) else [])]
    inner += [(schema["items"], deeper)] if "items" in schema else []
    return all(_is_in_subset(member, level) for member, level in inner)


def _list_values(schema: Mapping[str, Any], name: str) -> list[Any]:
    members = schema.get(name)
    return list(members.values()) if isinstance(members, Mapping) else []


def _is_closed(schema: Mapping[str, Any]) -> bool:
    names, required = schema.get("properties"), schema.get("required", [])
    return (
        isinstance(names, Mapping)
        and isinstance(required, list)
        and schema.get("additionalProperties") is False
        and set(names) == set(required)
    )


def _is_small(schema: Mapping[str, Any]) -> bool:
    """Return whether the numbers of properties, enum values and characters are within the vendor's limits."""
    properties = values = letters = 0
    for inner in _iterate_schemas(schema):
        words = [str(word) for word in inner["enum"]] if isinstance(inner.get("enum"), list) else []
        if len(words) > LONG_ENUM and sum(map(len, words)) > MAX_ENUM_LETTERS:
            return False
        names = [name for keyword in _MAPS if isinstance(inner.get(keyword), Mapping) for name in inner[keyword]]
        properties += len(_list_values(inner, "properties"))
        values += len(words)
        letters += sum(map(len, (*words, *names, str(inner.get("const", "")))))
    return properties <= MAX_PROPERTIES and values <= MAX_ENUM_VALUES and letters <= MAX_LETTERS


def _iterate_schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(schema, Mapping):
        return
    yield schema
    for name in _MAPS:
        for inner in _list_values(schema, name):
            yield from _iterate_schemas(inner)
    for inner in schema["anyOf"] if isinstance(schema.get("anyOf"), list) else ():
        yield from _iterate_schemas(inner)
    yield from _iterate_schemas(schema.get("items"))
