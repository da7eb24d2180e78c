"""Checks of single values that raise InvalidField with the value's path: for arrays that a schema is too slow for.

A path is that of the object, and the name of a member is joined to it only when there is something to say. A member that is
null is one that was not said, as in protobuf's JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from tornado_gate.errors import InvalidField
from tornado_gate.fields import named


def wrong(path: str, said: str) -> NoReturn:
    """Raise for the value at `path`."""
    raise InvalidField(path, f"'{path}' {said}.")


def missing(path: str) -> NoReturn:
    """Raise for a value that must be there."""
    raise InvalidField(path, f"'{path}' is missing.", code="missing_required_parameter")


def need_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        wrong(path, f"must be an object, not {named(value)}")
    return value


def need_array(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        wrong(path, f"must be an array, not {named(value)}")
    return value


def string_member(value: Mapping[str, Any], name: str, path: str) -> str:
    """The member `name`, which must be a string."""
    member = value.get(name)
    if isinstance(member, str):
        return member
    if member is None:
        if name in value:
            wrong(f"{path}.{name}", "must not be null")
        missing(f"{path}.{name}")
    wrong(f"{path}.{name}", f"must be a string, not {named(member)}")


def optional_string(value: Mapping[str, Any], name: str, path: str) -> None:
    member = value.get(name)
    if member is not None and not isinstance(member, str):
        wrong(f"{path}.{name}", f"must be a string, not {named(member)}")


def optional_boolean(value: Mapping[str, Any], name: str, path: str) -> None:
    member = value.get(name)
    if member is not None and not isinstance(member, bool):
        wrong(f"{path}.{name}", f"must be true or false, not {named(member)}")


def optional_object(value: Mapping[str, Any], name: str, path: str) -> dict[str, Any] | None:
    """The member `name`, which must be an object when it is there."""
    member = value.get(name)
    return None if member is None else need_object(member, f"{path}.{name}")
