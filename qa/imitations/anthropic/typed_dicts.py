"""Checks a JSON value against the SDK's typed dictionaries, as strictly as the vendor: no unknown member, no other type.

The messages have the form of the vendor's own ones: ``messages.0.content.1.foo: Extra inputs are not permitted``.

Source: anthropic-python 2.11, types/*_param.py.
"""

from __future__ import annotations

import collections.abc
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

from qa.imitations.anthropic.refusal import Refusal, refuse

_WRAPPERS: Final = (Required, NotRequired)
_TAGS: Final = ("type", "role")
_SCALARS: Final[Mapping[Any, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "Input should be a valid string"),
    int: ((int,), "Input should be a valid integer"),
    float: ((int, float), "Input should be a valid number"),
    bool: ((bool,), "Input should be a valid boolean"),
}


def check(value: Any, hint: Any, path: str) -> None:
    """Raise `Refusal` unless `value` has the type `hint`. `path` is that of the value in the body."""
    if get_origin(hint) in _WRAPPERS:
        hint = get_args(hint)[0]
    origin = get_origin(hint)
    if hint in (Any, object):
        return
    if is_typeddict(hint):
        _check_object(value, hint, path)
    elif origin in (Union, types.UnionType):
        _check_union(value, get_args(hint), path)
    elif origin is Literal:
        if value not in get_args(hint) or isinstance(value, bool) != isinstance(get_args(hint)[0], bool):
            allowed = ", ".join(repr(one) for one in get_args(hint))
            refuse(f"{path}: Input should be {allowed}")
    elif hint in _SCALARS:
        kinds, message = _SCALARS[hint]
        if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
            refuse(f"{path}: {message}")
    elif origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            refuse(f"{path}: Input should be a valid dictionary")
    elif hint is type(None):
        if value is not None:
            refuse(f"{path}: Input should be null")
    else:
        _check_array(value, hint, path)


def _check_array(value: Any, hint: Any, path: str) -> None:
    items = get_args(hint)
    if not items or not isinstance(value, list):
        refuse(f"{path}: Input should be a valid list")
    for number, item in enumerate(value):
        check(item, items[0], f"{path}.{number}")


@cache
def _get_members(hint: Any) -> dict[str, Any]:
    return dict(get_type_hints(hint, include_extras=True))


def _check_object(value: Any, hint: Any, path: str) -> None:
    if not isinstance(value, dict):
        refuse(f"{path}: Input should be an object")
    members = _get_members(hint)
    for name in hint.__required_keys__:
        if name not in value:
            refuse(f"{_join(path, name)}: Field required")
    free = hint.__name__.startswith("InputSchema")  # a JSON schema
    for name, member in value.items():
        if name in members:
            check(member, members[name], _join(path, name))
        elif not free:
            refuse(f"{_join(path, name)}: Extra inputs are not permitted")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_union(value: Any, arms: tuple[Any, ...], path: str) -> None:
    if isinstance(value, dict):
        arm = _select_arm(value, arms)
        if arm is not None:
            check(value, arm, path)
            return
    failures: list[Refusal] = []
    arrays = tuple(arm for arm in arms if _is_array(arm))
    for arm in arrays if isinstance(value, list) and arrays else arms:
        try:
            check(value, arm, path)
        except Refusal as failure:
            failures.append(failure)
        else:
            return
    raise failures[0]


def _select_arm(value: Mapping[str, Any], arms: tuple[Any, ...]) -> Any:
    """The typed dictionary whose ``type`` or ``role`` is that of the value; None when none has one."""
    tagged = False
    flat = _flatten(arms)
    for arm in flat:
        members = _get_members(arm)
        for tag in _TAGS:
            allowed = _list_literals(members.get(tag))
            tagged = tagged or bool(allowed)
            if allowed and value.get(tag) in allowed:
                return arm
            if None in allowed and tag not in value:
                return arm
    if tagged and not any(get_origin(arm) is dict for arm in arms):
        found = value.get("type", value.get("role"))
        refuse(f"Input tag '{found}' found using 'type' does not match any of the expected tags")
    return None


def _is_array(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, collections.abc.Iterable) and not issubclass(origin, Mapping)


def _flatten(arms: tuple[Any, ...]) -> list[Any]:
    flat: list[Any] = []
    for arm in arms:
        if get_origin(arm) in (Union, types.UnionType):
            flat += _flatten(get_args(arm))
        elif is_typeddict(arm):
            flat.append(arm)
    return flat


def _list_literals(hint: Any) -> tuple[Any, ...]:
    while get_origin(hint) in _WRAPPERS:
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(value for arm in get_args(hint) for value in (_list_literals(arm) or (None,)))
    return ()
