"""Checks a JSON value against the parameter types of a vendor's SDK, as strictly as the vendor: no unknown member."""

from __future__ import annotations

import collections.abc
import functools
import types
import typing
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import is_typeddict

from qa.agents.conversation import RefusedError


def check_value(value: Any, kind: Any, path: str = "") -> None:
    """Raises RefusedError that names the path of the first member that `kind` (a TypedDict, a union, …) does not have."""
    kind = _strip(kind)
    origin = get_origin(kind)
    if kind is Any or kind is object:
        return
    if is_typeddict(kind):
        _check_object(value, kind, path)
    elif origin in (Union, types.UnionType):
        _check_union(value, get_args(kind), path)
    elif origin is Literal:
        if value not in get_args(kind):
            raise RefusedError(f"{path}: {value!r} is not one of {get_args(kind)}")
    elif origin in (list, collections.abc.Iterable, collections.abc.Sequence):
        if not isinstance(value, list):
            raise RefusedError(f"{path}: Input should be a valid list")
        for number, one in enumerate(value):
            check_value(one, get_args(kind)[0], f"{path}.{number}")
    elif origin in (dict, collections.abc.Mapping) or kind is dict:
        if not isinstance(value, dict):
            raise RefusedError(f"{path}: Input should be a valid dictionary")
    else:
        _check_scalar(value, kind, path)


def _strip(kind: Any) -> Any:
    while get_origin(kind) in (Required, NotRequired, typing.Annotated):
        kind = get_args(kind)[0]
    return kind


def _check_scalar(value: Any, kind: Any, path: str) -> None:
    allowed: tuple[type, ...] = {float: (int, float), type(None): (type(None),)}.get(kind, (kind,))
    if not isinstance(kind, type) or kind.__module__ != "builtins":
        allowed = (str,)  # dates and files, which a JSON body has as texts
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise RefusedError(f"{path}: Input should be a valid {getattr(kind, '__name__', kind)}")


def _check_object(value: Any, kind: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise RefusedError(f"{path}: Input should be a valid object")
    members = _members(kind)
    for name, one in value.items():
        if name not in members and kind.__name__ == "InputSchemaTyped":
            continue
        if name not in members:
            raise RefusedError(f"{path}.{name}: Extra inputs are not permitted".lstrip("."))
        check_value(one, members[name], f"{path}.{name}".lstrip("."))
    for name in kind.__required_keys__ - value.keys():
        raise RefusedError(f"{path}.{name}: Field required".lstrip("."))


def _check_union(value: Any, kinds: tuple[Any, ...], path: str) -> None:
    named = [kind for kind in kinds if is_typeddict(_strip(kind)) and _is_tagged(value, _strip(kind))]
    faults = []
    for kind in named or kinds:
        try:
            return check_value(value, kind, path)
        except RefusedError as fault:
            faults.append(str(fault))
    raise RefusedError(max(faults, key=lambda fault: (fault.partition(":")[0].count("."), fault)))


def _is_tagged(value: Any, kind: Any) -> bool:
    """Whether an object has the `type` (and the `role`, if it has one) that this TypedDict is for."""
    if not isinstance(value, dict):
        return False
    members = _members(kind)
    for tag in ("type", "role"):
        allowed = _list_literals(members.get(tag, Any))
        if tag in value and (tag not in members or (allowed and value[tag] not in allowed)):
            return False
        if tag == "type" and tag not in value and tag in kind.__required_keys__:
            return False
    return "type" in value or "role" in value


def _list_literals(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal, also of an optional one; () for other types."""
    kind = _strip(kind)
    if get_origin(kind) is Literal:
        return get_args(kind)
    if get_origin(kind) is Union:
        return tuple(value for one in get_args(kind) for value in _list_literals(one))
    return ()


@functools.cache
def _members(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)
