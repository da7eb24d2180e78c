"""What is sent to each Claude, and what is reported as lost: translated requests, by the facts in models.yaml."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

import tornado_gate_anthropic.provider as plugin
from tornado_gate.errors import InvalidField
from tornado_gate.streams.events import collect
from tornado_gate.types import (
    Call,
    ChatRequest,
    Message,
    Reasoning,
    ResponseFormat,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    UpstreamResponse,
)

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]

TOOLS = (Tool(name="f"),)
FORCED = {"tools": TOOLS, "tool_choice": ToolChoice(mode="required")}
CALM, OFF = {"type": "disabled"}, Reasoning(effort="none")
LOW, HIGH = {"output_config": {"effort": "low"}}, {"output_config": {"effort": "high"}}
SHOWN = {"type": "adaptive", "display": "summarized"}


def find(model: str) -> Any:
    return plugin.configure(plugin.ProviderEntry(name="a")).settings.model_table.find_features(model)


@pytest.mark.parametrize(
    ("model", "thinking", "off", "forced", "prefill", "sampling", "turns", "most"),
    [
        ("deepseek-chat", "budget", "disabled", "without_thinking", True, "all", False, None),
        ("claude-3-haiku-20240307", "none", "disabled", "without_thinking", True, "all", False, 4096),
        ("claude-3-5-sonnet-20241022", "none", "disabled", "without_thinking", True, "all", False, 8192),
        ("claude-3-7-sonnet-latest", "budget", "disabled", "without_thinking", True, "all", False, 64000),
        ("claude-sonnet-4-20250514", "budget", "disabled", "without_thinking", True, "all", False, 64000),
        ("claude-opus-4-0", "budget", "disabled", "without_thinking", True, "all", False, 32000),
        (
            "us.anthropic.claude-opus-4-1-20250805-v1:0",
            "budget",
            "disabled",
            "without_thinking",
            True,
            "one",
            False,
            32000,
        ),
        ("claude-sonnet-4-5@20250929", "budget", "disabled", "without_thinking", True, "one", False, 64000),
        ("anthropic/claude-sonnet-4.6", "adaptive", "disabled", "without_thinking", False, "one", False, 128000),
        ("claude-opus-4-7", "adaptive", "disabled", "without_thinking", False, "none", False, 128000),
        ("claude-opus-4-8-20260528", "adaptive", "disabled", "without_thinking", False, "none", True, 128000),
        ("claude-mythos-preview", "adaptive", "never", "never", False, "none", False, 128000),
        ("claude-sonnet-5", "adaptive", "disabled", "without_thinking", False, "none", False, 128000),
        ("claude-opus-5", "adaptive", "disabled", "without_thinking", False, "none", True, 128000),
        ("claude-fable-5", "adaptive", "never", "never", False, "none", True, 128000),
        ("claude-fable-5-1", "adaptive", "never", "never", False, "none", True, 128000),
        ("claude-sonnet-5-5", "adaptive", "between_tools", "never", False, "none", True, 128000),
        ("claude-haiku-5-5", "adaptive", "disabled", "without_thinking", False, "none", False, 128000),
        ("claude-opus-5-5", "adaptive", "never", "never", False, "none", True, 128000),
        ("claude-new-9", "adaptive", "never", "never", False, "none", True, 128000),
    ],
)
def test_what_a_model_takes_is_known_by_its_name(
    model: str, thinking: str, off: str, forced: str, prefill: bool, sampling: str, turns: bool, most: int | None
) -> None:
    facts = find(model)
    assert (facts.thinking, facts.thinking_off, facts.forced_tools) == (thinking, off, forced)
    assert (facts.prefill, facts.sampling, facts.system_turns, facts.max_output) == (prefill, sampling, turns, most)


def translate_request(
    call: MakeCall, model: str, request: ChatRequest, **settings: Any
) -> tuple[dict[str, Any], list[str]]:
    """The body without its model, and the losses."""
    used = call(upstream_model=model, **settings)
    body = dict(plugin.translate_request(used, request).json)
    del body["model"]
    return body, used.losses


@pytest.mark.parametrize(
    ("model", "given", "expected", "lost"),
    [
        # thinking switched off
        ("claude-sonnet-4-5", {"reasoning": OFF}, {"thinking": CALM}, []),
        ("claude-3-haiku-20240307", {"reasoning": OFF}, {}, []),
        ("claude-sonnet-5", {"reasoning": OFF}, {"thinking": CALM}, []),
        ("claude-sonnet-5-5", {"reasoning": OFF}, {"thinking": {"type": "between_tools"}}, []),
        ("claude-opus-5-5", {"reasoning": OFF}, LOW, ["reasoning"]),
        (
            "claude-fable-5",
            {"reasoning": Reasoning(enabled=False)},
            {"output_config": {"effort": "low"}},
            ["reasoning"],
        ),
        # thinking that the caller can see
        ("claude-opus-4-6", {"reasoning": Reasoning(effort="low")}, LOW | {"thinking": {"type": "adaptive"}}, []),
        ("claude-opus-4-7", {"reasoning": Reasoning(effort="low")}, LOW | {"thinking": SHOWN}, []),
        ("claude-opus-5-5", {"reasoning": Reasoning(effort="low")}, LOW | {"thinking": SHOWN}, []),
        # efforts and models without thinking
        (
            "claude-opus-4-6",
            {"reasoning": Reasoning(effort="xhigh")},
            HIGH | {"thinking": {"type": "adaptive"}},
            ["reasoning"],
        ),
        (
            "claude-opus-4-8",
            {"reasoning": Reasoning(effort="xhigh")},
            {"output_config": {"effort": "xhigh"}, "thinking": SHOWN},
            [],
        ),
        ("claude-3-haiku-20240307", {"reasoning": Reasoning(effort="low")}, {}, ["reasoning"]),
        # forced tools
        ("claude-sonnet-4-5", FORCED, {"tool_choice": {"type": "any"}}, []),
        ("claude-sonnet-5", FORCED, {"tool_choice": {"type": "any"}, "thinking": CALM}, []),
        (
            "claude-sonnet-5",
            FORCED | {"reasoning": Reasoning(effort="high")},
            {"tool_choice": {"type": "any"}, "thinking": CALM},
            ["reasoning"],
        ),
        ("claude-opus-5-5", FORCED, {"tool_choice": {"type": "auto"}}, ["tool_choice"]),
        (
            "claude-opus-5-5",
            FORCED | {"reasoning": Reasoning(effort="high")},
            HIGH | {"tool_choice": {"type": "auto"}, "thinking": SHOWN},
            ["tool_choice"],
        ),
        (
            "claude-sonnet-5-5",
            {"tools": TOOLS, "tool_choice": ToolChoice(mode="tool", name="f"), "parallel_tool_calls": False},
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            ["tool_choice"],
        ),
        # users
        ("claude-sonnet-4-5", {"user": "u1"}, {"metadata": {"user_id": "u1"}}, []),
        (
            "claude-sonnet-4-5",
            {"user": "ann@example.com"},
            {"metadata": {"user_id": "71d4f55f72fa128dfb468a1a3901507c804b74316488744d769d7f4b16696476"}},
            [],
        ),
        ("kimi-k2", {"user": "ann@example.com"}, {"metadata": {"user_id": "ann@example.com"}}, []),
        # limits
        ("claude-3-haiku-20240307", {"max_tokens": 8000}, {"max_tokens": 4096}, ["max_tokens"]),
    ],
)
def test_a_request_that_the_model_cannot_take_is_mapped_or_reported(
    call: MakeCall, chat: MakeChat, model: str, given: dict[str, Any], expected: dict[str, Any], lost: list[str]
) -> None:
    body, losses = translate_request(call, model, chat(**given))
    assert body.pop("messages") == [{"role": "user", "content": "Hi"}]
    body.pop("tools", None)
    if "max_tokens" not in expected:
        del body["max_tokens"]  # see below
    assert (body, losses) == (expected, lost)


@pytest.mark.parametrize(
    ("model", "given", "settings", "expected"),
    [
        ("kimi-k2", {}, {}, 4096),
        ("claude-3-haiku-20240307", {}, {}, 4096),
        ("claude-sonnet-4-5", {}, {}, 16384),
        ("claude-sonnet-4-5", {"reasoning": Reasoning(effort="high")}, {}, 16384 + 16384),
        ("claude-opus-4-0", {"reasoning": Reasoning(effort="xhigh")}, {}, 32000),
        ("claude-opus-4-7", {}, {}, 16384),
        ("claude-opus-4-7", {"reasoning": Reasoning(effort="max")}, {}, 16384 + 65536),
        ("claude-opus-5-5", {}, {}, 16384 + 16384),
        ("claude-sonnet-5", {"reasoning": OFF}, {}, 16384),
        ("claude-opus-5-5", {}, {"default_max_tokens": 100}, 100 + 16384),
        ("claude-opus-4-7", {}, {"default_max_tokens": 100}, 100),
        ("claude-sonnet-4-5", {}, {"model_rules": {"claude-*": {"default_output": 7}}}, 7),
    ],
)
def test_the_default_limit_has_room_for_thinking(
    call: MakeCall, chat: MakeChat, model: str, given: dict[str, Any], settings: dict[str, Any], expected: int
) -> None:
    assert translate_request(call, model, chat(**given), **settings)[0]["max_tokens"] == expected


def said(role: Any, *texts: str) -> Message:
    return Message(role=role, parts=tuple(Text(text=text) for text in texts))


@pytest.mark.parametrize(
    ("model", "messages", "expected", "lost"),
    [
        (
            "claude-sonnet-4-5",
            (said("user", "Hi"), said("assistant", "{")),
            [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "{"}],
            [],
        ),
        (
            "claude-sonnet-4-6",
            (said("user", "Hi"), said("assistant", "{")),
            [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "{"},
                {"role": "user", "content": "Continue."},
            ],
            ["messages.1"],
        ),
        ("claude-sonnet-4-5", (said("system", "Be brief."),), [{"role": "user", "content": "Be brief."}], []),
        (
            "claude-sonnet-4-5",
            (said("user", "Hi"), said("assistant", ""), said("user", "Ho")),
            [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Ho"}]}],
            [],
        ),
    ],
)
def test_the_turns_are_what_the_model_takes(
    call: MakeCall, model: str, messages: tuple[Message, ...], expected: list[dict[str, Any]], lost: list[str]
) -> None:
    body, losses = translate_request(call, model, ChatRequest(model="m", messages=messages))
    assert (body["messages"], losses) == (expected, lost)
    assert "system" not in body


@pytest.mark.parametrize("messages", [(), (said("user", ""),), (said("user", " \n"), said("assistant"))])
def test_a_conversation_without_content_is_a_400(call: MakeCall, messages: tuple[Message, ...]) -> None:
    with pytest.raises(InvalidField) as caught:
        translate_request(call, "claude-sonnet-4-5", ChatRequest(model="m", messages=messages))
    assert caught.value.param == "messages"


SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 1, "description": "Years"},
        "name": {"type": "string", "maxLength": 3, "format": "uuid"},
        "kind": {"oneOf": [{"type": "string"}, {"type": "null"}]},
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 2},
        "either": {"type": ["string", "null"], "default": "x"},
    },
    "required": ["age"],
    "$defs": {"tag": {"enum": ["a", "b"]}},
}
CLOSED = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "description": "Years\n\n{minimum: 1}"},
        "name": {"type": "string", "format": "uuid", "description": "{maxLength: 3}"},
        "kind": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "free": {"type": "object", "properties": {}, "additionalProperties": False},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "description": "{maxItems: 2}"},
        "either": {"type": ["string", "null"], "description": "{default: x}"},
    },
    "required": ["age"],
    "additionalProperties": False,
}
LOST = [
    "properties.age.minimum",
    "properties.name.maxLength",
    "properties.free.additionalProperties",
    "properties.tags.maxItems",
]


def test_a_schema_is_reduced_to_what_the_vendor_enforces(call: MakeCall, chat: MakeChat) -> None:
    wanted = ResponseFormat(kind="json_schema", schema=SCHEMA)
    body, losses = translate_request(call, "claude-sonnet-4-5", chat(response_format=wanted))
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": CLOSED}}
    assert losses == [f"response_format.schema.{place}" for place in LOST]


def test_only_a_strict_tools_schema_is_reduced(call: MakeCall, chat: MakeChat) -> None:
    tools = (Tool(name="a", parameters=SCHEMA, strict=True), Tool(name="b", parameters=SCHEMA))
    body, losses = translate_request(call, "claude-sonnet-4-5", chat(tools=tools))
    assert [tool["input_schema"] for tool in body["tools"]] == [CLOSED, SCHEMA]
    assert losses == [f"tools.0.parameters.{place}" for place in LOST]


def test_a_recursive_schema_is_cut(call: MakeCall, chat: MakeChat) -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}},
        "required": ["next"],
        "additionalProperties": False,
    }
    body, losses = translate_request(
        call, "claude-sonnet-4-5", chat(response_format=ResponseFormat(kind="json_schema", schema=node))
    )
    assert "$ref" not in orjson.dumps(body).decode()
    assert [loss.rpartition(".")[2] for loss in losses] == ["$ref", "additionalProperties"]


NAME = "mcp.server:" + "n" * 130


@pytest.mark.gen_test
async def test_a_tool_name_that_the_vendor_rejects_comes_back_as_the_caller_wrote_it(
    call: MakeCall, chat: MakeChat
) -> None:
    used = call()
    history = (
        said("user", "Go"),
        Message(role="assistant", parts=(ToolCall(id="c", name=NAME, arguments="{}"),)),
        Message(role="tool", parts=(ToolResult(call_id="c", parts=()),)),
    )
    request = ChatRequest(model="m", messages=history, tools=(Tool(name=NAME),))
    body = plugin.translate_request(used, request).json
    name = body["tools"][0]["name"]
    assert (len(name), body["messages"][1]["content"][0]["name"], used.losses) == (128, name, [])
    answer = {"content": [{"type": "tool_use", "id": "t", "name": name, "input": {}}], "stop_reason": "tool_use"}

    async def chunks() -> AsyncIterator[bytes]:
        yield orjson.dumps(answer)

    incoming = UpstreamResponse(chunks=chunks(), headers={"content-type": "application/json"})
    result = await collect(plugin.translate_response(used, request, incoming))
    assert result.choices[0].parts == (ToolCall(id="t", name=NAME, arguments="{}"),)


def test_a_request_in_the_vendors_own_format_is_not_changed(call: MakeCall, chat: MakeChat) -> None:
    given = {"max_tokens": 9000, "user": "ann@example.com", "reasoning": Reasoning(enabled=False), **FORCED}
    body, losses = translate_request(call, "claude-opus-5-5", chat(wire_format="anthropic-messages", **given))
    assert (body["thinking"], body["tool_choice"], losses) == (CALM, {"type": "any"}, [])
    assert (body["max_tokens"], body["metadata"]) == (9000, {"user_id": "ann@example.com"})


def test_parameters_have_no_composition_at_the_top(call: MakeCall, chat: MakeChat) -> None:
    either = {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]}
    body, losses = translate_request(
        call, "claude-sonnet-4-5", chat(tools=(Tool(name="f"), Tool(name="g", parameters=either)))
    )
    assert body["tools"][1]["input_schema"] == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert losses == ["tools.1.parameters.anyOf"]
    body, losses = translate_request(call, "kimi-k2", chat(tools=(Tool(name="g", parameters=either),)))
    assert (body["tools"][0]["input_schema"], losses) == (either, [])


def test_a_model_without_structured_outputs_gets_none(call: MakeCall, chat: MakeChat) -> None:
    tools = (Tool(name="f", parameters=CLOSED, strict=True),)
    wanted = ResponseFormat(kind="json_schema", schema=CLOSED)
    body, losses = translate_request(call, "claude-3-7-sonnet-latest", chat(tools=tools, response_format=wanted))
    assert (body["tools"][0].keys(), "output_config" in body) == ({"name", "input_schema"}, False)
    assert losses == ["response_format", "tools.0.strict"]
