"""Functions and signatures in contents: who answers whom, and what must come back on which part."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from plugins.gemini.tests.wire.generate.streaming import (
    assistant,
    contents_of,
    messages_of,
    parsed,
    rendered,
    results,
    user,
)
from tornado_gate.types import (
    ChatResult,
    Choice,
    Data,
    Image,
    Message,
    Opaque,
    Text,
    ToolCall,
    ToolResult,
)
from tornado_gate_gemini.wire.generate import SIGNATURE_DUMMY, GeminiModelFeatures, render_response

DUMMY = GeminiModelFeatures(signature_dummy=True)
OLD = GeminiModelFeatures(parts_in_results=False)


ASKED = user(Text(text="Hi"))


# Functions: who answers whom


def call_part(name: str, **rest: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"a": 1}, **rest}}


def response_part(name: str, response: Any = None, **rest: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response or {"result": "ok"}, **rest}}


def test_a_response_that_repeats_an_earlier_one_is_read_once() -> None:
    """As gemini-cli 0.61 sends a session that it resumes. Paths of later parts stay those of the caller."""
    first, second = response_part("f", id="c1"), response_part("f", {"result": "no"}, id="c1")
    call = {"role": "model", "parts": [call_part("f", id="c1")]}
    asked = {"role": "user", "parts": [{"text": "Hi"}]}
    answered = {"role": "user", "parts": [first]}
    later = {"role": "user", "parts": [first, {"text": "Go on.", "unknown": 1}]}
    request = parsed({"contents": [asked, call, answered, answered, later]})
    assert [message.role for message in request.messages] == ["user", "assistant", "tool", "user"]
    assert request.path(3, 0) == "contents.4.parts.1"
    assert len(messages_of(asked, call, answered, {"role": "user", "parts": [second]})) == 4  # another response is kept


def joined(*contents: dict[str, Any]) -> list[tuple[str, str]]:
    """(what a result says, the arguments-bearing call's position) by the ids that join them."""
    messages = messages_of(*contents)
    calls = [part.id for message in messages for part in message.parts if isinstance(part, ToolCall)]
    assert len(set(calls)) == len(calls)
    return [
        (part.parts[0].text, str(calls.index(part.call_id)) if part.call_id in calls else "none")
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResult) and isinstance(part.parts[0], Text)
    ]


def test_a_response_without_an_id_belongs_to_the_call_of_its_name() -> None:
    calls = {"role": "model", "parts": [call_part("f"), call_part("g")]}
    responses = {"role": "user", "parts": [response_part("g", {"result": "G"}), response_part("f", {"result": "F"})]}
    assert joined(calls, responses) == [("G", "1"), ("F", "0")]


def test_parallel_calls_of_one_name_are_answered_in_their_order() -> None:
    calls = {"role": "model", "parts": [call_part("f"), call_part("f")]}
    responses = {"role": "user", "parts": [response_part("f", {"result": "1"}), response_part("f", {"result": "2"})]}
    assert joined(calls, responses) == [("1", "0"), ("2", "1")]


def test_an_id_counts_for_more_than_the_order() -> None:
    calls = {"role": "model", "parts": [call_part("f", id="a"), call_part("f", id="b")]}
    responses = {
        "role": "user",
        "parts": [response_part("f", {"result": "B"}, id="b"), response_part("f", {"result": "A"}, id="a")],
    }
    assert joined(calls, responses) == [("B", "1"), ("A", "0")]


def test_the_same_call_in_a_later_turn_is_another_call() -> None:
    turn = [{"role": "model", "parts": [call_part("f")]}, {"role": "user", "parts": [response_part("f")]}]
    assert joined(*turn, *turn) == [("ok", "0"), ("ok", "1")]


def test_a_response_to_no_call_has_an_id_of_its_own() -> None:
    assert joined({"role": "user", "parts": [response_part("f")]}) == [("ok", "none")]


def test_made_ids_are_the_same_in_the_next_turn_and_are_not_sent() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [call_part("f")]},
        {"role": "user", "parts": [response_part("f")]},
    ]
    first = messages_of(*contents)
    longer = messages_of(*contents, {"role": "model", "parts": [call_part("f")]})
    assert longer[: len(first)] == first
    assert rendered(parsed({"contents": contents}))[0]["contents"] == contents


def test_results_come_before_what_else_a_turn_says() -> None:
    calls = {"role": "model", "parts": [call_part("f")]}
    mixed = {"role": "user", "parts": [{"text": "and"}, response_part("f")]}
    assert [message.role for message in messages_of(calls, mixed)] == ["assistant", "tool", "user"]


