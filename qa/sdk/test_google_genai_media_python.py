"""google-genai for Python against the gateway beyond chat: vectors, pictures, speech.

``models.generate_images`` is not here: it asks ``:predict``, which the gateway offers to no caller.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from qa.sdk import media_gateway
from qa.sdk.media_answers import file, generated, images, make_answer, model_studio, speech_events
from qa.sdk.media_files import decoded, form_in, heard_raw, picture_file
from qa.sdk.media_gateway import KEY, UPSTREAM_KEY
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

media = media_gateway.media

CAT, DOG, TAX = "The cat sat on the mat.", "A cat is sitting on a mat.", "Quarterly tax forms are due in April."
SENTENCE = "The quick brown fox jumps over the lazy dog."
VOICES = ["Kore", "Aoede", "Charon", "Fenrir", "Puck", "Leda", "Orus", "Zephyr"]
MADE, OTHER = picture_file((64, 48), (20, 90, 160)), picture_file((32, 32), (1, 2, 3))
TONE = struct.pack("<12000h", *([8000, -8000] * 6000))


def connect(media: Gateway, version: str | None = None) -> genai.Client:
    """The SDK, with its own version of the address unless another is named."""
    options = types.HttpOptions(base_url=media.url, api_version=version, timeout=20_000)
    return genai.Client(api_key=KEY, http_options=options)


@pytest.fixture(scope="module")
def client(media: Gateway) -> Iterator[genai.Client]:
    with connect(media) as client:
        yield client


def likeness(one: Sequence[float] | None, other: Sequence[float] | None) -> float:
    """The cosine of the angle between two vectors."""
    assert one
    assert other
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def several(*contents: types.PartUnion) -> list[types.PartUnion | types.PartUnionDict]:
    return list(contents)


def only_file(answer: types.GenerateContentResponse) -> types.Blob:
    """The file in an answer that has one candidate, which ended as it should."""
    assert answer.candidates
    (candidate,) = answer.candidates
    assert candidate.finish_reason == types.FinishReason.STOP
    assert candidate.content
    assert candidate.content.role == "model"
    (blob,) = [part.inline_data for part in candidate.content.parts or [] if part.inline_data]
    return blob


# Vectors


def test_near_texts_have_near_vectors(client: genai.Client) -> None:
    result = client.models.embed_content(model="local-embed", contents=several(CAT, DOG, TAX))
    assert result.embeddings
    cat, dog, tax = [embedding.values for embedding in result.embeddings]
    assert likeness(cat, dog) > likeness(cat, tax) + 0.2


def test_one_text_has_a_vector_of_the_asked_length(client: genai.Client) -> None:
    config = types.EmbedContentConfig(output_dimensionality=16)
    result = client.models.embed_content(model="local-embed", contents=CAT, config=config)
    assert result.embeddings
    (embedding,) = result.embeddings
    assert len(embedding.values or []) == 16


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_every_version_of_the_address_leads_beyond_chat(media: Gateway, version: str) -> None:
    with connect(media, version) as client:
        assert client.models.embed_content(model="local-embed", contents=CAT).embeddings
        said = client.models.generate_content(model="local-tts", contents="Fox.", config=spoken("Kore"))
    assert heard_raw(only_file(said).data or b"").seconds > 0.2


def test_vectors_come_to_an_asynchronous_caller(client: genai.Client) -> None:
    async def ask() -> list[types.EmbedContentResponse]:
        asked = (client.aio.models.embed_content(model="local-embed", contents=text) for text in (CAT, TAX))
        return await asyncio.gather(*asked)

    one, other = [result.embeddings[0].values for result in asyncio.run(ask()) if result.embeddings]
    assert likeness(one, one) == pytest.approx(1)
    assert likeness(one, other) < 0.9


def test_vectors_of_openai_come_to_a_caller_of_google(client: genai.Client, upstream: Upstream) -> None:
    data = [{"object": "embedding", "index": index, "embedding": [index + 1.0, -0.5]} for index in range(2)]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    upstream.script(make_answer({"object": "list", "data": data, "model": "text-embedding-3-small", "usage": usage}))
    result = client.models.embed_content(model="scripted/text-embedding-3-small", contents=several("a", "b"))
    assert result.embeddings
    assert [embedding.values for embedding in result.embeddings] == [[1.0, -0.5], [2.0, -0.5]]
    (request,) = upstream.requests
    assert (request.path, request.json["input"]) == ("/v1/embeddings", ["a", "b"])


# Pictures


@pytest.mark.parametrize(
    ("model", "ratio", "resolution", "size"),
    [
        ("local-image-1", "1:1", "1K", (1024, 1024)),
        ("local-image-3", "3:2", None, (1536, 1024)),
        ("local-image-3", "2:3", "1K", (1024, 1536)),
    ],
)
def test_picture_has_the_asked_shape(
    client: genai.Client, model: str, ratio: str, resolution: str | None, size: tuple[int, int]
) -> None:
    config = types.GenerateContentConfig(
        response_modalities=["TEXT", "IMAGE"],
        image_config=types.ImageConfig(aspect_ratio=ratio, image_size=resolution),
    )
    answer = client.models.generate_content(model=model, contents="A red cat", config=config)
    blob = only_file(answer)
    assert blob.mime_type == "image/png"
    width, height = decoded(blob.data or b"").size
    assert width / height == pytest.approx(size[0] / size[1], rel=0.03)
    assert max(width, height) >= 1024
    assert answer.usage_metadata
    assert (answer.usage_metadata.candidates_token_count or 0) > 0


def test_picture_of_a_stream_is_whole(client: genai.Client) -> None:
    config = types.GenerateContentConfig(response_modalities=["IMAGE"])
    chunks = list(client.models.generate_content_stream(model="local-image-1", contents="A red cat", config=config))
    parts = [part for chunk in chunks for part in chunk.parts or []]
    blobs = [part.inline_data for part in parts if part.inline_data]
    assert len(blobs) == 1
    assert decoded(blobs[0].data or b"").format == "PNG"
    assert chunks[-1].candidates
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP


def test_picture_in_the_request_is_edited(client: genai.Client) -> None:
    picture = types.Part.from_bytes(data=OTHER, mime_type="image/png")
    answer = client.models.generate_content(model="local-image-edit", contents=several(picture, "Make it green"))
    edited = decoded(only_file(answer).data or b"")
    assert edited.size == (32, 32)
    assert edited.convert("RGB").tobytes() != decoded(OTHER).tobytes()


def test_picture_of_openai_comes_to_a_caller_of_google(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(images(MADE))
    config = types.GenerateContentConfig(
        response_modalities=["IMAGE"], image_config=types.ImageConfig(aspect_ratio="3:2")
    )
    answer = client.models.generate_content(model="scripted/gpt-image-1", contents="A red cat", config=config)
    assert only_file(answer).data == MADE
    assert answer.usage_metadata
    assert answer.usage_metadata.total_token_count == 30
    (request,) = upstream.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/images/generations", f"Bearer {UPSTREAM_KEY}")
    assert request.json == {"model": "gpt-image-1", "prompt": "A red cat", "size": "1536x1024"}


def test_picture_in_the_request_reaches_openai_as_a_form(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(images(MADE))
    picture = types.Part.from_bytes(data=OTHER, mime_type="image/png")
    answer = client.models.generate_content(model="scripted/gpt-image-1", contents=several(picture, "Add a hat"))
    assert only_file(answer).data == MADE
    (request,) = upstream.requests
    form = form_in(request)
    assert (request.path, form.texts["prompt"]) == ("/v1/images/edits", "Add a hat")
    assert [(one.media_type, one.data) for one in form.files] == [("image/png", OTHER)]


def test_picture_of_model_studio_comes_to_a_caller_of_google(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(file(MADE, "image/png", path="/oss/"), model_studio(upstream, "/oss/1.png"))
    answer = client.models.generate_content(model="scripted-dash/qwen-image", contents="A red cat")
    assert only_file(answer).data == MADE


def test_picture_of_google_itself_comes_as_it_is(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(generated(MADE, "image/png"))
    config = types.GenerateContentConfig(
        response_modalities=["IMAGE"], image_config=types.ImageConfig(aspect_ratio="16:9")
    )
    answer = client.models.generate_content(
        model="scripted-gemini/gemini-2.5-flash-image", contents="A red cat", config=config
    )
    assert only_file(answer).data == MADE
    (request,) = upstream.requests
    assert request.headers["x-goog-api-key"] == UPSTREAM_KEY
    assert request.json["generationConfig"]["imageConfig"] == {"aspectRatio": "16:9"}


# Speech


def spoken(voice: str | None = None) -> types.GenerateContentConfig:
    if voice is None:
        return types.GenerateContentConfig(response_modalities=["AUDIO"])
    chosen = types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name=voice))
    return types.GenerateContentConfig(
        response_modalities=["AUDIO"], speech_config=types.SpeechConfig(voice_config=chosen)
    )


def is_raw(media_type: str | None) -> bool:
    kind, *parameters = (media_type or "").replace(" ", "").lower().split(";")
    return kind == "audio/l16" and "rate=24000" in parameters


@pytest.mark.parametrize("voice", VOICES)
def test_every_voice_of_the_contract_speaks(client: genai.Client, voice: str) -> None:
    answer = client.models.generate_content(model="local-tts", contents=SENTENCE, config=spoken(voice))
    blob = only_file(answer)
    assert is_raw(blob.mime_type)
    sound = heard_raw(blob.data or b"")
    assert 1 < sound.seconds < 12
    assert sound.loudest > 0.05
    assert answer.usage_metadata
    assert (answer.usage_metadata.candidates_token_count or 0) > 0


def test_voices_differ(client: genai.Client) -> None:
    said = [
        only_file(client.models.generate_content(model="local-tts", contents="Fox.", config=spoken(voice))).data
        for voice in VOICES
    ]
    assert len(set(said)) > 1


def test_unknown_voice_is_refused_by_its_path(client: genai.Client) -> None:
    """In the caller's own spelling, which in this SDK is a mixture."""
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model="local-tts", contents="Fox.", config=spoken("Nobody"))
    details: Any = caught.value.details
    assert caught.value.code == 400
    path = "generationConfig.speechConfig.voice_config.prebuilt_voice_config.voice_name"
    assert details["error"]["param"] == path


