"""Custom tools of the formats chat and responses at models that only have functions. Real gateway, scripted upstreams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer, sse
from tests.test_crossings import A_ANSWER, CONF, G_ANSWER, KEY, o_answer, post, script, sent

MODELS = ["a-model", "g-model", "o-model"]
PATCH = '*** Begin Patch\n+say("hi \U0001f600")\\n\n*** End Patch'
ARGUMENTS = {"input": PATCH}
GRAMMAR = {"syntax": "lark", "definition": "start: patch"}
TOOL = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
GRAMMAR_TOOL = {**TOOL, "format": {"type": "grammar", **GRAMMAR}}
CHAT_TOOL = {
    "type": "custom",
    "custom": {"name": "apply_patch", "description": "Edits files.", "format": {"type": "grammar", "grammar": GRAMMAR}},
}
DESCRIPTION = "Edits files.\n\nThe input must match this Lark grammar:\nstart: patch"
HISTORY = [
    {"role": "user", "content": "Go."},
    {"type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch", "input": PATCH},
    {"type": "custom_tool_call_output", "call_id": "call_1", "output": "Done."},
]

A_USE = {"type": "tool_use", "id": "toolu_01", "name": "apply_patch", "input": ARGUMENTS}
G_PART = {"functionCall": {"name": "apply_patch", "args": ARGUMENTS}}
O_FUNCTION = {"name": "apply_patch", "arguments": json.dumps(ARGUMENTS)}
WHOLE: dict[str, dict[str, Any]] = {
    "a-model": {**A_ANSWER, "content": [A_USE]},
    "g-model": {
        **G_ANSWER,
        "candidates": [{"content": {"role": "model", "parts": [G_PART]}, "finishReason": "STOP", "index": 0}],
    },
    "o-model": o_answer(tool_calls=[{"id": "call_o", "type": "function", "function": O_FUNCTION}]),
}


def cut(size: int = 7) -> list[str]:
    text = json.dumps(ARGUMENTS)
    return [text[start : start + size] for start in range(0, len(text), size)]


def stream_of_a() -> str:
    pieces = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in cut()
    ]
    return sse(
        {"type": "message_start", "message": {**A_ANSWER, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**A_USE, "input": {}}},
        *pieces,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )


def stream_of_o() -> str:
    first = {"index": 0, "id": "call_o", "type": "function", "function": {"name": "apply_patch", "arguments": ""}}
    deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in cut()]
    frames = [
        {"id": "c1", "model": "gpt-4o", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in ({"tool_calls": [first]}, *deltas)
    ]
    end = {"id": "c1", "model": "gpt-4o", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return sse(*frames, end, "[DONE]")


STREAMS = {"a-model": stream_of_a(), "g-model": sse(WHOLE["g-model"]), "o-model": stream_of_o()}


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("crossings"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream with nothing in its script."""
    return one_gateway


def declared(body: dict[str, Any]) -> tuple[str, str, list[str], Any]:
    """(name, description, required members, forced tool) of the only function that the upstream got."""
    (tool,) = body["tools"]
    if "functionDeclarations" in tool:
        (tool,) = tool["functionDeclarations"]
        forced = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("allowedFunctionNames", [None])[0]
        return tool["name"], tool["description"], tool["parametersJsonSchema"]["required"], forced
    choice = body.get("tool_choice") or {}
    if "function" in tool:
        function = tool["function"]
        forced = choice.get("function", {}).get("name")
        return function["name"], function["description"], function["parameters"]["required"], forced
    return tool["name"], tool["description"], tool["input_schema"]["required"], choice.get("name")


