"""Optional properties for models that follow a schema only if all properties are required. Pure.

`require_all` makes each optional property required and lets it be null, which the vendor documents as the equivalent.
`NullRemover` removes such a null from the response, chunk by chunk, because the caller's schema does not allow it.

Source: developers.openai.com/api/docs/guides/structured-outputs, "All fields must be required" (read 2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

_NULL: Final = {"type": "null"}
_DEFINITIONS: Final = ("$defs", "definitions")
_CONSTRAINTS: Final = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref")
_MAX_REFERENCES: Final = 20
_PLAIN: Final = re.compile(r'[^"\\]*')
_SPACE: Final = " \t\r\n"
_LITERAL: Final = "null"


def require_all(schema: Any) -> Any:
    """`schema` with all properties required; properties that were optional may be null. Unions of objects stay as they are."""
    return _require(schema, schema)


def _require(schema: Any, root: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    value = dict(schema)
    for name in ("properties", *_DEFINITIONS):
        if isinstance(schema.get(name), Mapping):
            value[name] = {key: _require(inner, root) for key, inner in schema[name].items()}
    if "items" in schema:
        value["items"] = _require(schema["items"], root)
    branches = schema.get("anyOf")
    if isinstance(branches, list) and _select_branch(branches, "object", root) is not None:
        value["anyOf"] = [_require(branch, root) for branch in branches]
    optional = list_optional(schema, root)
    if optional:
        for name in optional:
            value["properties"][name] = {"anyOf": [value["properties"][name], _NULL]}
    if isinstance(value.get("properties"), dict):
        value["required"] = list(value["properties"])
    return value


def list_optional(schema: Mapping[str, Any], root: Any) -> frozenset[str]:
    """The properties of an object that may be absent, but not null."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return frozenset()
    needed = required if isinstance(required, list) else []
    return frozenset(name for name, inner in properties.items() if name not in needed and not _may_be_null(inner, root))


def has_optional(schema: Any, root: Any = None) -> bool:
    """Return whether any object in a schema has properties that may be absent, but not null."""
    root = schema if root is None else root
    if isinstance(schema, list):
        return any(has_optional(item, root) for item in schema)
    if not isinstance(schema, Mapping):
        return False
    return bool(list_optional(schema, root)) or any(has_optional(item, root) for item in schema.values())


def _may_be_null(schema: Any, root: Any) -> bool:
    schema = _resolve(schema, root)
    if not isinstance(schema, Mapping):
        return schema is True
    if not schema.keys() & set(_CONSTRAINTS):
        return True
    kinds = schema.get("type")
    branches = schema.get("anyOf") or schema.get("oneOf")
    return (
        "null" in (kinds if isinstance(kinds, list) else [kinds])
        or (isinstance(schema.get("enum"), list) and "type" not in schema and None in schema["enum"])
        or ("const" in schema and schema["const"] is None)
        or (isinstance(branches, list) and any(_may_be_null(branch, root) for branch in branches))
    )


def _resolve(schema: Any, root: Any) -> Any:
    """The definition that a schema refers to, else the schema itself."""
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        match reference.split("/") if isinstance(reference, str) else None:
            case ["#"]:
                schema = root
            case ["#", "$defs" | "definitions" as place, name] if isinstance(root.get(place), Mapping):
                schema = root[place].get(name)
            case _:
                return schema
    return None


def _select_branch(branches: list[Any], kind: str, root: Any) -> Mapping[str, Any] | None:
    """The only branch of a union that is an object, or an array; None if there are several, or none."""
    matching = [branch for branch in (_resolve(candidate, root) for candidate in branches) if _is_kind(branch, kind)]
    return matching[0] if len(matching) == 1 else None


def _is_kind(schema: Any, kind: str) -> bool:
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type")
    return kind in (kinds if isinstance(kinds, list) else [kinds])


