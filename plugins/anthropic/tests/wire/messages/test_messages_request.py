"""Requests that came in this format, both halves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given

from plugins.anthropic.tests.wire.messages import strategies
from plugins.anthropic.tests.wire.messages.support import call_for
from tornado_gate.types import (
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
    ToolChoice,
    ToolResult,
    VendorPart,
    VendorTool,
    replace,
)
from tornado_gate_anthropic.wire.messages import WIRE_FORMAT, parse_request, render_request
from tornado_gate_anthropic.wire.messages.server_tools import parse_server_tool
from tornado_gate_openai.wire.chat import render_request as render_for_openai

CODE_CALLER = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}


def body_with(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "up", "max_tokens": 9, "messages": list(messages), **fields}


ASK = {"role": "user", "content": "Hi"}


@given(request=strategies.requests())
def test_parsing_what_was_rendered_gives_the_request_back(request: ChatRequest) -> None:
    call = call_for(request.model)
    body = render_request(call, request)
    assume(call.losses != ["thinking"])  # a budget beside an earlier tool call without thinking: the vendor refuses it
    parsed = parse_request(body)
    names = {name: path for name, path in parsed.names.items() if ".content." not in name}
    assert replace(parsed, names=names) == request
    assert call.losses == []


def test_the_paths_of_parts_are_the_callers() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "1"}
    turn = {"role": "user", "content": [{"type": "text", "text": "a"}, result, {"type": "text", "text": "b"}]}
    request = parse_request({**body_with(ASK, turn), "system": [{"type": "text", "text": "s"}]})
    paths = [
        request.path(n, place) for n, message in enumerate(request.messages) for place, _ in enumerate(message.parts)
    ]
    assert paths == [
        "system.0",
        "messages.0.content.0",
        "messages.1.content.1",
        "messages.1.content.0",
        "messages.1.content.2",
    ]


CANONICAL = {
    "a bare question": body_with(ASK),
    "every kind of content": body_with(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}, "cache_control": None},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                    "title": "A",
                    "context": "about",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "grün"}},
                {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
                {"type": "document", "source": {"type": "file", "file_id": "file_2"}},
                {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
                {"type": "search_result", "source": "s", "title": "t", "content": []},
                {"type": "container_upload", "file_id": "file_3"},
            ],
        },
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    ),
    "thinking, tools and their results": body_with(
        ASK,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZW5j"},
                {"type": "text", "text": "I look.", "citations": [{"type": "char_location"}]},
                {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"a": 1}, "caller": CODE_CALLER},
                {"type": "tool_use", "id": "toolu_2", "name": "get", "input": {}},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [
                        {"type": "text", "text": "sunny"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                        {"type": "tool_reference", "tool_name": "f"},
                    ],
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True},
                {"type": "text", "text": "And now?"},
            ],
        },
        system="Be brief.",
        tools=[
            {"name": "get", "description": "d", "input_schema": {"type": "object"}, "strict": True},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
            {"type": "bash_20250124", "name": "bash"},
        ],
        tool_choice={"type": "tool", "name": "get", "disable_parallel_tool_use": True},
    ),
    "a plain result": body_with(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "18 degrees"}]}
    ),
    "a system message between the turns": body_with(
        ASK, {"role": "system", "content": "Now be brief."}, {"role": "assistant", "content": "Yes."}
    ),
    "every field": body_with(
        ASK,
        stream=True,
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        stop_sequences=["END", " "],
        thinking={"type": "enabled", "budget_tokens": 2048, "display": "omitted"},
        output_config={"effort": "max", "format": {"type": "json_schema", "schema": {"type": "object"}}, "x": 1},
        metadata={"user_id": "u", "x_team": "t"},
        service_tier="auto",
        container={"id": "c"},
        cache_control={"type": "ephemeral"},
        mcp_servers=[],
    ),
    "adaptive thinking": body_with(ASK, thinking={"type": "adaptive"}, tool_choice={"type": "none"}),
    "no thinking": body_with(ASK, thinking={"type": "disabled"}, tool_choice={"type": "any"}),
    "thinking of a kind that is unknown here": body_with(ASK, thinking={"type": "between_tools"}),
    "a format that is unknown here": body_with(ASK, output_config={"format": {"type": "xml"}}),
}


@pytest.mark.parametrize("body", CANONICAL.values(), ids=CANONICAL.keys())
def test_a_body_of_this_format_comes_back_as_it_was(body: dict[str, Any]) -> None:
    call = call_for()
    assert render_request(call, parse_request(body)) == body
    assert call.losses == []


def parts_of(*blocks: Any, role: str = "user") -> tuple[Any, ...]:
    (parsed,) = parse_request(body_with({"role": role, "content": list(blocks)})).messages
    return parsed.parts


def test_pictures_and_documents_are_told_apart_by_their_source() -> None:
    def image(source: dict[str, str]) -> dict[str, Any]:
        return {"type": "image", "source": source}

    def document(source: dict[str, str], **rest: str) -> dict[str, Any]:
        return {"type": "document", "source": source, **rest}

    assert parts_of(
        image({"type": "base64", "media_type": "image/gif", "data": "R0lG"}),
        image({"type": "url", "url": "https://a.example/b", "x": "y"}),
        image({"type": "file", "file_id": "f"}),
        document({"type": "text", "media_type": "text/plain", "data": "grün"}, title="T", context="c"),
    ) == (
        Image(source=Data(media_type="image/gif", base64="R0lG")),
        Image(source=Link(url="https://a.example/b"), extra={"source": {"x": "y"}}),
        Image(source=FileReference(id="f")),
        File(source=Data(media_type="text/plain", base64="Z3LDvG4="), name="T", extra={"context": "c"}),
    )


@pytest.mark.parametrize("kind", ["server_tool_use", "web_search_tool_result", "container_upload", "x_new"])
def test_blocks_of_the_vendors_own_are_kept_whole(kind: str) -> None:
    block = {"type": kind, "id": "1"}
    assert parts_of(block) == (VendorPart(wire_format=WIRE_FORMAT, value=block),)


def test_thinking_keeps_its_signature_and_redacted_thinking_its_data() -> None:
    assert parts_of(
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "redacted_thinking", "data": "ZW5j"},
        role="assistant",
    ) == (
        Thinking(text="hm", signature=Opaque(issuer="", value="c2ln")),
        Thinking(text="hm"),
        Thinking(redacted=True, signature=Opaque(issuer="", value="ZW5j")),
    )


def test_results_and_what_else_a_user_says_become_two_messages() -> None:
    request = parse_request(
        body_with(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Here."},
                    {"type": "tool_result", "tool_use_id": "t1", "content": "1", "is_error": True},
                    {"type": "tool_result", "tool_use_id": "t2"},
                ],
            },
            system="S",
        )
    )
    assert request.messages == (
        Message(role="system", parts=(Text(text="S"),)),
        Message(
            role="tool",
            parts=(
                ToolResult(call_id="t1", parts=(Text(text="1"),), is_error=True),
                ToolResult(call_id="t2", parts=()),
            ),
        ),
        Message(role="user", parts=(Text(text="Here."),), plain=False),
    )
    assert request.field_name("messages.0") == "system"
    assert request.field_name("messages.1") == request.field_name("messages.2") == "messages.0"


@pytest.mark.parametrize(
    ("value", "choice", "parallel"),
    [
        ({"type": "auto"}, ToolChoice(mode="auto"), None),
        ({"type": "any", "disable_parallel_tool_use": False}, ToolChoice(mode="required"), True),
        ({"type": "tool", "name": "f", "disable_parallel_tool_use": True}, ToolChoice(mode="tool", name="f"), False),
        ({"type": "none"}, ToolChoice(mode="none"), None),
        ({"type": "x"}, ToolChoice(mode="vendor", vendor={"type": "x"}), None),
    ],
)
def test_tool_choices_are_read(value: Any, choice: ToolChoice, parallel: bool | None) -> None:
    request = parse_request(body_with(ASK, tool_choice=value))
    assert (request.tool_choice, request.parallel_tool_calls) == (choice, parallel)


def test_tools_are_custom_unless_they_say_something_else() -> None:
    tools = [
        {"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
        {"type": "custom", "name": "g", "input_schema": {}},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    assert parse_request(body_with(ASK, tools=tools)).tools == (
        Tool(name="f", parameters={"type": "object"}, extra={"cache_control": {"type": "ephemeral"}}),
        Tool(name="g", parameters={}),
        VendorTool(wire_format=WIRE_FORMAT, value=tools[2], server=parse_server_tool(tools[2])),
    )


@pytest.mark.parametrize(
    ("fields", "reasoning", "name"),
    [
        (
            {"thinking": {"type": "enabled", "budget_tokens": 5000}},
            Reasoning(budget_tokens=5000, enabled=True, visible=True),
            "thinking",
        ),
        ({"thinking": {"type": "adaptive"}}, Reasoning(enabled=True, visible=True), "thinking"),
        (
            {"thinking": {"type": "adaptive", "display": "summarized"}},
            Reasoning(enabled=True, visible=True, summary="auto"),
            "thinking",
        ),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Reasoning(enabled=True), "thinking"),
        ({"thinking": {"type": "disabled"}}, Reasoning(enabled=False), "thinking"),
        ({"output_config": {"effort": "low"}}, Reasoning(effort="low"), "output_config.effort"),
        ({"thinking": None, "output_config": {"effort": None}}, None, "reasoning"),
    ],
)
def test_thinking_and_effort_are_read(fields: Any, reasoning: Reasoning | None, name: str) -> None:
    request = parse_request(body_with(ASK, **fields))
    assert request.reasoning == reasoning
    assert request.field_name("reasoning") == name


def test_what_has_no_word_in_the_vocabulary_is_kept_under_its_path() -> None:
    request = parse_request(CANONICAL["every field"])
    assert request.user == "u"
    assert request.stop == ("END", " ")
    assert request.response_format == ResponseFormat(kind="json_schema", schema={"type": "object"})
    assert set(request.extra) == {
        "output_config.x",
        "metadata.x_team",
        "service_tier",
        "container",
        "cache_control",
        "mcp_servers",
    }


def test_everything_that_another_format_cannot_say_is_reported_there() -> None:
    call = call_for()
    render_for_openai(call, parse_request(CANONICAL["every field"]))
    assert set(call.losses) == {
        "top_k",
        "thinking.budget_tokens",
        "output_config.x",
        "metadata.x_team",
        "service_tier",
        "container",
        "cache_control",
        "mcp_servers",
    }


def test_a_conversation_with_tools_can_be_said_in_another_format() -> None:
    body = body_with(
        ASK,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"a": 1}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"},
                {"type": "text", "text": "And now?"},
            ],
        },
        system="S",
    )
    call = call_for()
    assert render_for_openai(call, parse_request(body))["messages"] == [
        {"role": "system", "content": "S"},
        ASK,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "toolu_1", "type": "function", "function": {"name": "get", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "toolu_1", "content": "sunny"},
        {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
    ]
    assert call.losses == []


def test_a_call_keeps_an_input_that_is_beyond_64_bits() -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"n": 10**30}}
    assert parts_of(block, role="assistant") == (ToolCall(id="t", name="f", arguments='{"n":1' + "0" * 30 + "}"),)