@pytest.mark.parametrize(
    ("response", "text", "is_error"),
    [
        ({"result": "18 degrees"}, "18 degrees", False),
        ({"degrees": 18}, '{"degrees":18}', False),
        ({"result": {"a": 1}}, '{"result":{"a":1}}', False),
        ({"error": "broken"}, "broken", True),
        ({"error": {"code": 5}}, '{"code":5}', True),
    ],
)
def test_what_a_response_says(response: Any, text: str, is_error: bool) -> None:
    (message,) = messages_of({"role": "user", "parts": [response_part("f", response)]})
    result = message.parts[0]
    assert isinstance(result, ToolResult)
    assert (result.parts, result.is_error, result.name) == ((Text(text=text),), is_error, "f")
    assert rendered(parsed({"contents": [{"parts": [response_part("f", response)]}]}))[0]["contents"] == [
        {"role": "user", "parts": [response_part("f", response)]}
    ]


@pytest.mark.parametrize(
    ("text", "response"),
    [
        ("18 degrees", {"result": "18 degrees"}),
        ("[1, 2]", {"result": "[1, 2]"}),
        ('{"a": 1}', {"a": 1}),
        ("", {"result": ""}),
        ('{"x": {"$ref": "#/a"}}', {"result": '{"x": {"$ref": "#/a"}}'}),
        ('{"$schema": "s", "a": [1]}', {"result": '{"$schema": "s", "a": [1]}'}),
    ],
)
def test_a_response_is_an_object_and_never_looks_like_a_schema(text: str, response: Any) -> None:
    calls = assistant(ToolCall(id="c1", name="f", arguments="{}"))
    contents, losses = contents_of(ASKED, calls, results(ToolResult(call_id="c1", parts=(Text(text=text),))))
    assert contents[2]["parts"] == [{"functionResponse": {"id": "c1", "name": "f", "response": response}}]
    assert losses == []


def test_the_name_of_a_result_is_found_by_the_id_of_its_call() -> None:
    calls = assistant(ToolCall(id="c1", name="f", arguments="{}"), ToolCall(id="c2", name="g", arguments="{}"))
    answers = results(ToolResult(call_id="c2", parts=()), ToolResult(call_id="c1", parts=(), is_error=True))
    contents, _ = contents_of(ASKED, calls, answers)
    assert [part["functionResponse"]["name"] for part in contents[2]["parts"]] == ["g", "f"]
    assert contents[2]["parts"][1]["functionResponse"]["response"] == {"error": ""}


def test_all_results_of_a_turn_are_one_content() -> None:
    calls = assistant(ToolCall(id="c1", name="f", arguments="{}"), ToolCall(id="c2", name="g", arguments="{}"))
    one, two = (results(ToolResult(call_id=call, parts=(Text(text=call),))) for call in ("c1", "c2"))
    contents, _ = contents_of(ASKED, calls, one, two)
    assert [len(content["parts"]) for content in contents] == [1, 2, 2]


def test_pictures_in_a_result_go_along_inside_it_or_beside_it() -> None:
    picture = Image(source=Data(media_type="image/png", base64="AAEC"))
    result = ToolResult(call_id="c1", name="f", parts=(Text(text="see"), picture))
    blob = {"inlineData": {"mimeType": "image/png", "data": "AAEC"}}
    contents, losses = contents_of(results(result))
    response = {"id": "c1", "name": "f", "response": {"result": "see"}}
    assert contents[0]["parts"] == [{"functionResponse": {**response, "parts": [blob]}}]
    assert losses == []
    contents, losses = contents_of(results(result), dialect=OLD)
    assert contents[0]["parts"] == [{"functionResponse": response}, blob]
    assert losses == []


def test_pictures_in_a_response_are_read() -> None:
    blob = {"inlineData": {"mimeType": "image/png", "data": "AAEC"}}
    (message,) = messages_of({"role": "user", "parts": [response_part("f", parts=[blob])]})
    result = message.parts[0]
    assert isinstance(result, ToolResult)
    assert result.parts[1] == Image(source=Data(media_type="image/png", base64="AAEC"))


def test_a_call_of_a_tool_that_takes_text_has_it_as_input() -> None:
    contents, losses = contents_of(ASKED, assistant(ToolCall(id="c", name="f", arguments="ls -l", kind="custom")))
    assert contents[1]["parts"] == [{"functionCall": {"id": "c", "name": "f", "args": {"input": "ls -l"}}}]
    assert losses == []


@pytest.mark.parametrize("text", ["[1", "[1]", "x", "null"])
def test_a_call_whose_arguments_are_no_object_keeps_its_place_and_is_reported(text: str) -> None:
    answer = Message(role="tool", parts=(ToolResult(call_id="c", parts=(Text(text="no"),)),))
    contents, losses = contents_of(ASKED, assistant(ToolCall(id="c", name="f", arguments=text)), answer)
    assert [content["parts"][0] for content in contents[1:]] == [
        {"functionCall": {"id": "c", "name": "f", "args": {"input": text}}},
        {"functionResponse": {"id": "c", "name": "f", "response": {"result": "no"}}},
    ]
    assert losses == ["messages.1.content.0"]


