"""What goes up beyond chat, on both lanes."""

from __future__ import annotations

import base64
import email
import email.policy
import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import InvalidField
from tornado_gate.types import (
    Call,
    Data,
    EmbeddingRequest,
    Image,
    ImageRequest,
    Link,
    ModerationRequest,
    SpeechRequest,
    Text,
    TranscriptionRequest,
    UpstreamRequest,
    VerbatimRequest,
)

MakeCall = Callable[..., Call]

BASE = "https://upstream.test/v1"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x24\0\0\0WAVEfmt "


@dataclass(frozen=True)
class Memory:
    """An upload."""

    field: str
    data: bytes = field(repr=False)
    filename: str = "a.bin"
    media_type: str = "application/octet-stream"

    @property
    def size(self) -> int:
        return len(self.data)

    async def read(self, size: int = -1) -> bytes:
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


class Fetcher:
    """Has one file for everybody."""

    def __init__(self, data: bytes, media_type: str) -> None:
        self.data, self.media_type = data, media_type
        self.asked: list[tuple[str, tuple[str, ...], str]] = []

    async def fetch(self, url: str, *, kinds: Any, param: str) -> Any:
        self.asked.append((url, tuple(kinds), param))
        return self


def verbatim(wire_format: str, operation: str, path: str, body: dict[str, Any], **rest: Any) -> VerbatimRequest:
    return VerbatimRequest(
        wire_format=wire_format, operation=operation, path=path, body=body, **{"raw": orjson.dumps(body), **rest}
    )


async def translate_request(call: Call, request: Any) -> UpstreamRequest:
    outgoing = plugin.translate_request(call, request)
    if inspect.isawaitable(outgoing):
        outgoing = await outgoing
    assert isinstance(outgoing, UpstreamRequest)
    return outgoing


async def form(outgoing: UpstreamRequest) -> dict[str, list[Any]]:
    """The form that is sent, as Python's own parser reads it: texts, and (file name, media type, bytes)."""
    assert isinstance(outgoing.body, FormBody)
    raw = b"".join([chunk async for chunk in outgoing.body.chunks()])
    assert len(raw) == outgoing.body.length
    head = f"Content-Type: {outgoing.headers['content-type']}\r\n\r\n".encode()
    found: dict[str, list[Any]] = {}
    for part in email.message_from_bytes(head + raw, policy=email.policy.HTTP).iter_parts():
        name, content = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
        assert isinstance(content, bytes)
        filename = part.get_filename()
        file = (filename, part.get_content_type(), content)
        found.setdefault(name, []).append(file if filename is not None else content.decode())
    return found


# The verbatim lane


@pytest.mark.parametrize(
    ("wire_format", "operation", "callers", "path"),
    [
        ("openai-embeddings", "embeddings", "/v1/embeddings", "/embeddings"),
        ("openai-embeddings", "embeddings", "/v1/engines/a/b/embeddings/", "/embeddings"),
        ("openai-moderations", "moderation", "/v1/moderations", "/moderations"),
        ("openai-images", "images", "/v1/images/generations/", "/images/generations"),
        ("openai-image-edits", "image_edits", "/v1/images/edits", "/images/edits"),
        ("openai-image-edits", "image_edits", "/v1/images/variations/", "/images/variations"),
        ("openai-speech", "speech", "/v1/audio/speech", "/audio/speech"),
        ("openai-transcriptions", "transcription", "/v1/audio/transcriptions", "/audio/transcriptions"),
        ("openai-transcriptions", "transcription", "/v1/audio/translations", "/audio/translations"),
    ],
)
def test_each_format_goes_to_its_path_with_only_the_model_changed(
    call: MakeCall, wire_format: str, operation: str, callers: str, path: str
) -> None:
    raw = b'{ "input": [1e0, "caf\\u00e9"],"model" :"gpt", "x":  null}'
    request = verbatim(wire_format, operation, callers, orjson.loads(raw), raw=raw)
    outgoing = plugin.translate_request(call(), request)
    assert isinstance(outgoing, UpstreamRequest)
    assert outgoing.url == BASE + path
    assert outgoing.body == raw.replace(b'"gpt"', b'"gpt-4o"')
    assert outgoing.headers["content-type"] == "application/json"


