"""Google's SDK for Node against the gateway beyond chat: vectors, pictures, speech."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from qa.sdk import media_gateway
from qa.sdk.media_answers import file, generated, images, speech_events, text_of
from qa.sdk.media_files import decoded, form_in, heard_raw, picture_file
from qa.sdk.media_gateway import KEY
from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.upstream import Upstream

media = media_gateway.media

SENTENCE = "The quick brown fox jumps over the lazy dog."
MADE, OTHER = picture_file((64, 48), (20, 90, 160)), picture_file((32, 32), (1, 2, 3))
TONE = struct.pack("<12000h", *([8000, -8000] * 6000))
SPEAKING = {
    "responseModalities": ["AUDIO"],
    "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Zephyr"}}},
}


def run(media: Gateway, what: str, model: str, contents: Any, **config: Any) -> Any:
    asked = json.dumps({"contents": contents, "config": config})
    return run_script("google_media.mjs", media.url, KEY, model, what, asked)


def with_picture(text: str, data: bytes) -> list[Any]:
    parts = [{"inlineData": {"mimeType": "image/png", "data": text_of(data)}}, {"text": text}]
    return [{"role": "user", "parts": parts}]


def sound_in(files: list[dict[str, str]]) -> bytes:
    assert all(one["mimeType"].lower().startswith("audio/l16") for one in files)
    return b"".join(base64.b64decode(one["data"]) for one in files)


def test_texts_have_vectors_of_the_asked_length(media: Gateway) -> None:
    one, other = run(media, "embed", "local-embed", ["A cat", "Tax forms"], outputDimensionality=16)
    assert (len(one), len(other)) == (16, 16)
    assert one != other
    (same,) = run(media, "embed", "local-embed", "A cat", outputDimensionality=16)
    assert same == pytest.approx(one)


@pytest.mark.parametrize("what", ["generate", "stream"])
def test_picture_has_the_asked_shape(media: Gateway, what: str) -> None:
    shape = {"aspectRatio": "3:2", "imageSize": "1K"}
    result = run(media, what, "local-image-3", "A red cat", responseModalities=["TEXT", "IMAGE"], imageConfig=shape)
    (one,) = result["files"]
    assert (one["mimeType"], result["reason"]) == ("image/png", "STOP")
    width, height = decoded(one["data"]).size
    assert width / height == pytest.approx(1.5, rel=0.03)


def test_picture_in_the_request_is_edited(media: Gateway) -> None:
    result = run(media, "generate", "local-image-edit", with_picture("Make it green", OTHER))
    edited = decoded(result["files"][0]["data"])
    assert edited.size == (32, 32)
    assert edited.convert("RGB").tobytes() != decoded(OTHER).tobytes()


def test_picture_of_openai_comes_to_a_caller_of_google(media: Gateway, upstream: Upstream) -> None:
    upstream.script(images(MADE))
    result = run(media, "generate", "scripted/gpt-image-1", with_picture("Add a hat", OTHER))
    assert [one["data"] for one in result["files"]] == [text_of(MADE)]
    assert result["tokens"] == 30
    (request,) = upstream.requests
    form = form_in(request)
    assert (request.path, form.texts["prompt"]) == ("/v1/images/edits", "Add a hat")
    assert [one.data for one in form.files] == [OTHER]


def test_picture_of_google_itself_comes_as_it_is(media: Gateway, upstream: Upstream) -> None:
    upstream.script(generated(MADE, "image/png"))
    result = run(media, "generate", "scripted-gemini/gemini-2.5-flash-image", "A red cat")
    assert result["files"] == [{"mimeType": "image/png", "data": text_of(MADE)}]


@pytest.mark.parametrize("what", ["generate", "stream"])
def test_embedded_model_speaks(media: Gateway, what: str) -> None:
    result = run(media, what, "local-tts", SENTENCE, **SPEAKING)
    sound = heard_raw(sound_in(result["files"]))
    assert 1 < sound.seconds < 12
    assert sound.loudest > 0.05
    assert result["reason"] == "STOP"


@pytest.mark.parametrize("what", ["generate", "stream"])
def test_speech_of_openai_comes_to_a_caller_of_google(media: Gateway, upstream: Upstream, what: str) -> None:
    upstream.script(file(TONE, "audio/pcm") if what == "generate" else speech_events(TONE[:9000], TONE[9000:]))
    result = run(media, what, "scripted/gpt-4o-mini-tts", "Hi", **SPEAKING)
    assert sound_in(result["files"]) == TONE
    assert upstream.requests[0].json["input"] == "Hi"


def test_errors_name_the_field(media: Gateway) -> None:
    voice = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Nobody"}}}
    error = run(media, "error", "local-tts", "Hi", responseModalities=["AUDIO"], speechConfig=voice)
    assert error["status"] == 400
    assert error["error"]["param"] == "generationConfig.speechConfig.voiceConfig.prebuiltVoiceConfig.voiceName"
    unable = run(media, "error", "local-embed", "Hi")
    assert (unable["status"], unable["error"]["param"]) == (400, "model")
