"""Makes the function for `Route.references` from the schema of a body: it lists the ids of objects of an upstream.

Bodies are not checked yet there: values of a wrong type are no references. The parsed body is read, not its text, whose strings
may be long; members that lead to no reference are not visited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from marshmallow import Schema, fields

from tornado_gate.codec.fields import kinds
from tornado_gate.codec.fields.kinds import (
    Array,
    Declared,
    ObjectIds,
    OneOf,
    Reference,
    String,
    Unchecked,
    Variants,
    get_schema,
)
from tornado_gate.codec.fields.schemas import list_spellings
from tornado_gate.types.upstream_objects import ObjectReference
from tornado_gate.types.wire import WireRequest

_CONTAINERS: Final[frozenset[type]] = frozenset({dict, list})
_SEARCHED_BYTES: Final = 1024
"""Up to this length, a search of the body for the names of references takes less time than reading its value."""


class _FoundReference:
    """An id and the names that lead to it, the last one first. Each reader adds its name when it has read a reference."""

    __slots__ = ("id", "kind", "names")

    def __init__(self, kind: str, id: str, *names: str | int) -> None:
        self.kind, self.id = kind, id
        self.names: list[str | int] = [*names]

    def make_reference(self) -> ObjectReference:
        return ObjectReference(kind=self.kind, id=self.id, param=".".join(map(str, reversed(self.names))))


_References = list[_FoundReference]
_Members = list[tuple[str, fields.Field[Any]]]
_Read = Callable[[Any, _References], None]
"""Adds the references in a value. Paths are made only of references, because most bodies have none."""


class _Known:
    """What is known about the schemas so far.

    `readers` has the readers by their schemas, because schemas may contain themselves. `names` has the names of all members that
    are references or contain ids.
    """

    __slots__ = ("names", "readers")

    def __init__(self) -> None:
        self.readers: dict[tuple[type[Schema], ...], _Reader | None] = {}
        self.names: set[str] = set()


class _Reader(NamedTuple):
    """How values are read: `read` accepts values of `types`; other values have no references."""

    types: frozenset[type]
    read: _Read


def make_reference_reader(kind: type[Schema]) -> Callable[[Mapping[str, Any]], list[ObjectReference]]:
    """Return a function that lists the references in a body, in the order of its schema."""
    return _make_body_reader(_make_object_reader((kind,), _Known()))


def make_request_reference_reader(kind: type[Schema]) -> Callable[[Any, WireRequest], list[ObjectReference]]:
    """Return the function for `Route.references`: it lists the references in the body of a request like `make_reference_reader`.

    Most bodies are short and contain none of the names of references. They are not read.
    """
    known = _Known()
    list_references = _make_body_reader(_make_object_reader((kind,), known))
    find_name = re.compile(f'"(?:{"|".join(sorted(known.names))})"'.encode()).search

    def list_request_references(call: Any, wire: WireRequest) -> list[ObjectReference]:
        # A name may be written with escapes, and a form has no raw body. A search for one byte takes no time.
        raw = wire.raw
        if 0 < len(raw) <= _SEARCHED_BYTES and b"\\" not in raw and find_name(raw) is None:
            return []
        return list_references(wire.json)

    return list_request_references


def _make_body_reader(reader: _Reader | None) -> Callable[[Mapping[str, Any]], list[ObjectReference]]:
    def list_references(body: Mapping[str, Any]) -> list[ObjectReference]:
        references: _References = []
        if reader is not None:
            reader.read(body, references)
        return [reference.make_reference() for reference in references] if references else []

    return list_references


def _make_reader(name: str, field: fields.Field[Any], known: _Known) -> _Reader | None:
    if isinstance(field, Declared) and field.opaque:
        return None
    match field:
        case String() if field.refers is not None:
            known.names.add(name)
            return _Reader(frozenset({str}), _read_id(field.refers))
        case Array():
            item = _make_reader(name, field.item, known)
            return _Reader(frozenset({list}), _read_items(item, field.are_plain)) if item is not None else None
        case Unchecked() if field.inner is not None:
            return _make_reader(name, field.inner(), known)
        case OneOf():
            return _make_union_reader([_make_reader(name, inner, known) for inner in field.by_type.values()])
        case kinds.Object() if field.schema is not None:
            return _make_object_reader((field.schema,), known)
        case Variants():
            return _make_object_reader((field.of, *field.by.values()), known)
    return None


def _make_object_reader(schemas: tuple[type[Schema], ...], known: _Known) -> _Reader | None:
    """Return the reader of objects that one of `schemas` describes; None if they have no references."""
    readers = known.readers
    if schemas in readers:
        return readers[schemas]
    if any(getattr(kind, "finds_all_references", False) for kind in schemas):
        declared = [member for kind in _list_schemas_below(schemas) for member in _list_members(kind)]
        ids = _list_ids(declared)
        known.names.update(ids)
        return _Reader(_CONTAINERS, _read_anywhere(ids, _list_opaque(declared)))
    declared = [member for kind in schemas for member in _list_members(kind)]
    ids = _list_ids(declared)
    known.names.update(ids)
    if anywhere := {name: reference for name, reference in ids.items() if reference.anywhere}:
        return _Reader(_CONTAINERS, _read_anywhere(anywhere, _list_opaque(declared)))
    members: dict[str, _Reader] = {}
    below = next((ids_below for kind in schemas if (ids_below := getattr(kind, "ids", None)) is not None), None)
    if below is None:
        readers[schemas] = _Reader(frozenset({dict}), _read_members(ids, members))
    else:
        known.names.update(below.kinds)
        readers[schemas] = _Reader(_CONTAINERS, _read_members_and_below(ids, members, below))
    for name, field in declared:
        if name not in ids and name not in members and (reader := _make_reader(name, field, known)) is not None:
            members[name] = reader
    if not ids and not members and below is None:
        readers[schemas] = None
    return readers[schemas]


def _list_members(kind: type[Schema]) -> _Members:
    return [
        (spelling, field) for name, field in get_schema(kind).fields.items() for spelling in list_spellings(kind, name)
    ]


def _list_ids(members: _Members) -> dict[str, Reference]:
    return {name: field.refers for name, field in members if isinstance(field, Declared) and field.refers is not None}


def _list_opaque(members: _Members) -> frozenset[str]:
    return frozenset(name for name, field in members if isinstance(field, Declared) and field.opaque)


def _list_schemas_below(schemas: tuple[type[Schema], ...]) -> list[type[Schema]]:
    """Return `schemas` and the schemas of the objects in their members."""
    known: dict[type[Schema], None] = dict.fromkeys(schemas)
    queue = list(schemas)
    for kind in queue:
        for field in get_schema(kind).fields.values():
            queue += [inner for inner in _list_schemas(field) if inner not in known]
            known.update(dict.fromkeys(queue))
    return list(known)


def _list_schemas(field: fields.Field[Any]) -> list[type[Schema]]:
    match field:
        case Array():
            return _list_schemas(field.item)
        case Unchecked() if field.inner is not None:
            return _list_schemas(field.inner())
        case OneOf():
            return [kind for inner in field.by_type.values() for kind in _list_schemas(inner)]
        case kinds.Object() if field.schema is not None:
            return [field.schema]
        case Variants():
            return [field.of, *field.by.values()]
    return []


def _read_members(ids: Mapping[str, Reference], members: Mapping[str, _Reader]) -> _Read:
    def read(value: Any, references: _References) -> None:
        if ids:
            _add_ids(ids, value, references)
        for name, (types, read_member) in members.items():
            member = value.get(name)
            if type(member) in types:
                count = len(references)
                read_member(member, references)
                if len(references) != count:
                    _add_name(references, count, name)

    return read


def _read_members_and_below(ids: Mapping[str, Reference], members: Mapping[str, _Reader], below: ObjectIds) -> _Read:
    """Read the declared members like `_read_members`, and the ids `below` in the object and in undeclared members."""

    def read(value: Any, references: _References) -> None:
        if type(value) is list:
            for index, item in enumerate(value):
                _read_member_below(below, index, item, references)
            return
        if ids:
            _add_ids(ids, value, references)
        for name, member in value.items():
            reader = members.get(name)
            if reader is not None and type(member) in reader.types:
                count = len(references)
                reader.read(member, references)
                if len(references) != count:
                    _add_name(references, count, name)
            elif type(member) is dict or type(member) is list or name in below.kinds:
                _read_member_below(below, name, member, references)

    return read


def _read_member_below(below: ObjectIds, name: str | int, member: Any, references: _References) -> None:
    kind = type(member)
    if kind is not dict and name in below.kinds:
        _add_declared_ids(below, str(name), member, references)
    elif (kind is dict or kind is list) and name not in below.opaque:
        count = len(references)
        for inner, value in member.items() if kind is dict else enumerate(member):
            _read_member_below(below, inner, value, references)
        if len(references) != count:
            _add_name(references, count, name)


def _add_declared_ids(below: ObjectIds, name: str, value: Any, references: _References) -> None:
    """Add the references of a member, whose value is an id or an array of ids."""
    kind = below.kinds[name]
    if type(value) is not list:
        if below.is_reference(kind, value):
            references.append(_FoundReference(kind, value, name))
        return
    for index, identity in enumerate(value):
        if below.is_reference(kind, identity):
            references.append(_FoundReference(kind, identity, index, name))


def _read_anywhere(ids: Mapping[str, Reference], opaque: frozenset[str]) -> _Read:
    """Read the objects at any depth below a value, whatever their types, except in the members `opaque`.

    A member may also have an array of ids: they have its path.
    """

    def read(value: Any, references: _References) -> None:
        if type(value) is list:
            for index, item in enumerate(value):
                if type(item) is dict or type(item) is list:
                    count = len(references)
                    read(item, references)
                    if len(references) != count:
                        _add_name(references, count, index)
            return
        for name, member in value.items():
            if name in ids and type(member) is not dict and ids[name].is_in(value):
                _add_each_id(ids[name], member, name, references)
            if (type(member) is dict or type(member) is list) and name not in opaque:
                count = len(references)
                read(member, references)
                if len(references) != count:
                    _add_name(references, count, name)

    return read


def _read_items(reader: _Reader, are_plain: Callable[[list[Any]], bool] | None) -> _Read:
    types, read_item = reader

    def read(value: Any, references: _References) -> None:
        if are_plain is not None and are_plain(value):
            return
        for index, item in enumerate(value):
            if type(item) in types:
                count = len(references)
                read_item(item, references)
                if len(references) != count:
                    _add_name(references, count, index)

    return read


def _make_union_reader(readers: Iterable[_Reader | None]) -> _Reader | None:
    by_type = {kind: reader.read for reader in readers if reader is not None for kind in reader.types}
    if not by_type:
        return None
    if len(by_type) == 1:
        return _Reader(frozenset(by_type), *by_type.values())
    return _Reader(frozenset(by_type), lambda value, references: by_type[type(value)](value, references))


def _add_each_id(reference: Reference, value: Any, name: str, references: _References) -> None:
    for identity in value if type(value) is list else (value,):
        if type(identity) is str and (reference.is_id is None or reference.is_id(identity)):
            references.append(_FoundReference(reference.kind, identity, *(name,) if name else ()))


def _read_id(reference: Reference) -> _Read:
    """Read a string that is an id wherever it stands."""
    return lambda value, references: _add_each_id(reference, value, "", references)


def _add_ids(ids: Mapping[str, Reference], value: Mapping[str, Any], references: _References) -> None:
    for name, reference in ids.items():
        identity = value.get(name)
        if type(identity) is str and reference.is_in(value):
            _add_each_id(reference, identity, name, references)


def _add_name(references: _References, start: int, name: str | int) -> None:
    for reference in references[start:]:
        reference.names.append(name)
