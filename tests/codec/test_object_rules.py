"""Schemas with rules for their objects, a second spelling, and references that are found in objects of unknown types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from marshmallow import ValidationError

from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Object,
    Reference,
    String,
    Unchecked,
    check,
    get_schema,
    make_reference_reader,
    make_shape,
)
from tornado_gate.errors import InvalidField
from tornado_gate.types.text_maps import WORD
from tornado_gate.types.text_maps import Object as ObjectShape


def _need_text_or_file(part: Mapping[str, Any]) -> None:
    if "text" not in part and "fileUri" not in part:
        raise ValidationError("must have a text or a file")


def _get_part() -> type[PartSchema]:
    return PartSchema


class PartSchema(BodySchema):
    object_rules = (_need_text_or_file,)
    snake_case = True

    text = String()
    fileUri = String(text=WORD, refers=Reference(kind="file", is_id=lambda uri: uri.startswith("files/")))
    parts = Array(Object(_get_part))
    schema = Unchecked(opaque=True)


class BodyWithParts(BodySchema):
    finds_all_references = True

    parts = Array(Object(PartSchema), required=True)


def test_a_rule_of_an_object_names_the_path_of_the_object() -> None:
    body = {"parts": [{"text": "a", "parts": [{"text": "b"}, {"zzz": 1}]}]}
    with pytest.raises(InvalidField) as raised:
        check(get_schema(BodyWithParts), body)
    assert raised.value.param == "parts.0.parts.1"
    assert raised.value.message == "'parts.0.parts.1' must have a text or a file."


def test_objects_that_keep_the_rules_are_accepted() -> None:
    check(get_schema(BodyWithParts), {"parts": [{"text": "a", "parts": [{"fileUri": "x"}]}]})


def test_guards_know_both_spellings() -> None:
    shape = make_shape(PartSchema)
    assert isinstance(shape, ObjectShape)
    assert shape.members["fileUri"] is shape.members["file_uri"] is WORD


def test_references_are_found_in_objects_of_unknown_types_and_in_arrays() -> None:
    read = make_reference_reader(BodyWithParts)
    body = {
        "new": [{"file_uri": "files/1"}],
        "parts": [{"fileUri": ["files/2", "https://a.example"], "schema": {"fileUri": "files/3"}}],
    }
    assert [(reference.id, reference.param) for reference in read(body)] == [
        ("files/1", "new.0.file_uri"),
        ("files/2", "parts.0.fileUri"),
    ]
