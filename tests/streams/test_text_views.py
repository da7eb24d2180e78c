"""Texts of whole bodies: what is seen, what is replaced, and what stays as it is."""

from __future__ import annotations

import base64
import copy
import re
from typing import Any

import pytest

from tornado_gate.errors import RequestError
from tornado_gate.guards.text_views import view_request, view_response
from tornado_gate.types.text_maps import TextMap
from tornado_gate.types.texts import Span, find_spans
from tornado_gate_anthropic.fields import MESSAGES
from tornado_gate_gemini.fields import GENERATE, INTERACTIONS
from tornado_gate_openai.fields.chat_answers import CHAT
from tornado_gate_openai.fields.response_answers import RESPONSES
from tornado_gate_openai.fields.transcriptions import TRANSCRIPTIONS

EMAIL = re.compile(r"[\w.]+@[\w.]+\w")


def mask(text_map: TextMap, body: Any, *, response: bool = False) -> Any:
    """The body without e-mail addresses; the one given stays unchanged."""
    before = copy.deepcopy(body)
    view = (view_response if response else view_request)(text_map, body)
    masked = view.apply(find_spans(view.texts, EMAIL, lambda _: '["E"]'))
    assert body == before
    return masked


def send_request(**message: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", **message}]}


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n a@b.example \0").decode()
PDF = base64.b64encode(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3 a@b.example").decode()


def test_kinds_follow_the_roles_and_types() -> None:
    body = {
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": "b"}'},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
        ],
        "new_member": {"of": ["tomorrow"]},
    }
    texts = view_request(RESPONSES, body).texts
    assert {text.text for text in texts if text.kind == "name"} >= {"c", "f", "new_member", "of"}
    seen = {text.path: (text.kind, text.text) for text in texts if text.kind != "name" and text.text != "a"}
    assert seen == {
        "instructions": ("system", "Be brief."),
        "input.0.content.0.text": ("user", "Hi"),
        "input.1.summary.0.text": ("reasoning", "Hm"),
        "input.2.arguments.a": ("tool_call", "b"),
        "input.3.output": ("tool_result", "done"),
        "new_member.of.0": ("other", "tomorrow"),
    }


@pytest.mark.parametrize(
    ("arguments", "masked"),
    [
        (
            r'{"to": "\u0061@b.example", "id": "x@y.example",  "n": 1.50}',
            r'{"to": "[\"E\"]", "id": "[\"E\"]",  "n": 1.50}',
        ),
        (r'{"a@b.example": 1, "x": ["é\n a@b.example"]}', r'{"[\"E\"]": 1, "x": ["é\n [\"E\"]"]}'),
        (r'{"a": "a@b.example', r'{"a": "[\"E\"]'),
        ("mail a@b.example now", 'mail ["E"] now'),
        ('{"a": 12@b.example}', '{"a": ["E"]}'),
        ("", ""),
    ],
)
def test_arguments_of_tools_are_seen_decoded_and_stay_json(arguments: str, masked: str) -> None:
    calls = [{"id": "call_1", "type": "function", "function": {"name": "mail", "arguments": arguments}}]
    found = mask(CHAT, send_request(tool_calls=calls))
    assert found["messages"][0]["tool_calls"][0]["function"]["arguments"] == masked


def test_members_of_free_objects_are_texts_whatever_their_names() -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"id": "a@b.example", "type": "a@b.example x"}}
    found = mask(MESSAGES, {"messages": [{"role": "assistant", "content": [block]}]})
    assert found["messages"][0]["content"][0]["input"] == {"id": '["E"]', "type": '["E"] x'}


def test_two_names_with_one_replacement_both_stay() -> None:
    found = mask(CHAT, {"metadata": {"a@b.example": "1", "c@d.example": "2"}})
    assert found == {"metadata": {'["E"]': "1", '["E"]_': "2"}}


def test_text_files_are_seen_and_other_files_are_not() -> None:
    parts = [
        {"type": "file", "file": {"file_data": "data:text/plain;base64," + encode("I am a@b.example")}},
        {"type": "file", "file": {"file_data": "data:text/csv,a%40b.example"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG}},
        {"type": "image_url", "image_url": {"url": "https://site.example/?u=a@b.example"}},
    ]
    found = mask(CHAT, send_request(content=parts))["messages"][0]["content"]
    assert found[0]["file"]["file_data"] == "data:text/plain;base64," + encode('I am ["E"]')
    assert found[1]["file"]["file_data"] == "data:text/csv,%5B%22E%22%5D"
    assert found[2] == parts[2]
    assert found[3]["image_url"]["url"] == 'https://site.example/?u=["E"]'
    sources = [
        {"type": "base64", "media_type": "text/plain", "data": encode("a@b.example")},
        {"type": "text", "media_type": "text/plain", "data": "a@b.example"},
        {"type": "base64", "media_type": "application/pdf", "data": PDF},
    ]
    blocks = [{"type": "document", "source": source} for source in sources]
    found = mask(MESSAGES, send_request(content=blocks))["messages"][0]["content"]
    assert [block["source"]["data"] for block in found] == [encode('["E"]'), '["E"]', sources[2]["data"]]
    part = {"inlineData": {"mimeType": "text/plain", "data": encode("ü a@b.example").replace("/", "_")}}
    found = mask(GENERATE, {"contents": [{"parts": [part]}]})
    assert found["contents"][0]["parts"][0]["inlineData"]["data"] == encode('ü ["E"]')


