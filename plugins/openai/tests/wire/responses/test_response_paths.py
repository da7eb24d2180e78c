"""The names under which losses of a responses request are reported, and whose stored files go up."""

from __future__ import annotations

import pytest

from plugins.openai.tests.wire.responses import strategies
from plugins.openai.tests.wire.responses.asking import RESULTS, TURN, call_for, foreign, read_request, user
from tornado_gate.types import (
    Audio,
    ChatRequest,
    File,
    FileReference,
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    replace,
)
from tornado_gate_openai.wire.responses import WIRE_FORMAT, parse_request, render_request


def every_path(request: ChatRequest) -> list[tuple[str, list[str]]]:
    """The caller's path of each message, and those of its parts."""
    return [
        (request.path(number), [request.path(number, part) for part, _ in enumerate(message.parts)])
        for number, message in enumerate(request.messages)
    ]


def test_messages_and_parts_are_named_by_the_items_they_came_in() -> None:
    picture = {"type": "input_image", "image_url": "https://a.example/b"}
    hello = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, picture]}
    request = read_request(hello, *TURN, *RESULTS, {"type": "mcp_approval_response"}, hello, instructions="Be brief.")
    assert every_path(request) == [
        ("instructions", ["instructions"]),
        ("input.0", ["input.0.content.0", "input.0.content.1"]),
        ("input.1", ["input.1", "input.2.content.0", "input.3", "input.4"]),
        ("input.5", ["input.5.output"]),
        ("input.6", ["input.6.output"]),
        ("input.7", ["input.7"]),
        ("input.8", ["input.8.content.0", "input.8.content.1"]),
    ]


def test_names_are_kept_only_of_what_stands_elsewhere() -> None:
    request = read_request({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"})
    assert request.names == strategies.FIELD_NAMES
    assert every_path(request) == [("input.0", ["input.0.content.0"]), ("input.1", ["input.1.content.0"])]


def test_an_input_that_is_a_string_is_named_whole() -> None:
    assert every_path(parse_request({"model": "m", "input": "Hi"})) == [("input", ["input"])]


def test_what_was_said_in_earlier_responses_is_named_by_their_id() -> None:
    body = {"model": "m", "previous_response_id": "resp_1", "input": [TURN[1], {"role": "user", "content": "And?"}]}
    request = parse_request(body, [{"role": "user", "content": "Hi"}, TURN[0], TURN[2], RESULTS[0], TURN[3]])
    previous = "previous_response_id"
    assert every_path(request) == [
        (previous, [previous]),
        (previous, [previous, previous]),
        (previous, [previous]),
        (previous, [previous, "input.0.content.0"]),
        ("input.1", ["input.1.content.0"]),
    ]


def test_fields_of_a_turn_are_named_by_the_message_that_has_them() -> None:
    request = read_request(TURN[0], {**TURN[1], "phase": "commentary"}, TURN[2])
    assert request.path(0) == "input.1"
    assert [request.path(0, part) for part in range(3)] == ["input.0", "input.1.content.0", "input.2"]


def test_fields_of_a_result_are_the_messages() -> None:
    call = call_for()
    request = read_request({**RESULTS[0], "caller": {"type": "direct"}})
    assert (request.path(0), request.messages[0].extra) == ("input.0", {"caller": {"type": "direct"}})
    assert render_request(call, request)["input"] == [{**RESULTS[0], "caller": {"type": "direct"}}]
    assert call.losses == []


def test_losses_have_the_names_of_a_foreign_caller() -> None:
    names = {"messages": "contents", "content": "parts", "messages.1.content.1": "contents.1.audio"}
    spoken = Message(role="assistant", parts=(Thinking(text="hm"), Audio(reference="a")), extra={"x": 1})
    call = call_for()
    render_request(call, foreign(user(Text(text="Hi", extra={"y": 1}), name="ann"), spoken, names=names))
    assert sorted(call.losses) == [
        "contents.0.name",
        "contents.0.parts.0.y",
        "contents.1.audio",
        "contents.1.parts.0",
        "contents.1.x",
    ]


STORED = (Image(source=FileReference(id="f")), File(source=FileReference(id="f"), name="a.pdf"))


@pytest.mark.parametrize("part", STORED)
def test_a_file_stored_at_another_vendor_stays_away(part: Image | File) -> None:
    call = call_for()
    result = Message(role="tool", parts=(ToolResult(call_id="c", parts=(Text(text="see"), part)),))
    request = foreign(user(Text(text="Hi"), part), result, names={"content": "parts"})
    assert "file_id" not in str(render_request(call, request)["input"])
    assert call.losses == ["messages.0.parts.1", "messages.1.parts.0.content.1"]


@pytest.mark.parametrize("wire_format", ["openai-chat", WIRE_FORMAT])
@pytest.mark.parametrize("part", STORED)
def test_a_file_stored_at_this_vendor_is_named_by_its_id(part: Image | File, wire_format: str) -> None:
    call = call_for()
    request = replace(foreign(user(Text(text="Hi"), part)), wire_format=wire_format)
    content = render_request(call, request)["input"][0]["content"][1]
    assert content["file_id"] == "f"
    named = isinstance(part, File) and wire_format != WIRE_FORMAT  # the vendor accepts a name only beside file data
    assert call.losses == (["messages.0.content.1.filename"] if named else [])
