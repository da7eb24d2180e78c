"""Schemas, files, tool names and reasoning as each model of OpenAI accepts them: translated requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate.errors import InvalidField
from tornado_gate.streams.events import collect
from tornado_gate.types import (
    Audio,
    Call,
    ChatRequest,
    Data,
    File,
    FileReference,
    Image,
    Link,
    Message,
    Opaque,
    Reasoning,
    ResponseFormat,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    UpstreamResponse,
)

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]
Sent = tuple[str, dict[str, Any], list[str]]

CHAT_HI = [{"role": "user", "content": "Hi"}]


def translate_request(call: MakeCall, model: str, request: ChatRequest, **settings: Any) -> Sent:
    """(endpoint, body without the members that every request has, losses)."""
    used = call(upstream_model=model, **({"preset": "openai", "base_url": ""} | settings))
    outgoing = plugin.translate_request(used, request)
    body = dict(outgoing.json)
    assert body.pop("model") == model
    path = outgoing.url.rpartition("/v1/")[2]
    if path == "responses":
        assert body.pop("store") is False
        assert body.pop("input") == CHAT_HI
        body.pop("include", None)  # see below
    else:
        assert body.pop("messages") == CHAT_HI
    return path, body, used.losses


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CLOSED = {**SCHEMA, "additionalProperties": False}
OPTIONAL = {**SCHEMA, "required": []}
WRAPPED = {
    "type": "object",
    "properties": {"value": {"type": "array", "items": CLOSED}},
    "required": ["value"],
    "additionalProperties": False,
}
BOUND = {**CLOSED, "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
LENGTH = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("wire_format", "schema", "given", "expected"),
    [
        ("anthropic-messages", CLOSED, None, {"schema": CLOSED, "strict": True}),
        ("gemini-generate", SCHEMA, None, {"schema": CLOSED, "strict": True}),
        ("gemini-generate", OPTIONAL, None, {"schema": BOUND, "strict": True}),
        ("gemini-generate", LENGTH, None, {"schema": LENGTH, "strict": False}),
        ("gemini-generate", {"type": "array", "items": SCHEMA}, None, {"schema": WRAPPED, "strict": True}),
        ("gemini-generate", {"type": "array", "items": OPTIONAL}, None, {"strict": True}),
        ("openai-completions", SCHEMA, None, {"schema": SCHEMA}),
        ("gemini-generate", SCHEMA, True, {"schema": SCHEMA, "strict": True}),
    ],
)
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5.4"])
def test_a_schema_is_enforced_where_it_can_be(
    call: MakeCall, chat: MakeChat, model: str, wire_format: str, schema: Any, given: Any, expected: dict[str, Any]
) -> None:
    wanted = ResponseFormat(kind="json_schema", schema=schema, strict=given)
    path, body, losses = translate_request(call, model, chat(wire_format=wire_format, response_format=wanted))
    inner = body["response_format"]["json_schema"] if path != "responses" else body["text"]["format"]
    assert {name: inner.get(name) for name in expected} == expected
    assert bool(inner.get("strict")) == bool(expected.get("strict"))
    assert losses == (["response_format.schema"] if expected.get("strict") is False else [])


@pytest.mark.parametrize(
    ("file", "in_chat", "in_responses", "lost"),
    [
        (
            File(source=Data(media_type="application/pdf", base64="AA==")),
            {"file_data": "data:application/pdf;base64,AA==", "filename": "file.pdf"},
            {"file_data": "data:application/pdf;base64,AA==", "filename": "file.pdf"},
            [],
        ),
        (
            File(source=Link(url="https://h/a.pdf"), name="a.pdf"),
            None,
            {"file_url": "https://h/a.pdf"},
            ["messages.0.content.0.filename"],
        ),
        (File(source=FileReference(id="file-1")), {"file_id": "file-1"}, {"file_id": "file-1"}, []),
    ],
)
def test_file_data_has_a_name_and_nothing_else_has(
    call: MakeCall, file: File, in_chat: Any, in_responses: Any, lost: list[str]
) -> None:
    request = ChatRequest(model="gpt", messages=(Message(role="user", parts=(file,), plain=False),))
    if not isinstance(file.source, Link):
        own = ChatRequest(model="gpt", messages=request.messages, wire_format="openai-completions")
        chats = plugin.translate_request(call(preset="openai", base_url="", upstream_model="gpt-4o"), own).json
        assert chats["messages"][0]["content"] == [{"type": "file", "file": in_chat}]
    used = call(preset="openai", base_url="", upstream_model="gpt-5.4")
    from_chat = ChatRequest(model="gpt", messages=request.messages, wire_format="openai-chat")
    body = plugin.translate_request(used, from_chat).json
    assert body["input"][0]["content"] == [{"type": "input_file", **in_responses}]
    assert used.losses == lost


TEXT_FILE = File(source=Data(media_type="text/plain", base64="SGk="), name="a.txt")


@pytest.mark.parametrize(
    ("model", "part", "sent_part", "lost"),
    [
        ("gpt-4o", TEXT_FILE, {"type": "text", "text": "a.txt:\n\nHi"}, []),
        (
            "gpt-5.4",
            TEXT_FILE,
            {"type": "input_file", "file_data": "data:text/plain;base64,SGk=", "filename": "a.txt"},
            [],
        ),
        ("gpt-4o", File(source=Data(media_type="video/mp4", base64="AA==")), None, ["messages.0.content.0"]),
        (
            "gpt-4o",
            Image(source=Data(media_type="image/jpg", base64="AA==")),
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AA=="}},
            [],
        ),
        ("o3-mini", Image(source=Link(url="https://h/a.png")), None, ["messages.0.content.0"]),
        ("gpt-5.4", Audio(source=Data(media_type="audio/wav", base64="AA==")), None, ["messages.0.content.0"]),
    ],
)
def test_content_that_the_model_rejects_is_mapped_or_reported(
    call: MakeCall, model: str, part: Any, sent_part: Any, lost: list[str]
) -> None:
    messages = (Message(role="user", parts=(part, Text(text="What is it?")), plain=False),)
    used = call(preset="openai", base_url="", upstream_model=model, api="auto" if model == "gpt-5.4" else "chat")
    body = plugin.translate_request(
        used, ChatRequest(model="gpt", messages=messages, wire_format="gemini-generate")
    ).json
    content = body.get("messages", body.get("input"))[0]["content"]
    assert ([one for one in content if "?" not in str(one)], used.losses) == ([sent_part] if sent_part else [], lost)


@pytest.mark.parametrize(
    ("model", "part"),
    [
        ("gpt-4o", Image(source=Data(media_type="image/heic", base64="AA=="))),
        ("gpt-4o", File(source=Data(media_type="application/zip", base64="AA=="), name="a.zip")),
        ("gpt-audio", Audio(source=Data(media_type="audio/flac", base64="AA=="))),
    ],
)
def test_a_file_that_the_caller_can_convert_is_refused(call: MakeCall, model: str, part: Any) -> None:
    messages = (Message(role="user", parts=(Text(text="What is it?"), part), plain=False),)
    used = call(preset="openai", base_url="", upstream_model=model, api="chat")
    with pytest.raises(InvalidField, match="Convert it to one of these types") as caught:
        plugin.translate_request(used, ChatRequest(model="gpt", messages=messages, wire_format="gemini-generate"))
    assert caught.value.param == "messages.0.content.1"


@pytest.mark.parametrize("wire_format", ["anthropic-messages", "gemini-generate", "openai-chat", "openai-responses"])
def test_a_begun_answer_of_a_format_that_continues_it_is_reported(call: MakeCall, wire_format: str) -> None:
    begun = Message(role="assistant", parts=(Text(text="The sky is"),))
    messages = (Message(role="user", parts=(Text(text="Hi"),)), begun)
    used = call(preset="openai", base_url="", upstream_model="gpt-5.4")
    plugin.translate_request(used, ChatRequest(model="gpt", messages=messages, wire_format=wire_format))
    assert used.losses == ([] if wire_format.startswith("openai") else ["messages.1"])


NAME = "mcp.server:" + "n" * 70
CALLS = {
    "chat": {
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "NAME", "arguments": "{}"}}],
                },
            }
        ]
    },
    "responses": {
        "id": "r",
        "status": "completed",
        "output": [{"type": "function_call", "call_id": "c", "name": "NAME", "arguments": "{}"}],
    },
}


def answer(body: bytes, content_type: str) -> UpstreamResponse:
    async def chunks() -> AsyncIterator[bytes]:
        yield body

    return UpstreamResponse(chunks=chunks(), headers={"content-type": content_type})


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5.4"])
@pytest.mark.gen_test
async def test_a_long_tool_name_comes_back_as_the_caller_wrote_it(call: MakeCall, chat: MakeChat, model: str) -> None:
    used = call(preset="openai", base_url="", upstream_model=model)
    request = chat(tools=(Tool(name=NAME),))
    tool = plugin.translate_request(used, request).json["tools"][0]
    name = tool.get("function", tool)["name"]
    assert (len(name), name.isascii(), used.losses) == (64, True, [])
    raw = orjson.dumps(CALLS["chat" if model == "gpt-4o" else "responses"]).replace(b"NAME", name.encode())
    result = await collect(plugin.translate_response(used, request, answer(raw, "application/json")))
    assert result.choices[0].parts == (ToolCall(id="c", name=NAME, arguments="{}"),)


@pytest.mark.gen_test
async def test_a_long_tool_name_comes_back_in_a_stream(call: MakeCall, chat: MakeChat) -> None:
    used = call(preset="openai", base_url="", upstream_model="gpt-4o")
    request = chat(tools=(Tool(name=NAME),), stream=True)
    name = plugin.translate_request(used, request).json["tools"][0]["function"]["name"]
    calls = [{"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}]
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": calls}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    raw = b"".join(b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks) + b"data: [DONE]\n\n"
    result = await collect(plugin.translate_response(used, request, answer(raw, "text/event-stream")))
    assert result.choices[0].parts == (ToolCall(id="c", name=NAME, arguments="{}"),)


@pytest.mark.parametrize(
    ("model", "settings", "given", "included"),
    [
        ("gpt-5.4", {}, {}, True),
        ("gpt-4o", {"api": "responses"}, {}, False),
        ("some-model", {"preset": "vllm", "api": "responses"}, {}, False),
        ("some-model", {"preset": "vllm", "api": "responses"}, {"reasoning": Reasoning(effort="low")}, True),
    ],
)
def test_reasoning_comes_in_a_form_that_can_go_back(
    call: MakeCall, chat: MakeChat, model: str, settings: dict[str, Any], given: dict[str, Any], included: bool
) -> None:
    used = call(**{"upstream_model": model, "preset": "openai", "base_url": ""} | settings)
    body = plugin.translate_request(used, chat(**given)).json
    assert ("reasoning.encrypted_content" in body.get("include", [])) == included


RESULT = Message(role="tool", parts=(ToolResult(call_id="c", parts=(Text(text="so"),)),))


def test_reasoning_that_came_back_goes_to_the_responses_api_and_is_no_loss_at_the_other(call: MakeCall) -> None:
    assert plugin.configure(plugin.ProviderEntry(name="a", settings={"preset": "openai"})).signatures
    assert not plugin.configure(plugin.ProviderEntry(name="a", settings={"preset": "groq"})).signatures
    turn = Message(
        role="assistant",
        parts=(
            Thinking(text="a", signature=Opaque(issuer="ours", value="e1")),
            Text(text="first"),
            Thinking(text="b", signature=Opaque(issuer="ours", value="e2")),
            ToolCall(id="c", name="f", arguments="{}"),
        ),
        plain=False,
    )
    request = ChatRequest(model="gpt", messages=(Message(role="user", parts=(Text(text="Hi"),)), turn, RESULT))
    used = call(preset="openai", base_url="", upstream_model="gpt-5.4")
    items = plugin.translate_request(used, request).json["input"]
    assert [item.get("encrypted_content") or item.get("type") for item in items[1:]] == [
        "e1",
        "message",
        "e2",
        "function_call",
        "function_call_output",
    ]
    chats = call(preset="openai", base_url="", upstream_model="gpt-5.1")
    said = plugin.translate_request(chats, request).json["messages"][1]
    assert (said["content"], len(said["tool_calls"])) == ([{"type": "text", "text": "first"}], 1)
    assert used.losses + chats.losses == []


@pytest.mark.parametrize(
    ("settings", "content", "lost"),
    [
        ({"preset": "deepseek", "base_url": ""}, "one\n\ntwo", []),
        ({"model_rules": {"kimi-*": {"reasoning_content": True}}}, "one\n\ntwo", []),
        ({"preset": "vllm"}, None, ["messages.1.content.0", "messages.1.content.1"]),
    ],
)
def test_thinking_goes_back_with_its_calls_where_it_must(
    call: MakeCall, settings: dict[str, Any], content: str | None, lost: list[str]
) -> None:
    turn = Message(
        role="assistant",
        parts=(Thinking(text="one"), Thinking(text="two"), ToolCall(id="c", name="f", arguments="{}")),
    )
    asked = Message(role="user", parts=(Text(text="Hi"),))
    request = ChatRequest(model="gpt", messages=(asked, turn, RESULT), wire_format="anthropic-messages")
    used = call(upstream_model="kimi-k2", **settings)
    said = plugin.translate_request(used, request).json["messages"][1]
    assert (said.get("reasoning_content"), used.losses) == (content, lost)


def test_thinking_without_calls_does_not_go_back(call: MakeCall) -> None:
    """Older models of that vendor reject it: api-docs.deepseek.com/guides/reasoning_model."""
    turn = Message(role="assistant", parts=(Thinking(text="one"), Text(text="Hello")))
    request = ChatRequest(
        model="gpt", messages=(Message(role="user", parts=(Text(text="Hi"),)), turn), wire_format="anthropic-messages"
    )
    used = call(preset="deepseek", base_url="", upstream_model="deepseek-reasoner")
    assert plugin.translate_request(used, request).json["messages"][1] == {"role": "assistant", "content": "Hello"}
    assert used.losses == ["messages.1.content.0"]


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5.4"])
def test_parameters_have_no_composition_at_the_top(call: MakeCall, chat: MakeChat, model: str) -> None:
    either = {"properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}], "not": {"required": ["b"]}}
    _, body, losses = translate_request(call, model, chat(tools=(Tool(name="f", parameters=either),)))
    function = body["tools"][0].get("function", body["tools"][0])
    assert function["parameters"] == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert losses == ["tools.0.parameters.anyOf", "tools.0.parameters.not"]
