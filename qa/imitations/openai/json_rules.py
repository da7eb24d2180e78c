"""JSON schemas that the vendor refuses: parameters of functions, and the subset of ``strict: true``.

Sources: developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas" (5,000 properties, 10 levels, 1,000 enum
values, 120,000 characters, 15,000 in an enum of more than 250 values); the messages are those of vercel/ai#6484,
Part-DB/Part-DB-server#1540, jina-ai/node-DeepResearch#79, modelscope/ms-agent#610, spring-projects/spring-ai#4776 and
nspady/google-calendar-mcp#39.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from qa.imitations.openai.refusals import Refusal

Context = tuple[str, ...]
Node = tuple[Context, Any, int]

_PERMITTED: Final = frozenset(
    (
        *("$schema", "$id", "$ref", "$defs", "definitions", "title", "description", "type", "enum", "const", "anyOf"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    )
)
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)
_TYPES: Final = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_NOT_AT_TOP: Final = ("oneOf", "anyOf", "allOf", "enum", "not")


def check_parameters(schema: Any, name: str, param: str, strict: bool) -> None:
    """Raise Refusal when a function's parameters are refused."""
    if schema is None or schema == {}:
        return
    prefix = f"Invalid schema for function '{name}': "

    def fail(message: str) -> Refusal:
        return Refusal(prefix + message, param, "invalid_function_parameters")

    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        kind = schema.get("type") if isinstance(schema, Mapping) else None
        raise fail(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.")
    if any(word in schema for word in _NOT_AT_TOP):
        raise fail("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.")
    if "properties" not in schema:
        raise fail("In context=(), object schema missing properties.")
    _check_any_schema(schema, fail)
    if strict:
        _check_strict(schema, fail)


def check_response_schema(schema: Any, name: str, param: str, strict: bool) -> None:
    """Raise Refusal when a schema of a response format is refused."""
    prefix = f"Invalid schema for response_format '{name}': "

    def fail(message: str) -> Refusal:
        return Refusal(prefix + message, param, "invalid_json_schema")

    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        kind = schema.get("type") if isinstance(schema, Mapping) else None
        raise fail(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.")
    _check_any_schema(schema, fail)
    if strict:
        _check_strict(schema, fail)


def walk(schema: Any, context: Context = (), depth: int = 0) -> Iterator[Node]:
    """Every schema inside `schema`, with its path and the number of objects and arrays around it."""
    yield context, schema, depth
    if not isinstance(schema, Mapping):
        return
    deeper = depth + ("properties" in schema or "items" in schema)
    for word in _MAPS:
        for name, inner in (schema.get(word) or {}).items():
            yield from walk(inner, (*context, word, name), deeper if word == "properties" else depth)
    for word in _LISTS:
        for number, inner in enumerate(schema.get(word) or ()):
            yield from walk(inner, (*context, word, str(number)), depth)
    for word in _SINGLE:
        if isinstance(schema.get(word), Mapping):
            yield from walk(schema[word], (*context, word), deeper)


def list_types(schema: Mapping[str, Any]) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [] if kind is None else [kind]


def _check_any_schema(schema: Mapping[str, Any], fail: Any) -> None:
    for context, inner, _ in walk(schema):
        if not isinstance(inner, Mapping):
            if not isinstance(inner, bool):
                raise fail(f"In context={context}, {inner!r} is not of type 'object', 'boolean'.")
            continue
        for kind in list_types(inner):
            if kind not in _TYPES:
                raise fail(f"{kind!r} is not valid under any of the given schemas.")
        if "array" in list_types(inner) and "items" not in inner:
            raise fail(f"In context={context}, array schema missing items.")


def _check_strict(schema: Mapping[str, Any], fail: Any) -> None:
    properties = enums = letters = 0
    for context, inner, depth in walk(schema):
        _check_strict_node(context, inner, fail)
        if depth > 10:
            raise fail("Exceeded maximum nesting depth of 10 for structured outputs.")
        names = list(inner.get("properties") or ())
        values = [str(value) for value in inner.get("enum") or ()]
        if len(values) > 250 and sum(map(len, values)) > 15_000:
            raise fail("Expected at most 15000 characters in total for the enum values of a property.")
        properties, enums = properties + len(names), enums + len(values)
        defined = [*(inner.get("$defs") or ()), *(inner.get("definitions") or ()), str(inner.get("const", ""))]
        letters += sum(map(len, (*names, *values, *defined)))
    for count, most, what in (
        (properties, 5000, "object properties"),
        (enums, 1000, "enum values"),
        (letters, 120_000, "characters"),
    ):
        if count > most:
            raise fail(
                f"Expected at most {most} {what} in total within a single schema when using structured outputs, "
                f"but received {count}."
            )


def _check_strict_node(context: Context, schema: Any, fail: Any) -> None:
    if not isinstance(schema, Mapping):
        raise fail(f"In context={context}, schema must be an object.")
    for word in schema:
        if word not in _PERMITTED:
            raise fail(f"In context={context}, '{word}' is not permitted.")
    if not schema.keys() & {"type", "$ref", "anyOf", "enum", "const"}:
        raise fail(f"In context={context}, schema must have a 'type' key.")
    if "format" in schema and schema["format"] not in _FORMATS:
        raise fail(f"In context={context}, '{schema['format']}' is not a valid format.")
    if "$ref" in schema and not str(schema["$ref"]).startswith("#"):
        raise fail(f"In context={context}, reference can only point to definitions in the schema.")
    if "object" in list_types(schema) or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            raise fail(f"In context={context}, 'additionalProperties' is required to be supplied and to be false.")
        for name in schema.get("properties") or ():
            if name not in (schema.get("required") or ()):
                raise fail(
                    f"In context={context}, 'required' is required to be supplied and to be an array including every "
                    f"key in properties. Missing '{name}'."
                )
        for name in schema.get("required") or ():
            if name not in (schema.get("properties") or ()):
                raise fail(f"In context={context}, 'required' has an extra key '{name}'.")
