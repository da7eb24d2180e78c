"""Checks of single values that raise InvalidField with the value's path: for arrays where a schema is too slow.

Public, for format plugins; `tornado_gate.codec.fields` checks all other parts of a body.

`path` is the path of the object; a member's name is appended to it only when an error is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from tornado_gate.codec.fields import describe_type, format_choices
from tornado_gate.codec.value_limits import are_left_to_upstream
from tornado_gate.errors import InvalidField


def raise_invalid(path: str, problem: str) -> NoReturn:
    """Raise InvalidField for the value at `path`; `problem` is the predicate of the message, such as "must be a string"."""
    raise InvalidField(path, f"'{path}' {problem}.")


def refuse_value(path: str, problem: str) -> None:
    """Raise InvalidField as `raise_invalid` does, for an unknown word or an exceeded limit, unless the upstream decides.

    `tornado_gate.codec.value_limits` defines when it does; then this returns.
    """
    if not are_left_to_upstream():
        raise_invalid(path, problem)


def raise_missing(path: str) -> NoReturn:
    """Raise InvalidField for a missing value."""
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
    """Return the member `name`, which must be present and not null."""
    member = value.get(name)
    if member is None:
        if name in value:
            raise_invalid(f"{path}.{name}", "must not be null")
        raise_missing(f"{path}.{name}")
    return member


def string_member(value: Mapping[str, Any], name: str, path: str) -> str:
    """Return the member `name`, which must be a string."""
    member = value.get(name)
    if not isinstance(member, str):
        need_string(need_member(value, name, path), f"{path}.{name}")
    return str(member)


def object_member(value: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    """Return the member `name`, which must be an object."""
    member = need_member(value, name, path)
    need_object(member, f"{path}.{name}")
    return dict(member)


def optional_string(value: Mapping[str, Any], name: str, path: str) -> None:
    """Check that the member `name` is a string, null or absent."""
    member = value.get(name)
    if member is not None and not isinstance(member, str):
        need_string(member, f"{path}.{name}")


def choice_member(value: Mapping[str, Any], name: str, path: str, choices: tuple[str, ...]) -> str:
    """Return the member `name`, which must be one of `choices`, or any string when the upstream decides."""
    member = string_member(value, name, path)
    if member not in choices:
        refuse_value(f"{path}.{name}", f"must be one of {format_choices(choices)}, not '{member[:50]}'")
    return member


def optional_boolean(value: Mapping[str, Any], name: str, path: str) -> None:
    """Check that the member `name` is true, false, null or absent."""
    member = value.get(name)
    if member is not None and not isinstance(member, bool):
        raise_invalid(f"{path}.{name}", f"must be true or false, not {describe_type(member)}")


def optional_object(value: Mapping[str, Any], name: str, path: str) -> dict[str, Any] | None:
    """Return the member `name`, which must be an object; None if it is null or absent."""
    member = value.get(name)
    return None if member is None else need_object(member, f"{path}.{name}")
