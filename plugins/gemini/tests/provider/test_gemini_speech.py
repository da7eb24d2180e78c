"""Speech: what the upstream is sent, and what becomes of its answers; and answers of every kind that are none."""

from __future__ import annotations

import struct
from typing import Any

import orjson
import pytest
from gemini_calls import BASE, EVENTS, call_for, translate_request
from gemini_media import (
    EMBEDDING,
    IMAGEN,
    NEW_TTS,
    PICTURES,
    TTS,
    body_of,
    candidate,
    events_of,
    inline,
    json_of,
)

from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamOverloaded
from tornado_gate.types import (
    EmbeddingRequest,
    ImageRequest,
    Request,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    Usage,
    replace,
)

SPEAK = SpeechRequest(model="m", text="Hello")
RAW = "audio/L16;codec=pcm;rate=24000"


def test_speech_is_asked_for_in_a_turn() -> None:
    request = replace(SPEAK, voice="Zephyr", language="de-DE", speed=1.0)
    assert translate_request(request, call_for(TTS)).url == f"{BASE}/models/{TTS}:generateContent"
    streamed = replace(request, stream=True)
    assert translate_request(streamed, call_for(TTS)).url == f"{BASE}/models/{TTS}:streamGenerateContent?alt=sse"
    assert body_of(request, TTS) == {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {
            "responseModalities": ["AUDIO"],
            "speechConfig": {
                "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Zephyr"}},
                "languageCode": "de-DE",
            },
        },
    }
    assert body_of(SPEAK, TTS)["generationConfig"] == {"responseModalities": ["AUDIO"]}


OPENAI_VOICES = [
    "alloy",
    "ash",
    "ballad",
    "coral",
    "echo",
    "fable",
    "nova",
    "onyx",
    "sage",
    "shimmer",
    "verse",
    "marin",
    "cedar",
]
GOOGLE_VOICES = {"Kore", "Aoede", "Charon", "Fenrir", "Puck", "Leda", "Orus", "Zephyr"}


@pytest.mark.parametrize("voice", OPENAI_VOICES)
def test_another_vendors_voice_is_one_of_the_eight(voice: str) -> None:
    speech = body_of(replace(SPEAK, voice=voice), TTS)["generationConfig"]["speechConfig"]
    assert speech["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"] in GOOGLE_VOICES


def test_how_to_speak_is_said_as_the_model_wants_it() -> None:
    request = replace(SPEAK, instructions="Say cheerfully:")
    assert body_of(request, TTS)["contents"][0]["parts"] == [{"text": "Say cheerfully: Hello"}]
    part = {"text": "Hello", "speechMetadata": {"style": "Say cheerfully:"}}
    assert body_of(request, NEW_TTS)["contents"][0]["parts"] == [part]


def test_what_speech_cannot_be_told_is_lost() -> None:
    body_of(replace(SPEAK, speed=1.5, user="u", extra={"x": 1, "y": None}), TTS, ["speed", "user", "x"])


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac"])
def test_files_that_cannot_be_made_are_refused(name: str) -> None:
    with pytest.raises(InvalidField) as caught:
        translate_request(replace(SPEAK, format=name, names={"format": "response_format"}), call_for(TTS))
    assert caught.value.param == "response_format"