def test_speech_streams_in_pieces(client: genai.Client) -> None:
    chunks = list(
        client.models.generate_content_stream(
            model="local-tts", contents=f"{SENTENCE} And once more. {SENTENCE}", config=spoken("Puck")
        )
    )
    blobs = [part.inline_data for chunk in chunks for part in chunk.parts or [] if part.inline_data]
    assert len(blobs) > 1
    assert all(is_raw(blob.mime_type) for blob in blobs)
    assert 2 < heard_raw(b"".join(blob.data or b"" for blob in blobs)).seconds < 24


def test_speech_of_openai_comes_to_a_caller_of_google(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(file(TONE, "audio/pcm"))
    answer = client.models.generate_content(model="scripted/gpt-4o-mini-tts", contents="Hi", config=spoken("Kore"))
    blob = only_file(answer)
    assert (is_raw(blob.mime_type), blob.data) == (True, TONE)
    (request,) = upstream.requests
    assert (request.path, request.json["response_format"]) == ("/v1/audio/speech", "pcm")
    assert request.json["input"] == "Hi"
    assert isinstance(request.json["voice"], str)


def test_speech_of_openai_streams_to_a_caller_of_google(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(speech_events(TONE[:8000], TONE[8000:]))
    chunks = list(
        client.models.generate_content_stream(model="scripted/gpt-4o-mini-tts", contents="Hi", config=spoken())
    )
    blobs = [part.inline_data for chunk in chunks for part in chunk.parts or [] if part.inline_data]
    assert b"".join(blob.data or b"" for blob in blobs) == TONE
    assert chunks[-1].usage_metadata
    assert chunks[-1].usage_metadata.total_token_count == 11


def test_speech_of_google_itself_comes_as_it_is(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(generated(TONE, "audio/L16;codec=pcm;rate=24000"))
    answer = client.models.generate_content(
        model="scripted-gemini/gemini-2.5-flash-preview-tts", contents="Hi", config=spoken("Kore")
    )
    blob = only_file(answer)
    assert (blob.mime_type, blob.data) == ("audio/L16;codec=pcm;rate=24000", TONE)


# Models that cannot


@pytest.mark.parametrize("method", ["embed", "draw"])
def test_known_model_asked_for_what_it_cannot_do(client: genai.Client, method: str) -> None:
    with pytest.raises(errors.ClientError) as caught:
        if method == "embed":
            client.models.embed_content(model="local-tts", contents="Hi")
        else:
            client.models.generate_content(model="local-moderation", contents="Hi")
    details: Any = caught.value.details
    assert caught.value.code == 400
    assert details["error"]["param"] == "model"


def test_picture_that_is_none_is_refused_by_its_path(client: genai.Client) -> None:
    picture = types.Part.from_bytes(data=b"no picture at all", mime_type="image/png")
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model="local-image-edit", contents=several(picture, "Make it green"))
    details: Any = caught.value.details
    assert (caught.value.code, details["error"]["param"]) == (400, "contents.0.parts.0.inlineData.data")