class NullRemover:
    """The remover of nulls from a JSON text that arrives in chunks.

    It removes a null member if the schema allows the member to be absent but not null.

    `_held` is what comes before a value in an object: comma, name and colon. It is passed on when the value turns out to stay. A
    text that is no JSON passes unchanged.
    """

    __slots__ = ("_escaped", "_held", "_key", "_letters", "_root", "_schema", "_stack", "_state")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = self._schema = schema
        self._stack: list[_Container] = []
        self._state = "value"  # key, name, colon, value, string, scalar, null, after, raw
        self._held: list[str] = []
        self._key: list[str] = []
        self._escaped = False
        self._letters = 0

    def feed(self, text: str) -> str:
        """The text that is known to stay."""
        out: list[str] = []
        at = 0
        while at < len(text):
            if self._state == "raw":
                out.append(text[at:])
                break
            if self._state in ("name", "string"):
                at = self._read_string(text, at, out)
            else:
                self._read_sign(text[at], out)
                at += 1
        return "".join(out)

    def finish(self) -> str:
        """Return the held characters of a text that ended early."""
        if self._state == "name":
            self._held.append("".join(self._key))
        rest: list[str] = []
        self._release(rest)
        return "".join(rest) + (_LITERAL[: self._letters] if self._state == "null" else "")

    def _read_string(self, text: str, at: int, out: list[str]) -> int:
        sink = self._key if self._state == "name" else out
        if self._escaped:
            self._escaped = False
            sink.append(text[at])
            return at + 1
        match = _PLAIN.match(text, at)
        assert match is not None
        sink.append(match[0])
        end = match.end()
        if end == len(text):
            return end
        sink.append(text[end])
        if text[end] == "\\":
            self._escaped = True
        elif self._state == "name":
            self._held.append("".join(self._key))
            self._state = "colon"
        else:
            self._state = "after"
        return end + 1

    def _read_sign(self, sign: str, out: list[str]) -> None:
        match self._state:
            case "null":
                self._read_null(sign, out)
            case "scalar" if sign not in _SPACE and sign not in ",]}":
                out.append(sign)
            case "scalar" | "after":
                self._read_after(sign, out)
            case "value":
                self._read_value(sign, out)
            case "key" | "colon":
                self._read_between(sign, out)

    def _read_null(self, sign: str, out: list[str]) -> None:
        """The rest of a null that is left out. Any other word stays, because the text is not JSON."""
        if sign != _LITERAL[self._letters]:
            self._release(out)
            out.append(_LITERAL[: self._letters] + sign)
            self._state = "raw"
            return
        self._letters += 1
        if self._letters == len(_LITERAL):
            self._held.clear()
            self._state = "after"

    def _read_between(self, sign: str, out: list[str]) -> None:
        """Read the characters of an object before a name, or before a colon."""
        if self._state == "key" and sign == '"':
            self._key, self._state = ['"'], "name"
        elif self._state == "key" and sign == "}":
            out.append("".join(self._held))
            self._held.clear()
            self._close(sign, out)
        elif self._state == "colon" and sign == ":":
            self._held.append(sign)
            self._state = "value"
        elif sign in _SPACE:
            self._held.append(sign)
        else:
            self._give_up(sign, out)

    def _read_value(self, sign: str, out: list[str]) -> None:
        container = self._stack[-1] if self._stack else None
        if sign in _SPACE:
            (self._held if container is not None and container.is_object else out).append(sign)
            return
        if container is None and sign not in "{[":
            self._give_up(sign, out)
            return
        if sign == "]" and container is not None and not container.is_object:
            self._close(sign, out)
            return
        schema: Any = self._schema
        if container is not None:
            name = self._read_name() if container.is_object else ""
            if sign == "n" and name in container.optional:
                self._state, self._letters = "null", 1
                return
            schema = container.find_schema(name)
        self._release(out)
        out.append(sign)
        if sign in "{[":
            self._stack.append(_Container(schema, self._root, is_object=sign == "{"))
        self._state = {"{": "key", "[": "value", '"': "string"}.get(sign, "scalar")

    def _read_name(self) -> str:
        try:
            return str(orjson.loads("".join(self._key)))
        except orjson.JSONDecodeError:
            return ""

    def _read_after(self, sign: str, out: list[str]) -> None:
        container = self._stack[-1] if self._stack else None
        if sign in _SPACE:
            out.append(sign)
            self._state = "after"
        elif container is not None and sign == ",":
            (self._held if container.is_object else out).append(sign)
            self._state = "key" if container.is_object else "value"
        elif container is not None and sign == ("}" if container.is_object else "]"):
            self._close(sign, out)
        else:
            self._give_up(sign, out)

    def _release(self, out: list[str]) -> None:
        """Pass on what was held, without its comma if it is the first member that stays."""
        container = self._stack[-1] if self._stack else None
        if container is None or not container.is_object:
            return
        text = "".join(self._held)
        out.append(text if container.has_members else text.lstrip(_SPACE).removeprefix(","))
        self._held.clear()
        container.has_members = True

    def _close(self, sign: str, out: list[str]) -> None:
        self._stack.pop()
        out.append(sign)
        self._state = "after"

    def _give_up(self, sign: str, out: list[str]) -> None:
        out.append("".join(self._held) + sign)
        self._held.clear()
        self._state = "raw"


class _Container:
    """An open object or array. `optional` are the names of members that are left out when they are null."""

    __slots__ = ("_root", "_schema", "has_members", "is_object", "optional")

    def __init__(self, schema: Any, root: Any, *, is_object: bool) -> None:
        kind = "object" if is_object else "array"
        schema = _resolve(schema, root)
        branches = schema.get("anyOf") if isinstance(schema, Mapping) else None
        if isinstance(branches, list):
            schema = _select_branch(branches, kind, root)
        self._schema: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        self._root = root
        self.is_object = is_object
        self.has_members = False
        self.optional = list_optional(self._schema, root) if is_object else frozenset()

    def find_schema(self, name: str) -> Any:
        """The schema of a member, or of the items."""
        if not self.is_object:
            return self._schema.get("items")
        properties = self._schema.get("properties")
        return properties.get(name) if isinstance(properties, Mapping) else None