def test_signed_thinking_of_a_request_is_fixed_and_that_of_an_answer_keeps_its_signature() -> None:
    block = {"type": "thinking", "thinking": "a@b.example", "signature": "c2ln"}
    message = {"role": "assistant", "content": [block]}
    assert view_request(MESSAGES, {"messages": [message]}).texts[0].is_fixed
    with pytest.raises(RequestError) as refused:
        mask(MESSAGES, {"messages": [message]})
    assert refused.value.param == "messages.0.content.0.thinking"
    assert mask(MESSAGES, message, response=True)["content"] == [{**block, "thinking": '["E"]'}]


def test_what_reveals_a_replaced_text_goes_and_positions_move() -> None:
    citation = {"type": "url_citation", "url": "u", "title": "t", "start_index": 15, "end_index": 18}
    part = {
        "type": "output_text",
        "text": "a@b.example is in [1].",
        "logprobs": [{"token": "a@b"}],
        "annotations": [citation],
    }
    body = {"output": [{"type": "message", "role": "assistant", "content": [part]}]}
    found = mask(RESPONSES, body, response=True)["output"][0]["content"][0]
    assert found["logprobs"] == []
    assert (
        found["text"][found["annotations"][0]["start_index"] : found["annotations"][0]["end_index"]]
        == part["text"][15:18]
    )
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "a@b.example"},
        "logprobs": {"content": [{"token": "a"}]},
    }
    assert mask(CHAT, {"choices": [choice]}, response=True)["choices"][0]["logprobs"] is None
    clean = {"choices": [{**choice, "message": {"role": "assistant", "content": "Hello"}}]}
    assert mask(CHAT, clean, response=True) is clean


def test_positions_in_bytes_go_with_a_replaced_text() -> None:
    note = {"type": "url_citation", "url": "u", "start_index": 0, "end_index": 3}
    step = {"type": "model_output", "content": [{"type": "text", "text": "a@b.example", "annotations": [note]}]}
    found = mask(INTERACTIONS, {"status": "completed", "steps": [step]}, response=True)["steps"][0]["content"][0]
    assert found["annotations"] == [{**note, "start_index": None, "end_index": None}]
    segment = {"segment": {"startIndex": 0, "endIndex": 3, "text": "ü a@b.example"}}
    content = {"role": "model", "parts": [{"text": "ü a@b.example"}]}
    candidate = {"content": content, "groundingMetadata": {"groundingSupports": [segment]}}
    found = mask(GENERATE, {"candidates": [candidate]}, response=True)["candidates"][0]
    assert found["groundingMetadata"]["groundingSupports"] == []
    assert "example" not in str(found)


def test_a_text_answer_is_one_text() -> None:
    view = view_response(TRANSCRIPTIONS, "1\n00:00 --> 00:01\nI am a@b.example")
    assert [text.kind for text in view.texts] == ["assistant"]
    assert view.apply(find_spans(view.texts, EMAIL, lambda _: "E")).endswith("I am E")


@pytest.mark.parametrize(
    "spans", [[Span(0, 0, 3, "x"), Span(0, 2, 4, "y")], [Span(0, 3, 2, "x")], [Span(0, 0, 99, "x")]]
)
def test_wrong_spans_are_an_error(spans: list[Span]) -> None:
    with pytest.raises(ValueError, match="overlaps"):
        view_request(CHAT, send_request(content="Hello")).apply(spans)


def test_a_replaced_number_becomes_a_string() -> None:
    number = 4111111111111111
    arguments = f'{{"card": {number}, "n": [1.5, {number}.0, true], "to": "x"}}'
    calls = [{"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": arguments}}]
    view = view_request(CHAT, {**send_request(tool_calls=calls), "metadata": {"n": number}})
    masked = view.apply(find_spans(view.texts, re.compile(str(number)), lambda _: 'a "mark"'))
    assert masked["messages"][0]["tool_calls"][0]["function"]["arguments"] == (
        '{"card": "a \\"mark\\"", "n": [1.5, "a \\"mark\\".0", true], "to": "x"}'
    )
    assert masked["metadata"] == {"n": 'a "mark"'}
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"card": number, "small": 12, "yes": True}}
    view = view_response(MESSAGES, {"role": "assistant", "content": [block], "usage": {"input_tokens": number}})
    masked = view.apply(find_spans(view.texts, re.compile(str(number)), lambda _: "***"))
    assert masked["content"][0]["input"] == {"card": "***", "small": 12, "yes": True}
    assert masked["usage"] == {"input_tokens": number}
