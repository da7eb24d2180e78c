"""Which wire formats go up as they came and where to, and chats that are asked as responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError, UnsupportedOperation
from tornado_gate.streams.events import collect
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    Reasoning,
    Text,
    ToolChoice,
    UpstreamResponse,
    Usage,
    VendorTool,
    VerbatimRequest,
)

MakeEntry = Callable[..., ProviderEntry]
MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]

CHAT, COMPLETIONS, RESPONSES = "openai-chat", "openai-completions", "openai-responses"
COMPACTIONS, INPUT_TOKENS = "openai-compactions", "openai-input-tokens"


@pytest.mark.parametrize(
    ("settings", "spoken"),
    [
        ({}, {CHAT}),
        ({"responses": True}, {CHAT, RESPONSES}),
        ({"completions": True}, {CHAT, COMPLETIONS}),
        ({"responses": True, "compact": True}, {CHAT, RESPONSES, COMPACTIONS}),
        ({"responses": True, "input_tokens": True}, {CHAT, RESPONSES, INPUT_TOKENS}),
        ({"compact": True, "input_tokens": True}, {CHAT}),
        ({"preset": "openai"}, {CHAT, COMPLETIONS, RESPONSES, COMPACTIONS, INPUT_TOKENS}),
        ({"preset": "azure-openai"}, {CHAT, COMPLETIONS, RESPONSES, COMPACTIONS}),
        ({"preset": "openai", "responses": False}, {CHAT, COMPLETIONS}),
        ({"preset": "groq"}, {CHAT}),
        ({"api": "responses"}, {RESPONSES}),
        ({"api": "responses", "responses": False}, set()),
        ({"preset": "openai", "api": "responses"}, {COMPLETIONS, RESPONSES, COMPACTIONS, INPUT_TOKENS}),
    ],
)
def test_an_entry_speaks_what_its_facts_say(entry: MakeEntry, settings: dict[str, Any], spoken: set[str]) -> None:
    assert plugin.configure(entry(**settings, serves=["chat"])).speaks == spoken


@pytest.mark.parametrize("settings", [{"api": "assistants"}, {"responses": "yes"}, {"completions": 1}])
def test_a_wrong_setting_is_refused(entry: MakeEntry, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        plugin.configure(entry(**settings))


@pytest.mark.parametrize("end", ["/chat/completions", "/completions", "/responses", "/responses/"])
def test_the_whole_address_of_an_endpoint_is_understood(entry: MakeEntry, end: str) -> None:
    assert plugin.configure(entry("https://h/v1" + end)).base_url == "https://h/v1"


def verbatim(wire_format: str, body: dict[str, Any], **rest: Any) -> VerbatimRequest:
    return VerbatimRequest(
        wire_format=wire_format, operation="chat", path="/v1/any", raw=orjson.dumps(body), body=body, **rest
    )


@pytest.mark.parametrize(
    ("wire_format", "path"),
    [(CHAT, "/chat/completions"), (COMPLETIONS, "/completions"), (RESPONSES, "/responses")],
)
def test_each_format_goes_to_its_path_with_the_model_patched(call: MakeCall, wire_format: str, path: str) -> None:
    body = {"model": "gpt", "input": "Hi", "prompt": "Hi", "seed": 1}
    used = call(drop=["seed"])
    outgoing = plugin.translate_request(used, verbatim(wire_format, body))
    assert outgoing.url == "https://upstream.test/v1" + path
    assert orjson.loads(outgoing.body or b"") == {"model": "gpt-4o", "input": "Hi", "prompt": "Hi"}
    assert used.losses == ["seed"]


def test_a_format_that_is_not_known_is_refused(call: MakeCall) -> None:
    with pytest.raises(UnsupportedOperation):
        plugin.translate_request(call(), verbatim("openai-other", {"model": "gpt"}))


def translate_request(call: Call, request: ChatRequest) -> tuple[str, dict[str, Any]]:
    outgoing = plugin.translate_request(call, request)
    return outgoing.url, outgoing.json


def test_a_chat_is_asked_as_a_response_where_conf_says_so(call: MakeCall, chat: MakeChat) -> None:
    url, body = translate_request(call(api="responses"), chat(max_tokens=5))
    assert url == "https://upstream.test/v1/responses"
    assert body == {
        "model": "gpt-4o",
        "input": [{"role": "user", "content": "Hi"}],
        "max_output_tokens": 5,
        "store": False,
    }


def test_reasoning_is_asked_for_in_a_form_that_can_come_back(call: MakeCall, chat: MakeChat) -> None:
    _, body = translate_request(call(api="responses"), chat(reasoning=Reasoning(effort="low"), logprobs=True))
    assert body["include"] == ["message.output_text.logprobs", "reasoning.encrypted_content"]
    assert body["reasoning"] == {"effort": "low"}


def test_a_dropped_field_of_a_response_is_lost_in_the_callers_word(call: MakeCall, chat: MakeChat) -> None:
    used = call(api="responses", drop=["max_output_tokens"])
    translate_request(used, chat(max_tokens=5, names={"max_tokens": "generationConfig.maxOutputTokens"}))
    assert used.losses == ["generationConfig.maxOutputTokens"]


FLAT = {"type": "custom", "name": "run", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}}
NESTED = {
    "type": "custom",
    "custom": {"name": "run", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "d"}}},
}
HAS_CUSTOM_TOOLS = {"*": {"custom_tools": True}}
SHARED = {"prompt_cache_key": "k", "service_tier": "flex", "safety_identifier": "s"}


def test_what_chat_and_responses_share_is_no_loss(call: MakeCall, chat: MakeChat) -> None:
    used = call(model_rules=HAS_CUSTOM_TOOLS)
    tools = (VendorTool(wire_format=RESPONSES, value=FLAT),)
    extra = {**SHARED, "text": {"verbosity": "low"}, "truncation": "auto"}
    _, body = translate_request(used, chat(wire_format=RESPONSES, extra=extra, tools=tools))
    assert {name: body[name] for name in SHARED} == SHARED
    assert (body["verbosity"], body["tools"]) == ("low", [NESTED])
    assert used.losses == ["truncation"]


def test_what_responses_and_chat_share_is_no_loss(call: MakeCall, chat: MakeChat) -> None:
    used = call(api="responses", model_rules=HAS_CUSTOM_TOOLS)
    tools = (VendorTool(wire_format=CHAT, value=NESTED),)
    extra = {**SHARED, "verbosity": "low", "prediction": {}}
    _, body = translate_request(used, chat(wire_format=CHAT, extra=extra, tools=tools))
    assert {name: body[name] for name in SHARED} == SHARED
    assert (body["text"], body["tools"]) == ({"verbosity": "low"}, [FLAT])
    assert used.losses == ["prediction"]


@pytest.mark.parametrize(("api", "ours"), [("chat", RESPONSES), ("responses", CHAT)])
def test_the_choice_of_a_custom_tool_keeps_its_meaning(call: MakeCall, chat: MakeChat, api: str, ours: str) -> None:
    used = call(api=api, model_rules=HAS_CUSTOM_TOOLS)
    flat, nested = {"type": "custom", "name": "run"}, {"type": "custom", "custom": {"name": "run"}}
    theirs, expected = (flat, nested) if ours == RESPONSES else (nested, flat)
    tools = (VendorTool(wire_format=ours, value=theirs),)
    _, body = translate_request(
        used, chat(wire_format=ours, tools=tools, tool_choice=ToolChoice(mode="vendor", vendor=theirs))
    )
    assert (body["tools"], body["tool_choice"]) == ([expected], expected)
    assert used.losses == []


RESPONSE = {
    "id": "resp_1",
    "created_at": 5,
    "status": "completed",
    "model": "gpt-4o",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}],
    "usage": {"input_tokens": 1, "output_tokens": 2},
}


def answer(body: bytes, content_type: str, size: int = 0) -> UpstreamResponse:
    async def chunks() -> AsyncIterator[bytes]:
        step = size or len(body)
        for start in range(0, len(body), step):
            yield body[start : start + step]

    return UpstreamResponse(chunks=chunks(), headers={"content-type": content_type})


async def result_of(call: Call, request: ChatRequest, incoming: UpstreamResponse) -> ChatResult:
    return await collect(plugin.translate_response(call, request, incoming))


@pytest.mark.gen_test
async def test_a_whole_response_becomes_events(call: MakeCall, chat: MakeChat) -> None:
    incoming = answer(orjson.dumps(RESPONSE), "application/json")
    result = await result_of(call(api="responses"), chat(), incoming)
    assert result.choices[0].parts == (Text(text="Hi"),)
    assert (result.id, result.created, result.usage) == ("resp_1", 5, Usage(input_tokens=1, output_tokens=2))


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.gen_test
async def test_a_stream_is_the_same_however_it_is_cut(call: MakeCall, chat: MakeChat, size: int) -> None:
    events = [
        {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"},
        {"type": "response.completed", "response": RESPONSE},
    ]
    raw = b"".join(b"event: %b\ndata: %b\n\n" % (str(e["type"]).encode(), orjson.dumps(e)) for e in events)
    incoming = answer(raw, "text/event-stream", size)
    result = await result_of(call(api="responses"), chat(stream=True), incoming)
    assert result.choices[0].parts == (Text(text="Hi"),)
    assert result.choices[0].reason == "stop"
