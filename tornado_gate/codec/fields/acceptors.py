"""Compiles fields to functions that only return whether a value is certainly valid: no paths, no messages, no exceptions.

A list of 100 messages takes 0.1 ms this way. If an acceptor returns False, the fields find the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from marshmallow import Schema, ValidationError, fields, missing

from tornado_gate.codec.fields.kinds import (
    MAX_INTEGER,
    Array,
    Boolean,
    FunctionField,
    Integer,
    Number,
    Object,
    OneOf,
    String,
    Unchecked,
    Variants,
    get_schema,
)
from tornado_gate.codec.value_limits import are_left_to_upstream
from tornado_gate.errors import InvalidField

Acceptor = Callable[[Any], bool]
_Checks = tuple[tuple[str, frozenset[type], Acceptor], ...]
"""For each declared member its name, the types that are sufficient, and the acceptor of other values."""
_MOST_VISITED: Final = 6
"""An acceptor of a schema with more members visits the members of the object instead, because an object has few of them."""


def find_sufficient_types(field: fields.Field[Any]) -> frozenset[type]:
    """Return the Python types whose values the field accepts without further checks."""
    if type(field).deserialize is not fields.Field.deserialize:
        return frozenset()
    return _find_types_inside(field) | ({type(None)} if field.allow_none else set())


def _find_types_inside(field: fields.Field[Any]) -> frozenset[type]:
    if field.validators:
        return frozenset()
    match field:
        case Boolean():
            return frozenset({bool})
        case String(choices=(), longest=None, filled=False, shortest=0):
            return frozenset({str})
        case Object(schema=None):
            return frozenset({dict})
        case OneOf():
            return frozenset(kind for kind, inner in field.by_type.items() if kind in find_sufficient_types(inner))
    return frozenset()


def make_acceptor(field: fields.Field[Any]) -> Acceptor:
    """Return a function for the values whose type is not sufficient. It returns False for null."""
    if not field.validators and type(field).deserialize is fields.Field.deserialize:
        match field:
            case String():
                return _accept_string(field)
            case Integer() | Number():
                return _accept_number(field)
            case Object() if field.schema is not None:
                return _accept_object(field.schema)
            case Array():
                return _accept_array(field)
            case OneOf():
                return _accept_one_of(field)
            case Variants():
                return _accept_variants(field)
            case FunctionField():
                return _accept_by(field.function)
            case Boolean() | Object():
                return lambda value: False
    return _accept_by(field.deserialize)


def _accept_by(function: Callable[[Any], Any]) -> Acceptor:
    """Return an acceptor for a function that raises an error for an invalid value."""

    def accepts(value: Any) -> bool:
        if value is None or value is missing:
            return False
        try:
            function(value)
        except (ValidationError, InvalidField):
            return False
        return True

    return accepts


def _accept_string(field: String) -> Acceptor:
    least = max(field.shortest, 1 if field.filled else 0)
    most = MAX_INTEGER if field.longest is None else field.longest
    choices = frozenset(field.choices)

    def accepts(value: Any) -> bool:
        return type(value) is str and least <= len(value) <= most

    def accepts_word(value: Any) -> bool:
        return (type(value) is str and value in choices) or (accepts(value) and are_left_to_upstream())

    return accepts_word if choices else accepts


def _accept_number(field: Integer | Number) -> Acceptor:
    least = -MAX_INTEGER if field.least is None else field.least
    most = MAX_INTEGER if field.most is None else field.most
    if type(field) is Integer:
        return lambda value: type(value) is int and least <= value <= most
    return lambda value: (type(value) is float or type(value) is int) and least <= value <= most


def _accept_object(kind: type[Schema]) -> Acceptor:
    """Compile the schema at the first object, because schemas may contain themselves."""
    compiled: list[Acceptor] = []

    def accepts(value: Any) -> bool:
        if not compiled:
            compiled.append(_accept_members(kind))
        return type(value) is dict and compiled[0](value)

    return accepts


def _accept_members(kind: type[Schema], chosen_by: str = "") -> Acceptor:
    """Return the acceptor of objects. `chosen_by` is a member with a valid word: it is not checked again."""
    schema = get_schema(kind)
    if not getattr(schema, "by_fields_alone", False):
        return lambda value: not schema.validate(value)
    checks = tuple(
        (
            name,
            find_sufficient_types(field) | (frozenset() if field.required else {type(missing)}),
            make_acceptor(field),
        )
        for name, field in schema.load_fields.items()
        if type(field) is not Unchecked and name != chosen_by
    )
    needed = tuple(name for name, field in schema.load_fields.items() if field.required and name != chosen_by)
    return _accept_with_rules(getattr(schema, "object_rules", ()), _choose_visitor(checks, needed))


def _choose_visitor(checks: _Checks, needed: tuple[str, ...]) -> Acceptor:
    if len(checks) == 1:
        return _accept_one_member(*checks[0])
    return _accept_each_member(checks) if len(checks) <= _MOST_VISITED else _accept_present_members(checks, needed)


def keeps_rules(rules: Iterable[Callable[[Mapping[str, Any]], None]], body: Mapping[str, Any]) -> bool:
    """Return whether none of the `rules` of an object raises ValidationError."""
    try:
        for rule in rules:
            rule(body)
    except ValidationError:
        return False
    return True


def _accept_with_rules(rules: tuple[Callable[[Any], None], ...], accepts_members: Acceptor) -> Acceptor:
    if not rules:
        return accepts_members
    if len(rules) > 1:
        return lambda body: accepts_members(body) and keeps_rules(rules, body)
    rule = rules[0]

    def accepts(body: Any) -> bool:
        try:
            rule(body)
        except ValidationError:
            return False
        return accepts_members(body)

    return accepts


def _accept_one_member(name: str, types: frozenset[type], accepts_value: Acceptor) -> Acceptor:
    """Make the acceptor of the most frequent objects: messages and blocks of text."""

    def accepts(body: Any) -> bool:
        value = body.get(name, missing)
        return type(value) in types or accepts_value(value)

    return accepts


def _accept_each_member(checks: _Checks) -> Acceptor:
    """Visit the declared members."""

    def accepts(body: Any) -> bool:
        for name, types, accepts_value in checks:
            value = body.get(name, missing)
            if type(value) not in types and not accepts_value(value):
                return False
        return True

    return accepts


def _accept_present_members(checks: _Checks, needed: tuple[str, ...]) -> Acceptor:
    """Visit the members of the object."""
    by_name = {name: (types, accepts_value) for name, types, accepts_value in checks}

    def accepts(body: Any) -> bool:
        for name, value in body.items():
            if name in by_name:
                types, accepts_value = by_name[name]
                if type(value) not in types and not accepts_value(value):
                    return False
        for name in needed:  # noqa: SIM110 - all() takes twice as long
            if name not in body:
                return False
        return True

    return accepts


def _accept_array(field: Array) -> Acceptor:
    types, accepts_item = find_sufficient_types(field.item), make_acceptor(field.item)
    least, most, are_plain = field.least, MAX_INTEGER if field.most is None else field.most, field.are_plain

    def accepts(value: Any) -> bool:
        if type(value) is not list or len(value) < least or (len(value) > most and not are_left_to_upstream()):
            return False
        if are_plain is not None and are_plain(value):
            return True
        for item in value:  # noqa: SIM110 - all() takes twice as long
            if type(item) not in types and not accepts_item(item):
                return False
        return True

    return accepts


def _accept_one_of(field: OneOf) -> Acceptor:
    by_type = {kind: make_acceptor(inner) for kind, inner in field.by_type.items()}
    enough = {kind: find_sufficient_types(inner) for kind, inner in field.by_type.items()}

    def accepts(value: Any) -> bool:
        kind = type(value)
        return kind in by_type and (kind in enough[kind] or by_type[kind](value))

    return accepts


def _accept_variants(field: Variants) -> Acceptor:
    name, by, choose = field.member, field.by, field.choose
    compiled: dict[str | None, Acceptor] = {}
    others: list[Acceptor] = []

    def accepts(value: Any) -> bool:
        if type(value) is not dict:
            return False
        word = value.get(name) if choose is None else choose(value)
        if word is not None and type(word) is not str:
            return False
        accepts_members = compiled.get(word)
        if accepts_members is None:
            accepts_members = _choose(word)
        return accepts_members(value)

    def _choose(word: str | None) -> Acceptor:
        if word in by:
            return compiled.setdefault(
                word, _accept_members(by[word], name if word is not None and choose is None else "")
            )
        if not others:
            others.append(_accept_members(field.of))
        return others[0]

    return accepts
