"""Optional properties are required and nullable for the model, and absent again for the caller, however the text is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tornado_gate_openai.wire.optional_members import NullRemover, has_optional, require_all
from tornado_gate_openai.wire.schema import is_strict, make_strict

PLACE: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
    "required": ["city"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"place": PLACE},
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "home": {"$ref": "#/$defs/place"},
        "work": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
        "past": {"type": "array", "items": PLACE},
        "unit": {"type": "string", "enum": ["C", "F"]},
    },
    "required": ["name"],
}
UNION: dict[str, Any] = {"anyOf": [PLACE, {**PLACE, "properties": {"x": {"type": "string"}}, "required": []}]}


def remove(text: str, *cuts: int, schema: Any = SCHEMA) -> str:
    remover = NullRemover(schema)
    ends = sorted(cut % (len(text) + 1) for cut in cuts)
    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return "".join(map(remover.feed, pieces)) + remover.finish()


def test_a_schema_with_optional_properties_can_be_enforced() -> None:
    assert make_strict(SCHEMA) is None
    enforced = make_strict(require_all(SCHEMA))
    assert enforced is not None
    assert is_strict(enforced)
    assert set(enforced["required"]) == set(SCHEMA["properties"])
    assert enforced["properties"]["age"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert enforced["properties"]["note"] == {"type": ["string", "null"]}


def test_unions_of_objects_stay_outside_the_subset() -> None:
    assert make_strict({"type": "object", "properties": {"a": UNION}, "required": ["a"]}) is None
    assert make_strict(require_all({"type": "object", "properties": {"a": UNION}, "required": ["a"]})) is None


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('{"name": "Ann", "age": null, "note": null}', '{"name": "Ann", "note": null}'),
        ('{"age": null, "name": "Ann"}', '{ "name": "Ann"}'),
        ('{"age":null,"unit":null}', "{}"),
        ('{"name":"a","home":{"zip":null,"city":"b"},"work":null}', '{"name":"a","home":{"city":"b"},"work":null}'),
        ('{"past":[{"city":"b","zip":null},{"zip":"1","city":"c"}]}', '{"past":[{"city":"b"},{"zip":"1","city":"c"}]}'),
        ('{"work":{"city":"b","zip":null}}', '{"work":{"city":"b"}}'),
        ('{"name":"\\"age\\": null, }","age":1}', '{"name":"\\"age\\": null, }","age":1}'),
        ("I cannot say that: null", "I cannot say that: null"),
        ('{"name": "a", "ag', '{"name": "a", "ag'),
        ('{"name": "a", "age": nu', '{"name": "a", "age": nu'),
        ("{} and more", "{} and more"),
        ('{"age": nothing}', '{"age": nothing}'),
    ],
)
def test_nulls_of_optional_properties_are_absent_for_the_caller(said: str, shown: str) -> None:
    assert remove(said) == shown
    assert all(remove(said, cut) == shown for cut in range(len(said)))


def drop_nulls(value: Any, schema: Any) -> Any:
    if isinstance(value, list):
        return [drop_nulls(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    schema = PLACE if "$ref" in schema or "anyOf" in schema else schema
    optional = set(schema.get("properties", {})) - set(schema.get("required", ())) - {"note", "work"}
    kept = {name: member for name, member in value.items() if member is not None or name not in optional}
    return {name: drop_nulls(member, schema.get("properties", {}).get(name, {})) for name, member in kept.items()}


PLACES = st.fixed_dictionaries({"city": st.text()}, optional={"zip": st.none() | st.text()})
ANSWERS = st.fixed_dictionaries(
    {"name": st.text()},
    optional={
        "age": st.none() | st.integers(),
        "note": st.none() | st.text(),
        "home": st.none() | PLACES,
        "work": st.none() | PLACES,
        "past": st.none() | st.lists(PLACES),
        "unit": st.none() | st.sampled_from("CF"),
    },
)


@given(ANSWERS, st.lists(st.integers(0, 10_000), max_size=6), st.sampled_from([None, 2]))
@example({"name": "\\", "age": None}, [12], None)
def test_what_remains_is_the_same_json_without_these_nulls(value: Any, cuts: list[int], indent: int | None) -> None:
    assert json.loads(remove(json.dumps(value, indent=indent), *cuts)) == drop_nulls(value, SCHEMA)


@given(st.text(alphabet='{}[]",:null \\ab1'), st.lists(st.integers(0, 100), max_size=4))
def test_any_text_is_read_and_what_is_shown_does_not_depend_on_the_cuts(text: str, cuts: list[int]) -> None:
    assert remove(text, *cuts) == remove(text)


def test_only_schemas_with_such_properties_need_it() -> None:
    assert has_optional(SCHEMA)
    assert not has_optional({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    assert not has_optional({"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
