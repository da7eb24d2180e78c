"""Makes the shapes of a route's texts (`types/text_maps.py`) from the schema of its body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from marshmallow import Schema, fields

from tornado_gate.codec.fields import kinds
from tornado_gate.codec.fields.kinds import Array, Declared, OneOf, Unchecked, Variants, get_schema
from tornado_gate.codec.fields.schemas import list_spellings
from tornado_gate.types.text_maps import Events, Object, Shape, Word
from tornado_gate.types.value import replace

_ANY: Final = Object(kind="other")
_SHAPES: Final[dict[type[Schema], Object | None]] = {}
_VARIANTS: Final[dict[tuple[Any, ...], Object | Events]] = {}
"""The shapes of schemas and of variants. A shape is here before its members are, because schemas may contain themselves."""


def make_body_shape(*schemas: type[Schema]) -> Shape:
    """Return the shape of bodies that one of `schemas` describes. Raises ValueError for a member with different shapes."""
    upstream_members = {name: shape for kind in schemas for name, shape in _list_template_shapes(kind).items()}
    template = getattr(schemas[0], "texts", _ANY)
    return replace(template, members={**upstream_members, **_list_member_shapes(schemas)})


def make_shape(source: fields.Field[Any] | type[Schema]) -> Shape:
    """Return the shape of a field, or of the objects of a schema. Raises ValueError for a field without one."""
    shape = _make_schema_shape(source) if isinstance(source, type) else find_shape(source)
    if shape is None:
        raise ValueError(f"no text is declared in {source!r}")
    return shape


def find_shape(field: fields.Field[Any]) -> Shape | None:
    """Return the shape of a field's value; None: each string in it is a text of the kind around it."""
    text = field.text if isinstance(field, Declared) else None
    if text is not None:
        return text if isinstance(text, Shape) else text()
    match field:
        case kinds.Object() if field.schema is not None:
            return _make_schema_shape(field.schema)
        case Array():
            return find_shape(field.item)
        case Unchecked() if field.inner is not None:
            return find_shape(field.inner())
        case OneOf():
            return _make_union_shape(field)
        case Variants():
            return _make_variants_shape(field)
    return None


def _make_union_shape(field: OneOf) -> Shape | None:
    """Return the shape for the objects. Its `string` is the shape of strings. Shapes apply to items of arrays too."""
    string = next((find_shape(inner) for kind, inner in field.by_type.items() if kind is str), None)
    others = [find_shape(inner) for kind, inner in field.by_type.items() if kind is not str]
    shape = next((other for other in others if other is not None), None)
    return replace(shape, string=string) if string is not None and isinstance(shape, Object) else shape or string


def _make_schema_shape(kind: type[Schema]) -> Shape | None:
    """Return the shape of objects; None if the schema declares no texts, so that guards see each name in them too."""
    if kind not in _SHAPES:
        template = getattr(kind, "texts", _ANY)
        shape = _SHAPES[kind] = replace(template, members={})
        shape.members.update({**_list_template_shapes(kind), **_list_member_shapes([kind])})
        if not shape.members:
            _SHAPES[kind] = None
    return _SHAPES[kind]


def _make_variants_shape(field: Variants) -> Shape:
    """Return the shape for all variants. Variants that define `texts` become cases of `Events`, by the word."""
    key = (field.of, *field.by.items())
    if key in _VARIANTS:
        return _VARIANTS[key]
    template = getattr(field.of, "texts", _ANY)
    apart = {word: kind for word, kind in field.by.items() if getattr(kind, "texts", _ANY) is not template}
    merged = replace(template, members={})
    cases = {word: replace(getattr(kind, "texts", _ANY), members={}) for word, kind in apart.items()}
    _VARIANTS[key] = Events(shapes=cases, other=merged, name=field.member) if cases else merged
    others = [kind for word, kind in field.by.items() if word not in apart]
    merged.members.update({**_list_template_shapes(field.of), **_list_member_shapes([field.of, *others])})
    for word, kind in apart.items():
        cases[word].members.update({**merged.members, **_list_template_shapes(kind), **_list_member_shapes([kind])})
    return _VARIANTS[key]


def _list_template_shapes(kind: type[Schema]) -> dict[str, Shape]:
    """Return the shapes of the members that `kind.texts` has, in each spelling."""
    members = getattr(kind, "texts", _ANY).members
    return {spelling: shape for name, shape in members.items() for spelling in list_spellings(kind, name)}


def _list_member_shapes(schemas: Iterable[type[Schema]]) -> dict[str, Shape]:
    """Return the shapes of the members of `schemas`. Raises ValueError for a member with different ones."""
    shapes: dict[str, Shape] = {}
    for kind in schemas:
        for name, field in get_schema(kind).fields.items():
            shape = find_shape(field)
            if shape is None:
                continue
            for spelling in list_spellings(kind, name):
                first = shapes.setdefault(spelling, shape)
                if first is not shape and not (isinstance(first, Word) and isinstance(shape, Word)):
                    raise ValueError(f"'{name}' of {kind.__name__} has another shape than in the schemas before it")
    return shapes
