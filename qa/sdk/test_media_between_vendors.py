"""Pictures and speech where the caller speaks one vendor's format and the upstream another's: what goes up, what is lost."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Iterator, Mapping
from typing import Any

import openai
import pytest

from qa.sdk import media_gateway
from qa.sdk.media_answers import TASK, file, generated, images, make_answer, model_studio, task
from qa.sdk.media_files import data_url, decoded, form_in, heard, heard_raw, picture_file
from qa.sdk.media_gateway import KEY, UPSTREAM_KEY, Got, get, post
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

media = media_gateway.media

IMAGES, EDITS = "/v1/images/generations", "/v1/images/edits"
AT_ONCE = "/api/v1/services/aigc/multimodal-generation/generation"
BY_TASK = "/api/v1/services/aigc/text2image/image-synthesis"
CAT = "A red cat on a blue chair"
MADE, OTHER = picture_file((64, 48), (20, 90, 160)), picture_file((32, 32), (1, 2, 3))
TONE = struct.pack("<12000h", *([8000, -8000] * 6000))
STRICT = {"x-gate-strict": "1"}


@pytest.fixture(scope="module")
def client(media: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{media.url}/v1", api_key=KEY, max_retries=0, timeout=20) as client:
        yield client


def tongyi(model: str, *content: Mapping[str, str], **parameters: Any) -> dict[str, Any]:
    """A body of the contract's second shape."""
    message = {"role": "user", "content": list(content or ({"text": CAT},))}
    body: dict[str, Any] = {"model": model, "input": {"messages": [message]}}
    return {**body, "parameters": parameters} if parameters else body


def pictures_in(got: Got) -> list[bytes]:
    """The files of an answer that holds their addresses."""
    assert got.status == 200, got.body
    assert all("b64_json" not in image for image in got.json["data"])
    return [get(image["url"]).body for image in got.json["data"]]


# The contract's second shape


@pytest.mark.parametrize("model", ["local-image-1", "local-image-2", "local-image-3", "local-image-edit"])
def test_every_embedded_model_takes_the_second_shape(media: Gateway, model: str) -> None:
    got = post(media, IMAGES, tongyi(model, size="1024*1024", watermark=True, prompt_extend=False))
    (picture,) = pictures_in(got)
    assert decoded(picture).size == (1024, 1024)
    assert set(got.json) <= {"created", "data", "usage"}
    assert [set(image) for image in got.json["data"]] == [{"url", "revised_prompt"}]
    assert got.json["data"][0]["revised_prompt"] == CAT
    assert "x-gate-loss" not in got.headers


def test_second_shape_reaches_its_own_vendor_as_it_is(media: Gateway, upstream: Upstream) -> None:
    upstream.script(file(MADE, "image/png", path="/oss/"), model_studio(upstream, "/oss/1.png"))
    parameters = {"negative_prompt": "dogs", "prompt_extend": True, "watermark": False, "size": "1328*1328"}
    got = post(media, f"{IMAGES}/", tongyi("scripted-dash/qwen-image", **parameters))
    assert pictures_in(got) == [MADE]
    assert got.json["data"][0]["url"].startswith(f"{media.url}/media/")
    assert "x-gate-loss" not in got.headers
    request, fetched = upstream.requests
    assert (request.path, request.headers["authorization"]) == (AT_ONCE, f"Bearer {UPSTREAM_KEY}")
    assert request.json == tongyi("qwen-image", **parameters)
    assert fetched.path == "/oss/1.png"
    assert "authorization" not in fetched.headers


def test_pictures_by_task_come_when_the_task_has_ended(media: Gateway, upstream: Upstream) -> None:
    done = [{"url": f"{upstream.url}/oss/{name}.png", "actual_prompt": "A fine cat"} for name in (1, 2)]
    upstream.script(
        file(MADE, "image/png", path="/oss/1.png"),
        file(OTHER, "image/png", path="/oss/2.png"),
        task("PENDING"),
        task("RUNNING"),
        task("SUCCEEDED", results=done),
    )
    got = post(media, IMAGES, tongyi("scripted-dash/wan2.2-t2i-flash", n=2, size="1024*1024"))
    assert pictures_in(got) == [MADE, OTHER]
    assert [image["revised_prompt"] for image in got.json["data"]] == ["A fine cat"] * 2
    made, *questions = upstream.requests[:3]
    assert (made.path, made.headers["x-dashscope-async"]) == (BY_TASK, "enable")
    assert made.json["input"] == {"prompt": CAT}
    assert made.json["parameters"] == {"n": 2, "size": "1024*1024"}
    assert [question.path for question in questions] == [f"/api/v1/tasks/{TASK}"] * 2