def test_an_engines_body_without_a_model_gets_one(call: MakeCall) -> None:
    request = verbatim("openai-embeddings", "embeddings", "/v1/engines/gpt/embeddings", {"input": "Hi"})
    outgoing = plugin.translate_request(call(), request)
    assert isinstance(outgoing, UpstreamRequest)
    assert outgoing.body == b'{"input":"Hi","model":"gpt-4o"}'


def test_facts_hold_for_these_bodies_too(call: MakeCall) -> None:
    used = call(drop=["quality", "user"], rename={"dimensions": "output_dimension"})
    body = {"model": "gpt", "quality": "hd", "dimensions": 5, "user": None}
    outgoing = plugin.translate_request(used, verbatim("openai-images", "images", "/v1/images/generations", body))
    assert isinstance(outgoing, UpstreamRequest)
    assert orjson.loads(outgoing.body) == {"model": "gpt-4o", "output_dimension": 5}  # type: ignore[arg-type]
    assert used.losses == ["quality"]


@pytest.mark.gen_test
async def test_a_form_goes_up_as_a_form_with_the_model_changed(call: MakeCall) -> None:
    files = (Memory("image[]", PNG, "a.png", "image/png"), Memory("mask", PNG + b"2", "m.png", "image/png"))
    body = {"model": "gpt", "prompt": "A hat", "n": "2", "include": ["a", "b"]}
    request = verbatim("openai-image-edits", "image_edits", "/v1/images/edits", body, raw=b"", files=files, form=True)
    outgoing = await translate_request(call(), request)
    assert outgoing.url == BASE + "/images/edits"
    assert await form(outgoing) == {
        "model": ["gpt-4o"],
        "prompt": ["A hat"],
        "n": ["2"],
        "include[]": ["a", "b"],
        "image[]": [("a.png", "image/png", PNG)],
        "mask": [("m.png", "image/png", PNG + b"2")],
    }


@pytest.mark.gen_test
async def test_a_forms_content_type_cannot_be_replaced(call: MakeCall) -> None:
    used = call(headers={"Content-Type": "application/json", "x-team": "a"})
    request = verbatim("openai-transcriptions", "transcription", "/v1/audio/transcriptions", {}, raw=b"", form=True)
    outgoing = await translate_request(used, request)
    assert outgoing.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert outgoing.headers["x-team"] == "a"
    assert outgoing.headers["authorization"] == "Bearer upstream-key"


@pytest.mark.gen_test
async def test_dropped_fields_and_files_of_a_form_are_lost(call: MakeCall) -> None:
    used = call(drop=["mask", "quality"])
    files = (Memory("image", PNG), Memory("mask", PNG))
    body = {"model": "gpt", "prompt": "A hat", "quality": "low"}
    request = verbatim("openai-image-edits", "image_edits", "/v1/images/edits", body, raw=b"", files=files, form=True)
    assert set(await form(await translate_request(used, request))) == {"model", "prompt", "image"}
    assert used.losses == ["quality", "mask"]


# Through the common vocabulary


async def body_of(call: Call, request: Any, path: str) -> dict[str, Any]:
    outgoing = await translate_request(call, request)
    assert outgoing.url == BASE + path
    assert outgoing.body is None
    body: dict[str, Any] = outgoing.json
    return body


@pytest.mark.gen_test
async def test_embeddings_are_asked_for_in_base64(call: MakeCall) -> None:
    request = EmbeddingRequest(model="gpt", inputs=("a", "b"), dimensions=256)
    assert await body_of(call(), request, "/embeddings") == {
        "model": "gpt-4o",
        "input": ["a", "b"],
        "encoding_format": "base64",
        "dimensions": 256,
    }


@pytest.mark.gen_test
async def test_a_refused_encoding_is_no_loss_as_the_caller_did_not_ask_for_it(call: MakeCall) -> None:
    used = call(drop=["encoding_format", "dimensions"])
    request = EmbeddingRequest(
        model="gpt", inputs=("a", "b"), dimensions=256, names={"dimensions": "outputDimensionality"}
    )
    assert await body_of(used, request, "/embeddings") == {"model": "gpt-4o", "input": ["a", "b"]}
    assert used.losses == ["outputDimensionality"]