def wav(samples: bytes, rate: int = 24_000, channels: int = 1, size: int | None = None) -> bytes:
    layout = struct.pack("<HHIIHH", 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    size = len(samples) if size is None else size
    head = b"WAVEfmt " + struct.pack("<I", 16) + layout + b"LIST\3\0\0\0abc\0data" + struct.pack("<I", size)
    return b"RIFF" + struct.pack("<I", len(head) + len(samples)) + head + samples


def heard(events: list[Any]) -> tuple[str, bytes, Usage | None]:
    assert isinstance(events[0], SpeechStart)
    assert isinstance(events[-1], SpeechEnd)
    sound = b"".join(event.data for event in events[1:-1] if isinstance(event, SpeechChunk))
    return events[0].media_type, sound, events[-1].usage


SOUNDS = [
    inline(b"\1\2\3\4", RAW),
    inline(wav(b"\1\2\3\4"), "audio/wav"),
    inline(wav(b"\1\2\3\4", size=2**32 - 1), "audio/x-wav"),
]


@pytest.mark.parametrize("part", SOUNDS)
@pytest.mark.parametrize("wanted", ["pcm", "wav", None])
def test_sound_in_either_form_becomes_what_was_wanted(part: Any, wanted: str | None) -> None:
    usage = {"promptTokenCount": 2, "candidatesTokenCount": 9}
    request = replace(SPEAK, format=wanted)
    media_type, sound, counted = heard(events_of(request, json_of(candidate(part, usageMetadata=usage)), TTS))
    assert counted == Usage(input_tokens=2, output_tokens=9)
    if wanted == "pcm":
        assert (media_type, sound) == ("audio/pcm", b"\1\2\3\4")
    else:
        assert media_type == "audio/wav"
        assert sound[:4] + sound[8:16] == b"RIFFWAVEfmt "
        assert struct.unpack_from("<I", sound, 4)[0] == len(sound) - 8
        assert struct.unpack_from("<HHI", sound, 20) == (1, 1, 24_000)
        assert sound[36:] == b"data\4\0\0\0\1\2\3\4"


def test_another_rate_is_told() -> None:
    body = json_of(candidate(inline(b"\1\2", "audio/l16; rate=16000; channels=1")))
    assert heard(events_of(replace(SPEAK, format="pcm"), body, TTS))[0] == "audio/L16;rate=16000"
    assert struct.unpack_from("<I", heard(events_of(SPEAK, body, TTS))[1], 24) == (16_000,)


def test_a_long_whole_answer_is_all_there() -> None:
    samples = bytes(range(256)) * 8_000
    assert heard(events_of(replace(SPEAK, format="pcm"), json_of(candidate(inline(samples, RAW))), TTS))[1] == samples


def frames(*bodies: Any) -> list[bytes]:
    return [b"data: " + orjson.dumps(body) + b"\r\n\r\n" for body in bodies]


PIECES = [
    {"candidates": [{"content": {"parts": [inline(b"\1\2", RAW)]}}]},
    {"candidates": [{"content": {"parts": [inline(b"\3\4", RAW)]}}]},
    {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 3}},
]
STREAMED = replace(SPEAK, stream=True, format="pcm")


def test_streamed_sound_comes_piece_by_piece() -> None:
    assert events_of(STREAMED, frames(*PIECES), TTS, EVENTS) == [
        SpeechStart(media_type="audio/pcm"),
        SpeechChunk(data=b"\1\2"),
        SpeechChunk(data=b"\3\4"),
        SpeechEnd(usage=Usage(input_tokens=2, output_tokens=3)),
    ]


def test_a_streamed_file_has_a_header_without_a_size() -> None:
    events = events_of(replace(STREAMED, format="wav"), frames(*PIECES), TTS, EVENTS)
    media_type, sound, _ = heard(events)
    assert media_type == "audio/wav"
    assert sound[4:8] == sound[40:44] == b"\xff" * 4
    assert sound[44:] == b"\1\2\3\4"
    assert len(events) == 5


def test_a_stream_that_came_whole_is_taken_too() -> None:
    assert heard(events_of(STREAMED, json_of(candidate(inline(b"\1\2", RAW))), TTS))[1] == b"\1\2"


@pytest.mark.parametrize(
    ("bodies", "status"),
    [
        (PIECES[:2], 502),
        ([PIECES[0], {"error": {"code": 503, "message": "Busy"}}], 503),
        ([PIECES[0], {"candidates": [{"finishReason": "SAFETY"}]}], 400),
        ([PIECES[0], candidate(inline(b"\1\2", "audio/L16;rate=16000"))], 502),
        ([PIECES[0], candidate(inline(b"ID3", "audio/mpeg"))], 502),
        ([{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}], 400),
        ([candidate({"text": "Words"})], 400),
        ([candidate(inline(wav(b"\1\2", channels=2), "audio/wav"))], 502),
        ([candidate(inline(b"no wave", "audio/wav"))], 502),
    ],
)
def test_speech_that_fails_is_an_error_and_never_an_end(bodies: list[Any], status: int) -> None:
    with pytest.raises(GateError) as caught:
        events_of(STREAMED, frames(*bodies), TTS, EVENTS)
    assert caught.value.status == status


# Answers of every kind

DRAW = ImageRequest(model="m", prompt="A cat")
TEXTS = EmbeddingRequest(model="m", inputs=("a", "b"))


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'"a"'])
@pytest.mark.parametrize("model", [PICTURES, TTS])
def test_what_is_no_answer_is_a_fault_of_the_upstream(raw: bytes, model: str) -> None:
    request = SPEAK if model == TTS else DRAW
    with pytest.raises(UpstreamError) as caught:
        events_of(request, [raw], model)
    assert caught.value.status == 502


@pytest.mark.parametrize(("model", "picture"), [(PICTURES, True), (IMAGEN, True), (TTS, False), (EMBEDDING, None)])
def test_an_error_with_status_200_is_an_error(model: str, picture: bool | None) -> None:
    request: Request = TEXTS if picture is None else DRAW if picture else SPEAK
    with pytest.raises(UpstreamOverloaded, match="Busy"):
        events_of(request, json_of({"error": {"code": 503, "message": "Busy"}}), model)
