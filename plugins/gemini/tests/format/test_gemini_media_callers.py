"""generateContent at models that make pictures or speech and cannot chat."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from typing import Any

import orjson
import pytest
from format_gemini_calls import GENERATE, STREAM, call_for, chunks_of, frames, text_of, wire_to
from google.genai import types as vendor

import tornado_gate_gemini.format as plugin
from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.testing import iterate
from tornado_gate.types import (
    Data,
    GeneratedImage,
    ImageRequest,
    ImageResult,
    Link,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    StreamError,
    Usage,
    replace,
)


def png(width: int = 1, height: int = 1) -> bytes:
    def block(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + block(b"IHDR", header) + block(b"IDAT", zlib.compress(b"\0\0")) + block(b"IEND", b"")


PNG = base64.b64encode(png()).decode()
DRAW: dict[str, Any] = {"contents": [{"parts": [{"text": "A cat"}]}]}


def speak(**config: Any) -> dict[str, Any]:
    return {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {"responseModalities": ["AUDIO"], **config},
    }


def parsed(body: Any, operation: str, path: str = GENERATE, losses: list[str] | None = None, **query: str) -> Any:
    call = call_for(operation=operation)
    request: Any = plugin.translate_request(call, wire_to(path, body, **query))
    if asyncio.iscoroutine(request):
        request = asyncio.run(request)
    assert call.losses == (losses or [])
    return request


def catch_refusal(body: Any, operation: str) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        parsed(body, operation)
    return caught.value


def test_generate_routes_can_be_pictures_and_speech() -> None:
    for path in (GENERATE, STREAM):
        assert wire_to(path, DRAW).route.operations == ("chat", "images", "image_edits", "speech")


# Pictures, up


def test_a_prompt_is_the_last_turn_of_the_user() -> None:
    config = {
        "candidateCount": 2,
        "seed": 7,
        "imageConfig": {"aspectRatio": "16:9", "imageSize": "2K"},
        "responseModalities": ["TEXT", "IMAGE"],
        "thinkingConfig": {"includeThoughts": False},
    }
    request = parsed({**DRAW, "generationConfig": config}, "images")
    assert isinstance(request, ImageRequest)
    assert (request.model, request.prompt, request.images, request.stream) == ("m", "A cat", (), False)
    assert (request.n, request.seed, request.aspect_ratio, request.resolution) == (2, 7, "16:9", "2K")
    assert request.field_name("resolution") == "generationConfig.imageConfig.imageSize"
    assert request.field_name("n") == "generationConfig.candidateCount"


def test_everything_else_is_lost_by_its_path() -> None:
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "Old"}]},
            {"role": "model", "parts": [{"text": "Older"}]},
            {"role": "user", "parts": [{"text": "A cat"}, {"functionResponse": {"name": "f", "response": {}}}]},
            {"role": "model", "parts": [{"text": "Once"}]},
        ],
        "system_instruction": {"parts": [{"text": "Be nice"}]},
        "generation_config": {
            "temperature": 0.5,
            "max_output_tokens": 9,
            "image_config": {"aspect_ratio": "1:1", "person_generation": "ALLOW_ALL"},
        },
        "tools": [],
        "safetySettings": [{"category": "c", "threshold": "t"}],
        "x_new": 1,
    }
    losses = [
        "contents.0",
        "contents.1",
        "contents.3",
        "contents.2.parts.1",
        "system_instruction",
        "safetySettings",
        "x_new",
        "generation_config.temperature",
        "generation_config.max_output_tokens",
        "generation_config.image_config.person_generation",
    ]
    request = parsed(body, "images", losses=losses)
    assert request.field_name("aspect_ratio") == "generation_config.image_config.aspect_ratio"


def test_strictness_makes_a_loss_an_error() -> None:
    call = replace(call_for(operation="speech"), strict=True)
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call, wire_to(GENERATE, speak(temperature=1)))
    assert caught.value.param == "generationConfig.temperature"


@pytest.mark.parametrize("operation", ["images", "image_edits"])
def test_pictures_of_the_turn_are_those_to_change(operation: str) -> None:
    parts = [
        {"text": "Add a hat"},
        {"inline_data": {"mime_type": "image/png", "data": PNG}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://h.example/a.png"}},
    ]
    request = parsed({"contents": [{"parts": parts}]}, operation)
    assert request.images == (
        Data(media_type="image/png", base64=PNG),
        Link(url="https://h.example/a.png", media_type="image/png"),
    )
    assert request.field_name("images") == "contents.0.parts"


def test_a_picture_with_a_name_is_one_all_the_same() -> None:
    named = {"inline_data": {"mime_type": "image/png", "data": PNG, "display_name": "cat.png"}}
    linked = {"fileData": {"mimeType": "image/png", "fileUri": "https://h.example/a.png", "displayName": "a.png"}}
    body = {"contents": [{"parts": [{"text": "Add a hat"}, named, linked]}]}
    losses = ["contents.0.parts.1.inline_data.display_name", "contents.0.parts.2.fileData.displayName"]
    request = parsed(body, "images", losses=losses)
    assert request.images == (
        Data(media_type="image/png", base64=PNG),
        Link(url="https://h.example/a.png", media_type="image/png"),
    )


@pytest.mark.parametrize("operation", ["images", "speech"])
def test_what_a_part_says_beside_its_text_is_lost_by_its_path(operation: str) -> None:
    body = speak() if operation == "speech" else DRAW
    part = {
        "text": "A cat",
        "speechMetadata": {"style": "cheerful"},
        "media_resolution": {"level": "LOW"},
        "thought": False,
    }
    losses = ["contents.0.parts.0.speechMetadata", "contents.0.parts.0.media_resolution"]
    parsed({**body, "contents": [{"parts": [part]}]}, operation, losses=losses)


@pytest.mark.parametrize("data", ["", "AAEC", "%%%", base64.b64encode(png(60_000, 60_000)).decode()])
def test_a_picture_that_is_none_is_named(data: str) -> None:
    parts = [{"text": "Add a hat"}, {"inline_data": {"mime_type": "image/png", "data": data}}]
    assert catch_refusal({"contents": [{"parts": parts}]}, "images").param == "contents.0.parts.1.inline_data.data"


def test_a_model_that_only_changes_pictures_needs_one() -> None:
    assert catch_refusal(DRAW, "image_edits").param == "contents.0.parts"


@pytest.mark.parametrize(
    "contents",
    [[{"role": "model", "parts": [{"text": "a"}]}], [{"parts": [{"text": " "}]}]],
)
@pytest.mark.parametrize("operation", ["images", "speech"])
def test_a_prompt_there_must_be(contents: Any, operation: str) -> None:
    error = catch_refusal({**speak(responseModalities=["AUDIO", "IMAGE"]), "contents": contents}, operation)
    assert error.param in ("contents", "contents.0.parts")


@pytest.mark.parametrize(
    ("config", "operation"),
    [
        ({"responseModalities": ["TEXT"]}, "images"),
        ({"responseModalities": ["AUDIO"]}, "image_edits"),
        ({"responseModalities": ["IMAGE"]}, "speech"),
        ({"responseModalities": []}, "speech"),
        ({}, "speech"),
    ],
)
def test_a_model_that_makes_one_thing_must_be_asked_for_it(config: Any, operation: str) -> None:
    error = catch_refusal({**DRAW, "generationConfig": config}, operation)
    assert error.param == "generationConfig.responseModalities"
    assert ("AUDIO" if operation == "speech" else "IMAGE") in error.message


def test_speech_needs_a_generation_config() -> None:
    assert catch_refusal(DRAW, "speech").param == "generationConfig.responseModalities"


@pytest.mark.parametrize(
    ("image", "param"),
    [
        ({"aspectRatio": "wide"}, "aspectRatio"),
        ({"aspectRatio": "16x9"}, "aspectRatio"),
        ({"aspectRatio": "0:9"}, "aspectRatio"),
        ({"aspectRatio": "16:9:1"}, "aspectRatio"),
        ({"aspectRatio": ""}, "aspectRatio"),
        ({"aspectRatio": 1}, "aspectRatio"),
        ({"imageSize": ""}, "imageSize"),
        ({"imageSize": 1024}, "imageSize"),
        ({"aspect_ratio": "a:b"}, "aspect_ratio"),
    ],
)
def test_the_shape_is_checked_whatever_the_model_makes(image: Any, param: str) -> None:
    body = {**DRAW, "generationConfig": {"imageConfig": image}}
    for operation in ("images", "chat"):
        assert catch_refusal(body, operation).param == f"generationConfig.imageConfig.{param}"


# Speech, up


def test_what_is_to_be_spoken_and_how() -> None:
    voice = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}, "languageCode": "de-DE"}
    body = {**speak(speechConfig=voice, candidateCount=1), "systemInstruction": {"parts": [{"text": "Cheerfully"}]}}
    request = parsed(body, "speech")
    assert isinstance(request, SpeechRequest)
    assert (request.text, request.voice, request.language) == ("Hello", "Kore", "de-DE")
    assert (request.instructions, request.format, request.stream) == ("Cheerfully", "pcm", False)
    name = "generationConfig.speechConfig.voiceConfig.prebuiltVoiceConfig.voiceName"
    assert request.field_name("voice") == name
    assert parsed(speak(), "speech", STREAM).stream
    assert parsed(speak(speechConfig={"voiceConfig": {"voice": "Puck"}}), "speech").voice == "Puck"


@pytest.mark.parametrize("instruction", ["Calmly", {"text": "Calmly"}, {"parts": {"text": "Calmly"}}])
def test_an_instruction_in_any_form_says_how_to_speak(instruction: Any) -> None:
    assert parsed({**speak(), "systemInstruction": instruction}, "speech").instructions == "Calmly"


def test_more_speakers_than_one_are_lost() -> None:
    many = {"speakerVoiceConfigs": [{"speaker": "Joe", "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}]}
    body = speak(speechConfig={"multiSpeakerVoiceConfig": many}, topK=3)
    body["contents"][0]["parts"].append({"inlineData": {"mimeType": "image/png", "data": PNG}})
    losses = [
        "contents.0.parts.1",
        "generationConfig.topK",
        "generationConfig.speechConfig.multiSpeakerVoiceConfig",
    ]
    assert parsed(body, "speech", losses=losses).voice is None


def test_a_voice_must_be_a_string() -> None:
    body = speak(speechConfig={"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": 1}}})
    name = "generationConfig.speechConfig.voiceConfig.prebuiltVoiceConfig.voiceName"
    assert catch_refusal(body, "speech").param == name


# Pictures, down

RESULT = ImageResult(
    images=(
        GeneratedImage(data=b"\x89PNGa", media_type="image/png"),
        GeneratedImage(data=b"b" * 5, media_type="image/webp"),
    ),
    text="Two cats",
    usage=Usage(input_tokens=5, output_tokens=20, image_tokens=3),
)
COUNTED = {
    "promptTokenCount": 5,
    "candidatesTokenCount": 20,
    "totalTokenCount": 25,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 2}, {"modality": "IMAGE", "tokenCount": 3}],
}


def test_pictures_come_back_inside_the_answer() -> None:
    reply = plugin.translate_response(call_for(), parsed(DRAW, "images"), iterate([RESULT]))
    value = orjson.loads(text_of(reply))
    (candidate,) = value["candidates"]
    assert candidate["finishReason"] == "STOP"
    assert candidate["content"]["role"] == "model"
    assert candidate["content"]["parts"][0] == {"text": "Two cats"}
    assert value["usageMetadata"] == COUNTED
    assert (value["modelVersion"], bool(value["responseId"])) == ("m", True)
    parts = vendor.GenerateContentResponse.model_validate(value).candidates[0].content.parts
    assert [(part.inline_data.mime_type, part.inline_data.data) for part in parts[1:]] == [
        ("image/png", b"\x89PNGa"),
        ("image/webp", b"b" * 5),
    ]


def test_a_large_picture_comes_whole() -> None:
    data = bytes(range(256)) * 12_001
    result = ImageResult(images=(GeneratedImage(data=data, media_type="image/png"),))
    value = orjson.loads(text_of(plugin.translate_response(call_for(), parsed(DRAW, "images"), iterate([result]))))
    assert base64.b64decode(value["candidates"][0]["content"]["parts"][0]["inlineData"]["data"]) == data
    assert value["usageMetadata"] == {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}


def streamed(request: Any, events: list[Any]) -> list[Any]:
    return frames(text_of(plugin.translate_response(call_for(), request, iterate(events))))


def test_a_stream_has_a_chunk_for_each_picture_and_ends_with_the_last() -> None:
    chunks = streamed(parsed(DRAW, "images", STREAM, alt="sse"), [RESULT])
    parts = [chunk["candidates"][0]["content"]["parts"][0] for chunk in chunks]
    assert [list(part) for part in parts] == [["text"], ["inlineData"], ["inlineData"]]
    assert ["finishReason" in chunk["candidates"][0] for chunk in chunks] == [False, False, True]
    assert chunks[-1]["usageMetadata"] == COUNTED


def test_a_stream_without_sse_is_an_array() -> None:
    request = parsed(DRAW, "images", STREAM)
    raw = text_of(plugin.translate_response(call_for(), request, iterate([RESULT])))
    assert len(orjson.loads(raw)) == 3


@pytest.mark.parametrize("path", [GENERATE, STREAM])
@pytest.mark.parametrize("operation", ["images", "speech"])
def test_a_failure_before_anything_is_said_keeps_its_status(path: str, operation: str) -> None:
    request = parsed(speak() if operation == "speech" else DRAW, operation, path)
    events = iterate([StreamError(error=UpstreamError("Broken"))])
    with pytest.raises(UpstreamError, match="Broken"):
        chunks_of(plugin.translate_response(call_for(), request, events))


# Speech, down

SOUND = [
    SpeechStart(media_type="audio/pcm"),
    SpeechChunk(data=b"\1\2\3"),
    SpeechChunk(data=b"\4"),
    SpeechChunk(data=b"\5\6"),
    SpeechEnd(usage=Usage(input_tokens=2, output_tokens=9)),
]
SAMPLES = "audio/L16;codec=pcm;rate=24000"


def test_speech_comes_back_as_one_part() -> None:
    reply = plugin.translate_response(call_for(), parsed(speak(), "speech"), iterate(SOUND))
    value = orjson.loads(text_of(reply))
    (part,) = value["candidates"][0]["content"]["parts"]
    assert part == {"inlineData": {"mimeType": SAMPLES, "data": base64.b64encode(b"\1\2\3\4\5\6").decode()}}
    assert value["candidates"][0]["finishReason"] == "STOP"
    assert value["usageMetadata"] == {"promptTokenCount": 2, "candidatesTokenCount": 9, "totalTokenCount": 11}
    assert vendor.GenerateContentResponse.model_validate(value).parts[0].inline_data.data == b"\1\2\3\4\5\6"


def test_long_speech_comes_in_pieces_that_are_one_json_text() -> None:
    data = bytes(range(256)) * 8_000
    events = [SOUND[0], SpeechChunk(data=data), SpeechEnd()]
    pieces = chunks_of(plugin.translate_response(call_for(), parsed(speak(), "speech"), iterate(events)))
    assert len(pieces) > 3
    part = orjson.loads(b"".join(pieces))["candidates"][0]["content"]["parts"][0]
    assert base64.b64decode(part["inlineData"]["data"]) == data


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("audio/pcm", SAMPLES),
        ("audio/L16;rate=16000", "audio/L16;codec=pcm;rate=16000"),
        ("audio/wav", "audio/wav"),
        ("audio/mpeg", "audio/mpeg"),
    ],
)
def test_sound_is_called_what_it_is(said: str, shown: str) -> None:
    events = [SpeechStart(media_type=said), SpeechChunk(data=b"ab"), SpeechEnd()]
    value = orjson.loads(text_of(plugin.translate_response(call_for(), parsed(speak(), "speech"), iterate(events))))
    assert value["candidates"][0]["content"]["parts"][0]["inlineData"]["mimeType"] == shown


def test_streamed_speech_comes_in_whole_samples() -> None:
    chunks = streamed(parsed(speak(), "speech", STREAM, alt="sse"), SOUND)
    parts = [chunk["candidates"][0]["content"]["parts"][0] for chunk in chunks]
    assert [base64.b64decode(part["inlineData"]["data"]) for part in parts[:-1]] == [b"\1\2", b"\3\4", b"\5\6"]
    assert {part["inlineData"]["mimeType"] for part in parts[:-1]} == {SAMPLES}
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert chunks[-1]["usageMetadata"]["totalTokenCount"] == 11


def test_a_stream_that_breaks_off_ends_with_an_error_and_never_with_a_finish() -> None:
    events = [*SOUND[:2], StreamError(error=UpstreamError("Broken"))]
    chunks = streamed(parsed(speak(), "speech", STREAM, alt="sse"), events)
    assert chunks[-1]["error"]["message"] == "Broken"
    assert not any("finishReason" in chunk["candidates"][0] for chunk in chunks[:-1])


def test_no_sound_is_a_fault() -> None:
    events = iterate([SOUND[0], SOUND[-1]])
    with pytest.raises(UpstreamError, match="no audio"):
        chunks_of(plugin.translate_response(call_for(), parsed(speak(), "speech"), events))
