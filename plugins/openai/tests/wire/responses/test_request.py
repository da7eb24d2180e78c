"""Requests of the responses wire format, both halves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from plugins.openai.tests.wire.responses import strategies
from plugins.openai.tests.wire.responses.asking import RESULTS, TURN, call_for, foreign, read_request, user
from tornado_gate.errors import InvalidField
from tornado_gate.types import (
    Audio,
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
from tornado_gate_openai.wire.responses import WIRE_FORMAT, parse_request, read_items, render_request


@given(request=strategies.requests())
def test_parsing_what_was_rendered_gives_the_request_back(request: ChatRequest) -> None:
    call = call_for(request.model)
    parsed = parse_request(render_request(call, request))
    assert replace(parsed, names=request.names) == request
    assert call.losses == []


def test_a_string_is_what_the_user_says() -> None:
    request = parse_request({"model": "m", "input": "Hi", "instructions": "Be brief."})
    assert request.messages == (
        Message(role="system", parts=(Text(text="Be brief."),)),
        user(Text(text="Hi")),
    )
    assert parse_request({"model": "m", "input": read_items("Hi")}).messages == (user(Text(text="Hi")),)


@pytest.mark.parametrize(
    ("part", "parsed"),
    [
        ({"type": "input_text", "text": "a"}, Text(text="a")),
        ({"type": "text", "text": "a"}, Text(text="a")),
        ({"type": "input_image", "image_url": "https://a.example/b", "detail": "low"}, "link"),
        (
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "file_id": None},
            Image(source=Data(media_type="image/png", base64="AAAA")),
        ),
        ({"type": "input_image", "file_id": "f"}, Image(source=FileReference(id="f"))),
        (
            {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
            File(source=Data(media_type="application/pdf", base64="AAAA"), name="a.pdf"),
        ),
        ({"type": "input_file", "file_data": "AAAA"}, File(source=Data(media_type="", base64="AAAA"))),
        ({"type": "input_file", "file_id": "f"}, File(source=FileReference(id="f"))),
        ({"type": "input_file", "file_url": "https://a.example/b"}, File(source=Link(url="https://a.example/b"))),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            Audio(source=Data(media_type="audio/mpeg", base64="AAAA")),
        ),
        ({"type": "input_video", "x": 1}, VendorPart(wire_format=WIRE_FORMAT, value={"type": "input_video", "x": 1})),
        ({"type": "input_file"}, VendorPart(wire_format=WIRE_FORMAT, value={"type": "input_file"})),
    ],
)
def test_every_part_is_understood(part: dict[str, Any], parsed: Any) -> None:
    if parsed == "link":
        parsed = Image(source=Link(url="https://a.example/b"), detail="low")
    (message,) = read_request({"role": "user", "content": [part]}).messages
    assert message.parts == (parsed,)


def test_what_the_model_said_in_a_row_is_one_message() -> None:
    request = read_request({"role": "user", "content": "Hi"}, *TURN, *RESULTS)
    picture = Image(source=Link(url="https://a.example/b"), detail="auto")
    assert request.messages[1:] == (
        Message(
            role="assistant",
            parts=(
                Thinking(text="hm", signature=Opaque(issuer="", value="e")),
                Text(text="So"),
                ToolCall(id="call_1", name="f", arguments="{}"),
                ToolCall(id="call_2", name="g", arguments="ls", kind="custom"),
            ),
        ),
        Message(role="tool", parts=(ToolResult(call_id="call_1", parts=(Text(text="1"),)),)),
        Message(role="tool", parts=(ToolResult(call_id="call_2", parts=(picture,)),), plain=False),
    )


def test_ids_and_states_of_items_go_nowhere_and_are_no_loss() -> None:
    call = call_for()
    items = render_request(call, read_request({"role": "user", "content": "Hi"}, *TURN, *RESULTS))["input"]
    assert call.losses == []
    assert [item.get("id") for item in items] == [None] * 7
    assert [item["call_id"] for item in items if "call_id" in item] == ["call_1", "call_2", "call_1", "call_2"]
    assert items[-1]["type"] == "custom_tool_call_output"


def test_the_call_id_and_not_the_items_id_names_a_call() -> None:
    (message,) = read_request(TURN[2]).messages
    assert message.parts == (ToolCall(id="call_1", name="f", arguments="{}"),)


def test_reasoning_without_a_summary_is_redacted_and_with_several_one_text() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "e"}
    (message,) = read_request(item).messages
    assert message.parts == (Thinking(redacted=True, signature=Opaque(issuer="", value="e")),)
    item = {"type": "reasoning", "summary": [{"text": "a"}, {"text": "b"}]}
    assert read_request(item).messages[0].parts == (Thinking(text="a\n\nb"),)
    item = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "c"}]}
    assert read_request(item).messages[0].parts == (Thinking(text="c"),)


def test_reasoning_that_cannot_be_read_upstream_is_lost_by_name() -> None:
    call = call_for()
    items = render_request(call, read_request({"role": "user", "content": "Hi"}, {"type": "reasoning", "summary": []}))
    assert items["input"] == [{"role": "user", "content": "Hi"}]
    assert call.losses == ["input.1"]


def test_items_of_unknown_types_pass() -> None:
    items = (
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        {"id": "msg_1"},
        {"type": "compaction", "encrypted_content": "e"},
    )
    request = read_request(*items)
    assert [message.role for message in request.messages] == ["assistant", "user", "user", "user", "assistant"]
    call = call_for()
    assert render_request(call, request)["input"] == list(items)
    assert call.losses == []


def test_a_phase_of_a_message_comes_back() -> None:
    item = {"type": "message", "role": "assistant", "content": "Hm", "phase": "commentary"}
    assert render_request(call_for(), read_request(item))["input"] == [item]


def test_fields_are_those_of_the_vocabulary() -> None:
    request = read_request(
        {"role": "user", "content": "Hi"},
        max_output_tokens=5,
        text={"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "auto", "context": None},
        tools=[{"type": "function", "name": "f", "parameters": {}, "strict": None}, {"type": "file_search"}],
        tool_choice={"type": "function", "name": "f"},
        include=["message.output_text.logprobs", "reasoning.encrypted_content"],
        store=False,
        previous_response_id="resp_1",
        stream=True,
        x_new=1,
    )
    assert request.max_tokens == 5
    assert request.response_format == ResponseFormat(kind="json_schema", name="n", schema={}, strict=True)
    assert request.reasoning == Reasoning(effort="low", summary="auto")
    assert request.tools == (
        Tool(name="f", parameters={}),
        VendorTool(wire_format=WIRE_FORMAT, value={"type": "file_search"}),
    )
    assert request.tool_choice == ToolChoice(mode="tool", name="f")
    assert (request.logprobs, request.stream) == (True, True)
    assert request.extra == {
        "text": {"verbosity": "low"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "previous_response_id": "resp_1",
        "x_new": 1,
    }
    assert request.field_name("max_tokens") == "max_output_tokens"
    assert request.field_name("messages") == "input"


@pytest.mark.parametrize(
    ("choice", "parsed"),
    [
        ("required", ToolChoice(mode="required")),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            ToolChoice(mode="allowed", names=("f",), required=True),
        ),
        ({"type": "mcp", "server_label": "s"}, ToolChoice(mode="vendor", vendor={"type": "mcp", "server_label": "s"})),
    ],
)
def test_every_tool_choice_is_understood(choice: Any, parsed: ToolChoice) -> None:
    assert read_request({"role": "user", "content": "Hi"}, tool_choice=choice).tool_choice == parsed


def test_what_cannot_be_said_is_lost_by_its_name() -> None:
    request = foreign(
        user(Text(text="Hi", extra={"x_more": 1, "cache_control": {"type": "ephemeral"}}), name="ann"),
        Message(role="assistant", parts=(Thinking(text="hm"), Image(source=Link(url="u")))),
        Message(role="tool", parts=(ToolResult(call_id="c", parts=(Text(text="no"),), is_error=True),)),
        top_k=3,
        seed=1,
        stop=("a",),
        n=2,
        frequency_penalty=0.5,
        modalities=("text", "audio"),
        reasoning=Reasoning(effort="low", budget_tokens=5),
        tools=(
            VendorTool(wire_format="other", value={}),
            Tool(name="f", extra={"x_more": 1, "cache_control": {"type": "ephemeral"}}),
        ),
        tool_choice=ToolChoice(mode="vendor", vendor={}),
        extra={"x_more": 1, "x_null": None},
        names={"stop": "stop_sequences"},
    )
    call = call_for()
    body = render_request(call, request)
    assert sorted(call.losses) == sorted(
        [
            "messages.0.name",
            "messages.0.content.0.x_more",
            "messages.0.content.0.cache_control",
            "messages.1.content.0",
            "messages.1.content.1",
            "messages.2.content.0.is_error",
            "tools.0",
            "tools.1.x_more",
            "tools.1.cache_control",
            "tool_choice",
            "reasoning.budget_tokens",
            "top_k",
            "seed",
            "frequency_penalty",
            "stop_sequences",
            "n",
            "modalities",
            "x_more",
        ]
    )
    assert body.keys() == {"model", "input", "tools", "reasoning"}


def test_a_strict_caller_hears_of_the_first_loss() -> None:
    with pytest.raises(InvalidField) as caught:
        render_request(call_for(strict=True), foreign(user(Text(text="Hi")), top_k=3))
    assert caught.value.param == "top_k"


def test_a_system_prompt_of_which_nothing_follows_is_an_item_and_nothing_at_all_is_refused() -> None:
    thought = Message(role="assistant", parts=(Thinking(text="hm"),))
    prompt = Message(role="system", parts=(Text(text="Be brief."),))
    body = render_request(call_for(), ChatRequest(model="m", messages=(prompt, thought)))
    assert body["input"] == [{"type": "message", "role": "system", "content": "Be brief."}]
    with pytest.raises(InvalidField) as caught:
        render_request(call_for(), ChatRequest(model="m", messages=(thought,)))
    assert (caught.value.param, caught.value.code) == ("messages", "empty_conversation")


def test_a_system_prompt_that_stands_first_becomes_instructions() -> None:
    system = Message(role="system", parts=(Text(text="Be brief."),))
    body = render_request(call_for(), foreign(system, user(Text(text="Hi"))))
    assert (body["instructions"], body["input"]) == ("Be brief.", [{"role": "user", "content": "Hi"}])
    later = render_request(call_for(), foreign(user(Text(text="Hi")), system))
    assert "instructions" not in later
    assert later["input"][1] == {"role": "system", "content": "Be brief."}


def test_a_schema_without_a_name_gets_one_and_thinking_switched_off_is_an_effort() -> None:
    request = foreign(
        user(Text(text="Hi")),
        response_format=ResponseFormat(kind="json_schema", schema={}),
        reasoning=Reasoning(enabled=False),
    )
    body = render_request(call_for(), request)
    assert body["text"] == {"format": {"type": "json_schema", "name": "response", "schema": {}, "strict": False}}
    assert body["reasoning"] == {"effort": "none"}


@pytest.mark.parametrize(
    ("reasoning", "said", "losses"),
    [
        (Reasoning(budget_tokens=8192), {"effort": "medium"}, []),
        (Reasoning(budget_tokens=9000, enabled=True, summary="auto"), {"effort": "medium", "summary": "auto"}, []),
        (Reasoning(budget_tokens=1), {"effort": "minimal"}, []),
        (Reasoning(budget_tokens=0), {"effort": "none"}, []),
        (Reasoning(budget_tokens=-1), None, []),
        (Reasoning(budget_tokens=-1, enabled=True), None, ["thinking"]),
        (Reasoning(budget_tokens=9000, effort="low"), {"effort": "low"}, ["thinking.budget_tokens"]),
        (Reasoning(enabled=True), None, ["thinking"]),
        (Reasoning(enabled=True, effort="high"), {"effort": "high"}, []),
    ],
)
def test_a_budget_for_thinking_is_an_effort(reasoning: Reasoning, said: Any, losses: list[str]) -> None:
    call = call_for()
    body = render_request(call, foreign(user(Text(text="Hi")), reasoning=reasoning, names={"reasoning": "thinking"}))
    assert (body.get("reasoning"), call.losses) == (said, losses)


def test_refusals_go_back_as_what_the_model_said() -> None:
    message = Message(role="assistant", parts=(Refusal(text="No."),))
    assert render_request(call_for(), foreign(message))["input"] == [
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    ]
