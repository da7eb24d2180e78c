"""Schemas of bodies, and `check`, which raises one error with a path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

from marshmallow import INCLUDE, Schema, ValidationError
from msgspec import DecodeError, convert

from tornado_gate.codec.fields.acceptors import Acceptor, find_sufficient_types, keeps_rules, make_acceptor
from tornado_gate.codec.fields.kinds import ObjectIds, Unchecked, raise_faults
from tornado_gate.codec.fields.plain_types import PlainBody, make_plain_body
from tornado_gate.errors import InvalidField
from tornado_gate.types import text_maps

Rule = Callable[[Mapping[str, Any]], None]
_CAPITAL: Final = re.compile(r"[A-Z]")


class BodySchema(Schema):
    """Base class of body schemas. Unknown names are kept, because an upstream may support them.

    `texts` is the shape of its objects for guards, with members that only upstreams send; the shapes of the fields are
    added (`text_shapes.make_shape`). `rules` are checks across members of a whole body: `check` calls them when each member is
    valid, and they raise InvalidField. `object_rules` are checks of one object, nested ones too, before its members: they
    raise ValidationError. `ids` are members that
    name objects of an upstream, in its objects and at any depth below them. `snake_case`: requests may also spell the names
    of members with underscores, as protobuf's JSON allows; guards and the reader of references read both spellings, `check`
    the declared one.

    `finds_all_references`: members that refer to objects are found in every object below, of any type.
    """

    class Meta:
        unknown = INCLUDE

    texts: ClassVar[text_maps.Object] = text_maps.Object(kind="other")
    rules: ClassVar[tuple[Rule, ...]] = ()
    ids: ClassVar[ObjectIds | None] = None
    object_rules: ClassVar[tuple[Rule, ...]] = ()
    snake_case: ClassVar[bool] = False
    finds_all_references: ClassVar[bool] = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        checked = {name: field for name, field in self.load_fields.items() if type(field) is not Unchecked}
        self._needed = {name for name, field in self.load_fields.items() if field.required}
        self._enough = {(name, kind) for name, field in checked.items() for kind in find_sufficient_types(field)}
        self._acceptors: dict[str, Acceptor] = {name: make_acceptor(field) for name, field in checked.items()}
        self._plain: PlainBody | None = None  # made at the first body, because few schemas are those of bodies
        self.by_fields_alone = not any(getattr(self, "_hooks", {"unknown": True}).values()) and not any(
            field.data_key or field.pre_load or field.post_load for field in self.load_fields.values()
        )

    def check_body(self, body: Mapping[str, Any]) -> None:
        """Check a whole body. Raises InvalidField for the first invalid field, in the order of the schema."""
        if not self.accepts(body):
            _raise_first_fault(self, body)
        for rule in self.rules:
            rule(body)

    def accepts(self, body: Mapping[str, Any]) -> bool:
        """Whether `body` is certainly valid. False means invalid or unknown: then call `raise_faults`.

        This fast path builds neither paths nor messages. msgspec accepts most bodies, and the acceptors most others: they check
        only the fields that the body has. marshmallow's `validate` visits every field of the schema and takes ten times as long.
        """
        kind, others = self._plain or self._make_plain()
        is_plain = kind is not None and others.isdisjoint(body)
        if is_plain:
            try:
                convert(body, kind)
            except DecodeError:
                is_plain = False
        if not is_plain and not self._accepts_members(body):
            return False
        return not self.object_rules or keeps_rules(self.object_rules, body)

    def _make_plain(self) -> PlainBody:
        plain = self._plain = make_plain_body(self.load_fields if self.by_fields_alone else None)
        return plain

    def _accepts_members(self, body: Mapping[str, Any]) -> bool:
        if not self.by_fields_alone or not body.keys() >= self._needed:
            return False
        acceptors = self._acceptors
        for name, _ in set(zip(body, map(type, body.values()), strict=True)) - self._enough:
            accepts = acceptors.get(name)
            if accepts is not None and not accepts(body[name]):
                return False
        return True


def list_spellings(kind: type[Schema], name: str) -> tuple[str, ...]:
    """Return the names that the declared member `name` has in requests."""
    if not getattr(kind, "snake_case", False):
        return (name,)
    snake = _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name)
    return (name,) if snake == name else (snake, name)


def check(schema: Schema, body: Mapping[str, Any]) -> None:
    """Check `body`. Raises InvalidField for the first invalid field, in the order of the schema."""
    if isinstance(schema, BodySchema):
        schema.check_body(body)
    else:
        _raise_first_fault(schema, body)


def make_check(schema: Schema) -> Rule:
    """Return the function that checks bodies of `schema`, as `check`."""
    if isinstance(schema, BodySchema):
        return schema.check_body
    return partial(_raise_first_fault, schema)


def _raise_first_fault(schema: Schema, body: Mapping[str, Any]) -> None:
    try:
        raise_faults(schema, body)
    except ValidationError as error:
        raise _make_error(error.messages) from None


def _make_error(messages: Any) -> InvalidField:
    path, message = first_fault(messages)
    name = ".".join(map(str, path))
    code = "missing_required_parameter" if message == "is missing" else "invalid_value"
    return InvalidField(name, f"'{name}' {message}.", code=code)


def first_fault(errors: Any) -> tuple[list[str | int], str]:
    """Return (path, text) of the first leaf of marshmallow's nested messages."""
    path: list[str | int] = []
    while isinstance(errors, dict):
        key = next(iter(errors))
        if key != "_schema":
            path.append(key)
        errors = errors[key]
    message = errors[0] if isinstance(errors, list) else str(errors)
    if isinstance(message, dict):
        deeper, message = first_fault(message)
        path += deeper
    return path, _simplify_message(str(message))


def _simplify_message(message: str) -> str:
    """Replace marshmallow's standard messages by predicates such as "is missing"."""
    return {
        "Missing data for required field.": "is missing",
        "Field may not be null.": "must not be null",
    }.get(message, message)
