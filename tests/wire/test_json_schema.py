"""JSON schemas made smaller for upstreams that know a subset."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types as vendor
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.wire.json_schema import (
    MAX_NODES,
    flatten_parameters,
    has_keyword,
    inline_references,
    simplify_schema,
)


def levelled(schema: Any) -> tuple[dict[str, Any], list[str]]:
    lost: list[str] = []
    return simplify_schema(schema, lost.append), lost


@pytest.mark.parametrize(
    ("schema", "expected", "lost"),
    [
        ({"type": "string"}, {"type": "STRING"}, []),
        ({"type": "object", "additionalProperties": False, "$schema": "s", "$id": "i"}, {"type": "OBJECT"}, []),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}, ["additionalProperties"]),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}, []),
        (
            {"type": ["string", "integer", "null"], "minimum": 3, "maxLength": 2},
            {
                "minimum": 3,
                "maxLength": 2,
                "nullable": True,
                "anyOf": [{"type": "STRING", "maxLength": 2}, {"type": "INTEGER", "minimum": 3}],
            },
            [],
        ),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}, []),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}, []),
        ({"type": "integer", "const": 5}, {"type": "INTEGER"}, ["const"]),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER"}, ["enum"]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "STRING", "nullable": True}, []),
        (
            {"oneOf": [{"type": "string"}, {"type": "number"}], "description": "d"},
            {"description": "d", "anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]},
            [],
        ),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}, []),
        ({"type": "string", "format": "uuid"}, {"type": "STRING"}, ["format"]),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}, []),
        (
            {"prefixItems": [{"type": "string"}, {"type": "integer"}]},
            {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}},
            ["prefixItems"],
        ),
        (
            {"properties": {"a": {"type": "integer", "exclusiveMinimum": 0}}, "required": ["a", "b", "a"]},
            {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}, "required": ["a"]},
            ["properties.a.exclusiveMinimum"],
        ),
        ({"not": {}, "if": {}, "then": {}}, {}, ["not", "if", "then"]),
        (
            {
                "allOf": [
                    {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"$ref": "#/$defs/B"},
                ],
                "$defs": {"B": {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}},
            },
            {
                "type": "OBJECT",
                "properties": {"b": {"type": "INTEGER"}, "a": {"type": "STRING"}},
                "required": ["b", "a"],
            },
            [],
        ),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "STRING"}, ["allOf.1.type"]),
        (True, {}, []),
        (False, {}, [""]),
    ],
)
def test_a_keyword_becomes_what_the_subset_has_for_it(schema: Any, expected: dict[str, Any], lost: list[str]) -> None:
    assert levelled(schema) == (expected, lost)


def test_local_references_are_replaced_by_what_they_name() -> None:
    schema = {
        "type": "object",
        "properties": {
            "home": {"$ref": "#/$defs/Address", "description": "where"},
            "work~/": {"$ref": "#/definitions/a~1b/properties/x"},
        },
        "$defs": {"Address": {"type": "object", "properties": {"city": {"type": "string"}}, "description": "hidden"}},
        "definitions": {"a/b": {"properties": {"x": {"type": "boolean"}}}},
    }
    assert levelled(schema) == (
        {
            "type": "OBJECT",
            "properties": {
                "home": {"description": "where", "type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
                "work~/": {"type": "BOOLEAN"},
            },
        },
        [],
    )


@pytest.mark.parametrize("reference", ["https://e.example/schema", "#/$defs/Nowhere", "#anchor/x"])
def test_a_reference_that_leads_nowhere_is_told(reference: str) -> None:
    assert levelled({"properties": {"a": {"$ref": reference}}}) == (
        {"type": "OBJECT", "properties": {"a": {"type": "OBJECT"}}},
        ["properties.a.$ref"],
    )


def test_a_recursive_schema_ends_and_it_is_told() -> None:
    tree = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            }
        },
    }
    value, lost = levelled(tree)
    assert not has_keyword(value, ("$ref", "$defs"))
    assert lost == ["properties.children.items.properties.children.items.$ref"]


def test_a_schema_that_is_its_own_reference_ends() -> None:
    assert levelled({"$ref": "#"})[1] == ["$ref"]


def test_a_schema_that_holds_all_of_itself_ends() -> None:
    itself = {"allOf": [{"$ref": "#"}]}
    value, lost = levelled(itself | {"type": "object", "properties": {"a": itself, "b": itself}})
    assert value["properties"]["a"]["type"] == "OBJECT"
    assert lost


def test_a_schema_that_doubles_at_each_step_is_bounded() -> None:
    levels: dict[str, Any] = {"L0": {"type": "string"}}
    for number in range(1, 30):
        lower = {"$ref": f"#/$defs/L{number - 1}"}
        levels[f"L{number}"] = {"type": "object", "properties": {"a": lower, "b": lower}}
    value, lost = levelled({"$ref": "#/$defs/L29", "$defs": levels})
    assert count_of(value) < 3 * MAX_NODES
    assert lost


def count_of(value: Any) -> int:
    """How many schemas there are."""
    return 1 + sum(count_of(inner) for inner in value.get("properties", {}).values())


def test_keywords_are_found_at_any_depth() -> None:
    assert has_keyword({"a": [{"b": {"$ref": 1}}]}, ("$ref",))
    assert not has_keyword({"a": ["$ref", {"b": "$ref"}]}, ("$ref",))


names = st.text("ab$~/", max_size=3)
keywords = st.sampled_from(
    ["type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "const", "required", "format", "prefixItems", "x"]
)
schemas = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 3)
    | st.sampled_from(["string", "array", "object", "#", "#/properties/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords | names, inner, max_size=4),
    max_leaves=12,
)


@given(schema=schemas)
def test_anything_is_taken_and_no_reference_is_left(schema: Any) -> None:
    value, _ = levelled(schema)
    assert "$ref" not in value


def test_the_result_is_what_the_vendor_knows() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["integer", "null"], "minimum": 1},
            "b": {"type": "array", "items": {"$ref": "#/$defs/E"}, "minItems": 1},
        },
        "required": ["a"],
        "$defs": {"E": {"enum": ["x", "y"], "title": "E"}},
    }
    value, lost = levelled(schema)
    assert vendor.Schema.model_validate(value).required == ["a"]
    assert lost == []


@pytest.mark.parametrize(
    ("schema", "expected", "lost"),
    [
        ({"type": "object"}, {"type": "object"}, []),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/A", "title": "T"}},
                "$defs": {"A": {"type": "string", "title": "U"}},
            },
            {"properties": {"a": {"type": "string", "title": "T"}}},
            [],
        ),
        (
            {
                "properties": {"definitions": {"$ref": "#/definitions/A"}},
                "definitions": {"A": {"enum": [{"$ref": "x"}]}},
            },
            {"properties": {"definitions": {"enum": [{"$ref": "x"}]}}},
            [],
        ),
        (
            {"items": [{"$ref": "https://elsewhere/x", "title": "T"}]},
            {"items": [{"type": "object", "title": "T"}]},
            ["items.0.$ref"],
        ),
    ],
)
def test_references_are_inlined_and_all_else_is_kept(schema: Any, expected: Any, lost: list[str]) -> None:
    told: list[str] = []
    assert inline_references(schema, told.append) == expected
    assert told == lost


def test_a_recursive_reference_ends_and_is_told() -> None:
    told: list[str] = []
    node = {"properties": {"next": {"$ref": "#"}}, "description": "node"}
    inlined = inline_references(node, told.append)
    assert not has_keyword(inlined, ("$ref",))
    assert told == ["properties.next.properties.next.properties.next.$ref"]


A, B = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "expected", "lost"),
    [
        (
            {"type": "object", "properties": {"a": A, "b": B}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"type": "object", "properties": {"a": A, "b": B}},
            ["anyOf"],
        ),
        (
            {
                "oneOf": [{"properties": {"a": A}}, {"$ref": "#/$defs/b"}, True],
                "$defs": {"b": {"properties": {"b": B}}},
            },
            {"type": "object", "properties": {"b": B, "a": A}, "$defs": {"b": {"properties": {"b": B}}}},
            ["oneOf"],
        ),
        (
            {"allOf": [{"properties": {"a": A}, "required": ["a"]}, {"properties": {"b": B}}]},
            {"type": "object", "properties": {"a": A, "b": B}, "required": ["a"]},
            [],
        ),
        (
            {"properties": {"a": {"anyOf": [A, B]}}},
            {"type": "object", "properties": {"a": {"anyOf": [A, B]}}},
            [],
        ),
    ],
)
def test_the_top_level_of_parameters_has_no_composition(schema: Any, expected: Any, lost: list[str]) -> None:
    told: list[str] = []
    assert flatten_parameters(schema, told.append) == expected
    assert told == lost
