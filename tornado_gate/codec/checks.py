"""Checks of single values that raise InvalidField with the value's path: for arrays that a schema is too slow for.

Public, for format plugins; `tornado_gate.codec.fields` is for the rest of a body.

A path is that of the object, and the name of a member is joined to it only when there is something to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from tornado_gate.codec.fields import describe_type, format_choices
from tornado_gate.errors import InvalidField


def raise_invalid(path: str, said: str) -> NoReturn:
    """Raise for the value at `path`."""
    raise InvalidField(path, f"'{path}' {said}.")


def raise_missing(path: str) -> NoReturn:
    """Raise for a value that must be there."""
    raise InvalidField(path, f"'{path}' is missing.", code="missing_required_parameter")


def need_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise_invalid(path, f"must be an object, not {describe_type(value)}")
    return value


def need_array(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise_invalid(path, f"must be an array, not {describe_type(value)}")
    return value


def need_string(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise_invalid(path, f"must be a string, not {describe_type(value)}")


def need_member(value: Mapping[str, Any], name: str, path: str) -> Any:
    """The member `name`, which must be there and not null."""
    member = value.get(name)
    if member is None:
        if name in value:
            raise_invalid(f"{path}.{name}", "must not be null")
        raise_missing(f"{path}.{name}")
    return member


def string_member(value: Mapping[str, Any], name: str, path: str) -> str:
    """The member `name`, which must be a string."""
    member = value.get(name)
    if not isinstance(member, str):
        need_string(need_member(value, name, path), f"{path}.{name}")
    return str(member)


def object_member(value: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    """The member `name`, which must be an object."""
    member = need_member(value, name, path)
    need_object(member, f"{path}.{name}")
    return dict(member)


def optional_string(value: Mapping[str, Any], name: str, path: str) -> None:
    """The member `name`, when it is there, must be a string or null."""
    member = value.get(name)
    if member is not None and not isinstance(member, str):
        need_string(member, f"{path}.{name}")


def choice_member(value: Mapping[str, Any], name: str, path: str, choices: tuple[str, ...]) -> str:
    """The member `name`, which must be one of `choices`."""
    member = string_member(value, name, path)
    if member not in choices:
        raise_invalid(f"{path}.{name}", f"must be one of {format_choices(choices)}, not '{member[:50]}'")
    return member


def optional_boolean(value: Mapping[str, Any], name: str, path: str) -> None:
    """The member `name`, when it is there, must be true, false or null."""
    member = value.get(name)
    if member is not None and not isinstance(member, bool):
        raise_invalid(f"{path}.{name}", f"must be true or false, not {describe_type(member)}")


def optional_object(value: Mapping[str, Any], name: str, path: str) -> dict[str, Any] | None:
    """The member `name`, which must be an object when it is there; None for one that is null or not there."""
    member = value.get(name)
    return None if member is None else need_object(member, f"{path}.{name}")
