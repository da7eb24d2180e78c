"""Cache markers from every caller format to every upstream format: what is sent, byte for byte. Real gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer

KEY = "test-key-of-the-cache-markers"
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream, openai_models: true}}
  r: {{plugin: openai, preset: openrouter, base_url: "{url}/r/v1", api_key: key-of-the-upstream}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream}}
  auto: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream, prompt_cache: auto}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
models:
  gpt-4o: {{provider: o, model: gpt-4o}}
  gpt-5.6: {{provider: o, model: gpt-5.6}}
  openrouter: {{provider: r, model: anthropic/claude-sonnet-4.5}}
  claude: {{provider: a, model: claude-sonnet-4-5}}
  auto: {{provider: auto, model: claude-sonnet-4-5}}
  gemini: {{provider: g, model: gemini-3-pro-preview}}
keys: [{{name: test, key: {key}}}]
"""
SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
POINT = {"mode": "explicit"}
STRICT = {"x-gate-strict": "1"}


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF.format(url=upstream_process.url, key=KEY), tmp_path_factory.mktemp("cache-markers"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream that answers once in each format."""
    said = {"role": "assistant", "content": "Hi"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    chat = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    content = [{"type": "text", "text": "Hi"}]
    message = {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1},
    }  # fmt: skip
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}  # fmt: skip
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [item],
                "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}}  # fmt: skip
    candidate = {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP", "index": 0}
    generated = {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1}}
    upstream.script(
        answer(json.dumps(chat), path="/o/v1/chat"),
        answer(json.dumps(chat), path="/r/v1/chat"),
        answer(json.dumps(response), path="/o/v1/responses"),
        answer(json.dumps(message), path="/a/"),
        answer(json.dumps(generated), path="/g/"),
    )
    return one_gateway


def ask_chat(gateway: Gateway, model: str, **body: Any) -> httpx.Headers:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)
    return client.chat.completions.with_raw_response.create(model=model, **body).headers


def ask_responses(gateway: Gateway, model: str, **body: Any) -> httpx.Headers:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)
    return client.responses.with_raw_response.create(model=model, store=False, **body).headers


def ask_messages(gateway: Gateway, model: str, **body: Any) -> httpx.Headers:
    client = anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0)
    return client.messages.with_raw_response.create(model=model, max_tokens=50, **body).headers


def read_sent_body(upstream: Upstream) -> bytes:
    return upstream.requests[-1].body


A_TOOL = {"name": "look", "input_schema": {"type": "object", "properties": {}}, "cache_control": LONG}
A_BODY: dict[str, Any] = {
    "cache_control": SHORT,
    "system": [{"type": "text", "text": "Rules", "cache_control": LONG}],
    "tools": [A_TOOL],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "One", "cache_control": SHORT}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "blue", "cache_control": SHORT},
            {"type": "text", "text": "Two"}]},
    ],
}  # fmt: skip


MARKERS = {
    "system.0.cache_control",
    "messages.0.content.0.cache_control",
    "messages.2.content.0.cache_control",
    "tools.0.cache_control",
    "cache_control",
}


def list_losses(headers: Mapping[str, str]) -> set[str]:
    return set(headers["x-gate-loss"].split(","))


def test_from_messages_to_a_chat_upstream_that_caches_by_itself(gateway: Gateway, upstream: Upstream) -> None:
    headers = ask_messages(gateway, "gpt-4o", **A_BODY)
    assert list_losses(headers) == MARKERS
    assert read_sent_body(upstream) == (
        b'{"model":"gpt-4o","messages":['
        b'{"role":"system","content":[{"type":"text","text":"Rules"}]},'
        b'{"role":"user","content":[{"type":"text","text":"One"}]},'
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"toolu_1","type":"function",'
        b'"function":{"name":"look","arguments":"{}"}}]},'
        b'{"role":"tool","content":"blue","tool_call_id":"toolu_1"},'
        b'{"role":"user","content":[{"type":"text","text":"Two"}]}],'
        b'"max_completion_tokens":50,"tools":[{"type":"function","function":{"name":"look",'
        b'"parameters":{"type":"object","properties":{}}}}]}'
    )


def test_from_messages_to_a_model_with_breakpoints(gateway: Gateway, upstream: Upstream) -> None:
    headers = ask_messages(gateway, "gpt-5.6", **{**A_BODY, "tools": [A_TOOL]})
    assert list_losses(headers) == {"tools.0.cache_control", "cache_control"}
    body = json.loads(read_sent_body(upstream))
    point = {"prompt_cache_breakpoint": POINT}
    assert body["input"] == [
        {"role": "system", "content": [{"type": "input_text", "text": "Rules", **point}]},
        {"role": "user", "content": [{"type": "input_text", "text": "One", **point}]},
        {"type": "function_call", "call_id": "toolu_1", "name": "look", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "toolu_1",
            "output": [{"type": "input_text", "text": "blue", **point}],
        },
        {"role": "user", "content": [{"type": "input_text", "text": "Two"}]},
    ]
    assert b"cache_control" not in read_sent_body(upstream)


def test_from_messages_to_an_upstream_that_serves_claude(gateway: Gateway, upstream: Upstream) -> None:
    headers = ask_messages(gateway, "openrouter", **A_BODY)
    assert "x-gate-loss" not in headers
    body = json.loads(read_sent_body(upstream))
    assert (body["cache_control"], body["tools"][0]["cache_control"]) == (SHORT, LONG)
    assert [body["messages"][number]["content"] for number in (0, 1, 3)] == [
        [{"type": "text", "text": "Rules", "cache_control": LONG}],
        [{"type": "text", "text": "One", "cache_control": SHORT}],
        [{"type": "text", "text": "blue", "cache_control": SHORT}],
    ]


def test_from_messages_to_gemini(gateway: Gateway, upstream: Upstream) -> None:
    headers = ask_messages(gateway, "gemini", **A_BODY)
    assert list_losses(headers) == MARKERS
    body = json.loads(read_sent_body(upstream))
    assert body["systemInstruction"] == {"parts": [{"text": "Rules"}]}
    assert b"cache" not in read_sent_body(upstream)


def test_from_messages_to_claude_the_bytes_are_the_callers(gateway: Gateway, upstream: Upstream) -> None:
    ask_messages(gateway, "claude", **A_BODY)
    body = json.loads(read_sent_body(upstream))
    assert body == {"model": "claude-sonnet-4-5", "max_tokens": 50, **A_BODY}


def test_from_chat_to_claude(gateway: Gateway, upstream: Upstream) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}, "cache_control": LONG}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Rules", "cache_control": LONG}]},
        {"role": "user", "content": "Hi", "cache_control": SHORT},
    ]
    headers = ask_chat(
        gateway, "claude", messages=messages, tools=[tool], max_completion_tokens=50, prompt_cache_key="k"
    )
    assert headers["x-gate-loss"] == "prompt_cache_key"
    assert read_sent_body(upstream) == (
        b'{"model":"claude-sonnet-4-5","max_tokens":50,'
        b'"system":[{"type":"text","text":"Rules","cache_control":{"type":"ephemeral","ttl":"1h"}}],'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}],'
        b'"tools":[{"name":"look","input_schema":{"type":"object"},'
        b'"cache_control":{"type":"ephemeral","ttl":"1h"}}]}'
    )


def test_a_marker_too_many_is_named(gateway: Gateway, upstream: Upstream) -> None:
    parts = [{"type": "text", "text": str(number), "cache_control": SHORT} for number in range(5)]
    headers = ask_chat(gateway, "claude", messages=[{"role": "user", "content": parts}])
    assert headers["x-gate-loss"] == "messages.0.content.0.cache_control"
    assert read_sent_body(upstream).count(b"cache_control") == 4


def test_from_chat_to_gemini(gateway: Gateway, upstream: Upstream) -> None:
    part = {"type": "text", "text": "Hi", "cache_control": SHORT}
    headers = ask_chat(gateway, "gemini", messages=[{"role": "user", "content": [part]}], prompt_cache_key="k")
    assert list_losses(headers) == {"messages.0.content.0.cache_control", "prompt_cache_key"}
    assert read_sent_body(upstream) == b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'


def test_from_responses_to_claude(gateway: Gateway, upstream: Upstream) -> None:
    part = {"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {**POINT, "ttl": "12h"}}
    headers = ask_responses(
        gateway,
        "claude",
        input=[{"role": "user", "content": [part]}],
        max_output_tokens=50,
        prompt_cache_options={"mode": "explicit"},
        prompt_cache_retention="24h",
    )
    assert headers["x-gate-loss"] == "prompt_cache_options,prompt_cache_retention"
    assert read_sent_body(upstream) == (
        b'{"model":"claude-sonnet-4-5","max_tokens":50,"messages":[{"role":"user","content":'
        b'[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}'
    )


def test_from_responses_to_a_chat_upstream_and_to_gemini(gateway: Gateway, upstream: Upstream) -> None:
    part = {"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": POINT}
    asked: dict[str, Any] = {"input": [{"role": "user", "content": [part]}], "prompt_cache_key": "k"}
    assert "x-gate-loss" not in ask_responses(gateway, "openrouter", **asked)
    body = json.loads(read_sent_body(upstream))
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Hi", "cache_control": SHORT}]
    assert body["prompt_cache_key"] == "k"
    losses = list_losses(ask_responses(gateway, "gemini", **asked))
    assert losses == {"input.0.content.0.prompt_cache_breakpoint", "prompt_cache_key"}
    assert read_sent_body(upstream) == b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'


def test_conf_lets_the_gateway_set_markers_for_callers_without_any(gateway: Gateway, upstream: Upstream) -> None:
    messages = [{"role": "system", "content": "Rules"}, {"role": "user", "content": "Hi"}]
    assert "x-gate-loss" not in ask_chat(gateway, "auto", messages=messages, max_completion_tokens=50)
    assert read_sent_body(upstream) == (
        b'{"model":"claude-sonnet-4-5","max_tokens":50,'
        b'"system":[{"type":"text","text":"Rules","cache_control":{"type":"ephemeral"}}],'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}]}'
    )


def test_conf_marks_requests_of_gemini_callers_too(gateway: Gateway, upstream: Upstream) -> None:
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 50}}
    url = f"{gateway.url}/v1beta/models/auto:generateContent"
    response = httpx.post(url, json=body, headers={"x-goog-api-key": KEY, **STRICT}, trust_env=False, timeout=60)
    assert response.status_code == 200, response.text
    assert read_sent_body(upstream) == (
        b'{"model":"claude-sonnet-4-5","max_tokens":50,'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}]}'
    )


def test_a_cached_content_of_gemini_is_a_part_of_the_prompt_and_so_a_loss_elsewhere(
    gateway: Gateway, upstream: Upstream
) -> None:
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "cachedContent": "cachedContents/one"}
    url = f"{gateway.url}/v1beta/models/claude:generateContent"
    response = httpx.post(url, json=body, headers={"x-goog-api-key": KEY, **STRICT}, trust_env=False, timeout=60)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "cachedContent")
    assert upstream.requests == []
