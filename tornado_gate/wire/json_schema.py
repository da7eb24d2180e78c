"""JSON schemas for upstreams that know a subset only: OpenAPI-like schemas with upper-case types. Pure.

What the subset cannot say is taken out and reported, path by path, through a callback; annotations that constrain nothing
(``$schema``, ``$id``, ``$comment``) go without a word. ``additionalProperties: false`` does too: an upstream of this kind
writes declared properties alone.

Source of the subset: google-genai 3.4, ``types.Schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from tornado_gate.types.value import Value

MAX_NODES: Final = 2_000
"""Schemas in one schema, after references were replaced by what they name. What is beyond is an object of any shape."""

MAX_DEPTH: Final = 64
"""Schemas inside schemas."""

MAX_RECURSION: Final = 2
"""How often a recursive reference is followed inside itself."""

_TYPES: Final[Mapping[str, str]] = {
    "string": "STRING",
    "number": "NUMBER",
    "integer": "INTEGER",
    "boolean": "BOOLEAN",
    "array": "ARRAY",
    "object": "OBJECT",
    "null": "NULL",
}
_SAME: Final = (
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
_SILENT: Final = frozenset(("$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "examples", "deprecated"))
_HANDLED: Final = frozenset(
    ("$ref", "type", "format", "enum", "const", "properties", "required", "items", "anyOf", "oneOf", "allOf")
)
_FORMATS: Final = ("date-time", "enum", "float", "double", "int32", "int64")

Report = Callable[[str], None]


def down_level(schema: Any, report: Report) -> dict[str, Any]:
    """`schema` in the subset. `report` is given the path below the schema (``properties.a.not``) of what was lost."""
    return _Leveller(schema, report).level(schema, _Place())


def has_keyword(value: Any, names: Iterable[str]) -> bool:
    """Whether an object anywhere in a JSON value has a member of one of these names."""
    wanted = frozenset(names)
    level = [value]
    while level:
        item = level.pop()
        if isinstance(item, Mapping):
            if not wanted.isdisjoint(item):
                return True
            level.extend(item.values())
        elif isinstance(item, list):
            level.extend(item)
    return False


class _Place(Value, frozen=True):
    """Where the walk is: the path for reports, and the references it went through."""

    path: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    def below(self, *names: str) -> _Place:
        return _Place((*self.path, *names), self.references)

    def through(self, reference: str) -> _Place:
        return _Place(self.path, (*self.references, reference))


class _Leveller:
    def __init__(self, root: Any, report: Report) -> None:
        self._root = root
        self._report = report
        self._nodes = 0

    def level(self, schema: Any, place: _Place) -> dict[str, Any]:
        """One schema and all below it."""
        self._nodes += 1
        too_much = self._nodes > MAX_NODES or len(place.path) > 2 * MAX_DEPTH
        if too_much or not isinstance(schema, Mapping):
            if schema is not True:
                self._lose(place, "")
            return {"type": "OBJECT"} if too_much else {}
        schema, place = self._resolved(schema, place)
        schema = self._merged(schema, place)
        value = {name: schema[name] for name in _SAME if name in schema}
        self._level_type(schema, value, place)
        self._level_choices(schema, value, place)
        self._level_enum(schema, value, place)
        self._level_children(schema, value, place)
        self._level_format(schema, value, place)
        self._report_rest(schema, place)
        return value

    def _lose(self, place: _Place, name: str) -> None:
        self._report(".".join((*place.path, name) if name else place.path))

    def _resolved(self, schema: Mapping[str, Any], place: _Place) -> tuple[Mapping[str, Any], _Place]:
        """`schema` with its reference replaced by what it names; what stands beside the reference wins."""
        while isinstance(reference := schema.get("$ref"), str):
            beside = {name: member for name, member in schema.items() if name != "$ref"}
            target = self._find(reference)
            if target is None or place.references.count(reference) >= MAX_RECURSION:
                self._lose(place, "$ref")
                return {"type": "object", **beside}, place
            place = place.through(reference)
            schema = {**target, **beside}
        return schema, place

    def _find(self, reference: str) -> Mapping[str, Any] | None:
        """What a local reference (a JSON pointer after ``#``) names; None for one that leads elsewhere."""
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

    def _merged(self, schema: Mapping[str, Any], place: _Place) -> Mapping[str, Any]:
        """`schema` with the branches of ``allOf`` laid into it; of two words for one thing the first stands."""
        branches = schema.get("allOf")
        if not isinstance(branches, list):
            return schema
        merged = {name: member for name, member in schema.items() if name != "allOf"}
        for number, branch in enumerate(branches):
            if not isinstance(branch, Mapping):
                continue
            inner, there = self._resolved(branch, place.below("allOf", str(number)))
            for name, member in self._merged(inner, there).items():
                known = merged.get(name)
                if name == "properties" and isinstance(member, Mapping) and isinstance(known, Mapping):
                    merged[name] = {**member, **known}
                elif name == "required" and isinstance(member, list) and isinstance(known, list):
                    merged[name] = [*known, *member]
                elif merged.setdefault(name, member) != member:
                    self._lose(place, f"allOf.{number}.{name}")
        return merged

    def _level_type(self, schema: Mapping[str, Any], value: dict[str, Any], place: _Place) -> None:
        kind = schema.get("type")
        if kind is None:
            kind = _implied_type(schema)
        if isinstance(kind, list):
            others = [one for one in kind if isinstance(one, str) and one != "null"]
            if len(others) < len(kind):
                value["nullable"] = True
            if len(others) > 1:
                value["anyOf"] = [self.level({**_of_type(schema, one), "type": one}, place) for one in others]
                return
            kind = others[0] if others else "null"
        if isinstance(kind, str):
            value["type"] = _TYPES.get(kind.lower(), kind.upper())

    def _level_choices(self, schema: Mapping[str, Any], value: dict[str, Any], place: _Place) -> None:
        """``anyOf`` and ``oneOf``; a branch for null alone makes the whole nullable."""
        name = "anyOf" if "anyOf" in schema else "oneOf"
        branches = schema.get(name)
        if not isinstance(branches, list):
            return
        others = [branch for branch in branches if not _is_null(branch)]
        if len(others) < len(branches):
            value["nullable"] = True
        levelled = [self.level(branch, place.below(name, str(number))) for number, branch in enumerate(others)]
        if len(levelled) == 1:
            for member, inner in levelled[0].items():
                value.setdefault(member, inner)
        elif levelled:
            value["anyOf"] = levelled
        if "anyOf" in schema and "oneOf" in schema:
            self._lose(place, "oneOf")

    def _level_enum(self, schema: Mapping[str, Any], value: dict[str, Any], place: _Place) -> None:
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
        elif words:  # an enum of the subset is of strings
            self._lose(place, name)

    def _level_children(self, schema: Mapping[str, Any], value: dict[str, Any], place: _Place) -> None:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and "anyOf" not in value:
            value["properties"] = {
                name: self.level(inner, place.below("properties", name)) for name, inner in properties.items()
            }
        required = schema.get("required")
        known = value.get("properties", {})
        if isinstance(required, list) and (present := [name for name in known if name in required]):
            value["required"] = present
        items = schema.get("items")
        if isinstance(items, Mapping) and "anyOf" not in value:
            value["items"] = self.level(items, place.below("items"))
        elif value.get("type") == "ARRAY":  # an array must say of what
            value["items"] = self._items_of_tuple(schema, place)

    def _items_of_tuple(self, schema: Mapping[str, Any], place: _Place) -> dict[str, Any]:
        kinds = schema.get("prefixItems", schema.get("items"))
        if not isinstance(kinds, list) or not kinds:
            return {"type": "STRING"}
        if "prefixItems" not in schema:
            self._lose(place, "items")
        levelled = [self.level(kind, place.below("items", str(number))) for number, kind in enumerate(kinds)]
        return levelled[0] if len(levelled) == 1 else {"anyOf": levelled}

    def _level_format(self, schema: Mapping[str, Any], value: dict[str, Any], place: _Place) -> None:
        if "format" not in schema:
            return
        if schema["format"] in _FORMATS:
            value["format"] = schema["format"]
        else:
            self._lose(place, "format")

    def _report_rest(self, schema: Mapping[str, Any], place: _Place) -> None:
        known = _SILENT | _HANDLED | frozenset(_SAME)
        for name, member in schema.items():
            if name in known or (name == "additionalProperties" and member is False):
                continue
            self._lose(place, name)


def _implied_type(schema: Mapping[str, Any]) -> str | None:
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else None


def _of_type(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The members of `schema` that say something of this type."""
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