@pytest.mark.gen_test
async def test_a_moderation_has_texts_and_pictures(call: MakeCall) -> None:
    parts = (Text(text="Hi"), Image(source=Link(url="https://p.test/a.png")))
    assert await body_of(call(), ModerationRequest(model="gpt", inputs=(parts,)), "/moderations") == {
        "model": "gpt-4o",
        "input": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "https://p.test/a.png"}}],
    }


@pytest.mark.parametrize(
    ("settings", "upstream_model", "asks"),
    [
        ({}, "gpt-image-1", False),
        ({}, "chatgpt-image-latest", False),
        ({}, "dall-e-3", True),
        ({}, "flux", True),
        ({"image_bytes": ["flux*"]}, "flux-1", False),
        ({"image_bytes": []}, "gpt-image-1", True),
    ],
)
@pytest.mark.gen_test
async def test_pictures_are_asked_for_as_bytes_unless_the_model_sends_them_anyway(
    call: MakeCall, settings: dict[str, Any], upstream_model: str, asks: bool
) -> None:
    used = call(upstream_model=upstream_model, **settings)
    body = await body_of(used, ImageRequest(model="gpt", prompt="A hat", n=2), "/images/generations")
    expected = {"model": upstream_model, "prompt": "A hat", "n": 2}
    assert body == expected | ({"response_format": "b64_json"} if asks else {})


@pytest.mark.gen_test
async def test_a_picture_with_pictures_is_an_edit(call: MakeCall) -> None:
    used = call(upstream_model="gpt-image-1")
    picture = Data(media_type="image/png", base64=base64.b64encode(PNG).decode())
    request = ImageRequest(model="gpt", prompt="A hat", images=(picture, picture), mask=picture, quality="low")
    outgoing = await translate_request(used, request)
    assert outgoing.url == BASE + "/images/edits"
    fields = await form(outgoing)
    assert {name: fields[name] for name in ("model", "prompt", "quality")} == {
        "model": ["gpt-image-1"],
        "prompt": ["A hat"],
        "quality": ["low"],
    }
    assert [(kind, data) for _, kind, data in fields["image[]"]] == [("image/png", PNG)] * 2
    assert [data for _, _, data in fields["mask"]] == [PNG]
    assert "response_format" not in fields


@pytest.mark.gen_test
async def test_what_an_edit_may_not_say_is_lost(call: MakeCall) -> None:
    used = call(upstream_model="gpt-image-1", drop=["quality", "mask", "x-own", "style"])
    picture = Memory("image", PNG, "a.png", "image/png")
    request = ImageRequest(
        model="gpt",
        prompt="A hat",
        images=(picture,),
        mask=picture,
        quality="low",
        wire_format="openai-image-edits",
        extra={"x-own": "1", "x-other": "2"},
        names={"quality": "generationConfig.quality"},
    )
    assert set(await form(await translate_request(used, request))) == {"model", "prompt", "x-other", "image"}
    assert used.losses == ["generationConfig.quality", "mask", "x-own"]


@pytest.mark.parametrize(
    ("voice", "settings", "wire_format", "spoken"),
    [
        ("Kore", {}, "gemini", "sage"),
        ("Puck", {}, "gemini", "echo"),
        ("Sulafat", {}, "gemini", "Sulafat"),
        ("verse", {}, "gemini", "verse"),
        (None, {}, "gemini", "alloy"),
        (None, {}, "openai-speech", "alloy"),
        ("Kore", {}, "openai-speech", "Kore"),
        ("Kore", {"voices": {"Kore": "hannah"}}, "gemini", "hannah"),
        ("Puck", {"voices": {"Kore": "hannah"}}, "gemini", "echo"),
        (None, {"voices": {"alloy": "hannah"}}, "gemini", "hannah"),
    ],
)
@pytest.mark.gen_test
async def test_a_voice_is_one_of_the_upstreams(
    call: MakeCall, voice: str | None, settings: dict[str, Any], wire_format: str, spoken: str
) -> None:
    request = SpeechRequest(model="gpt", text="Hi", voice=voice, format="pcm", wire_format=wire_format)
    assert await body_of(call(**settings), request, "/audio/speech") == {
        "model": "gpt-4o",
        "input": "Hi",
        "voice": spoken,
        "response_format": "pcm",
    }


