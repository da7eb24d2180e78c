"""Reduce JSON schemas to what an upstream accepts, and the traversal that all reductions share. No I/O.

`inline_references` removes references and keeps everything else. `simplify_schema` reduces to the subset of upstreams with
OpenAPI-like schemas and upper-case types, `wire.closed_schema` to one with closed objects. A callback receives the path of
each keyword that is removed. `simplify_schema` removes annotations that constrain nothing (``$schema``, ``$id``, ``$comment``)
without a report, and ``additionalProperties: false``, because these upstreams only produce declared properties.

Source of the subset: google-genai 3.4, ``types.Schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from tornado_gate.types.value import Value

MAX_NODES: Final = 2_000
"""Most subschemas in one schema, counted after references are resolved. A subschema beyond it becomes ``OBJECT``."""

MAX_DEPTH: Final = 64
"""Most nesting levels of subschemas."""

MAX_RECURSION: Final = 2
"""How many times a recursive reference is expanded inside itself."""

_TYPES: Final[Mapping[str, str]] = {
    "string": "STRING",
    "number": "NUMBER",
    "integer": "INTEGER",
    "boolean": "BOOLEAN",
    "array": "ARRAY",
    "object": "OBJECT",
    "null": "NULL",
}
_KEPT_KEYWORDS: Final = (
    "title",
    "description",
    "default",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "propertyOrdering",
    "example",
    "nullable",
)
_IGNORED_KEYWORDS: Final = frozenset(
    ("$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "examples", "deprecated")
)
_CONVERTED_KEYWORDS: Final = frozenset(
    ("$ref", "type", "format", "enum", "const", "properties", "required", "items", "anyOf", "oneOf", "allOf")
)
_FORMATS: Final = ("date-time", "enum", "float", "double", "int32", "int64")

_LITERAL_KEYWORDS: Final = ("const", "default", "enum", "example", "examples", "required")
"""Keywords with values that are not schemas."""

ReportDrop = Callable[[str], None]


def inline_references(schema: Any, report: ReportDrop) -> Any:
    """`schema` with each local ``$ref`` replaced by its definition, for upstreams that accept no member next to a reference.

    A schema without references is returned unchanged. Recursion is cut after `MAX_RECURSION` levels; `report` is called with
    the path of each cut, as in `simplify_schema`.
    """
    if not has_keyword(schema, ("$ref",)):
        return schema
    return _ReferenceInliner(schema, report).inline(schema, SchemaLocation())


def flatten_parameters(schema: Mapping[str, Any], report: ReportDrop) -> Mapping[str, Any]:
    """The parameters of a tool as an object without ``anyOf``, ``oneOf``, ``allOf``, ``enum`` and ``not`` at the top level.

    ``allOf`` is merged. Of the branches of ``anyOf`` and ``oneOf`` only the properties are kept, and none of them is required, so
    the schema accepts more: `report` is called with the keyword.
    """
    if schema.get("type") == "object" and not schema.keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}:
        return schema
    walker = SchemaWalker(schema, report)
    flat = {**walker.merge_all_of(schema, SchemaLocation()), "type": "object"}
    for name in ("anyOf", "oneOf", "enum", "not"):
        if name not in flat:
            continue
        report(name)
        branches = flat.pop(name)
        for branch in branches if isinstance(branches, list) else ():
            resolved = walker.resolve_reference(branch, SchemaLocation())[0] if isinstance(branch, Mapping) else {}
            if isinstance(inner := resolved.get("properties"), Mapping):
                flat["properties"] = {**inner, **(flat.get("properties") or {})}
    return flat


def simplify_schema(schema: Any, report: ReportDrop) -> dict[str, Any]:
    """Return `schema` in the subset. `report` is called with the path below the schema (``properties.a.not``) of each loss."""
    return _SchemaSimplifier(schema, report).simplify(schema, SchemaLocation())


def close_objects(schema: Any) -> Any:
    """The schema with ``additionalProperties: false`` on every object, which formats imply that have no open objects."""
    if isinstance(schema, list):
        return [close_objects(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {name: close_objects(value) for name, value in schema.items()}
    if closed.get("type") == "object" and isinstance(closed.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


def has_keyword(value: Any, names: Iterable[str]) -> bool:
    """Return whether an object at any depth of a JSON value has a member with one of these names."""
    keywords = frozenset(names)
    level = [value]
    while level:
        item = level.pop()
        if isinstance(item, Mapping):
            if not keywords.isdisjoint(item):
                return True
            level.extend(item.values())
        elif isinstance(item, list):
            level.extend(item)
    return False


class SchemaLocation(Value, frozen=True):
    """The position of the traversal: the path for reports, and the references that were followed to get there."""

    path: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    def append_path(self, *names: str) -> SchemaLocation:
        return SchemaLocation((*self.path, *names), self.references)

    def enter_reference(self, reference: str) -> SchemaLocation:
        return SchemaLocation(self.path, (*self.references, reference))


class SchemaWalker:
    """The common state of one schema's reductions: references, ``allOf``, limits and reports."""

    def __init__(self, root: Any, report: ReportDrop) -> None:
        self._root = root
        self._report = report
        self._nodes = 0

    def is_too_much(self, location: SchemaLocation) -> bool:
        """Count one more subschema. Returns whether it is beyond `MAX_NODES` or `MAX_DEPTH`."""
        self._nodes += 1
        return self._nodes > MAX_NODES or len(location.path) > 2 * MAX_DEPTH

    def report_drop(self, location: SchemaLocation, name: str = "") -> None:
        self._report(".".join((*location.path, name) if name else location.path))

    def resolve_reference(
        self, schema: Mapping[str, Any], location: SchemaLocation
    ) -> tuple[Mapping[str, Any], SchemaLocation]:
        """Return `schema` with ``$ref`` replaced by the definition; members next to the reference take precedence."""
        while isinstance(reference := schema.get("$ref"), str):
            beside = {name: member for name, member in schema.items() if name != "$ref"}
            target = self._find_definition(reference)
            if target is None or location.references.count(reference) >= MAX_RECURSION:
                self.report_drop(location, "$ref")
                return {"type": "object", **beside}, location
            location = location.enter_reference(reference)
            schema = {**target, **beside}
        return schema, location

    def _find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """Return the definition of a local reference (a JSON pointer after ``#``); None for any other reference."""
        if not reference.startswith("#"):
            return None
        value = self._root
        for token in unquote(reference[1:]).split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            elif isinstance(value, Mapping) and name in value:
                value = value[name]
            else:
                return None
        return value if isinstance(value, Mapping) else None

    def merge_all_of(self, schema: Mapping[str, Any], location: SchemaLocation) -> Mapping[str, Any]:
        """Return `schema` with the branches of ``allOf`` merged into it; the first value of a keyword takes precedence."""
        branches = schema.get("allOf")
        if not isinstance(branches, list):
            return schema
        merged = {name: member for name, member in schema.items() if name != "allOf"}
        for number, branch in enumerate(branches):
            if not isinstance(branch, Mapping):
                continue
            inner, there = self.resolve_reference(branch, location.append_path("allOf", str(number)))
            for name, member in self.merge_all_of(inner, there).items():
                known = merged.get(name)
                if name == "properties" and isinstance(member, Mapping) and isinstance(known, Mapping):
                    merged[name] = {**member, **known}
                elif name == "required" and isinstance(member, list) and isinstance(known, list):
                    merged[name] = [*known, *member]
                elif merged.setdefault(name, member) != member:
                    self.report_drop(location, f"allOf.{number}.{name}")
        return merged


