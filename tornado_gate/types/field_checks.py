"""Checks of the fields of values that plugins have made, against the annotations of their classes.

`msgspec` does not check the fields of a struct that is created in Python. A value of the wrong type would fail somewhere else: in
the format that renders it, or in the core. The error would then blame the wrong plugin.

msgspec does check a value that it converts. So each class gets shadows at its first use, which are structs with the same fields.
A value is right if its fields can be converted to them: 0.4 µs for ten fields. Fields that hold other structs are checked one by
one. Some values are not checked: values inside of ``Any``, unions that msgspec does not support, and collections other than
tuples, sets and mappings. msgspec takes no other class for them, and a vector has thousands of numbers.
"""

from __future__ import annotations

import collections.abc
import operator
import re
import types
import typing
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import astuple

_NUMBER: Final = re.compile(r"\$\[(\d+)\]")
"""The name that msgspec gives to a field of a shadow."""
_TEXTS: Final = (bytes, str)
_NATIVE: Final = (bytes,)
"""msgspec would read base64 text as bytes."""
_ARRAYS: Final = (frozenset, tuple)


class _Shadow(NamedTuple):
    """A struct `kind` with the fields `names`. `read` returns their values as a tuple, and `convert` checks these."""

    read: Callable[[Any], tuple[Any, ...]]
    convert: Callable[[tuple[Any, ...], type], object]
    kind: type
    names: tuple[str, ...]


class _Checks(NamedTuple):
    """The checks of one struct.

    `fields` is the shadow for numbers and texts, `whole` the shadow for all fields. `structs` are the fields with one other
    struct, `arrays` the fields with several. `exact` are tuples and sets, for which msgspec takes any array.
    """

    fields: _Shadow
    whole: _Shadow
    structs: tuple[tuple[str, tuple[type, ...]], ...]
    arrays: tuple[tuple[str, tuple[type, ...]], ...]
    exact: tuple[tuple[str, type], ...]
    allowed: dict[str, str]
    has_inside: bool


_CHECKS: dict[type, _Checks] = {}


def find_wrong_field(value: msgspec.Struct, *, inside: bool = True) -> str:
    """Return the fault of the first wrong field (``Expected `int`, got `str` - at `Usage.input_tokens```), or "".

    With `inside`, containers and other structs are checked too, which takes about a microsecond for each struct.
    """
    checks = _CHECKS.get(type(value)) or _make_checks(type(value))
    shadow = checks.whole if inside else checks.fields
    try:
        shadow.convert(shadow.read(value), shadow.kind)
    except msgspec.ValidationError as error:
        return _name_field(value, checks, shadow, str(error))
    return _look_inside(value, checks) if inside and checks.has_inside else ""


def _look_inside(value: msgspec.Struct, checks: _Checks) -> str:
    for name, kinds in checks.structs:
        if (struct := getattr(value, name)) is not None and (problem := _check_struct(struct, kinds)):
            return f"{problem} - in `{type(value).__name__}.{name}`"
    for name, kind in checks.exact:
        if not isinstance(struct := getattr(value, name), kind):
            return f"Expected `{kind.__name__}`, got `{type(struct).__name__}` - at `{type(value).__name__}.{name}`"
    for name, kinds in checks.arrays:
        for number, struct in enumerate(getattr(value, name) or ()):
            if problem := _check_struct(struct, kinds):
                return f"{problem} - in `{type(value).__name__}.{name}[{number}]`"
    return ""


def _check_struct(value: Any, kinds: tuple[type, ...]) -> str:
    if isinstance(value, msgspec.Struct) and isinstance(value, kinds):
        return find_wrong_field(value)
    return f"Expected `{' | '.join(kind.__name__ for kind in kinds)}`, got `{type(value).__name__}`"


def _name_field(value: msgspec.Struct, checks: _Checks, shadow: _Shadow, message: str) -> str:
    """Return `message` of msgspec with the name of the field instead of its number, and the permitted words."""
    match = _NUMBER.search(message)
    if match is None:
        return message
    name = shadow.names[int(match[1])]
    allowed = checks.allowed.get(name, "")
    return message.replace(match[0], f"{type(value).__name__}.{name}") + (f"; allowed: {allowed}" if allowed else "")


