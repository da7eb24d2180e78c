"""Requests of the chat wire format, both halves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from plugins.openai.tests.wire.chat import strategies
from tornado_gate.errors import InvalidField
from tornado_gate.testing import call_to
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
    Refusal,
    ResponseFormat,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    VendorPart,
    VendorTool,
    replace,
)
from tornado_gate_openai.wire.chat import WIRE_FORMAT, parse_request, render_request


def call_for(model: str = "up", strict: bool = False) -> Call:
    return call_to(model="m", upstream_model=model, strict=strict)


def body_with(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "up", "messages": list(messages), **fields}


@given(request=strategies.requests())
def test_parsing_what_was_rendered_gives_the_request_back(request: ChatRequest) -> None:
    call = call_for(request.model)
    parsed = parse_request(render_request(call, request))
    names = {name: said for name, said in parsed.names.items() if not name.startswith("messages.")}
    assert replace(parsed, names=names) == request
    assert call.losses == []


CANONICAL = {
    "a bare question": body_with({"role": "user", "content": "Hi"}),
    "every kind of content": body_with(
        {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": ""},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_data": "AAAA", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
            ],
        },
    ),
    "tools and their results": body_with(
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get", "arguments": '{"a" : 1}', "x": 1},
                    "extra_content": {"google": {"thought_signature": "c2ln"}},
                },
                {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}},
                {"id": "call_3", "type": "mcp", "mcp": {"server": "s"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "a.txt"}]},
        tools=[
            {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}, "strict": True}},
            {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}},
            {"type": "web_search"},
        ],
        tool_choice={
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "get"}}]},
        },
        parallel_tool_calls=False,
    ),
    "a forced tool of another kind": body_with(tool_choice={"type": "custom", "custom": {"name": "run"}}),
    "an empty answer beside a refusal and earlier audio": body_with(
        {"role": "assistant", "content": "", "refusal": "No.", "audio": {"id": "audio_1"}},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ),
    "legacy functions": body_with(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        functions=[{"name": "f"}],
        function_call="auto",
    ),
    "numbers and unknown fields": body_with(
        {"role": "user", "content": "Hi", "x_field": [1]},
        temperature=0,
        top_p=1.0,
        n=2,
        seed=-1,
        stop=["a", "b"],
        max_completion_tokens=5,
        max_tokens=6,
        reasoning_effort="low",
        logit_bias={"50256": -100},
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        store=None,
        top_k=40,
        metadata={"a": "b"},
    ),
}


@pytest.mark.parametrize("body", CANONICAL.values(), ids=CANONICAL)
def test_rendering_what_was_parsed_gives_the_body_back(body: dict[str, Any]) -> None:
    call = call_for()
    assert render_request(call, parse_request(body)) == body
    assert call.losses == []


def test_every_field_finds_its_place() -> None:
    request = parse_request(CANONICAL["numbers and unknown fields"])
    assert request.wire_format == WIRE_FORMAT
    assert (request.max_tokens, request.names["max_tokens"]) == (5, "max_completion_tokens")
    assert (request.reasoning, request.names["reasoning"]) == (Reasoning(effort="low"), "reasoning_effort")
    assert (request.temperature, request.n, request.stop) == (0, 2, ("a", "b"))
    assert request.include_usage is True
    assert request.extra["stream_options"] == {"include_obfuscation": False}
    assert request.extra["top_k"] == 40
    assert request.messages[0].extra == {"x_field": [1]}


def test_parts_find_their_classes() -> None:
    parts = parse_request(CANONICAL["every kind of content"]).messages[1].parts
    assert parts[1:] == (
        Image(source=Link(url="https://example.com/a.png"), detail="low"),
        Image(source=Data(media_type="image/png", base64="AAAA")),
        Audio(source=Data(media_type="audio/mpeg", base64="AAAA")),
        File(source=Data(media_type="application/pdf", base64="AAAA"), name="a.pdf"),
        File(source=Data(media_type="", base64="AAAA"), name="a.pdf"),
        File(source=FileReference(id="file-1")),
        VendorPart(
            wire_format=WIRE_FORMAT,
            value={"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
        ),
    )


def test_a_stop_string_is_one_stop() -> None:
    assert parse_request(body_with(stop="END")).stop == ("END",)


def test_nulls_of_an_echoed_answer_say_nothing() -> None:
    echoed = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    assert parse_request(body_with(echoed)).messages == (Message(role="assistant", parts=(Text(text="Hi"),)),)


def test_nothing_said_is_nothing_sent() -> None:
    request = ChatRequest(model="m", messages=(Message(role="user", parts=(Text(text="Hi"),)),))
    assert render_request(call_for(), request) == body_with({"role": "user", "content": "Hi"})


def test_a_stream_always_asks_for_usage() -> None:
    request = parse_request(body_with(stream=True, stream_options={"include_usage": False}))
    assert render_request(call_for(), request)["stream_options"] == {"include_usage": True}


def foreign(*messages: Message, **fields: Any) -> ChatRequest:
    return ChatRequest(model="m", messages=messages, wire_format="anthropic-messages", **fields)


def said(request: ChatRequest) -> tuple[dict[str, Any], list[str]]:
    call = call_for()
    return render_request(call, request), call.losses


def test_fields_of_another_format_are_lost_by_their_own_names() -> None:
    request = foreign(
        top_k=4,
        reasoning=Reasoning(budget_tokens=1000, summary="auto"),
        tools=(
            VendorTool(wire_format="anthropic-messages", value={"type": "bash_20250124"}),
            Tool(name="f", extra={"defer_loading": True, "cache_control": {"type": "ephemeral"}}),
        ),
        tool_choice=ToolChoice(mode="vendor", vendor={"type": "odd"}),
        extra={"container": "c", "unset": None},
        names={"top_k": "topK", "reasoning": "thinking"},
    )
    body, losses = said(request)
    assert body == body_with(tools=[{"type": "function", "function": {"name": "f"}}], reasoning_effort="minimal")
    assert losses == [
        "tools.0",
        "tools.1.defer_loading",
        "tools.1.cache_control",
        "tool_choice",
        "thinking.summary",
        "topK",
        "container",
    ]


def test_parts_that_cannot_be_said_are_lost_by_their_paths() -> None:
    request = foreign(
        Message(
            role="user",
            parts=(Text(text="Hi", extra={"citations": [{}], "cache_control": {"type": "ephemeral"}}),),
            plain=False,
        ),
        Message(
            role="assistant",
            parts=(
                Thinking(text="hm", signature=Opaque(issuer="anthropic", value="s")),
                Text(text="So:"),
                Image(source=Link(url="https://example.com/a.png")),
                ToolCall(id="c1", name="f", arguments="{}"),
                ToolCall(id="c2", name="", arguments="", kind="server_tool_use"),
            ),
        ),
        Message(
            role="tool",
            parts=(
                ToolResult(
                    call_id="c1",
                    parts=(Text(text="bad"), Image(source=Data(media_type="image/png", base64="AA"))),
                    is_error=True,
                ),
                ToolResult(call_id="c2", parts=()),
            ),
        ),
        Message(role="user", parts=(File(source=Link(url="https://example.com/a.pdf")),), plain=False),
        Message(role="user", parts=(VendorPart(wire_format="gemini", value={}), Text(text="?")), plain=False),
    )
    body, losses = said(request)
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "content": "So:",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "bad", "tool_call_id": "c1"},
        {"role": "tool", "content": "", "tool_call_id": "c2"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Returned by the tool:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
    ]
    assert losses == [
        "messages.0.content.0.citations",
        "messages.0.content.0.cache_control",
        "messages.1.content.2",
        "messages.1.content.0",
        "messages.1.content.4",
        "messages.2.content.0.is_error",
        "messages.2.content.0.content.1",
        "messages.3.content.0",
        "messages.4.content.0",
    ]


def test_parts_that_stand_outside_of_content_are_lost_by_where_they_stood() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    turn = {"role": "assistant", "content": "Hm", "audio": {"id": "a"}, "refusal": "No", "tool_calls": calls}
    request = parse_request(body_with(turn))
    places = [request.path(0, index) for index in range(4)]
    assert places == ["messages.0.content.0", "messages.0.refusal", "messages.0.audio", "messages.0.tool_calls.0"]


def test_thinking_without_a_measure_is_lost_by_its_name() -> None:
    assert said(foreign(reasoning=Reasoning(enabled=True), names={"reasoning": "thinking"}))[1] == ["thinking"]


def test_a_file_that_another_vendor_keeps_is_nothing_to_this_one() -> None:
    kept = Message(role="user", parts=(File(source=FileReference(id="file_1")),), plain=False)
    body, losses = said(foreign(Message(role="user", parts=(Text(text="Hi"),)), kept))
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert losses == ["messages.1.content.0"]


def test_a_strict_caller_gets_an_error_for_the_first_loss() -> None:
    with pytest.raises(InvalidField) as caught:
        render_request(call_for(strict=True), foreign(top_k=4))
    assert caught.value.param == "top_k"


def test_results_come_before_what_the_same_turn_says() -> None:
    turn = Message(role="user", parts=(ToolResult(call_id="c", parts=(Text(text="1"),)), Text(text="Go on.")))
    assert said(foreign(turn))[0]["messages"] == [
        {"role": "tool", "content": "1", "tool_call_id": "c"},
        {"role": "user", "content": "Go on."},
    ]


def test_an_assistant_whose_words_are_all_lost_says_the_empty_string() -> None:
    body, losses = said(foreign(Message(role="assistant", parts=(Thinking(text="hm"),))))
    assert body["messages"] == [{"role": "assistant", "content": ""}]
    assert losses == ["messages.0.content.0"]


def test_a_schema_without_a_name_gets_one() -> None:
    wanted = ResponseFormat(kind="json_schema", schema={"type": "object"})
    assert said(foreign(response_format=wanted))[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "response", "schema": {"type": "object"}, "strict": False},
    }


@pytest.mark.parametrize(
    ("reasoning", "effort"),
    [(Reasoning(enabled=False), "none"), (Reasoning(enabled=True), None), (Reasoning(effort="high"), "high")],
)
def test_reasoning_becomes_an_effort(reasoning: Reasoning, effort: str | None) -> None:
    assert said(foreign(reasoning=reasoning))[0].get("reasoning_effort") == effort


def test_the_limit_has_the_name_that_the_upstream_knows() -> None:
    request = foreign(max_tokens=7)
    assert render_request(call_for(), request)["max_completion_tokens"] == 7
    assert render_request(call_for(), request, max_tokens_name="max_tokens")["max_tokens"] == 7


def test_the_limit_of_this_format_keeps_its_name() -> None:
    request = parse_request(body_with(max_tokens=7))
    assert "max_completion_tokens" not in render_request(call_for(), request)


def test_a_refusal_among_array_content_stays_there() -> None:
    message = Message(role="assistant", parts=(Text(text="a"), Refusal(text="b")), plain=False)
    body, _ = said(replace(foreign(message), wire_format=WIRE_FORMAT))
    assert body["messages"][0]["content"] == [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
