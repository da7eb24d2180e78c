"""Files in JSON: what is read, what is refused, and that guards see whatever translators read as text."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tornado_gate.codec.text_files import UnreadableFile, parse_data_url, read_base64, read_data_url, read_source_text
from tornado_gate.guards.text_views import view_request
from tornado_gate.types import Data, File, Text
from tornado_gate_anthropic.fields import MESSAGES
from tornado_gate_anthropic.wire.messages.sources import render_document
from tornado_gate_gemini.fields import GENERATE
from tornado_gate_gemini.wire.generate.parts import parse_part as parse_gemini_part
from tornado_gate_openai.fields.chat_answers import CHAT
from tornado_gate_openai.wire.chat.parts import parse_part

CANARY = b"the canary sings"
PLAIN = base64.b64encode(CANARY).decode()
HEADS = st.sampled_from(
    [
        "data:",
        "DATA:",
        " data:",
        "da\nta:",
        "data:text/plain",
        "data:text/plain;charset=utf-16",
        "data:image/png",
        "data:;",
        "",
    ]
)
TAILS = st.sampled_from(
    [";base64,", "; base64,", ";base64;x=1,", ";BASE64,", ",", ";x=1;base64,", ";base64", "", ";charset=utf-7;base64,"]
)
PAYLOADS = st.one_of(
    st.binary(max_size=40).map(lambda raw: base64.b64encode(raw).decode()),
    st.text(max_size=30).map(lambda text: base64.b64encode(text.encode("utf-8", "ignore")).decode()),
    st.sampled_from(["utf-8", "utf-16", "utf-16-le", "utf-32", "utf-7"]).map(
        lambda charset: base64.b64encode(CANARY.decode().encode(charset)).decode()
    ),
    st.text(alphabet="Y2FuYXJ5-_=+/ \n@%41", max_size=40),
)
TYPES = st.sampled_from(
    [
        "",
        "text/plain",
        "TEXT/PLAIN",
        "text/plain;charset=latin-1",
        "application/json",
        "application/octet-stream",
        "audio/pcm",
        "image/png",
    ]
)


def list_seen(text_map: Any, body: Any) -> tuple[set[str], bool]:
    view = view_request(text_map, body)
    return {text.text.removeprefix("\ufeff") for text in view.texts}, bool(view.unread)


@given(HEADS, TAILS, PAYLOADS, TYPES)
@example("", "", "Y2Fu YXJ5", "text/plain")
@example("data:text/plain", "; base64,", PLAIN, "")
@example("data:text/plain", ";base64;x=1,", PLAIN, "")
@example("", "", "Y2Fu@YXJ5", "text/plain")
def test_a_guard_sees_what_a_translator_reads_as_text(head: str, tail: str, payload: str, media_type: str) -> None:
    value = head + tail + payload
    part = {"type": "file", "file": {"file_data": value}}
    source = {"type": "base64", "media_type": media_type, "data": value}
    blob = {"inlineData": {"mimeType": media_type, "data": value}}
    for text_map, body, found in (
        (CHAT, {"messages": [{"role": "user", "content": [part]}]}, parse_quietly(parse_part, part)),
        (
            MESSAGES,
            {"messages": [{"role": "user", "content": [{"type": "document", "source": source}]}]},
            File(source=Data(media_type=media_type, base64=value)),
        ),
        (GENERATE, {"contents": [{"parts": [blob]}]}, parse_quietly(parse_gemini_part, blob)),
    ):
        said = getattr(found, "source", None)
        if not isinstance(said, Data):
            continue
        seen, is_unread = list_seen(text_map, body)
        for text in list_read(said):
            assert is_unread or not text or text in seen, (text, seen)


def parse_quietly(parse: Any, value: Any) -> Any:
    with contextlib.suppress(UnreadableFile):
        return parse(value)
    return Text(text="")


def list_read(source: Data) -> list[str]:
    """The texts that providers make of a file."""
    texts: list[str] = []
    with contextlib.suppress(UnreadableFile):
        texts.append(read_source_text(source.media_type, source.base64) or "")
    with contextlib.suppress(UnreadableFile):
        rendered = render_document(source, own=False)
        if rendered is not None and rendered["type"] == "text":
            texts.append(rendered["data"])
    return texts


@pytest.mark.parametrize(
    "url",
    [
        "data:text/plain;base64;x=1,YQ==",
        "data:text/plain;base64;base64,YQ==",
        "data:text/plain;base-64,YQ==",
        "data:text;base64,YQ==",
        "data:text/plain;base64YQ==",
        "data:text/plain;base64,YQ==YQ==",
        "data:text/plain;base64,YQ@=",
        "data:text/plain;charset=utf-7;base64,YQ==",
        "data:text/plain;base64,/w==",
        "data:application/octet-stream;base64,/wD/",
        "data:" + "x" * 2000 + ",",
    ],
)
def test_what_can_be_read_in_several_ways_is_unreadable(url: str) -> None:
    with pytest.raises(UnreadableFile):
        read_data_url(url)


def test_a_replaced_text_keeps_its_head_and_its_charset() -> None:
    raw = "Grüße".encode("utf-16-le")
    file = read_data_url("data:text/plain;base64," + base64.b64encode(raw).decode())
    assert file is not None
    assert file.text == "Grüße"
    again = read_data_url(file.encode("Hallo"))
    assert again is not None
    assert (again.text, again.charset) == ("Hallo", "utf-16-le")
    url = parse_data_url("data:text/csv,a%40b")
    assert url is not None
    assert url.decode() == b"a@b"


def test_pictures_sound_and_archives_are_no_texts() -> None:
    for raw, declared in (
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\x03\0\xfe\xff" * 20, "audio/pcm"),
        (b"PK\x03\x04\0\0", "application/zip"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", ""),
    ):
        assert read_base64(base64.b64encode(raw).decode(), [declared]) is None


def test_many_data_urls_inside_texts_are_unread() -> None:
    body = {"messages": [{"role": "user", "content": "data:;base64,QUFB" * 1001}]}
    assert [path for path, _ in view_request(CHAT, body).unread] == ["messages.0.content"]
    body = {"messages": [{"role": "user", "content": f"![x](data:text/plain;base64,{PLAIN})"}]}
    assert CANARY.decode() in list_seen(CHAT, body)[0]
