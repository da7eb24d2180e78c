"""From one wire format to another and back: what is hard to carry arrives. Real gateway, scripted upstreams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer, sse

KEY = "test-key-of-crossings"
CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
models:
  o-model: {{provider: o, model: gpt-4o}}
  a-model: {{provider: a, model: claude-sonnet-4-5}}
  g-model: {{provider: g, model: gemini-3-pro-preview}}
circuits: {{failures: 1000, open_seconds: 0.001}}
keys:
  - {{name: test, key: {key}}}
  - {{name: other, key: another-{key}}}
"""
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
A_TOOL = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "signature-of-a"}
A_CALL = {"type": "tool_use", "id": "toolu_01", "name": "look", "input": {"at": "sky"}}
A_USAGE = {
    "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20
}  # fmt: skip
A_ANSWER = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [THINKING, A_CALL],
    "stop_reason": "tool_use", "stop_sequence": None, "usage": A_USAGE,
}  # fmt: skip
A_DONE = {**A_ANSWER, "content": [{"type": "text", "text": "blue"}], "stop_reason": "end_turn"}
G_CALL: dict[str, Any] = {"functionCall": {"name": "look", "args": {"at": "sky"}}, "thoughtSignature": "c2lnbmF0dXJl"}
G_USAGE = {
    "promptTokenCount": 30, "candidatesTokenCount": 4, "thoughtsTokenCount": 6, "totalTokenCount": 40,
    "cachedContentTokenCount": 8,
}  # fmt: skip
G_ANSWER = {
    "candidates": [{"content": {"role": "model", "parts": [G_CALL]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": G_USAGE, "modelVersion": "gemini-3-pro-preview", "responseId": "r1",
}  # fmt: skip
G_DONE = {
    **G_ANSWER,
    "candidates": [{"content": {"role": "model", "parts": [{"text": "blue"}]}, "finishReason": "STOP", "index": 0}],
}


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


def post(gateway: Gateway, path: str, body: dict[str, Any], key: str = KEY, **headers: str) -> httpx.Response:
    sent = {"authorization": f"Bearer {key}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return httpx.post(gateway.url + path, json=body, headers=sent, trust_env=False, timeout=30)


def chat(gateway: Gateway, model: str, messages: list[Any], key: str = KEY, **rest: Any) -> dict[str, Any]:
    body = {"model": model, "messages": messages, "tools": [TOOL], **rest}
    response = post(gateway, "/v1/chat/completions", body, key)
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()
    return result


def script(upstream: Upstream, *answers: dict[str, Any]) -> None:
    upstream.script(*(answer(json.dumps(one)) for one in answers))


def sent(upstream: Upstream) -> dict[str, Any]:
    """The body of the last request."""
    body: dict[str, Any] = json.loads(upstream.requests[-1].body)
    return body


QUESTION = {"role": "user", "content": "What colour is the sky?"}


def next_turn(first: dict[str, Any]) -> list[Any]:
    """The conversation as a client of format O goes on: thinking and signatures are dropped."""
    message = first["choices"][0]["message"]
    calls = [{name: call[name] for name in ("id", "type", "function")} for call in message["tool_calls"]]
    said = {"role": "assistant", "content": None, "tool_calls": calls}
    return [QUESTION, said, {"role": "tool", "tool_call_id": calls[0]["id"], "content": "blue"}]


def test_thinking_survives_a_client_that_drops_it(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, A_ANSWER, A_DONE)
    first = chat(gateway, "a-model", [QUESTION], reasoning_effort="medium", max_tokens=20_000)
    assert first["choices"][0]["finish_reason"] == "tool_calls"
    chat(gateway, "a-model", next_turn(first), reasoning_effort="medium", max_tokens=20_000)
    turn = sent(upstream)["messages"][1]
    assert [block["type"] for block in turn["content"]] == ["thinking", "tool_use"]
    assert turn["content"][0] == THINKING
    assert sent(upstream)["thinking"]["type"] == "enabled"


def test_thinking_in_a_stream_survives_too(gateway: Gateway, upstream: Upstream) -> None:
    events = [
        {"type": "message_start", "message": {**A_ANSWER, "content": [], "stop_reason": None}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "signature_delta", "signature": "signature-of-a"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {**A_CALL, "input": {}}},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"at":"sky"}'},
        },
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    upstream.script(answer(sse(*events)), answer(json.dumps(A_DONE)))
    body = {"model": "a-model", "messages": [QUESTION], "tools": [TOOL], "stream": True}
    said = post(gateway, "/v1/chat/completions", body).text
    assert said.endswith("data: [DONE]\n\n")
    call = {"id": "toolu_01", "type": "function", "function": {"name": "look", "arguments": '{"at":"sky"}'}}
    chat(gateway, "a-model", next_turn({"choices": [{"message": {"tool_calls": [call]}}]}))
    assert sent(upstream)["messages"][1]["content"][0] == THINKING


def test_a_thought_signature_survives_a_client_that_drops_it(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, G_ANSWER, G_DONE)
    first = chat(gateway, "g-model", [QUESTION])
    chat(gateway, "g-model", next_turn(first))
    (part,) = sent(upstream)["contents"][1]["parts"]
    assert part["thoughtSignature"] == G_CALL["thoughtSignature"]
    assert part["functionCall"]["args"] == {"at": "sky"}


def test_a_signature_never_reaches_another_provider_or_another_account(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, A_ANSWER, G_DONE, A_DONE)
    first = chat(gateway, "a-model", [QUESTION])
    chat(gateway, "g-model", next_turn(first))
    assert "signature-of-a" not in json.dumps(sent(upstream))
    chat(gateway, "a-model", next_turn(first), key=f"another-{KEY}")
    assert "signature-of-a" not in json.dumps(sent(upstream))


def test_a_foreign_signature_in_format_a_is_taken_out_and_said_so(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, G_DONE)
    turns = [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": [THINKING, {"type": "text", "text": "I looked."}]},
        {"role": "user", "content": "And?"},
    ]
    body = {"model": "g-model", "max_tokens": 50, "messages": turns}
    response = post(gateway, "/v1/messages", body, anthropic_version="2023-06-01")
    assert response.status_code == 200, response.text
    assert "messages.1.content.0" in response.headers["x-gate-loss"]
    assert "signature-of-a" not in json.dumps(sent(upstream))


def test_usage_is_converted_between_those_who_count_the_cache_and_those_who_do_not(
    gateway: Gateway, upstream: Upstream
) -> None:
    script(upstream, A_DONE)
    usage = chat(gateway, "a-model", [QUESTION])["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (130, 5, 135)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 100
    script(upstream, G_DONE)
    usage = chat(gateway, "g-model", [QUESTION])["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (30, 10)
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 6


O_USAGE = {
    "prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57, "prompt_tokens_details": {"cached_tokens": 40}
}  # fmt: skip
O_CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sky"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "look", "arguments": ""}},
]


def o_answer(**message: Any) -> dict[str, Any]:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [choice],
            "usage": O_USAGE}  # fmt: skip


def test_parallel_calls_of_an_o_upstream_come_to_a_client_of_format_a(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, o_answer(tool_calls=O_CALLS))
    body = {"model": "o-model", "max_tokens": 50, "messages": [QUESTION], "tools": [A_TOOL]}
    response = post(gateway, "/v1/messages", body, anthropic_version="2023-06-01").json()
    calls = [block for block in response["content"] if block["type"] == "tool_use"]
    assert [call["input"] for call in calls] == [{"at": "sky"}, {}]
    assert response["stop_reason"] == "tool_use"
    usage = response["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (10, 40, 7)


def test_an_answers_own_blocks_come_back_as_history_without_loss(gateway: Gateway, upstream: Upstream) -> None:
    call = {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    script(
        upstream, o_answer(role="assistant", content="Hm.", tool_calls=[call]), o_answer(role="assistant", content="x")
    )
    body = {"model": "o-model", "max_tokens": 99, "tools": [A_TOOL], "messages": [QUESTION]}
    first = post(gateway, "/v1/messages", body, anthropic_version="2023-06-01").json()
    assert [block["type"] for block in first["content"]] == ["text", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": first["content"][1]["id"], "content": "blue"}
    turns = [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
    second = post(
        gateway,
        "/v1/messages",
        body | {"messages": [QUESTION, *turns]},
        anthropic_version="2023-06-01",
        x_gate_strict="1",
    )
    assert second.status_code == 200, second.text
    assert "x-gate-loss" not in second.headers


def test_calls_come_to_a_client_of_format_g_with_stop(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, o_answer(tool_calls=O_CALLS))
    body = {
        "contents": [{"role": "user", "parts": [{"text": "Look"}]}],
        "tools": [{"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT", "properties": {}}}]}],
    }
    response = post(gateway, "/v1beta/models/o-model:generateContent", body).json()
    (candidate,) = response["candidates"]
    assert candidate["finishReason"] == "STOP"
    assert [part["functionCall"]["args"] for part in candidate["content"]["parts"]] == [{"at": "sky"}, {}]
    assert sent(upstream)["tools"][0]["function"]["parameters"]["type"] == "object"


def test_a_blocked_prompt_is_no_crash_in_any_format(gateway: Gateway, upstream: Upstream) -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    script(upstream, blocked, blocked)
    assert chat(gateway, "g-model", [QUESTION])["choices"][0]["finish_reason"] == "content_filter"
    body = {"model": "g-model", "max_tokens": 50, "messages": [QUESTION]}
    assert post(gateway, "/v1/messages", body, anthropic_version="2023-06-01").json()["stop_reason"] == "refusal"


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [QUESTION], "stream": True}),
    "messages": ("/v1/messages", {"messages": [QUESTION], "max_tokens": 50, "stream": True}),
    "generateContent": (
        "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
        {"contents": [{"parts": [{"text": "Look"}]}]},
    ),
    "responses": ("/v1/responses", {"input": "Look", "stream": True}),
}
BROKEN_STREAMS: dict[str, str] = {
    "o-model": sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [
        {"index": 0, "delta": {"role": "assistant", "content": "He"}, "finish_reason": None}]}),
    "a-model": sse(
        {"type": "message_start", "message": {**A_ANSWER, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "He"}}),
    "g-model": sse({"candidates": [{"content": {"role": "model", "parts": [{"text": "He"}]}, "index": 0}]}),
}  # fmt: skip
GOOD_ENDS = ("[DONE]", "message_stop", '"finishReason": "STOP"', '"finishReason":"STOP"', "response.completed")