def test_task_that_failed_for_the_prompt_is_the_callers_fault(media: Gateway, upstream: Upstream) -> None:
    failed = task("FAILED", code="DataInspectionFailed", message="The prompt is unfit.")
    upstream.script(task("PENDING"), failed)
    got = post(media, IMAGES, tongyi("scripted-dash/wan2.1-t2i-plus"))
    assert (got.status, got.error["message"]) == (400, "The prompt is unfit.")


def test_edit_of_the_second_shape_reaches_its_own_vendor(media: Gateway, upstream: Upstream) -> None:
    upstream.script(file(MADE, "image/png", path="/oss/"), model_studio(upstream, "/oss/1.png"))
    content = ({"image": data_url(OTHER)}, {"text": "Add a hat"})
    got = post(media, EDITS, tongyi("scripted-dash/qwen-image-edit-plus", *content, n=1))
    assert pictures_in(got) == [MADE]
    assert set(got.json) == {"created", "data"}
    assert upstream.requests[0].json == tongyi("qwen-image-edit-plus", *content, n=1)


def test_second_shape_at_openai_says_what_it_can_and_names_the_rest(media: Gateway, upstream: Upstream) -> None:
    upstream.script(images(MADE))
    parameters = {"negative_prompt": "dogs", "watermark": True, "size": "1024*1536"}
    got = post(media, IMAGES, tongyi("scripted/gpt-image-1", **parameters))
    assert pictures_in(got) == [MADE]
    assert got.json["data"][0]["revised_prompt"] == CAT
    lost = set(got.headers["x-gate-loss"].split(","))
    assert lost == {"parameters.negative_prompt", "parameters.watermark"}
    assert upstream.requests[0].json == {"model": "gpt-image-1", "prompt": CAT, "size": "1024x1536"}


def test_edit_of_the_second_shape_reaches_openai_as_a_form(media: Gateway, upstream: Upstream) -> None:
    upstream.script(file(OTHER, "image/png", path="/before.png"), images(MADE))
    content = ({"image": f"{upstream.url}/before.png"}, {"text": "Add a hat"})
    got = post(media, EDITS, tongyi("scripted/gpt-image-1", *content))
    assert pictures_in(got) == [MADE]
    fetched, request = upstream.requests
    assert fetched.path == "/before.png"
    form = form_in(request)
    assert form.texts == {"model": "gpt-image-1", "prompt": "Add a hat"}
    assert [(one.media_type, one.data) for one in form.files] == [("image/png", OTHER)]


# The vendor's shape at Model Studio


def test_what_model_studio_cannot_do_is_named(media: Gateway, upstream: Upstream) -> None:
    upstream.script(file(MADE, "image/png", path="/oss/"), model_studio(upstream, "/oss/1.png"))
    body = {"model": "scripted-dash/qwen-image", "prompt": CAT, "size": "1024x1024", "style": "vivid", "quality": "hd"}
    got = post(media, IMAGES, body)
    assert pictures_in(got) == [MADE]
    assert set(got.headers["x-gate-loss"].split(",")) == {"style", "quality"}
    sent = upstream.requests[0].json
    assert sent["input"] == {"messages": [{"role": "user", "content": [{"text": CAT}]}]}
    assert sent["parameters"]["size"] == "1024*1024"


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ({"model": "scripted-dash/qwen-image", "prompt": CAT, "style": "vivid"}, "style"),
        (tongyi("scripted/gpt-image-1", negative_prompt="dogs"), "parameters.negative_prompt"),
        (tongyi("local-image-1", negative_prompt="dogs"), "parameters.negative_prompt"),
        ({"model": "local-image-2", "prompt": CAT, "style": "vivid"}, "style"),
        ({"model": "scripted-gemini/gemini-2.5-flash-image", "prompt": CAT, "quality": "high"}, "quality"),
    ],
    ids=["dashscope", "openai", "local", "local-prompt", "gemini"],
)
def test_strict_caller_gets_no_picture_that_is_not_what_was_asked_for(
    media: Gateway, upstream: Upstream, body: Any, lost: str
) -> None:
    got = post(media, IMAGES, body, STRICT)
    assert (got.status, got.error["param"]) == (400, lost)
    assert upstream.requests == []


