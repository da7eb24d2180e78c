"""Makes a JSON schema valid by draft 2020-12, for upstreams that check it. No I/O.

Clients and tool servers send schemas of older drafts, of OpenAPI and of Google's dialect. Differences between the drafts are
converted: a boolean ``exclusiveMinimum``, a ``required`` inside a property, an array of ``items``, ``nullable``, types in upper
case. A keyword whose value has another type than the draft's is removed and reported. A member that is null is removed.

Source: json-schema.org/draft/2020-12, its meta-schemas; the vendor's error "JSON schema is invalid. It must match JSON Schema
draft 2020-12" (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate.wire.json_schema import MAX_DEPTH, ReportDrop

_TYPES: Final = frozenset(("object", "array", "string", "integer", "number", "boolean", "null"))
_SCHEMAS: Final = frozenset(
    (
        *("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"),
        *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    )
)
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("title", "description", "$comment", "$schema", "$id", "$anchor", "$ref", "$dynamicRef"), _is_text),
    **dict.fromkeys(("pattern", "format", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_truth),
    **dict.fromkeys(("enum", "examples"), _is_list),
    "required": _is_names,
}


def make_valid(schema: Mapping[str, Any], report: ReportDrop) -> Mapping[str, Any]:
    """`schema` as one of draft 2020-12; itself when it is one. `report` is called with the path of each removed keyword."""
    made: Mapping[str, Any] = _convert(schema, "", 0, report)
    return made


def _convert(schema: Any, path: str, depth: int, report: ReportDrop) -> Any:
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        report(path)
        return {}
    changed: dict[str, Any] = {}
    for name, member in schema.items():
        converted = _convert_member(name, member, f"{path}.{name}" if path else name, depth, report)
        if converted is not member:
            changed[name] = converted
    names = _list_required(schema)
    if not changed and not names and not _needs_translation(schema):
        return schema
    return _translate({**schema, **changed}, path, names, report)


def _convert_member(name: str, member: Any, path: str, depth: int, report: ReportDrop) -> Any:
    """The member with its subschemas converted; None to remove it."""
    if name in _SCHEMAS and not (name == "items" and isinstance(member, list)):
        return None if member is None else _convert(member, path, depth + 1, report)
    if name in _LISTS or name == "items":
        if not isinstance(member, list) or not member:
            return _remove(member, path, report)
        made = [_convert(inner, f"{path}.{number}", depth + 1, report) for number, inner in enumerate(member)]
        return member if all(map(_is_same, made, member)) else made
    if name in _MAPS:
        if not isinstance(member, Mapping):
            return _remove(member, path, report)
        mapped = {key: _convert(inner, f"{path}.{key}", depth + 1, report) for key, inner in member.items()}
        return member if all(mapped[key] is member[key] for key in mapped) else mapped
    if name == "type" or (name in ("exclusiveMinimum", "exclusiveMaximum", "required") and isinstance(member, bool)):
        return member  # translated with the other members
    if (check := _CHECKS.get(name)) is not None and not check(member):
        return _remove(member, path, report)
    return member


def _is_same(one: Any, other: Any) -> bool:
    return one is other


def _remove(member: Any, path: str, report: ReportDrop) -> None:
    if member is not None:
        report(path)


def _list_required(schema: Mapping[str, Any]) -> list[str]:
    """The properties with their own ``required``, as in draft 3."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    return [name for name, inner in properties.items() if isinstance(inner, Mapping) and inner.get("required") is True]


def _needs_translation(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    known = kind is None or (isinstance(kind, str) and kind in _TYPES)
    return (
        not (known or (isinstance(kind, list) and kind and all(type_name in _TYPES for type_name in kind)))
        or "nullable" in schema
        or isinstance(schema.get("exclusiveMinimum"), bool)
        or isinstance(schema.get("exclusiveMaximum"), bool)
        or isinstance(schema.get("required"), bool)
        or isinstance(schema.get("items"), list)
        or None in schema.values()
    )


def _translate(value: dict[str, Any], path: str, names: list[str], report: ReportDrop) -> dict[str, Any]:
    """The keywords that other drafts and dialects write differently."""
    value = {name: member for name, member in value.items() if member is not None or name in ("const", "default")}
    for exclusive, bound in _BOUNDS:
        if isinstance(value.get(exclusive), bool) and value.pop(exclusive) and _is_number(value.get(bound)):
            value[exclusive] = value.pop(bound)
    if isinstance(value.get("required"), bool):
        del value["required"]
    if names:
        value["required"] = list(dict.fromkeys([*value.get("required", ()), *names]))
    if isinstance(value.get("items"), list):
        value["prefixItems"] = value.pop("items")
        if "additionalItems" in value:
            value["items"] = value.pop("additionalItems")
    _translate_type(value, path, report)
    return value


def _translate_type(value: dict[str, Any], path: str, report: ReportDrop) -> None:
    kind = value.pop("type", None)
    names = [name.lower() if isinstance(name, str) else "" for name in (kind if isinstance(kind, list) else [kind])]
    kinds = list(dict.fromkeys(name for name in names if name in _TYPES))
    if kind is not None and len(kinds) < len(set(names)) and names != ["any"]:
        report(f"{path}.type" if path else "type")
    if value.pop("nullable", None) is True and kinds and "null" not in kinds:
        kinds.append("null")
        if isinstance(value.get("enum"), list) and None not in value["enum"]:
            value["enum"] = [*value["enum"], None]
    if kinds:
        value["type"] = kinds if isinstance(kind, list) or len(kinds) > 1 else kinds[0]
