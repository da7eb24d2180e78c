"""Rows from the schema of a route: each member that is declared with an example has one, without a line here.

A string of an example that a caller chooses freely begins with "my-"; in a row it has a mark instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from marshmallow import fields as marshmallow_fields

from qa.matrix.fields import ABSENT, Field, Group, find_value, row
from tornado_gate.codec import fields
from tornado_gate.codec.fields import NO_EXAMPLE, BodySchema

_CHOSEN: Final = re.compile(r"\Amy-")


def declared_row(kind: type[BodySchema], base: Mapping[str, Any], at: str, **options: Any) -> Field:
    """The row of the example that the schema declares for the member at `at`. The value of `base` there is its `instead`."""
    value = _mark(_find_field(kind, at).example)
    before = find_value(base, at)
    return row(base, at, value, **({} if before is ABSENT else {"instead": before}), **options)


def add_declared(
    groups: tuple[Group, ...], kind: type[BodySchema], bases: Mapping[str, Mapping[str, Any]]
) -> tuple[Group, ...]:
    """Add the rows of declared members that have none. `bases` are bodies by the place of the object (``tools.0.``, "")."""
    present = {field.at for group in groups for field in group.fields}
    rows = [
        declared_row(kind, base, f"{prefix}{name}")
        for prefix, base in bases.items()
        for name in _list_examples(kind, prefix)
        if f"{prefix}{name}" not in present
    ]
    return (*groups, Group("Other fields", tuple(rows))) if rows else groups


def _list_examples(kind: type[BodySchema], prefix: str) -> list[str]:
    schemas = list(_list_schemas(_find_field(kind, prefix[:-1]))) if prefix else [kind]
    return [name for schema in schemas for name, field in schema().fields.items() if _has_example(field)]


def _has_example(field: Any) -> bool:
    return getattr(field, "example", NO_EXAMPLE) is not NO_EXAMPLE


def _find_field(kind: type[BodySchema], at: str) -> Any:
    """The field at a place; of those of the same name in variants, one with an example."""
    schemas, field = [kind], None
    for step in at.split("."):
        if step.isdecimal():
            continue
        named = [schema().fields[step] for schema in schemas if step in schema().fields]
        field = next((one for one in named if _has_example(one)), named[0])
        schemas = list(_list_schemas(field))
    return field


def _list_schemas(field: marshmallow_fields.Field[Any]) -> Iterator[type[BodySchema]]:
    match field:
        case fields.Object() if field.schema is not None:
            yield field.schema  # type: ignore[misc]
        case fields.Array():
            yield from _list_schemas(field.item)
        case fields.OneOf():
            for inner in field.by_type.values():
                yield from _list_schemas(inner)
        case fields.Variants():
            yield from dict.fromkeys((field.of, *field.by.values()))  # type: ignore[misc]
        case fields.Unchecked() if field.inner is not None:
            yield from _list_schemas(field.inner())


def _mark(value: Any) -> Any:
    if isinstance(value, str):
        return _CHOSEN.sub("mark-", value)
    if isinstance(value, Mapping):
        return {name: _mark(member) for name, member in value.items()}
    return [_mark(item) for item in value] if isinstance(value, list) else value
