"""Fields of other formats' requests, as this format's vendor takes them. Every trap has its test."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.anthropic.tests.wire.messages.foreign_requests import F, rendered
from plugins.anthropic.tests.wire.messages.support import call_for, foreign
from tornado_gate.types import (
    ResponseFormat,
    Tool,
    ToolChoice,
    VendorTool,
)
from tornado_gate_anthropic.wire.messages import render_request

# fields


def test_the_body_has_what_the_vendor_demands() -> None:
    assert rendered(stream=True, user="u", stop=("END",), max_tokens=9)[0] == {
        "model": "up",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "stream": True,
    }


def test_a_missing_limit_is_the_models_own_or_a_careful_one() -> None:
    assert render_request(call_for(), foreign())["max_tokens"] == 4096
    assert render_request(call_for(), foreign(), default_max_tokens=100)["max_tokens"] == 100
    assert render_request(call_for(output_token_limit=8192), foreign())["max_tokens"] == 8192
    assert render_request(call_for(output_token_limit=8192), foreign(max_tokens=5))["max_tokens"] == 5


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"seed": 0},
        {"logprobs": True},
        {"top_logprobs": 2},
        {"logit_bias": {"1": 1.0}},
        {"presence_penalty": 0.5},
        {"frequency_penalty": -1},
        {"modalities": ("text", "audio")},
        {"audio": {"voice": "alloy"}},
        {"metadata": {"a": "b"}},
    ],
)
def test_fields_without_a_word_of_their_own_are_lost_by_name(fields: dict[str, Any]) -> None:
    (name,) = fields
    body, losses = rendered(**fields, names={name: "the-callers-name"})
    assert losses == ["the-callers-name"]
    assert set(body) == {"model", "max_tokens", "messages"}


@pytest.mark.parametrize("wanted", [ResponseFormat(kind="json_object"), ResponseFormat(kind="json_schema", name="x")])
def test_json_without_a_schema_is_an_instruction(wanted: ResponseFormat) -> None:
    body, losses = rendered(response_format=wanted)
    assert losses == []
    assert "output_config" not in body
    assert body["system"].startswith("Respond with one valid JSON")


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1},
        {"logprobs": False},
        {"presence_penalty": 0},
        {"frequency_penalty": 0.0},
        {"logit_bias": {}},
        {"modalities": ("text",)},
        {"metadata": {}},
        {"response_format": ResponseFormat(kind="text")},
        {"extra": {"store": None}},
    ],
)
def test_fields_that_say_what_happens_anyway_are_not_lost(fields: dict[str, Any]) -> None:
    body, losses = rendered(**fields)
    assert losses == []
    assert set(body) == {"model", "max_tokens", "messages"}


def test_unknown_fields_are_lost_by_name() -> None:
    assert rendered(extra={"store": True, "verbosity": "low"})[1] == ["store", "verbosity"]


def test_stop_strings_of_white_space_are_lost() -> None:
    body, losses = rendered(stop=("\n\n", "END", ""), names={"stop": "stop"})
    assert body["stop_sequences"] == ["END"]
    assert losses == ["stop"]
    assert "stop_sequences" not in rendered(stop=(" ",))[0]


def test_a_schema_is_closed_and_its_description_lost() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {}}, "b": {"type": "array", "items": {"type": "string"}}},
    }
    wanted = ResponseFormat(kind="json_schema", name="r", schema=schema, description="d", strict=True)
    body, losses = rendered(response_format=wanted)
    assert body["output_config"]["format"]["schema"] == {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {}, "additionalProperties": False},
            "b": {"type": "array", "items": {"type": "string"}},
        },
        "additionalProperties": False,
    }
    assert losses == ["response_format.description"]


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
def test_an_unknown_member_of_the_format_is_a_loss(kind: Any) -> None:
    schema = {"type": "object"} if kind == "json_schema" else None
    _, losses = rendered(response_format=ResponseFormat(kind=kind, schema=schema, extra={"indent": 2}))
    assert losses == ["response_format.indent"]


# tools


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="required"), None, {"type": "any"}),
        (ToolChoice(mode="auto"), True, {"type": "auto"}),
        (ToolChoice(mode="tool", name="f"), False, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="none"), False, {"type": "none"}),
    ],
)
def test_tool_choices_are_said_the_vendors_way(choice: Any, parallel: bool | None, expected: Any) -> None:
    body, losses = rendered(tools=(F,), tool_choice=choice, parallel_tool_calls=parallel)
    assert body.get("tool_choice") == expected
    assert losses == []


def test_a_choice_of_some_tools_leaves_the_others_out() -> None:
    choice = ToolChoice(mode="allowed", names=("f",), required=True)
    body, losses = rendered(tools=(F, Tool(name="g")), tool_choice=choice)
    assert [tool["name"] for tool in body["tools"]] == ["f"]
    assert body["tool_choice"] == {"type": "any"}
    assert losses == []


def test_a_choice_without_tools_is_not_sent() -> None:
    body, losses = rendered(tool_choice=ToolChoice(mode="none"), parallel_tool_calls=False)
    assert "tool_choice" not in body
    assert losses == []


def test_tools_have_an_object_as_their_schema() -> None:
    tools = (
        Tool(name="f", description="d", strict=True),
        Tool(name="g", parameters={"properties": {}}, extra={"x": 1}),
    )
    body, losses = rendered(tools=tools)
    assert body["tools"] == [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True},
        {"name": "g", "input_schema": {"properties": {}, "type": "object"}},
    ]
    assert losses == ["tools.1.x"]


def test_another_vendors_tools_and_choices_are_lost() -> None:
    tools = (VendorTool(wire_format="openai-chat", value={"type": "web_search"}), F)
    body, losses = rendered(tools=tools, tool_choice=ToolChoice(mode="vendor", vendor={"type": "mcp"}))
    assert [tool["name"] for tool in body["tools"]] == ["f"]
    assert losses == ["tools.0", "tool_choice"]


# what models take
