"""Cached tokens as the vendors' SDKs read them: every caller format and every upstream format, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google import genai

from tests.support.gateway import Gateway
from tests.support.upstream import DONE, Upstream, answer, sse

KEY = "test-key-of-the-prompt-cache"
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true}}
providers:
  chat: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-upstream}}
  responses: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-upstream, api: responses}}
  messages: {{plugin: anthropic, base_url: "{url}", api_key: key-of-the-upstream}}
  generate: {{plugin: gemini, base_url: "{url}", api_key: key-of-the-upstream}}
models:
  chat: {{provider: chat, model: up}}
  responses: {{provider: responses, model: up}}
  messages: {{provider: messages, model: up}}
  generate: {{provider: generate, model: up}}
keys: [{{name: test, key: {key}}}]
"""

# A prompt of 130 tokens: 100 read from the cache, 20 written to it, 10 neither; and an answer of 5 tokens.
CHAT = {
    "prompt_tokens": 130, "completion_tokens": 5, "total_tokens": 135,
    "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
}  # fmt: skip
RESPONSES = {
    "input_tokens": 130, "output_tokens": 5, "total_tokens": 135, "output_tokens_details": {"reasoning_tokens": 0},
    "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
}  # fmt: skip
MESSAGES = {
    "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20,
    "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 5},
}  # fmt: skip
GENERATE = {
    "promptTokenCount": 130, "candidatesTokenCount": 5, "totalTokenCount": 135, "cachedContentTokenCount": 100,
    "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 100}],
}  # fmt: skip


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF.format(url=upstream_process.url, key=KEY), tmp_path_factory.mktemp("prompt-cache"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream with nothing in its script."""
    return one_gateway


def chat_answer(stream: bool) -> str:
    said = {"role": "assistant", "content": "Hi"}
    head = {"id": "c1", "created": 1, "model": "up"}
    if not stream:
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        return json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": CHAT})
    head["object"] = "chat.completion.chunk"
    first = {**head, "choices": [{"index": 0, "delta": said, "finish_reason": None}]}
    last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return sse(first, last, {**head, "choices": [], "usage": CHAT}, DONE)


def responses_answer(stream: bool) -> str:
    part = {"type": "output_text", "text": "Hi", "annotations": []}
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}
    whole = {"id": "r1", "object": "response", "created_at": 1, "model": "up", "status": "completed", "output": [item],
             "usage": RESPONSES, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
    if not stream:
        return json.dumps(whole)
    started = {**whole, "status": "in_progress", "output": [], "usage": None}
    place = {"output_index": 0, "item_id": "m1", "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": "Hi"},
        {"type": "response.output_text.done", **place, "text": "Hi"},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return sse(*({**event, "sequence_number": number} for number, event in enumerate(events)))


def messages_answer(stream: bool) -> str:
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "stop_reason": "end_turn",
             "stop_sequence": None, "content": [{"type": "text", "text": "Hi"}], "usage": MESSAGES}  # fmt: skip
    if not stream:
        return json.dumps(whole)
    started = {**whole, "content": [], "stop_reason": None, "usage": {**MESSAGES, "output_tokens": 1}}
    events = (
        {"type": "message_start", "message": started},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )  # fmt: skip
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def generate_answer(stream: bool) -> str:
    candidate = {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "index": 0, "finishReason": "STOP"}
    whole = {"candidates": [candidate], "usageMetadata": GENERATE, "modelVersion": "up", "responseId": "r1"}
    return sse(whole) if stream else json.dumps(whole)


ANSWERS: dict[str, Callable[[bool], str]] = {
    "chat": chat_answer,
    "responses": responses_answer,
    "messages": messages_answer,
    "generate": generate_answer,
}


def ask_chat(gateway: Gateway, model: str, stream: bool) -> tuple[int | None, ...]:
    """What the SDK reads: the whole prompt, read, written, the answer, and the total."""
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
    if stream:
        chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        usage = chunks[-1].usage
    else:
        usage = client.chat.completions.create(**asked).usage
    details = usage.prompt_tokens_details
    written = details.cache_write_tokens
    return usage.prompt_tokens, details.cached_tokens, written, usage.completion_tokens, usage.total_tokens


def ask_responses(gateway: Gateway, model: str, stream: bool) -> tuple[int | None, ...]:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)
    if stream:
        with client.responses.stream(model=model, input="Hi", store=False) as events:
            usage = events.get_final_response().usage
    else:
        usage = client.responses.create(model=model, input="Hi", store=False).usage
    assert usage is not None
    details = usage.input_tokens_details
    return (
        usage.input_tokens,
        details.cached_tokens,
        details.cache_write_tokens,
        usage.output_tokens,
        usage.total_tokens,
    )


def ask_messages(gateway: Gateway, model: str, stream: bool) -> tuple[int | None, ...]:
    client = anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0)
    asked: dict[str, Any] = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    if stream:
        with client.messages.stream(**asked) as events:
            usage = events.get_final_message().usage
    else:
        usage = client.messages.create(**asked).usage
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    prompt = usage.input_tokens + (read or 0) + (written or 0)
    return prompt, read, written, usage.output_tokens, prompt + usage.output_tokens


def ask_generate(gateway: Gateway, model: str, stream: bool) -> tuple[int | None, ...]:
    client = genai.Client(api_key=KEY, http_options={"base_url": gateway.url, "api_version": "v1beta"})
    if stream:
        usage = list(client.models.generate_content_stream(model=model, contents="Hi"))[-1].usage_metadata
    else:
        usage = client.models.generate_content(model=model, contents="Hi").usage_metadata
    assert usage is not None
    return (
        usage.prompt_token_count,
        usage.cached_content_token_count,
        None,  # this format has no count of written tokens
        usage.candidates_token_count,
        usage.total_token_count,
    )


CALLERS: dict[str, Callable[[Gateway, str, bool], tuple[int | None, ...]]] = {
    "chat": ask_chat,
    "responses": ask_responses,
    "messages": ask_messages,
    "generate": ask_generate,
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ANSWERS)
@pytest.mark.parametrize("caller", CALLERS)
def test_cached_tokens_add_up_for_every_caller_and_upstream(
    gateway: Gateway, upstream: Upstream, caller: str, model: str, stream: bool
) -> None:
    body = ANSWERS[model](stream)
    upstream.script(answer(body, headers={"content-type": "text/event-stream"} if stream else None))
    written = None if "generate" in (caller, model) else 20
    if caller == "responses" and model == "generate":
        written = 0  # required by the SDK
    assert CALLERS[caller](gateway, model, stream) == (130, 100, written, 5, 135)


def test_the_lifetimes_of_written_tokens_reach_a_caller_of_claudes_format(gateway: Gateway, upstream: Upstream) -> None:
    client = anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0)
    upstream.script(answer(messages_answer(False)), answer(chat_answer(False)))
    asked: dict[str, Any] = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    made = client.messages.create(model="messages", **asked).usage.cache_creation
    assert made is not None
    assert (made.ephemeral_5m_input_tokens, made.ephemeral_1h_input_tokens) == (15, 5)
    assert client.messages.create(model="chat", **asked).usage.cache_creation is None  # not known there


@pytest.mark.parametrize("model", ANSWERS)
def test_metrics_count_the_prompt_once_and_its_cached_part_apart(
    gateway: Gateway, upstream: Upstream, model: str
) -> None:
    before = count_tokens(gateway, model)
    upstream.script(answer(ANSWERS[model](False)))
    ask_chat(gateway, model, False)
    counted = {name: number - before.get(name, 0) for name, number in count_tokens(gateway, model).items()}
    written = {} if model == "generate" else {"cache_write": 20}
    assert {name: number for name, number in counted.items() if number} == {
        "input": 130,
        "output": 5,
        "cache_read": 100,
        **written,
    }


def count_tokens(gateway: Gateway, model: str) -> dict[str, float]:
    """The gateway's token counters of one model, by direction."""
    text = httpx.get(f"{gateway.url}/metrics", trust_env=False, timeout=60).text
    lines = [line for line in text.splitlines() if line.startswith("tornado_gate_tokens_total{")]
    ours = [line for line in lines if f'model="{model}"' in line]
    return {line.split('direction="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in ours}