def test_edit_of_the_sdk_reaches_model_studio_in_messages(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(file(MADE, "image/png", path="/oss/"), model_studio(upstream, "/oss/1.png"))
    result = client.images.edit(
        model="scripted-dash/qwen-image-edit-plus",
        image=("a.png", OTHER),
        prompt="Add a hat",
        response_format="b64_json",
    )
    assert result.data
    assert decoded(result.data[0].b64_json).size == (64, 48)
    content = upstream.requests[0].json["input"]["messages"][0]["content"]
    assert content == [{"image": data_url(OTHER)}, {"text": "Add a hat"}]


@pytest.mark.parametrize(("stream", "kind"), [("true", "text/event-stream"), ("false", "application/json")])
def test_stream_may_be_a_string(media: Gateway, stream: str, kind: str) -> None:
    got = post(media, IMAGES, {"model": "local-image-3", "prompt": CAT, "stream": stream})
    assert (got.status, got.headers["content-type"].partition(";")[0]) == (200, kind)


def test_fields_of_null_say_nothing(media: Gateway) -> None:
    names = ("n", "size", "quality", "style", "background", "moderation", "response_format", "stream", "user")
    got = post(media, IMAGES, {"model": "local-image-1", "prompt": CAT, **dict.fromkeys(names)})
    assert decoded(pictures_in(got)[0]).size == (1024, 1024)
    assert "x-gate-loss" not in got.headers


# At Gemini


def test_picture_of_gemini_comes_to_a_caller_of_openai(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(generated(MADE, "image/png"))
    raw = client.images.with_raw_response.generate(
        model="scripted-gemini/gemini-2.5-flash-image", prompt=CAT, size="1024x1024"
    )
    result = raw.parse()
    assert result.data
    assert result.data[0].url
    assert get(result.data[0].url).body == MADE
    assert result.usage
    assert (result.usage.input_tokens, result.usage.output_tokens) == (5, 9)
    (request,) = upstream.requests
    assert request.path == "/v1beta/models/gemini-2.5-flash-image:generateContent"
    assert request.headers["x-goog-api-key"] == UPSTREAM_KEY
    assert request.json["contents"][-1]["parts"] == [{"text": CAT}]
    assert request.json["generationConfig"]["imageConfig"]["aspectRatio"] == "1:1"


def test_edit_with_files_reaches_gemini_with_the_pictures_inside(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(generated(MADE, "image/png"))
    result = client.images.edit(
        model="scripted-gemini/gemini-2.5-flash-image", image=[("a.png", OTHER), ("b.png", MADE)], prompt="Join them"
    )
    assert result.data
    parts = upstream.requests[0].json["contents"][-1]["parts"]
    urls = [f"data:image/png;base64,{part['inlineData']['data']}" for part in parts if "inlineData" in part]
    assert urls == [data_url(OTHER), data_url(MADE)]
    assert [part["text"] for part in parts if "text" in part] == ["Join them"]


def test_imagen_is_asked_by_prediction(client: openai.OpenAI, upstream: Upstream) -> None:
    predictions = [
        {"mimeType": "image/png", "bytesBase64Encoded": data_url(one).partition(",")[2]} for one in (MADE, OTHER)
    ]
    upstream.script(make_answer({"predictions": predictions}))
    result = client.images.generate(model="scripted-gemini/imagen-4.0-generate-001", prompt=CAT, n=2)
    assert result.data
    assert [get(image.url or "").body for image in result.data] == [MADE, OTHER]
    (request,) = upstream.requests
    assert request.path == "/v1beta/models/imagen-4.0-generate-001:predict"
    assert (request.json["instances"], request.json["parameters"]["sampleCount"]) == ([{"prompt": CAT}], 2)


@pytest.mark.parametrize("kind", ["wav", "pcm"])
def test_speech_of_gemini_comes_to_a_caller_of_openai(client: openai.OpenAI, upstream: Upstream, kind: Any) -> None:
    upstream.script(generated(TONE, "audio/L16;codec=pcm;rate=24000"))
    said = client.audio.speech.create(
        model="scripted-gemini/gemini-2.5-flash-preview-tts", voice="Kore", input="Hi", response_format=kind
    )
    if kind == "wav":
        with wave.open(io.BytesIO(said.content)) as reader:
            assert (reader.getframerate(), reader.readframes(reader.getnframes())) == (24_000, TONE)
    else:
        assert said.content == TONE
    sound = heard(said.content) if kind == "wav" else heard_raw(said.content)
    assert sound.seconds == pytest.approx(0.5)
    (request,) = upstream.requests
    assert request.path.startswith("/v1beta/models/gemini-2.5-flash-preview-tts:")
    config = request.json["generationConfig"]
    assert config["responseModalities"] == ["AUDIO"]
    assert config["speechConfig"]["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"] == "Kore"


def test_vectors_of_gemini_come_to_a_caller_of_openai(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(make_answer({"embeddings": [{"values": [1.0, -0.5]}, {"values": [0.25, 2.0]}]}))
    result = client.embeddings.create(model="scripted-gemini/gemini-embedding-001", input=["a", "b"], dimensions=2)
    assert [entry.embedding for entry in result.data] == [[1.0, -0.5], [0.25, 2.0]]
    (request,) = upstream.requests
    assert request.path == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    assert [one["content"]["parts"] for one in request.json["requests"]] == [[{"text": "a"}], [{"text": "b"}]]