@pytest.mark.gen_test
async def test_a_dropped_voice_is_lost_only_when_one_was_asked_for(call: MakeCall) -> None:
    silent, asking = call(drop=["voice"]), call(drop=["voice"])
    names = {"voice": "voiceName"}
    await body_of(silent, SpeechRequest(model="gpt", text="Hi", wire_format="gemini", names=names), "/audio/speech")
    await body_of(
        asking, SpeechRequest(model="gpt", text="Hi", voice="Kore", wire_format="gemini", names=names), "/audio/speech"
    )
    assert (silent.losses, asking.losses) == ([], ["voiceName"])


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        (Memory("file", WAV, "a.wav", "audio/wav"), ("a.wav", "audio/wav", WAV)),
        (Memory("audio", WAV, "a.wav", "audio/wav"), ("a.wav", "audio/wav", WAV)),
        (Data(media_type="", base64=base64.b64encode(WAV).decode()), ("sound.wav", "audio/wav", WAV)),
        (Data(media_type="audio/mpeg", base64=base64.b64encode(WAV).decode()), ("sound.mp3", "audio/mpeg", WAV)),
        (Link(url="https://p.test/a"), ("sound.ogg", "audio/ogg", b"OggS")),
    ],
)
@pytest.mark.parametrize("translate", [False, True])
@pytest.mark.gen_test
async def test_sound_goes_up_in_a_form_wherever_it_is(
    call: MakeCall, source: Any, sent: tuple[str, str, bytes], translate: bool
) -> None:
    fetcher = Fetcher(b"OggS", "audio/ogg")
    request = TranscriptionRequest(model="gpt", audio=source, translate=translate, prompt="Names", names={"audio": "f"})
    outgoing = await translate_request(call(fetcher=fetcher), request)
    assert outgoing.url == BASE + ("/audio/translations" if translate else "/audio/transcriptions")
    fields = await form(outgoing)
    assert (fields["model"], fields["prompt"]) == (["gpt-4o"], ["Names"])
    assert fields["file"] == [sent]
    assert fetcher.asked == ([("https://p.test/a", ("audio/", "video/"), "f")] if isinstance(source, Link) else [])


@pytest.mark.gen_test
async def test_dropped_fields_of_a_transcription_are_lost(call: MakeCall) -> None:
    used = call(drop=["language", "response_format", "timestamp_granularities"], rename={"temperature": "heat"})
    request = TranscriptionRequest(
        model="gpt",
        audio=Memory("file", WAV),
        language="de",
        temperature=0.5,
        timestamps=("word",),
        names={"language": "lang"},
    )
    assert set(await form(await translate_request(used, request))) == {"model", "heat", "file"}
    assert used.losses == ["lang", "timestamps"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Link(url="https://p.test/a"), "fetching URLs is not available"),
        (Data(media_type="audio/wav", base64="%%%"), "not base64"),
    ],
)
@pytest.mark.gen_test
async def test_sound_that_cannot_be_had_is_the_callers_fault(call: MakeCall, source: Any, message: str) -> None:
    request = TranscriptionRequest(model="gpt", audio=source, names={"audio": "parts.0"})
    with pytest.raises(InvalidField, match=message) as caught:
        await translate_request(call(), request)
    assert caught.value.param == "parts.0"


@pytest.mark.gen_test
async def test_unknown_fields_of_another_format_are_lost(call: MakeCall) -> None:
    used = call()
    request = EmbeddingRequest(model="gpt", inputs=("a",), wire_format="gemini", extra={"autoTruncate": True})
    assert "autoTruncate" not in await body_of(used, request, "/embeddings")
    assert used.losses == ["autoTruncate"]