@pytest.mark.parametrize("model", MODELS)
def test_a_custom_tool_of_responses_is_called(gateway: Gateway, upstream: Upstream, model: str) -> None:
    script(upstream, WHOLE[model])
    body = {"model": model, "input": "Go.", "tools": [GRAMMAR_TOOL]}
    response = post(gateway, "/v1/responses", {**body, "tool_choice": {"type": "custom", "name": "apply_patch"}})
    assert response.status_code == 200, response.text
    assert declared(sent(upstream)) == ("apply_patch", DESCRIPTION, ["input"], "apply_patch")
    assert response.headers["x-gate-loss"] == "tools.0.format"
    (item,) = [item for item in response.json()["output"] if item["type"] != "reasoning"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", PATCH)
    assert item["call_id"]
    assert "arguments" not in item


@pytest.mark.parametrize("model", MODELS)
def test_a_custom_tool_of_responses_is_called_in_a_stream(gateway: Gateway, upstream: Upstream, model: str) -> None:
    upstream.script(answer(STREAMS[model]))
    response = post(gateway, "/v1/responses", {"model": model, "input": "Go.", "tools": [TOOL], "stream": True})
    assert "x-gate-loss" not in response.headers
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    deltas = [event for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(event["delta"] for event in deltas) == PATCH
    assert len(deltas) > 1 or model == "g-model"
    (done,) = [event for event in events if event["type"] == "response.custom_tool_call_input.done"]
    assert done["input"] == PATCH
    (item,) = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", PATCH)
    assert events[-1]["response"]["output"] == [item]
    assert "function_call_arguments" not in response.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", MODELS[:2])
def test_a_custom_tool_of_chat_is_called(gateway: Gateway, upstream: Upstream, model: str, stream: bool) -> None:
    upstream.script(answer(STREAMS[model] if stream else json.dumps(WHOLE[model])))
    choice = {"type": "custom", "custom": {"name": "apply_patch"}}
    messages = [{"role": "user", "content": "Go."}]
    body = {"model": model, "messages": messages, "tools": [CHAT_TOOL], "tool_choice": choice, "stream": stream}
    response = post(gateway, "/v1/chat/completions", body)
    assert declared(sent(upstream)) == ("apply_patch", DESCRIPTION, ["input"], "apply_patch")
    assert response.headers["x-gate-loss"] == "tools.0.custom.format"
    if stream:
        frames = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
        deltas = [
            call for frame in frames for choice in frame["choices"] for call in choice["delta"].get("tool_calls", ())
        ]
        assert deltas[0]["type"] == "custom"
        assert "".join(delta["custom"].get("input", "") for delta in deltas) == PATCH
    else:
        (call,) = response.json()["choices"][0]["message"]["tool_calls"]
        assert call["type"] == "custom"
        assert call["custom"] == {"name": "apply_patch", "input": PATCH}


@pytest.mark.parametrize("model", MODELS)
def test_earlier_calls_and_their_results_go_up_as_functions(gateway: Gateway, upstream: Upstream, model: str) -> None:
    script(upstream, WHOLE[model])
    response = post(gateway, "/v1/responses", {"model": model, "input": HISTORY, "tools": [TOOL]})
    assert "x-gate-loss" not in response.headers
    body = sent(upstream)
    if model == "g-model":
        call, result = (content["parts"][0] for content in body["contents"][1:])
        assert (call["functionCall"]["name"], call["functionCall"]["args"]) == ("apply_patch", ARGUMENTS)
        assert result["functionResponse"]["response"] == {"result": "Done."}
        return
    call, result = body["messages"][1:]
    if model == "a-model":
        (use,), (block,) = call["content"], result["content"]
        assert (use["type"], use["name"], use["input"]) == ("tool_use", "apply_patch", ARGUMENTS)
        assert (block["type"], block["tool_use_id"]) == ("tool_result", use["id"])
    else:
        (one,) = call["tool_calls"]
        assert (one["type"], one["function"]["name"]) == ("function", "apply_patch")
        assert json.loads(one["function"]["arguments"]) == ARGUMENTS
        assert (result["tool_call_id"], result["content"]) == (one["id"], "Done.")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_tools_that_codex_declares_in_a_namespace_between_messages_are_called(
    gateway: Gateway, upstream: Upstream, model: str, stream: bool
) -> None:
    """As codex 0.169 asks models that it knows: no ``tools``, all of them in an item, in a namespace."""
    reply = STREAMS[model] if stream else json.dumps(WHOLE[model])
    reply = reply.replace('"name": "apply_patch"', '"name": "functions__apply_patch"')
    upstream.script(answer(reply))
    group = {"type": "namespace", "name": "functions", "description": "", "tools": [TOOL]}
    item = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [group]}
    history = [{**HISTORY[1], "namespace": "functions"}, HISTORY[2]]
    body = {"model": model, "input": [item, HISTORY[0], *history], "stream": stream, "store": False}
    response = post(gateway, "/v1/responses", body)
    assert response.status_code == 200, response.text
    assert "x-gate-loss" not in response.headers
    up = json.dumps(sent(upstream))
    assert up.count('"functions__apply_patch"') >= 2  # declared, and called in the history
    assert "at_1" not in up
    assert "additional_tools" not in up
    if stream:
        frames = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
        (item,) = [
            one["item"] for one in frames if one["type"] == "response.output_item.done" and "input" in one["item"]
        ]
    else:
        (item,) = [one for one in response.json()["output"] if one["type"] != "reasoning"]
    assert (item["type"], item["namespace"], item["name"]) == ("custom_tool_call", "functions", "apply_patch")
    assert item["input"] == PATCH
