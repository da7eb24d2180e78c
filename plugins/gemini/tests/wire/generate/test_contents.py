"""Contents and parts, both ways: roles, media, functions and signatures."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from plugins.gemini.tests.wire.generate.streaming import (
    assistant,
    contents_of,
    messages_of,
    only_part,
    parsed,
    rendered,
    user,
)
from tornado_gate.testing import chat
from tornado_gate.types import (
    Audio,
    Data,
    File,
    FileReference,
    Image,
    Link,
    Message,
    Opaque,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    VendorPart,
)
from tornado_gate_gemini.wire.generate import GeminiModelFeatures

DUMMY = GeminiModelFeatures(signature_dummy=True)
OLD = GeminiModelFeatures(parts_in_results=False)


ASKED = user(Text(text="Hi"))


@pytest.mark.parametrize(
    "system",
    ["Be kind", {"parts": [{"text": "Be kind"}]}, {"role": "user", "parts": {"text": "Be kind"}}, {"text": "Be kind"}],
)
def test_every_spelling_of_the_system_instruction(system: Any) -> None:
    request = parsed({"systemInstruction": system})
    assert request.messages[0] == Message(role="system", parts=(Text(text="Be kind"),))
    assert rendered(request)[0]["systemInstruction"] == {"parts": [{"text": "Be kind"}]}


def test_roles_may_be_left_out() -> None:
    messages = messages_of(
        {"parts": [{"text": "a"}]},
        {"parts": [{"functionCall": {"name": "f"}}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"result": "r"}}}]},
    )
    assert [message.role for message in messages] == ["user", "assistant", "tool"]


def test_system_messages_wherever_they_stood_are_one_instruction() -> None:
    messages = (
        Message(role="system", parts=(Text(text="a"),)),
        ASKED,
        Message(role="developer", parts=(Text(text="b"),)),
    )
    body, losses = rendered(chat(messages=messages))
    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert losses == ["messages.2.role"]  # the place of the second is lost


def test_instructions_alone_are_a_turn_because_one_is_needed() -> None:
    body, _ = rendered(chat(messages=(Message(role="system", parts=(Text(text="a"),)),)))
    assert body == {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}


def test_neighbours_of_one_role_are_one_turn() -> None:
    contents, _ = contents_of(ASKED, user(Text(text="again")), assistant(Text(text="a")), assistant(Text(text="b")))
    assert contents == [
        {"role": "user", "parts": [{"text": "Hi"}, {"text": "again"}]},
        {"role": "model", "parts": [{"text": "a"}, {"text": "b"}]},
    ]


def test_a_text_without_a_letter_is_left_out_because_it_is_refused() -> None:
    call = ToolCall(id="c", name="f", arguments="")
    contents, losses = contents_of(ASKED, assistant(Text(text=""), call))
    assert contents[1]["parts"] == [{"functionCall": {"id": "c", "name": "f", "args": {}}}]
    assert losses == []


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"text": "a"}, Text(text="a")),
        ({"text": "a", "thought": True}, Thinking(text="a")),
        ({"text": "a", "thoughtSignature": "AAEC"}, Text(text="a", signature=Opaque(issuer="", value="AAEC"))),
        (
            {"text": "a", "thought": True, "thoughtSignature": "AAEC"},
            Thinking(text="a", signature=Opaque(issuer="", value="AAEC")),
        ),
        (
            {"inlineData": {"mimeType": "image/png", "data": "AAEC"}, "mediaResolution": {"level": "LOW"}},
            Image(source=Data(media_type="image/png", base64="AAEC"), extra={"mediaResolution": {"level": "LOW"}}),
        ),
        (
            {"inlineData": {"mimeType": "audio/wav", "data": "AAEC"}},
            Audio(source=Data(media_type="audio/wav", base64="AAEC")),
        ),
        (
            {"inlineData": {"mimeType": "application/pdf", "data": "AAEC", "displayName": "a.pdf"}},
            File(source=Data(media_type="application/pdf", base64="AAEC"), name="a.pdf"),
        ),
        (
            {"fileData": {"fileUri": "https://e.example/a.png", "mimeType": "image/png"}},
            Image(source=Link(url="https://e.example/a.png", media_type="image/png")),
        ),
    ],
)
def test_a_part_and_back(part: dict[str, Any], expected: Part) -> None:
    assert only_part(part) == expected
    body, losses = rendered(parsed({"contents": [{"role": "user", "parts": [part]}]}))
    assert body["contents"] == [{"role": "user", "parts": [part]}]
    assert losses == []


@pytest.mark.parametrize(
    "part",
    [
        {"fileData": {"fileUri": "gs://bucket/a.png", "mimeType": "image/png"}},
        {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/x", "mimeType": "image/png"}},
        {"fileData": {"fileUri": "https://www.youtube.com/watch?v=x"}},
        {"fileData": {"fileUri": "http://[broken"}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"somethingNew": {"a": 1}},
    ],
)
def test_what_only_this_format_knows_is_kept_as_it_is(part: dict[str, Any]) -> None:
    assert only_part(part) == VendorPart(wire_format="gemini-generate", value=part)
    assert rendered(parsed({"contents": [{"parts": [part]}]}))[0]["contents"][0]["parts"] == [part]


def test_url_safe_base64_becomes_the_one_that_everybody_takes() -> None:
    raw = b"\xfb\xff\xfe"
    sent = base64.urlsafe_b64encode(raw).decode()
    assert sent == "-__-"
    image = only_part({"inlineData": {"mimeType": "image/png", "data": sent}})
    assert image == Image(source=Data(media_type="image/png", base64=base64.b64encode(raw).decode()))
    text = only_part({"text": "a", "thoughtSignature": "-__-"})
    assert isinstance(text, Text)
    assert text.signature == Opaque(issuer="", value="+//+")


def test_base64_without_padding_is_padded() -> None:
    image = only_part({"inlineData": {"mimeType": "image/png", "data": "AAE"}})
    assert image == Image(source=Data(media_type="image/png", base64="AAE="))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Image(source=Link(url="https://e.example/a.JPG?x=1")), ("image/jpeg", "https://e.example/a.JPG?x=1")),
        (File(source=Link(url="https://e.example/a.pdf")), ("application/pdf", "https://e.example/a.pdf")),
    ],
)
def test_an_address_whose_path_tells_the_kind_is_passed_on(part: Part, expected: tuple[str, str]) -> None:
    contents, losses = contents_of(user(part))
    assert contents[0]["parts"] == [{"fileData": {"mimeType": expected[0], "fileUri": expected[1]}}]
    assert losses == []


def test_what_cannot_be_said_is_told_by_its_place() -> None:
    message = Message(
        role="user",
        name="Ann",
        parts=(
            Text(text="a", extra={"x_more": 1, "cache_control": {"type": "ephemeral"}}),
            Image(source=Link(url="https://e.example/picture")),
            Image(source=Data(media_type="image/png", base64="AAEC"), detail="high"),
            File(source=FileReference(id="f")),
            File(source=Data(media_type="", base64="AAEC")),
            VendorPart(wire_format="other", value={}),
            Thinking(redacted=True),
        ),
    )
    contents, losses = contents_of(message)
    assert contents[0]["parts"] == [{"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": "AAEC"}}]
    assert losses == [
        "messages.0.name",
        "messages.0.content.0.x_more",
        "messages.0.content.0.cache_control",
        "messages.0.content.1",
        "messages.0.content.2.detail",
        "messages.0.content.3",
        "messages.0.content.4",
        "messages.0.content.5",
        "messages.0.content.6",
    ]


def test_places_in_this_format_are_told_in_its_own_words() -> None:
    request = parsed(
        {"systemInstruction": "S", "contents": [{"parts": [{"inlineData": {"mimeType": "", "data": ""}}]}]}
    )
    assert rendered(request)[1] == ["contents.0.parts.0"]


def test_a_member_of_a_content_that_no_other_vendor_has_is_told_by_its_place() -> None:
    call = {"functionCall": {"name": "f", "args": {}}}
    result = {"functionResponse": {"name": "f", "response": {"result": "r"}}}
    request = parsed(
        {
            "systemInstruction": {"parts": [{"text": "Be kind"}], "weight": 1},
            "contents": [
                {"role": "user", "parts": [{"text": "a"}], "weight": 2},
                {"role": "model", "parts": [call]},
                {"role": "model", "parts": [{"text": "b"}], "weight": 3},
                {"role": "user", "parts": [result, {"text": "c"}], "weight": 4},
            ],
        }
    )
    assert rendered(request)[1] == [
        "systemInstruction.weight",
        "contents.0.weight",
        "contents.1.weight",
        "contents.3.weight",
    ]


def test_a_member_of_a_part_in_a_result_is_told_by_its_place() -> None:
    parts = (
        Text(text="r", extra={"cache_control": {}}),
        Image(source=Data(media_type="image/png", base64="aa=="), extra={"note": 1}),
    )
    call = ToolCall(id="c", name="f", arguments="{}")
    result = Message(role="tool", parts=(ToolResult(call_id="c", name="f", parts=parts),))
    _, losses = contents_of(ASKED, assistant(call), result)
    assert losses == ["messages.2.content.0.content.0.cache_control", "messages.2.content.0.content.1.note"]


def test_a_refusal_is_a_text() -> None:
    contents, losses = contents_of(ASKED, assistant(Refusal(text="No.")))
    assert contents[1]["parts"] == [{"text": "No."}]
    assert losses == []