def _make_checks(kind: type[msgspec.Struct]) -> _Checks:
    hints = typing.get_type_hints(kind)
    annotations = {name: hints[name] for name in kind.__struct_fields__}
    simplified = {name: _simplify(annotation) for name, annotation in annotations.items()}
    fields = {name: simplified[name] for name, annotation in annotations.items() if not _is_container(annotation)}
    items = {name: typing.get_args(hint)[0] for name, hint in annotations.items() if typing.get_origin(hint) in _ARRAYS}
    structs = tuple((name, kinds) for name, hint in annotations.items() if (kinds := _list_structs(hint)))
    arrays = tuple((name, kinds) for name, hint in items.items() if (kinds := _list_structs(hint)))
    origins = [(name, typing.get_origin(hint)) for name, hint in annotations.items()]
    exact = tuple((name, origin) for name, origin in origins if origin in (frozenset, tuple))
    checks = _CHECKS[kind] = _Checks(
        fields=_make_shadow(kind, fields),
        whole=_make_shadow(kind, simplified),
        structs=structs,
        arrays=arrays,
        exact=exact,
        allowed={name: ", ".join(typing.get_args(annotations[name])) for name, origin in origins if origin is Literal},
        has_inside=bool(structs or arrays or exact),
    )
    return checks


def _make_shadow(kind: type[msgspec.Struct], annotations: dict[str, Any]) -> _Shadow:
    """Return the shadow of the fields that can be checked.

    Only bytes need `_NATIVE`, which takes msgspec longer than the check.
    """
    checked = {name: annotation for name, annotation in annotations.items() if annotation is not Any}
    names = tuple(checked)
    read: Callable[[Any], tuple[Any, ...]]
    if names == kind.__struct_fields__:
        read = astuple
    elif len(names) > 1:
        read = operator.attrgetter(*names)
    else:
        read = partial(_read_each, names)
    has_bytes = any(_has_bytes(annotation) for annotation in checked.values())
    return _Shadow(
        read=read,
        convert=partial(msgspec.convert, builtin_types=_NATIVE) if has_bytes else msgspec.convert,
        kind=msgspec.defstruct(kind.__name__, list(checked.items()), array_like=True),
        names=names,
    )


def _read_each(names: tuple[str, ...], value: Any) -> tuple[Any, ...]:
    return tuple([getattr(value, name) for name in names])


def _has_bytes(annotation: Any) -> bool:
    return annotation is bytes or any(_has_bytes(argument) for argument in typing.get_args(annotation))


def _list_members(annotation: Any) -> list[Any]:
    """Return the members of a union, or the annotation itself as the only member."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return list(typing.get_args(annotation))
    return [annotation]


def _list_structs(annotation: Any) -> tuple[type, ...]:
    """Return the structs of an annotation that contains only structs and None."""
    members = [member for member in _list_members(annotation) if member is not type(None)]
    return (
        tuple(members)
        if all(isinstance(member, type) and issubclass(member, msgspec.Struct) for member in members)
        else ()
    )


def _is_container(annotation: Any) -> bool:
    kinds = [typing.get_origin(member) for member in _list_members(annotation)]
    return any(isinstance(kind, type) and issubclass(kind, collections.abc.Collection) for kind in kinds)


def _simplify(annotation: Any) -> Any:
    """Return an annotation that msgspec can check. Structs become Any: msgspec takes a mapping for a struct."""
    simple = _simplify_members(annotation)
    try:
        msgspec.convert(None, simple)
    except msgspec.ValidationError:
        pass
    except TypeError:
        return Any
    return simple


def _simplify_members(annotation: Any) -> Any:
    members = _list_members(annotation)
    if len(members) > 1:
        simple = [_simplify_members(member) for member in members]
        return Any if Any in simple else typing.Union[tuple(simple)]  # noqa: UP007 - made at run time
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return annotation
    if origin in _ARRAYS:
        return tuple[_simplify(arguments[0]), ...]  # type: ignore[misc]
    if origin is collections.abc.Mapping or origin is dict:
        return dict[_simplify(arguments[0]), _simplify(arguments[1])]  # type: ignore[misc]
    kind = origin or annotation
    if not isinstance(kind, type) or kind is object or getattr(kind, "_is_protocol", False):
        return Any
    return Any if issubclass(kind, (msgspec.Struct, collections.abc.Collection)) and kind not in _TEXTS else kind
