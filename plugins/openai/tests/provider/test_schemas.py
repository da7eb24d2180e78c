"""Response schemas that are not objects: the answer inside the wrapper, in any pieces; and arrays without items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tornado_gate.types import ChatRequest, Message, PartDelta, PartEnd, PartStart, ResponseFormat, StreamEvent, Text
from tornado_gate_openai.provider.features import OpenAIModelFeatures
from tornado_gate_openai.provider.schemas import complete_parameters, unwrap_answers
from tornado_gate_openai.wire.schema import make_strict

LIST = {"type": "array", "items": {"type": "string"}}


async def unwrapped(text: str, size: int, schema: Any = LIST) -> str:
    async def events() -> Any:
        yield PartStart(index=0, kind="text")
        for at in range(0, len(text), size):
            yield PartDelta(index=0, data=text[at : at + size])
        yield PartEnd(index=0)

    request = ChatRequest(
        model="m",
        messages=(Message(role="user", parts=(Text(text="Hi"),)),),
        wire_format="gemini-generate",
        response_format=ResponseFormat(kind="json_schema", schema=schema),
    )
    collected: list[StreamEvent] = [
        event async for event in unwrap_answers(events(), request, OpenAIModelFeatures(strict_subset=True))
    ]
    return "".join(str(event.data) for event in collected if isinstance(event, PartDelta))


@pytest.mark.parametrize("value", [[], ["a"], [{"b": {}}], "a } b", "}", 5, None, {"value": {"value": 1}}, ["é☕}"]])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.gen_test
async def test_the_value_is_unwrapped_whatever_its_pieces_are(value: Any, size: int, indent: int | None) -> None:
    assert json.loads(await unwrapped(json.dumps({"value": value}, indent=indent) + "\n", size)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"value": ["a", "b', '["a", "b'),  # cut off
        ("I cannot do that.", "I cannot do that."),  # not what was asked for
        ("x" * 300, "x" * 300),
        ("", ""),
    ],
)
@pytest.mark.gen_test
async def test_another_text_is_not_changed(text: str, expected: str) -> None:
    assert await unwrapped(text, 4) == expected


@pytest.mark.gen_test
async def test_an_object_is_not_unwrapped() -> None:
    assert await unwrapped('{"value": 1}', 4, {"type": "object"}) == '{"value": 1}'


def test_arrays_get_items_and_objects_at_the_top_properties() -> None:
    inner = {"anyOf": [{"type": ["array", "null"], "prefixItems": [{"type": "number"}]}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"a": {"type": "array"}, "b": inner}}
    completed = complete_parameters(schema)
    assert completed["properties"]["a"] == {"type": "array", "items": {}}
    assert completed["properties"]["b"]["anyOf"][0]["items"] == {}
    assert complete_parameters({"type": "object"}) == {"type": "object", "properties": {}}
    whole = {"type": "object", "properties": {"a": {"type": "array", "items": {}}}}
    assert complete_parameters(whole) is whole


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"]},
            {"enum": ["x"], "type": "string"},
        ),
        (
            {
                "type": "object",
                "$defs": {"d": {"type": "string"}},
                "properties": {"a": {"$ref": "#/$defs/d", "description": "t"}},
                "required": ["a"],
            },
            {"type": "string", "description": "t"},
        ),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, None),
        ({"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}, None),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, None),
    ],
)
def test_a_schema_becomes_strict_where_its_meaning_stays(schema: Any, expected: Any) -> None:
    strict = make_strict(schema)
    assert (strict and strict["properties"]["a"]) == expected