class _ReferenceInliner(SchemaWalker):
    def inline(self, schema: Any, location: SchemaLocation) -> Any:
        """A value inside a schema: references are replaced in objects at any depth, but not in literal values."""
        if isinstance(schema, list):
            return [self.inline(item, location.append_path(str(number))) for number, item in enumerate(schema)]
        if not isinstance(schema, Mapping):
            return schema
        if self.is_too_much(location):
            self.report_drop(location)
            return {"type": "object"}
        schema, location = self.resolve_reference(schema, location)
        return {
            name: member if name in _LITERAL_KEYWORDS else self._inline_member(name, member, location)
            for name, member in schema.items()
            if name not in ("$defs", "definitions")
        }

    def _inline_member(self, name: str, member: Any, location: SchemaLocation) -> Any:
        inner = location.append_path(name)
        if name in ("properties", "patternProperties") and isinstance(member, Mapping):
            return {key: self.inline(value, inner.append_path(key)) for key, value in member.items()}
        return self.inline(member, inner)


class _SchemaSimplifier(SchemaWalker):
    def simplify(self, schema: Any, location: SchemaLocation) -> dict[str, Any]:
        """Return one schema and all its subschemas in the subset."""
        too_much = self.is_too_much(location)
        if too_much or not isinstance(schema, Mapping):
            if schema is not True:
                self.report_drop(location)
            return {"type": "OBJECT"} if too_much else {}
        schema, location = self.resolve_reference(schema, location)
        schema = self.merge_all_of(schema, location)
        value = {name: schema[name] for name in _KEPT_KEYWORDS if name in schema}
        self._convert_type(schema, value, location)
        self._convert_choices(schema, value, location)
        self._convert_enum(schema, value, location)
        self._convert_children(schema, value, location)
        self._convert_format(schema, value, location)
        self._report_unknown(schema, location)
        return value

    def _convert_type(self, schema: Mapping[str, Any], value: dict[str, Any], location: SchemaLocation) -> None:
        kind = schema.get("type")
        if kind is None:
            kind = _infer_type(schema)
        if isinstance(kind, list):
            others = [name for name in kind if isinstance(name, str) and name != "null"]
            if len(others) < len(kind):
                value["nullable"] = True
            if len(others) > 1:
                value["anyOf"] = [
                    self.simplify({**_select_members_of_type(schema, name), "type": name}, location) for name in others
                ]
                return
            kind = others[0] if others else "null"
        if isinstance(kind, str):
            value["type"] = _TYPES.get(kind.lower(), kind.upper())

    def _convert_choices(self, schema: Mapping[str, Any], value: dict[str, Any], location: SchemaLocation) -> None:
        """Convert ``anyOf`` and ``oneOf``; a branch of type null becomes ``nullable: true``."""
        name = "anyOf" if "anyOf" in schema else "oneOf"
        branches = schema.get(name)
        if not isinstance(branches, list):
            return
        others = [branch for branch in branches if not _is_null(branch)]
        if len(others) < len(branches):
            value["nullable"] = True
        levelled = [
            self.simplify(branch, location.append_path(name, str(number))) for number, branch in enumerate(others)
        ]
        if len(levelled) == 1:
            for member, inner in levelled[0].items():
                value.setdefault(member, inner)
        elif levelled:
            value["anyOf"] = levelled
        if "anyOf" in schema and "oneOf" in schema:
            self.report_drop(location, "oneOf")

    def _convert_enum(self, schema: Mapping[str, Any], value: dict[str, Any], location: SchemaLocation) -> None:
        name = "const" if "const" in schema else "enum"
        words = [schema["const"]] if name == "const" else schema.get("enum")
        if not isinstance(words, list):
            return
        if None in words:
            value["nullable"] = True
            words = [word for word in words if word is not None]
        if all(isinstance(word, str) for word in words) and words:
            value["enum"] = words
            value.setdefault("type", "STRING")
        elif words:  # the subset allows only strings in an enum
            self.report_drop(location, name)

    def _convert_children(self, schema: Mapping[str, Any], value: dict[str, Any], location: SchemaLocation) -> None:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and "anyOf" not in value:
            value["properties"] = {
                name: self.simplify(inner, location.append_path("properties", name))
                for name, inner in properties.items()
            }
        required = schema.get("required")
        known = value.get("properties", {})
        names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else ()
        if present := [name for name in known if name in names]:
            value["required"] = present
        items = schema.get("items")
        if isinstance(items, Mapping) and "anyOf" not in value:
            value["items"] = self.simplify(items, location.append_path("items"))
        elif value.get("type") == "ARRAY":  # the subset requires `items` in an array
            value["items"] = self._merge_tuple_items(schema, location)

    def _merge_tuple_items(self, schema: Mapping[str, Any], location: SchemaLocation) -> dict[str, Any]:
        kinds = schema.get("prefixItems", schema.get("items"))
        if not isinstance(kinds, list) or not kinds:
            return {"type": "STRING"}
        if "prefixItems" not in schema:
            self.report_drop(location, "items")
        levelled = [
            self.simplify(kind, location.append_path("items", str(number))) for number, kind in enumerate(kinds)
        ]
        return levelled[0] if len(levelled) == 1 else {"anyOf": levelled}

    def _convert_format(self, schema: Mapping[str, Any], value: dict[str, Any], location: SchemaLocation) -> None:
        if "format" not in schema:
            return
        if schema["format"] in _FORMATS:
            value["format"] = schema["format"]
        else:
            self.report_drop(location, "format")

    def _report_unknown(self, schema: Mapping[str, Any], location: SchemaLocation) -> None:
        known = _IGNORED_KEYWORDS | _CONVERTED_KEYWORDS | frozenset(_KEPT_KEYWORDS)
        for name, member in schema.items():
            if name in known or (name == "additionalProperties" and member is False):
                continue
            self.report_drop(location, name)


def _infer_type(schema: Mapping[str, Any]) -> str | None:
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else None


def _select_members_of_type(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the members of `schema` that apply to this type."""
    names = {
        "object": ("properties", "required", "minProperties", "maxProperties", "additionalProperties"),
        "array": ("items", "prefixItems", "minItems", "maxItems"),
        "string": ("pattern", "format", "minLength", "maxLength"),
        "number": ("minimum", "maximum"),
        "integer": ("minimum", "maximum"),
    }
    return {name: schema[name] for name in names.get(kind, ()) if name in schema}


def _is_null(branch: Any) -> bool:
    return isinstance(branch, Mapping) and branch.get("type") in ("null", ["null"])
