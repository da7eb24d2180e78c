"""Reduce JSON schemas to the subset that Claude's models enforce. No I/O.

All objects are closed, and most constraints do not exist. As in the vendor's SDK, a removed constraint is added to the
description, where the model can read it; it is reported as lost, because it is no longer enforced. References are inlined,
because recursive ones are rejected.

Source: anthropic-python 2.11, lib/_parse/_transform.py; platform.claude.com/docs/en/build-with-claude/structured-outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.wire.json_schema import ReportDrop, SchemaLocation, SchemaWalker

_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
_FORMATS: Final = (
    "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
)  # fmt: skip
_ANNOTATIONS: Final = ("title", "description")
_IGNORED: Final = frozenset(
    ("$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "examples", "deprecated", "additionalProperties")
)
_CONVERTED: Final = frozenset(
    ("$ref", "type", "enum", "const", "anyOf", "oneOf", "allOf", "properties", "required", "items", *_ANNOTATIONS)
)


def restrict_schema(schema: Any, report: ReportDrop) -> dict[str, Any]:
    """`schema` in the subset. `report` is called with the path below the schema (``properties.a.minimum``) of each loss."""
    return _SchemaRestrictor(schema, report).restrict(schema, SchemaLocation())


class _SchemaRestrictor(SchemaWalker):
    def restrict(self, schema: Any, location: SchemaLocation) -> dict[str, Any]:
        """One schema and all its subschemas in the subset."""
        if self.is_too_much(location) or not isinstance(schema, Mapping):
            self.report_drop(location)
            return _make_any()
        schema, location = self.resolve_reference(schema, location)
        schema = self.merge_all_of(schema, location)
        value = {name: schema[name] for name in _ANNOTATIONS if isinstance(schema.get(name), str)}
        left = {name: schema[name] for name in schema if name not in _CONVERTED and name not in _IGNORED}
        self._convert(schema, value, left, location)
        open_object = value.get("type") == "object" and not value.get("properties")
        if schema.get("additionalProperties", open_object) is not False:
            self.report_drop(location, "additionalProperties")
        for name in left:
            if name != "default":
                self.report_drop(location, name)
        if descriptions := [f"{name}: {member}" for name, member in left.items()]:
            value["description"] = "\n\n".join(
                [*filter(None, [value.get("description")]), "{" + ", ".join(descriptions) + "}"]
            )
        return value

    def _convert(
        self, schema: Mapping[str, Any], value: dict[str, Any], left: dict[str, Any], location: SchemaLocation
    ) -> None:
        """Add what a value must be. Removes from `left` the constraints that the subset has."""
        if isinstance(schema.get("enum"), list) and all(map(_is_primitive, schema["enum"])) and schema["enum"]:
            value["enum"] = list(schema["enum"])
            return
        if "const" in schema and _is_primitive(schema["const"]):
            value["const"] = schema["const"]
            return
        for name in ("anyOf", "oneOf"):
            if isinstance(schema.get(name), list) and schema[name]:
                self._convert_branches(schema, name, value, location)
                return
        kinds = _list_types(schema)
        if len(kinds) > 1 and {"object", "array"} & set(kinds):
            branches = [{**schema, "type": kind} for kind in kinds]
            value["anyOf"] = [self.restrict(_without_annotations(branch), location) for branch in branches]
            left.clear()
        elif not kinds:
            value |= _make_any()
            if schema.keys() - _IGNORED - set(_ANNOTATIONS):
                self.report_drop(location)
        else:
            value["type"] = kinds[0] if len(kinds) == 1 else kinds
            self._convert_members(schema, kinds[0] if len(kinds) == 1 else "", value, left, location)

    def _convert_branches(
        self, schema: Mapping[str, Any], name: str, value: dict[str, Any], location: SchemaLocation
    ) -> None:
        value["anyOf"] = [
            self.restrict(branch, location.append_path(name, str(number))) for number, branch in enumerate(schema[name])
        ]
        for other in ("oneOf", "properties", "items"):
            if other in schema and other != name:
                self.report_drop(location, other)

    def _convert_members(
        self,
        schema: Mapping[str, Any],
        kind: str,
        value: dict[str, Any],
        left: dict[str, Any],
        location: SchemaLocation,
    ) -> None:
        """Convert the members of one type; members of other types do not constrain it."""
        if kind == "object":
            properties = schema.get("properties")
            names = properties if isinstance(properties, Mapping) else {}
            value["properties"] = {
                name: self.restrict(inner, location.append_path("properties", name)) for name, inner in names.items()
            }
            value["additionalProperties"] = False
            if isinstance(schema.get("required"), list):
                value["required"] = [name for name in schema["required"] if name in names]
        elif kind == "array":
            if isinstance(schema.get("items"), Mapping):
                value["items"] = self.restrict(schema["items"], location.append_path("items"))
            if left.get("minItems") in (0, 1):
                value["minItems"] = left.pop("minItems")
        elif kind == "string" and left.get("format") in _FORMATS:
            value["format"] = left.pop("format")


def _make_any() -> dict[str, Any]:
    """A schema for values of any type that the subset can express."""
    return {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}


def _list_types(schema: Mapping[str, Any]) -> list[str]:
    """The types of a schema, in lower case; inferred if the schema has no type."""
    kind = schema.get("type")
    kinds = [name.lower() for name in (kind if isinstance(kind, list) else [kind]) if isinstance(name, str)]
    if not kinds and "properties" in schema:
        return ["object"]
    if not kinds and "items" in schema:
        return ["array"]
    return [name for name in kinds if name in _TYPES]


def _without_annotations(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in schema.items() if name not in _ANNOTATIONS}


def _is_primitive(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
