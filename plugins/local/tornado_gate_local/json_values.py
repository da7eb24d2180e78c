"""The JSON type names that the schema modules share, and JSON equality."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

Json = Any  # a JSON value: None, bool, int, float, str, list or dict of such
Schema = Any  # a JSON schema: an object or a boolean; anything else is treated as true
Keywords = dict[str, Any]  # well-formed keywords of a schema, see `json_schema.read_keywords`


def is_same(ours: Json, theirs: Json) -> bool:
    """Equality of JSON values: 1 equals 1.0, but not true."""
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(is_same(a, b) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.keys() == theirs.keys() and all(is_same(value, theirs[key]) for key, value in ours.items())
    return bool(ours == theirs)


def make_key(value: Json) -> Hashable:
    """A key that two values share if and only if they are the same. Lists of values are compared with it in linear time."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, list):
        return list, *map(make_key, value)
    if isinstance(value, Mapping):
        return dict, frozenset((name, make_key(member)) for name, member in value.items())
    return value  # type: ignore[no-any-return]  # a text, a number or None
