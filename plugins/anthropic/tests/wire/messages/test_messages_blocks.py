"""Calls, results, thinking and media of other formats, as blocks that this format's vendor takes. Every trap has its test."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.anthropic.tests.wire.messages.foreign_requests import calls, rendered, result, turns
from plugins.anthropic.tests.wire.messages.support import call_for, foreign, message
from tornado_gate.codec.text_files import UnreadableFile
from tornado_gate.errors import InvalidField
from tornado_gate.types import (
    Audio,
    Data,
    File,
    FileReference,
    Image,
    Link,
    Opaque,
    Refusal,
    Thinking,
    ToolCall,
    VendorPart,
)
from tornado_gate_anthropic.wire.messages import parse_id, render_id, render_request

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(12)).decode()
PDF = base64.b64encode(b"%PDF-1.7 and so on").decode()
# tool calls and their results


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        (" ", {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"input": "[1]"}),
        ('{"a":', {"input": '{"a":'}),
    ],
)
def test_arguments_become_an_object(arguments: str, expected: Any) -> None:
    said = message("assistant", ToolCall(id="a", name="f", arguments=arguments))
    assert turns(message("user", "Hi"), said, result("a", "1"))[1]["content"][0]["input"] == expected


def test_free_text_for_a_tool_becomes_an_object_too() -> None:
    said = message("assistant", ToolCall(id="a", name="f", arguments='{"x":1}', kind="custom"))
    assert turns(message("user", "Hi"), said, result("a", "1"))[1]["content"][0]["input"] == {"input": '{"x":1}'}


@pytest.mark.parametrize("call_id", ["functions.get:0", "", "ä", "a b", "gate-YQ", "call|x"])
def test_an_id_that_is_not_allowed_is_replaced_and_call_and_result_still_agree(call_id: str) -> None:
    said = turns(message("user", "Hi"), calls(call_id), result(call_id, "1"))
    sent = said[1]["content"][0]["id"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", sent)
    assert said[2]["content"][0]["tool_use_id"] == sent
    assert parse_id(sent) == call_id


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_ids_come_back_and_different_ones_stay_different(first: str, second: str) -> None:
    assert parse_id(render_id(first)) == first
    assert (render_id(first) == render_id(second)) == (first == second)


@pytest.mark.parametrize("own", ["toolu_01A", "call_1", "gate-", "gate-YWJj", "gate-!!", "gate-_w"])
def test_an_id_that_stands_for_no_other_is_itself(own: str) -> None:
    assert render_id(parse_id(own)) == own or parse_id(own) == own


def test_results_keep_pictures_and_whether_they_are_errors() -> None:
    picture = Image(source=Data(media_type="image/png", base64=PNG))
    said = result("a", "Look.", picture, is_error=True)
    assert turns(message("user", "Hi"), calls("a"), said)[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            ],
            "is_error": True,
        }
    ]


def test_sound_in_a_result_is_lost_by_name() -> None:
    sound = Audio(source=Data(media_type="audio/wav", base64="AAAA"))
    _, losses = rendered(message("user", "Hi"), calls("a"), result("a", "x", sound))
    assert losses == ["messages.2.content.0.content.1"]


# thinking in history


def test_signed_thinking_goes_up_first_and_in_order() -> None:
    said = message(
        "assistant",
        Thinking(text="hm", signature=Opaque(issuer="p", value="c2ln")),
        Thinking(redacted=True, signature=Opaque(issuer="p", value="ZW5j")),
        ToolCall(id="a", name="f", arguments="{}"),
    )
    assert turns(message("user", "Hi"), said, result("a", "1"))[1]["content"][:2] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZW5j"},
    ]


@pytest.mark.parametrize("thinking", [Thinking(text="hm"), Thinking(redacted=True)])
def test_thinking_without_a_signature_is_lost_by_name(thinking: Thinking) -> None:
    body, losses = rendered(message("user", "Hi"), message("assistant", thinking, "Yes."), message("user", "Go"))
    assert body["messages"][1] == {"role": "assistant", "content": "Yes."}
    assert losses == ["messages.1.content.0"]


# media


def test_a_picture_goes_up_as_what_it_is_and_not_as_what_it_is_called() -> None:
    (turn,) = turns(message("user", Image(source=Data(media_type="image/png", base64=JPEG)), plain=False))
    assert turn["content"][0]["source"]["media_type"] == "image/jpeg"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Link(url="https://a.example/b.png"), {"type": "url", "url": "https://a.example/b.png"}),
        (Data(media_type="image/x", base64="!!"), {"type": "base64", "media_type": "image/x", "data": "!!"}),
    ],
)
def test_pictures_by_link_and_by_data(source: Any, expected: Any) -> None:
    assert turns(message("user", Image(source=source, detail="auto")))[0]["content"][0]["source"] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            Data(media_type="application/pdf", base64=PDF),
            {"type": "base64", "media_type": "application/pdf", "data": PDF},
        ),
        (Data(media_type="", base64=PDF), {"type": "base64", "media_type": "application/pdf", "data": PDF}),
        (Data(media_type="text/csv", base64="YSxi"), {"type": "text", "media_type": "text/plain", "data": "a,b"}),
        (Link(url="https://a.example/b.pdf"), {"type": "url", "url": "https://a.example/b.pdf"}),
    ],
)
def test_documents_by_link_and_by_data(source: Any, expected: Any) -> None:
    (turn,) = turns(message("user", File(source=source, name="a.pdf")))
    assert turn["content"] == [{"type": "document", "source": expected, "title": "a.pdf"}]


@pytest.mark.parametrize(
    "part",
    [
        Audio(source=Data(media_type="audio/wav", base64="AAAA")),
        Image(source=FileReference(id="file-of-another-vendor")),
        Image(source=Link(url="gs://bucket/a.png")),
        File(source=FileReference(id="file-of-another-vendor")),
        File(source=Data(media_type="application/zip", base64="AAAA")),
        VendorPart(wire_format="openai-chat", value={"type": "video_url"}),
    ],
)
def test_what_the_vendor_cannot_read_is_lost_by_name(part: Any) -> None:
    body, losses = rendered(message("user", "Hi", part, plain=False))
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert losses == ["messages.0.content.1"]


def test_a_text_file_that_cannot_be_read_is_refused() -> None:
    for text in ("/w==", "SGk@", "SGk=SGk="):
        with pytest.raises(UnreadableFile) as caught:
            rendered(message("user", "Hi", File(source=Data(media_type="text/plain", base64=text)), plain=False))
        caught.value.find_param({"messages": [{"content": [{"file_data": f"data:text/plain;base64,{text}"}]}]})
        assert caught.value.param == "messages.0.content.0.file_data"


def test_a_strict_caller_hears_of_the_first_loss() -> None:
    sound = Audio(source=Data(media_type="audio/wav", base64="AAAA"))
    with pytest.raises(InvalidField) as caught:
        render_request(call_for(strict=True), foreign(message("user", sound)))
    assert caught.value.param == "messages.0.content.0"


def test_names_details_and_unknown_members_are_lost_by_name() -> None:
    picture = Image(source=Link(url="https://a.example/b"), detail="high", extra={"x": 1, "y": None})
    _, losses = rendered(message("user", picture, name="ann", extra={"z": 1}))
    assert losses == ["messages.0.name", "messages.0.z", "messages.0.content.0.detail", "messages.0.content.0.x"]


def test_an_assistants_refusal_is_what_it_said() -> None:
    said = message("assistant", Refusal(text="No."))
    assert turns(message("user", "Hi"), said, message("user", "Why?"))[1]["content"] == "No."