@pytest.mark.parametrize("model", BROKEN_STREAMS)
@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_just_stops_never_ends_well(gateway: Gateway, upstream: Upstream, way: str, model: str) -> None:
    upstream.script(answer(BROKEN_STREAMS[model], headers={"content-type": "text/event-stream"}))
    path, body = WAYS[way]
    response = post(gateway, path.replace("MODEL", model), {**body, "model": model}, anthropic_version="2023-06-01")
    assert response.status_code == 200, response.text
    assert "He" in response.text
    assert "error" in response.text
    assert not any(end in response.text for end in GOOD_ENDS), response.text


@pytest.mark.parametrize("model", BROKEN_STREAMS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_an_upstreams_refusal_keeps_its_status_in_every_format(
    gateway: Gateway, upstream: Upstream, way: str, model: str, status: int
) -> None:
    told = {"type": "error", "error": {"type": "x", "message": "because of key-of-the-upstream"}}
    upstream.script(answer(json.dumps(told), status=status))
    path, body = WAYS[way]
    response = post(gateway, path.replace("MODEL", model), {**body, "model": model}, anthropic_version="2023-06-01")
    assert response.status_code == {400: 400, 401: 502, 429: 429, 500: 502, 529: 503}[status], response.text
    error = response.json()["error"]
    assert {"message", "type", "param", "code"} <= set(error)
    assert all(isinstance(error[name], str) for name in ("message", "type", "param", "code"))
    assert "key-of-the-upstream" not in response.text


def test_a_signature_of_another_provider_is_taken_out_on_the_way_to_its_own_kind_too(
    gateway: Gateway, upstream: Upstream
) -> None:
    """A client of format A that was answered by a G upstream goes on with an A upstream: the lane would be verbatim."""
    script(upstream, G_ANSWER, A_DONE)
    body = {"model": "g-model", "max_tokens": 50, "messages": [QUESTION], "tools": [A_TOOL]}
    first = post(gateway, "/v1/messages", body, anthropic_version="2023-06-01").json()
    result = {"type": "tool_result", "tool_use_id": first["content"][-1]["id"], "content": "blue"}
    turns = [QUESTION, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
    response = post(
        gateway, "/v1/messages", {**body, "model": "a-model", "messages": turns}, anthropic_version="2023-06-01"
    )
    assert response.status_code == 200, response.text
    assert G_CALL["thoughtSignature"] not in json.dumps(sent(upstream))


def test_thinking_in_tokens_becomes_thinking_in_words(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, o_answer(content="blue"))
    thinking = {"type": "enabled", "budget_tokens": 9000}
    body = {"model": "o-model", "max_tokens": 20_000, "messages": [QUESTION], "thinking": thinking}
    response = post(gateway, "/v1/messages", body, anthropic_version="2023-06-01")
    assert sent(upstream)["reasoning_effort"] == "medium"
    assert "thinking" not in response.headers.get("x-gate-loss", "")


def test_a_beta_that_the_upstream_does_not_have_is_lost_by_name(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, o_answer(content="blue"))
    body = {"model": "o-model", "max_tokens": 50, "messages": [QUESTION]}
    response = post(gateway, "/v1/messages", body, anthropic_version="2023-06-01", anthropic_beta="context-1m")
    assert response.headers["x-gate-loss"] == "anthropic-beta"


def test_an_address_inside_the_network_is_refused_by_its_path(gateway: Gateway, upstream: Upstream) -> None:
    image = {"type": "image_url", "image_url": {"url": f"{upstream.url}/secret"}}
    body = {"model": "g-model", "messages": [{"role": "user", "content": [{"type": "text", "text": "?"}, image]}]}
    response = post(gateway, "/v1/chat/completions", body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages.0.content.1"
    assert response.json()["error"]["code"] == "private_address"
    assert not upstream.requests


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "o-model", "messages": [QUESTION], "tools": [TOOL], "tool_choice": "any"}),
        (
            "/v1/messages",
            {"model": "a-model", "messages": [{"role": "critic", "content": [THINKING]}], "max_tokens": 9},
        ),
        ("/v1beta/models/g-model:generateContent", {"contents": [{"role": "critic", "parts": [G_CALL]}]}),
    ],
)
def test_values_that_only_the_upstream_knows_reach_it(
    gateway: Gateway, upstream: Upstream, path: str, body: dict[str, Any]
) -> None:
    script(upstream, {"error": {"message": "seen"}})
    post(gateway, path, body, anthropic_version="2023-06-01")
    changed = {"model"} & sent(upstream).keys()
    assert {name: sent(upstream)[name] for name in body if name not in changed} == {
        name: value for name, value in body.items() if name not in changed
    }


def test_values_that_cannot_be_translated_are_refused(gateway: Gateway, upstream: Upstream) -> None:
    body = {"model": "a-model", "messages": [QUESTION], "tools": [TOOL], "tool_choice": "any"}
    response = post(gateway, "/v1/chat/completions", body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "tool_choice")
    assert upstream.requests == []
