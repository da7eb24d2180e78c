"""Schemas of other drafts and dialects become valid by draft 2020-12, and valid ones stay the same object."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tornado_gate.wire.valid_schema import make_valid

CASES: list[tuple[Any, Any, list[str]]] = [
    ({"exclusiveMinimum": True, "minimum": 1}, {"exclusiveMinimum": 1}, []),
    ({"exclusiveMaximum": False, "maximum": 1}, {"maximum": 1}, []),
    ({"type": "string", "required": True}, {"type": "string"}, []),
    ({"type": "any", "description": "x"}, {"description": "x"}, []),
    ({"type": "file"}, {}, ["type"]),
    ({"type": ["STRING", "uuid"]}, {"type": ["string"]}, ["type"]),
    ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}, []),
    ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "prefixItems": [{"type": "string"}]}, []),
    ({"items": [{}], "additionalItems": False}, {"prefixItems": [{}], "items": False}, []),
    ({"title": None, "enum": None, "default": None}, {"default": None}, []),
    ({"minLength": "3", "examples": "x", "anyOf": []}, {}, ["minLength", "examples", "anyOf"]),
    ({"properties": {"a": 5}}, {"properties": {"a": {}}}, ["properties.a"]),
    ({"properties": []}, {}, ["properties"]),
    ({"allOf": [{"type": "INTEGER"}]}, {"allOf": [{"type": "integer"}]}, []),
]


@pytest.mark.parametrize(("schema", "expected", "lost"), CASES, ids=lambda case: str(case)[:40])
def test_a_schema_becomes_valid(schema: Any, expected: Any, lost: list[str]) -> None:
    losses: list[str] = []
    made = make_valid(schema, losses.append)
    Draft202012Validator.check_schema(made)
    assert (made, losses) == (expected, lost)


def test_a_property_that_says_itself_that_it_is_required_is_listed() -> None:
    schema = {"properties": {"a": {"required": True}, "b": {"required": False}, "required": {"type": "string"}}}
    expected = {"properties": {"a": {}, "b": {}, "required": {"type": "string"}}, "required": ["a"]}
    assert make_valid(schema, pytest.fail) == expected


def test_a_valid_schema_is_the_same_object() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/b"}]}},
        "$defs": {"b": True},
    }
    assert make_valid(schema, pytest.fail) is schema


def test_a_schema_that_is_too_deep_is_cut_and_reported() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"items": schema}
    losses: list[str] = []
    make_valid(schema, losses.append)
    assert len(losses) == 1
