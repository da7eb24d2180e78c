"""The vendor's SDK for Node against the gateway beyond chat: vectors, verdicts, pictures, speech, transcripts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from qa.sdk import media_gateway
from qa.sdk.media_answers import file, image_stream, images, make_answer, text_of
from qa.sdk.media_files import RED, decoded, form_in, heard, heard_raw, mask_file, picture_file, sound_file
from qa.sdk.media_gateway import KEY, get
from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.upstream import Upstream, answer, sse

media = media_gateway.media

CAT = "A red cat on a blue chair"
SENTENCE = "The quick brown fox jumps over the lazy dog."
FIRST, LAST = picture_file((8, 8), (10, 0, 0)), picture_file((8, 8), (30, 0, 0))


def run(media: Gateway, what: str, model: str, **options: Any) -> Any:
    return run_script("openai_media.mjs", f"{media.url}/v1", KEY, model, what, json.dumps(options))


def sent_file(name: str, media_type: str, data: bytes) -> dict[str, str]:
    """A file that the script makes."""
    return {"name": name, "type": media_type, "data": text_of(data)}


def test_vectors_are_unpacked(media: Gateway) -> None:
    """The SDK asks for base64 unless told otherwise."""
    result = run(media, "embeddings", "local-embed", input=[CAT, SENTENCE], dimensions=24)
    packed, plain = ([entry["embedding"] for entry in result[how]["data"]] for how in ("packed", "plain"))
    assert [len(vector) for vector in plain] == [24, 24]
    assert plain[0] != plain[1]
    assert packed[0] == pytest.approx(plain[0], abs=1e-6)
    assert packed[1] == pytest.approx(plain[1], abs=1e-6)
    assert result["packed"]["usage"]["total_tokens"] > 0


def test_threats_are_flagged_and_recipes_not(media: Gateway) -> None:
    texts = ["I will kill you and your family.", "A recipe for bread."]
    result = run(media, "moderations", "text-moderation-latest", input=texts)
    assert [verdict["flagged"] for verdict in result["results"]] == [True, False]
    assert result["model"] == "text-moderation-latest"


@pytest.mark.parametrize(
    ("model", "size", "n"),
    [("local-image-1", "256x256", 2), ("local-image-2", "1024x1792", 1), ("local-image-3", "1536x1024", 1)],
)
def test_each_family_makes_pictures(media: Gateway, model: str, size: str, n: int) -> None:
    result = run(media, "generate", model, prompt=CAT, size=size, n=n, response_format="url")
    pictures = [decoded(get(image["url"]).body) for image in result["images"]]
    assert ["{}x{}".format(*picture.size) for picture in pictures] == [size] * n
    assert result["usage"]["total_tokens"] > 0


def test_third_family_answers_with_bytes_in_the_asked_kind(media: Gateway) -> None:
    result = run(media, "generate", "local-image-3", prompt=CAT, output_format="webp", background="transparent")
    (image,) = result["images"]
    picture = decoded(image["b64_json"])
    assert (picture.format, picture.mode) == ("WEBP", "RGBA")
    assert (result["output_format"], result["background"]) == ("webp", "transparent")


def test_unfinished_pictures_stream_before_the_finished_one(media: Gateway, upstream: Upstream) -> None:
    upstream.script(image_stream([FIRST], LAST))
    events = run(media, "stream", "scripted/gpt-image-1", prompt=CAT, partial_images=1)
    assert [event["type"] for event in events] == ["image_generation.partial_image", "image_generation.completed"]
    assert [event["b64_json"] for event in events] == [text_of(FIRST), text_of(LAST)]
    (own,) = run(media, "stream", "local-image-3", prompt=CAT)
    assert own["type"] == "image_generation.completed"
    assert decoded(own["b64_json"]).format == "PNG"


def test_what_the_mask_hides_stays(media: Gateway) -> None:
    result = run(
        media,
        "edit",
        "local-image-edit",
        prompt="Paint it green",
        images=[sent_file("a.png", "image/png", picture_file((64, 64)))],
        mask=sent_file("m.png", "image/png", mask_file((64, 64))),
    )
    picture = decoded(get(result["images"][0]["url"]).body).convert("RGB")
    assert picture.crop((32, 0, 64, 64)).getcolors() == [(32 * 64, RED)]
    assert picture.crop((0, 0, 32, 64)).getcolors() != [(32 * 64, RED)]


def test_form_of_an_edit_arrives_whole(media: Gateway, upstream: Upstream) -> None:
    upstream.script(images(LAST))
    pictures = [sent_file("a.png", "image/png", FIRST), sent_file("b.png", "image/png", LAST)]
    result = run(media, "edit", "scripted/gpt-image-1", prompt=CAT, images=pictures, n=1)
    assert result["images"][0]["b64_json"] == text_of(LAST)
    form = form_in(upstream.requests[0])
    assert form.texts == {"model": "gpt-image-1", "prompt": CAT, "n": "1"}
    assert [(one.name, one.filename, one.data) for one in form.files] == [
        ("image[]", "a.png", FIRST),
        ("image[]", "b.png", LAST),
    ]


def test_variations_of_a_picture_are_the_upstreams(media: Gateway, upstream: Upstream) -> None:
    upstream.script(images(FIRST))
    result = run(media, "variation", "scripted/dall-e-2", image=sent_file("a.png", "image/png", LAST))
    assert get(result["images"][0]["url"]).body == FIRST
    assert [(one.name, one.data) for one in form_in(upstream.requests[0]).files] == [("image", LAST)]


@pytest.mark.parametrize("kind", ["mp3", "opus", "pcm"])
def test_speech_is_a_file_that_decodes(media: Gateway, kind: str) -> None:
    said = run(media, "speech", "local-tts", input=SENTENCE, voice="alloy", response_format=kind)
    data = base64.b64decode(said["data"])
    sound = heard_raw(data) if kind == "pcm" else heard(data)
    assert 1 < sound.seconds < 12
    assert sound.loudest > 0.05


@pytest.mark.parametrize("what", ["transcription", "translation"])
def test_form_with_sound_arrives_whole(media: Gateway, upstream: Upstream, what: str) -> None:
    upstream.script(make_answer({"text": "The quick brown fox"}))
    sound = sound_file()
    result = run(media, what, "scripted/whisper-1", sound=sent_file("fox.wav", "audio/wav", sound))
    assert result["text"] == "The quick brown fox"
    (request,) = upstream.requests
    form = form_in(request)
    assert request.path == f"/v1/audio/{what}s"
    assert form.texts == {"model": "whisper-1"}
    assert [(one.name, one.filename, one.data) for one in form.files] == [("file", "fox.wav", sound)]


def test_transcript_comes_as_text_and_as_a_stream(media: Gateway, upstream: Upstream) -> None:
    sound = sent_file("fox.wav", "audio/wav", sound_file())
    upstream.script(file(b"The fox\n", "text/plain"))
    plain = run(media, "transcription", "scripted/whisper-1", sound=sound, response_format="text")
    assert plain.strip() == "The fox"
    events = [
        {"type": "transcript.text.delta", "delta": "The fox"},
        {"type": "transcript.text.done", "text": "The fox"},
    ]
    upstream.script(answer(sse(*events, "[DONE]")))
    streamed = run(media, "transcription", "scripted/gpt-4o-mini-transcribe", sound=sound, stream=True)
    assert streamed == events


def test_errors_name_the_field(media: Gateway) -> None:
    result = run(media, "errors", "any")
    brief = {what: (error["name"], error["status"], error["param"]) for what, error in result.items()}
    assert brief == {
        "input": ("BadRequestError", 400, "input"),
        "size": ("BadRequestError", 400, "size"),
        "picture": ("BadRequestError", 400, "image"),
        "voice": ("BadRequestError", 400, "voice"),
        "operation": ("BadRequestError", 400, "model"),
    }
    assert result["operation"]["code"] == "operation_not_supported"