# Signatures


def signed(value: str | None, name: str = "f") -> ToolCall:
    signature = None if value is None else Opaque(issuer="p", value=value)
    return ToolCall(id=name, name=name, arguments="{}", signature=signature)


def signatures_of(contents: list[dict[str, Any]]) -> list[list[str | None]]:
    return [[part.get("thoughtSignature") for part in content["parts"]] for content in contents]


def test_a_signature_stays_on_its_part() -> None:
    parts = [
        {"text": "a", "thoughtSignature": "AAEC"},
        {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "AwQF"},
        {"functionCall": {"name": "g", "args": {}}},
    ]
    request = parsed({"contents": [{"role": "model", "parts": parts}]})
    assert rendered(request)[0]["contents"][0]["parts"] == parts


def test_a_part_that_has_nothing_but_a_signature_is_kept() -> None:
    parts = [{"text": "a"}, {"text": "", "thoughtSignature": "AAEC"}]
    request = parsed({"contents": [{"role": "model", "parts": parts}]})
    assert rendered(request)[0]["contents"][0]["parts"] == parts


def test_only_the_first_of_parallel_calls_gets_the_dummy() -> None:
    contents, _ = contents_of(ASKED, assistant(signed(None), signed(None, "g")), dialect=DUMMY)
    assert signatures_of(contents)[1] == [SIGNATURE_DUMMY, None]


def test_a_signature_that_is_there_is_no_reason_for_a_dummy() -> None:
    contents, _ = contents_of(ASKED, assistant(signed("AAEC"), signed(None, "g")), dialect=DUMMY)
    assert signatures_of(contents)[1] == ["AAEC", None]


def test_each_step_of_the_current_turn_gets_its_dummy_and_no_earlier_turn_does() -> None:
    answer = results(ToolResult(call_id="f", parts=(Text(text="r"),)))
    steps = (assistant(Text(text="so"), signed(None)), answer, assistant(signed(None)), answer)
    contents, _ = contents_of(ASKED, *steps, assistant(Text(text="done")), ASKED, *steps, dialect=DUMMY)
    flat = [part for content in signatures_of(contents) for part in content]
    assert flat.count(SIGNATURE_DUMMY) == 2
    assert flat.index(SIGNATURE_DUMMY) > len(flat) // 2


def test_who_checks_no_signatures_gets_no_dummy() -> None:
    contents, _ = contents_of(ASKED, assistant(signed(None)))
    assert signatures_of(contents)[1] == [None]


@pytest.mark.parametrize("value", ["gAAA-_==", "not base64", "", {"a": [1]}, 5, "b3BhcXVlOjE6NQ=="])
def test_any_providers_signature_survives_a_caller_that_knows_base64_alone(value: Any) -> None:
    call = ToolCall(id="c", name="f", arguments="{}", signature=Opaque(issuer="p", value=value))
    result = ChatResult(model="m", choices=(Choice(parts=(call,), reason="tool_calls"),))
    part = orjson.loads(orjson.dumps(render_response(result, id="i", model="m")))["candidates"][0]["content"]["parts"][
        0
    ]
    through_sdk = base64.urlsafe_b64encode(base64.b64decode(part["thoughtSignature"], validate=True)).decode()
    (message,) = messages_of({"role": "model", "parts": [{**part, "thoughtSignature": through_sdk}]})
    back = message.parts[0]
    assert isinstance(back, ToolCall)
    assert back.signature == Opaque(issuer="", value=value)


def test_the_pieces_of_a_streamed_answer_are_one_turn_again() -> None:
    """As google-genai stores a stream: one content for each chunk."""
    contents = [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"text": "one ", "thought": True}]},
        {"role": "model", "parts": [{"text": "two", "thought": True}]},
        {"role": "model", "parts": [{"text": "", "thought": True, "thoughtSignature": "AAEC"}]},
        {"role": "model", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "b"}, {"functionCall": {"name": "look", "args": {}}}]},
        {"role": "model", "parts": [{"text": ""}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {}}}]},
    ]
    request = parsed({"contents": contents})
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]
    thought, said, call, _empty = request.messages[1].parts
    assert (thought.text, thought.signature.value, said.text) == ("one two", "AAEC", "ab")
    assert [request.path(1, number) for number in range(4)] == [
        "contents.1.parts.0",
        "contents.4.parts.0",
        "contents.5.parts.1",
        "contents.6.parts.0",
    ]
    assert request.path(2, 0) == "contents.7.parts.0"
    assert call.name == "look"
