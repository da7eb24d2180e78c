"""Values for schemas: valid, bounded, and with something of the text in them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jsonschema
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tornado_gate_local.hints import TextHints
from tornado_gate_local.json_check import SchemaChecker
from tornado_gate_local.json_schema import SchemaDocument, StepBudget
from tornado_gate_local.json_values import Schema, is_same, make_key
from tornado_gate_local.schema import fill

TEXT = (
    "Book a table for Alice in Paris on 2026-03-04 for 3 people, budget 42.5, write to alice@example.org, theme blue."
)
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "parent": {"$ref": "#/$defs/node"},
            },
            "required": ["value", "next", "children"],
            "additionalProperties": False,
        }
    },
}


def is_valid(value: Any, schema: Any) -> bool:
    dialect = jsonschema.Draft202012Validator
    return dialect(schema, format_checker=dialect.FORMAT_CHECKER).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": {"a": 1}}, {"a": 1}),
        ({"enum": ["red", "blue"]}, "blue"),
        ({"enum": ["red", "green"]}, "red"),
        ({"type": "string", "default": "given"}, "given"),
        ({"type": "string", "examples": ["shown"]}, "shown"),
        ({"type": "integer", "default": "wrong type"}, 3),
        ({"type": ["null", "integer"]}, 3),
        ({"type": "null"}, None),
        ({"type": "integer"}, 3),
        ({"type": "number", "minimum": 10}, 42.5),
        ({"type": "integer", "minimum": 10, "maximum": 20}, 10),
        ({"type": "integer", "exclusiveMinimum": 10, "multipleOf": 7}, 14),
        ({"type": "integer", "maximum": -5}, -5),
        ({"type": "boolean"}, True),
        ({"type": "string", "format": "date"}, "2026-03-04"),
        ({"type": "string", "format": "email"}, "alice@example.org"),
        ({"type": "object", "properties": {"city": {"type": "string"}}}, {"city": "Paris"}),
        ({"type": "object", "properties": {"guest_name": {"type": "string"}}}, {"guest_name": "Alice"}),
        ({"properties": {"theme": {"type": "string", "pattern": "^[a-z]{4}$"}}}, {"theme": "blue"}),
        (TREE, {"value": 3, "next": None, "children": []}),
    ],
)
def test_the_best_value_is_chosen(schema, value):
    filled = fill(schema, TEXT.replace("for Alice in", "for our guest Alice in"))
    assert filled == value
    assert type(filled) is type(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 200, "maxLength": 210},
        {"type": "string", "maxLength": 2},
        {"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"},
        {"type": "string", "pattern": "^(foo|ba[rz])+\\.(?:x|y)?[^a-z]$"},
        {"type": "string", "pattern": "^\\+?[0-9 ]+$", "minLength": 9, "maxLength": 12},
        *({"type": "string", "format": kind} for kind in ("date", "time", "email", "uuid", "ipv4", "ipv6", "uri")),
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "number", "minimum": 0.05, "multipleOf": 0.1},
        {"type": "integer", "minimum": 1_000_000_000_000},
        {"type": "array", "items": {"type": "integer"}, "minItems": 20, "uniqueItems": True},
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": True},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "uniqueItems": True},
        {"type": "array", "items": {"type": "string", "format": "uuid"}, "minItems": 4, "uniqueItems": True},
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        {"type": "array", "contains": {"const": 7}, "items": {"type": "integer"}},
        {"type": "array", "maxItems": 0},
        {"type": "object", "minProperties": 3, "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "maxProperties": 1, "required": ["c"]},
        {"type": "object", "required": ["undeclared"], "additionalProperties": {"type": "array"}},
        {"type": "object", "properties": {"a": False, "b": True}},
        {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "required": ["x1"]},
        {"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 6}, {"multipleOf": 6}]},
        {"allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "integer"}}}], "type": "object"},
        {"anyOf": [{"type": "string", "minLength": 3, "maxLength": 2}, {"type": "integer"}]},
        {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 2}]},
        {"type": "integer", "not": {"enum": [1, 2, 3]}},
        {"properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"], "type": "object"}
        | {"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["extra"]}},
        {"type": "object", "properties": {"a": {"$ref": "#/definitions/x~1y"}}, "definitions": {"x/y": {"const": 1}}},
        {"$ref": "#/$defs/a", "minimum": 8, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "integer"}}},
        {"type": "object", "properties": {"self": {"$ref": "#"}}, "required": []},
        TREE,
        True,
        {},
    ],
)
def test_the_value_is_valid(schema):
    assert is_valid(fill(schema, TEXT), schema)
    assert is_valid(fill(schema, ""), schema)


def test_optional_properties_can_be_left_to_what_the_text_mentions():
    properties = {"theme": {"type": "string"}, "colour": {"enum": ["blue", "red"]}, "depth": {"type": "integer"}}
    schema = {"type": "object", "properties": properties}
    assert set(fill(schema, TEXT, optional="mentioned")) == {"theme", "colour"}
    assert set(fill(schema, TEXT)) == {"theme", "colour", "depth"}


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"$ref": "#"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://elsewhere.example/schema"},
        {"type": "object", "required": "abc", "properties": []},
        {"type": "integer", "minimum": "x", "maximum": None, "multipleOf": 0},
        {"type": "STRING", "minLength": -1, "maxLength": "3"},
        {"type": 7, "enum": [], "anyOf": {}, "items": 3},
        {"type": "string", "pattern": "(((", "minLength": 10**9},
        {"type": "string", "pattern": "(?=lookahead)\\1"},
        {"type": "array", "minItems": 10**9, "items": {"type": "integer"}},
        {"type": "number", "minimum": 1e308, "multipleOf": 1e-300},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
        "no schema at all",
        None,
    ],
)
def test_what_no_value_can_meet_or_is_no_schema_does_no_harm(schema):
    fill(schema, TEXT)


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(x+x+)+y$", "maxLength": 1},
        {"type": "string", "pattern": "(((a{1000}){1000}){1000}){1000}"},
        {"type": "string", "pattern": "(" * 400},
        {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
        {"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}] * 12 + [{"type": "integer"}]},
        {"type": "object", "required": [f"p{number}" for number in range(5_000)]},
        {"type": "array", "minItems": 100, "uniqueItems": True, "items": {"enum": [1, 2]}},
        {"enum": ["x" * 100] * 20_000, "type": "integer"},
        {
            "properties": {
                f"p{number}": {"type": "string", "pattern": f"({number}|(a?b?){{99}})*"} for number in range(3_000)
            }
        },
        {"properties": {f"p{number}": {"type": "string", "minLength": 10_000} for number in range(3_000)}},
        {"allOf": [{"minimum": number} for number in range(20_000)]},
        {"oneOf": [{"const": number} for number in range(20_000)]},
        {"type": "object", "required": [f"p{number}" for number in range(300_000)]},
        nested(200, lambda inner: {"anyOf": [inner]}),
        nested(200, lambda inner: {"allOf": [inner, {}]}),
        nested(200, lambda inner: {"type": "array", "minItems": 1, "items": inner}),
        nested(200, lambda inner: {"not": inner}),
    ],
)
def test_a_hostile_schema_costs_bounded_time(schema):
    started = time.thread_time()
    fill(schema, TEXT * 100)
    assert time.thread_time() - started < 1  # about 0.05 on an idle machine


def test_a_budget_is_shared_and_runs_out():
    budget = StepBudget(steps=3)
    fill({"type": "array", "items": {"type": "integer"}, "minItems": 50}, "", budget=budget)
    assert not budget.spend()


def test_a_label_in_the_text_gives_the_value():
    assert fill({"properties": {"nickname": {"type": "string"}}}, "The nickname is Zed") == {"nickname": "Zed"}


def test_quoted_words_come_before_a_summary_of_the_text():
    assert next(TextHints('Search for "red shoes" now').iterate_phrases("query", 0)) == "red shoes"


def test_a_refusal_makes_a_boolean_false():
    assert fill({"type": "boolean"}, "do not send it") is False


scalars = st.one_of(
    st.builds(
        lambda least, more: {"type": "string", "minLength": least, "maxLength": least + more},
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    st.builds(
        lambda kind, low, more: {"type": kind, "minimum": low, "maximum": low + more},
        st.sampled_from(["integer", "number"]),
        st.integers(-1000, 1000),
        st.integers(0, 50),
    ),
    st.builds(
        lambda low, step: {"type": "integer", "exclusiveMinimum": low, "multipleOf": step},
        st.integers(-50, 50),
        st.integers(1, 9),
    ),
    st.builds(lambda kind: {"type": "string", "format": kind}, st.sampled_from(["date", "email", "uuid", "ipv4"])),
    st.builds(lambda kind: {"type": kind}, st.sampled_from(["boolean", "null", "string", "integer", "number"])),
    st.builds(lambda values: {"enum": values}, st.lists(st.text(max_size=5) | st.integers(), min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, st.booleans() | st.integers() | st.text(max_size=5)),
    st.just({"type": ["string", "null"]}),
    st.builds(
        lambda low, high: {"type": "string", "pattern": f"^[a-f]{{{low},{low + high}}}(x|\\d+)?$"},
        st.integers(0, 4),
        st.integers(0, 4),
    ),
)
names = st.sampled_from(["city", "name", "count", "tags", "a b", "x/y", "kind", "ünïcode"])


def compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(
            lambda properties, keep, closed: {
                "type": "object",
                "properties": properties,
                "required": [name for index, name in enumerate(properties) if keep >> index & 1],
                **({"additionalProperties": False} if closed else {}),
            },
            st.dictionaries(names, inner, max_size=4),
            st.integers(0, 15),
            st.booleans(),
        ),
        st.builds(
            lambda items, least, more: {"type": "array", "items": items, "minItems": least, "maxItems": least + more},
            inner,
            st.integers(0, 3),
            st.integers(0, 3),
        ),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda schema: {"allOf": [schema, {"title": "both"}]}, inner),
        st.builds(lambda schema: {"$ref": "#/$defs/it", "$defs": {"it": schema}}, scalars),
    )


schemas = st.recursive(scalars, compounds, max_leaves=8)


@settings(max_examples=300, deadline=None)
@given(schema=schemas, text=st.just(TEXT) | st.text(max_size=60))
def test_generated_schemas_get_valid_values(schema, text):
    if "$ref" not in schema and "$ref" in str(schema):
        schema = {
            "type": "object",
            "properties": {"it": schema},
            "required": ["it"],
            "$defs": {"it": {"type": "string"}},
        }
    value = fill(schema, text)
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)


@settings(max_examples=300, deadline=None)
@given(
    schema=st.recursive(scalars, compounds, max_leaves=4).filter(lambda schema: "$ref" not in str(schema)),
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-60, 60) | st.sampled_from([1.0, 0.5]) | st.text("abcx1", max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=5,
    ),
)
def test_our_checker_agrees_with_jsonschema(schema, value):
    ours = SchemaChecker(SchemaDocument(schema, StepBudget(100_000))).is_valid(value, schema)
    assert ours == jsonschema.Draft202012Validator(schema).is_valid(value)


MALFORMED = ["type", "enum", "const", "default", "examples", "format", "pattern", "required", "properties", "items"]
MALFORMED += ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "contains", "minContains", "prefixItems"]
MALFORMED += ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"]
MALFORMED += ["minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "additionalProperties"]
MALFORMED += ["propertyNames", "patternProperties"]
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 50),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["#", "#/items", "#/$defs/a", "string", "object", "array", "integer", "date", "a|b", "[", "a{2,}"]),
)


@settings(max_examples=400, deadline=None)
@given(
    schema=st.recursive(
        values,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(MALFORMED), inner, max_size=5)
            | st.dictionaries(names, inner, max_size=2)
        ),
        max_leaves=12,
    ),
    text=st.text(max_size=40),
)
def test_nothing_that_a_caller_may_send_as_a_schema_raises(schema, text):
    orjson.dumps(fill(schema, text))
    orjson.dumps(fill(schema, text, optional="mentioned"))


NUMBERS = list(range(30_000))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5]) | st.text("a1", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=3),
    max_leaves=6,
)
LONG_SCHEMAS: dict[str, Schema] = {
    "two enums": {"allOf": [{"enum": NUMBERS}, {"enum": NUMBERS[::-1]}]},
    "an enum and its opposite": {"enum": NUMBERS, "not": {"enum": NUMBERS[:-1]}},
    "distinct items": {"const": NUMBERS, "uniqueItems": True},
    "types": {
        "allOf": [{"type": [f"a{n}" for n in NUMBERS] + ["null"]}, {"type": [f"b{n}" for n in NUMBERS] + ["null"]}]
    },
}


@pytest.mark.parametrize("name", LONG_SCHEMAS)
def test_long_lists_of_values_are_compared_in_linear_time(name: str) -> None:
    """Each with each, these values would take minutes."""
    fill(LONG_SCHEMAS[name], "x", budget=StepBudget(100_000))


@given(JSON_VALUES, JSON_VALUES)
@example(1, 1.0)
@example(True, 1)
@example(False, 0)
@example([1], [True])
@example({"a": [0]}, {"a": [False]})
@example([], {})
@example(None, "None")
def test_values_share_a_key_if_they_are_the_same(ours: Any, theirs: Any) -> None:
    assert (make_key(ours) == make_key(theirs)) == is_same(ours, theirs)
    assert make_key(ours) == make_key(ours)
