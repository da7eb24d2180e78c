"""openai-python against the gateway beyond chat: vectors, verdicts, speech, transcripts. Pictures have a file of their own."""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import openai
import pytest
from openai.types import ModerationMultiModalInputParam

from qa.sdk import media_gateway
from qa.sdk.media_answers import SPEECH_USAGE, file, make_answer, speech_events
from qa.sdk.media_files import Form, data_url, form_in, heard, heard_raw, picture_file, sound_file
from qa.sdk.media_gateway import KEY, UPSTREAM_KEY, Got, post
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer, sse

media = media_gateway.media

CAT, DOG, TAX = "The cat sat on the mat.", "A cat is sitting on a mat.", "Quarterly tax forms are due in April."
SENTENCE = "The quick brown fox jumps over the lazy dog."
Voiced = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]


@pytest.fixture(scope="module")
def client(media: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{media.url}/v1", api_key=KEY, max_retries=0, timeout=20) as client:
        yield client


def asynchronous(media: Gateway) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{media.url}/v1", api_key=KEY, max_retries=0, timeout=20)


def likeness(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors."""
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


# Vectors


def test_near_texts_have_near_vectors(client: openai.OpenAI) -> None:
    """The SDK asks for base64 unless told otherwise, and unpacks it."""
    result = client.embeddings.create(model="local-embed", input=[CAT, DOG, TAX])
    assert (result.object, result.model) == ("list", "local-embed")
    assert [(entry.object, entry.index) for entry in result.data] == [("embedding", index) for index in range(3)]
    assert result.usage.prompt_tokens == result.usage.total_tokens > 0
    cat, dog, tax = [entry.embedding for entry in result.data]
    assert likeness(cat, dog) > likeness(cat, tax) + 0.2


def test_base64_holds_the_same_vector_as_floats(client: openai.OpenAI) -> None:
    packed = client.embeddings.create(model="local-embed", input=CAT).data[0].embedding
    plain = client.embeddings.create(model="local-embed", input=CAT, encoding_format="float").data[0].embedding
    assert plain == pytest.approx(packed, abs=1e-6)
    raw = client.embeddings.create(model="local-embed", input=CAT, encoding_format="base64").data[0].embedding
    assert isinstance(raw, str)
    assert len(base64.b64decode(raw)) == 4 * len(plain)


@pytest.mark.parametrize("dimensions", [8, 300])
def test_vectors_have_the_asked_length(client: openai.OpenAI, dimensions: int) -> None:
    (entry,) = client.embeddings.create(model="local-embed", input=CAT, dimensions=dimensions).data
    assert len(entry.embedding) == dimensions
    assert likeness(entry.embedding, entry.embedding) == pytest.approx(1)


def test_tokens_are_embedded_as_one_input_or_as_several(client: openai.OpenAI) -> None:
    one = client.embeddings.create(model="local-embed", input=[101, 2023, 102])
    several = client.embeddings.create(model="local-embed", input=[[101, 2023, 102], [7]])
    assert (len(one.data), len(several.data)) == (1, 2)
    assert several.data[0].embedding == pytest.approx(one.data[0].embedding)


def test_as_many_inputs_as_the_vendor_takes_keep_their_order(client: openai.OpenAI) -> None:
    texts = [f"text number {index}" for index in range(2048)]
    result = client.embeddings.create(model="local-embed", input=texts, dimensions=64)
    assert [entry.index for entry in result.data] == list(range(2048))
    last = client.embeddings.create(model="local-embed", input=texts[-1], dimensions=64).data[0].embedding
    assert result.data[-1].embedding == pytest.approx(last)
    assert len({tuple(entry.embedding) for entry in result.data}) > 1000


def test_vectors_come_to_an_asynchronous_client(media: Gateway) -> None:
    async def ask() -> Any:
        async with asynchronous(media) as client:
            asked = (client.embeddings.create(model="local-embed", input=text) for text in (CAT, DOG, TAX))
            return await asyncio.gather(*asked)

    results = asyncio.run(ask())
    assert len({tuple(result.data[0].embedding) for result in results}) == 3


def test_vectors_of_an_upstream_are_asked_for_and_given_as_they_are(client: openai.OpenAI, upstream: Upstream) -> None:
    vector = base64.b64encode(b"\0\0\x80\x3f\0\0\0\xbf").decode()
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    data = [{"object": "embedding", "index": 0, "embedding": vector}]
    upstream.script(make_answer({"object": "list", "data": data, "model": "text-embedding-3-small", "usage": usage}))
    result = client.embeddings.create(model="scripted/text-embedding-3-small", input="Hi", dimensions=2)
    assert result.data[0].embedding == [1.0, -0.5]
    assert result.usage.total_tokens == 3
    (request,) = upstream.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert request.json == {
        "model": "text-embedding-3-small", "input": "Hi", "dimensions": 2, "encoding_format": "base64"
    }  # fmt: skip


def test_engine_in_the_path_names_the_model(media: Gateway) -> None:
    """The contract's default is floats; what the body calls the model is ignored."""
    got = post(media, "/v1/engines/local-embed/embeddings", {"model": "another", "input": [CAT, TAX]})
    assert got.status == 200
    assert (got.json["object"], got.json["model"]) == ("list", "local-embed")
    assert set(got.json["usage"]) == {"prompt_tokens", "total_tokens"}
    assert [set(entry) for entry in got.json["data"]] == [{"object", "index", "embedding"}] * 2
    assert all(isinstance(number, float) for number in got.json["data"][0]["embedding"])


@pytest.mark.parametrize("slash", ["/", "%2F"])
def test_engine_may_have_a_slash_in_its_name(media: Gateway, upstream: Upstream, slash: str) -> None:
    data = [{"object": "embedding", "index": 0, "embedding": [1.0]}]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    upstream.script(make_answer({"object": "list", "data": data, "model": "text-embedding-ada-002", "usage": usage}))
    got = post(media, f"/v1/engines/scripted{slash}text-embedding-ada-002/embeddings/", {"input": "Hi"})
    assert (got.status, got.json["data"]) == (200, data)
    (request,) = upstream.requests
    assert (request.path, request.json) == ("/v1/embeddings", {"input": "Hi", "model": "text-embedding-ada-002"})


# Verdicts


@pytest.mark.parametrize("model", [None, "local-moderation", "text-moderation-latest", "text-moderation-stable"])
def test_threats_are_flagged_and_recipes_not(client: openai.OpenAI, model: str | None) -> None:
    given: dict[str, Any] = {} if model is None else {"model": model}
    result = client.moderations.create(input=["I will kill you and your family.", "A recipe for bread."], **given)
    threat, recipe = result.results
    assert (threat.flagged, recipe.flagged) == (True, False)
    assert threat.categories.violence
    assert 0 <= recipe.category_scores.violence < threat.category_scores.violence <= 1
    assert result.model == (model or "local-moderation")
    assert result.id.startswith("modr-")


def test_one_text_has_one_verdict(client: openai.OpenAI) -> None:
    (verdict,) = client.moderations.create(model="text-moderation-latest", input="A recipe for bread.").results
    assert verdict.categories.model_dump().keys() == verdict.category_scores.model_dump().keys()


def test_text_and_picture_together_have_one_verdict(client: openai.OpenAI) -> None:
    parts: list[ModerationMultiModalInputParam] = [
        {"type": "text", "text": "I will kill you."},
        {"type": "image_url", "image_url": {"url": data_url(picture_file())}},
    ]
    (verdict,) = client.moderations.create(model="local-moderation", input=parts).results
    assert verdict.categories.violence
    assert "text" in verdict.category_applied_input_types.violence


def test_verdict_of_an_upstream_comes_to_an_asynchronous_client(media: Gateway, upstream: Upstream) -> None:
    verdict = {
        "flagged": True,
        "categories": {"violence": True},
        "category_scores": {"violence": 0.75},
        "category_applied_input_types": {"violence": ["text"]},
    }
    upstream.script(make_answer({"id": "modr-9", "model": "omni-moderation-latest", "results": [verdict]}))

    async def ask() -> Any:
        async with asynchronous(media) as client:
            return await client.moderations.create(model="scripted/omni-moderation-latest", input="Grr")

    result = asyncio.run(ask())
    assert (result.id, result.results[0].category_scores.violence) == ("modr-9", 0.75)
    assert upstream.requests[0].json == {"model": "omni-moderation-latest", "input": "Grr"}


# Speech


@pytest.mark.parametrize(
    ("kind", "media_type", "container", "rate"),
    [
        ("mp3", "audio/mpeg", "mp3", 24_000),
        ("opus", "audio/ogg", "ogg", 48_000),
        ("aac", "audio/aac", "aac", 24_000),
        ("flac", "audio/flac", "flac", 24_000),
        ("wav", "audio/wav", "wav", 24_000),
    ],
)
def test_speech_is_a_file_that_decodes(
    client: openai.OpenAI, kind: Voiced, media_type: str, container: str, rate: int
) -> None:
    answered = client.audio.speech.create(model="local-tts", voice="alloy", input=SENTENCE, response_format=kind)
    assert answered.response.headers["content-type"].partition(";")[0] == media_type
    sound = heard(answered.content)
    assert (sound.format, sound.rate, sound.channels) == (container, rate, 1)
    assert 1 < sound.seconds < 12
    assert 0.05 < sound.loudest <= 1.01


def test_pcm_has_no_header(client: openai.OpenAI) -> None:
    def spoken(text: str, **rest: Any) -> bytes:
        asked = {"model": "local-tts", "voice": "nova", "response_format": "pcm", **rest}
        return client.audio.speech.create(input=text, **asked).content

    sound = heard_raw(spoken(SENTENCE))
    assert 1 < sound.seconds < 12
    assert sound.loudest > 0.05
    assert heard_raw(spoken("Fox.")).seconds < sound.seconds / 2
    assert heard_raw(spoken(SENTENCE, speed=2)).seconds == pytest.approx(sound.seconds / 2, rel=0.2)


def test_speech_streams_to_a_file_of_an_asynchronous_client(media: Gateway) -> None:
    async def ask() -> list[bytes]:
        async with asynchronous(media) as client:
            speech = client.audio.speech.with_streaming_response
            async with speech.create(model="local-tts", voice="alloy", input=SENTENCE, response_format="wav") as said:
                return [chunk async for chunk in said.iter_bytes()]

    sound = heard(b"".join(asyncio.run(ask())))
    assert 1 < sound.seconds < 12


def events_of(client: openai.OpenAI, model: str) -> list[dict[str, Any]]:
    """The frames of a speech in events, which the SDK hands over as bytes."""
    with client.audio.speech.with_streaming_response.create(
        model=model, voice="alloy", input=SENTENCE, response_format="pcm", stream_format="sse"
    ) as said:
        assert said.headers["content-type"].startswith("text/event-stream")
        text = said.read()
    return [Got(200, {}, line.removeprefix(b"data: ")).json for line in text.split(b"\n") if line.startswith(b"data:")]


@pytest.mark.parametrize("model", ["local-tts", "scripted/gpt-4o-mini-tts"])
def test_speech_in_events_holds_the_sound_and_ends_with_usage(
    client: openai.OpenAI, upstream: Upstream, model: str
) -> None:
    upstream.script(speech_events(b"\1\2" * 9000, b"\3\4" * 9000))
    *deltas, done = events_of(client, model)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    sound = heard_raw(b"".join(base64.b64decode(delta["audio"]) for delta in deltas))
    assert sound.seconds > 0.5
    assert done["type"] == "speech.audio.done"
    assert set(done["usage"]) == set(SPEECH_USAGE)
    assert done["usage"]["total_tokens"] > 0


def test_sound_of_an_upstream_passes_unchanged(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(file(b"ID3 and the rest", "audio/mpeg"))
    said = client.audio.speech.create(model="scripted/tts-1", voice="alloy", input="Hi", instructions="Softly.")
    assert (said.content, said.response.headers["content-type"]) == (b"ID3 and the rest", "audio/mpeg")
    assert upstream.requests[0].json == {
        "model": "tts-1", "voice": "alloy", "input": "Hi", "instructions": "Softly."
    }  # fmt: skip


# Transcripts

WORDS = "The quick brown fox"
VERBOSE = {
    "task": "transcribe",
    "language": "english",
    "duration": 0.5,
    "text": WORDS,
    "words": [{"word": "The", "start": 0.0, "end": 0.2}],
    "segments": [
        {
            "id": 0, "seek": 0, "start": 0.0, "end": 0.5, "text": WORDS, "tokens": [1], "temperature": 0.0,
            "avg_logprob": -0.1, "compression_ratio": 1.0, "no_speech_prob": 0.0,
        }
    ],
}  # fmt: skip


def form_sent(upstream: Upstream, path: str, sound: bytes) -> Form:
    """The form that the upstream got, whose only file is `sound`."""
    (request,) = upstream.requests
    assert (request.path, request.headers["authorization"]) == (path, f"Bearer {UPSTREAM_KEY}")
    form = form_in(request)
    (sent,) = form.files
    assert (sent.name, sent.filename, sent.data) == ("file", "fox.wav", sound)
    return form


def test_transcript_comes_and_the_form_arrives_whole(client: openai.OpenAI, upstream: Upstream) -> None:
    usage = {"type": "tokens", "input_tokens": 5, "output_tokens": 4, "total_tokens": 9}
    upstream.script(make_answer({"text": WORDS, "usage": usage}))
    sound = sound_file(20)
    result = client.audio.transcriptions.create(
        model="scripted/gpt-4o-transcribe", file=("fox.wav", sound), language="en", prompt="Fox", temperature=0.5
    )
    assert result.text == WORDS
    form = form_sent(upstream, "/v1/audio/transcriptions", sound)
    assert form.texts == {"model": "gpt-4o-transcribe", "language": "en", "prompt": "Fox", "temperature": "0.5"}


def test_transcript_comes_as_text(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(file(f"{WORDS}\n".encode(), "text/plain; charset=utf-8"))
    sound = sound_file()
    result: Any = client.audio.transcriptions.create(
        model="scripted/whisper-1", file=("fox.wav", sound), response_format="text"
    )
    assert result.strip() == WORDS
    form = form_sent(upstream, "/v1/audio/transcriptions", sound)
    assert form.texts == {"model": "whisper-1", "response_format": "text"}


def test_transcript_comes_with_times(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(make_answer(VERBOSE))
    sound = sound_file()
    result = client.audio.transcriptions.create(
        model="scripted/whisper-1",
        file=("fox.wav", sound),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert result.segments
    assert result.words
    assert (result.text, result.duration) == (WORDS, 0.5)
    assert (result.segments[0].end, result.words[0].word) == (0.5, "The")
    form = form_sent(upstream, "/v1/audio/transcriptions", sound)
    granularities = [value for name, value in form.fields if name == "timestamp_granularities[]"]
    assert granularities == ["word", "segment"]


def test_transcript_streams(client: openai.OpenAI, upstream: Upstream) -> None:
    deltas = [{"type": "transcript.text.delta", "delta": word} for word in ("The quick", " brown fox")]
    upstream.script(answer(sse(*deltas, {"type": "transcript.text.done", "text": WORDS}, "[DONE]")))
    sound = sound_file()
    events = list(
        client.audio.transcriptions.create(
            model="scripted/gpt-4o-mini-transcribe", file=("fox.wav", sound), stream=True
        )
    )
    assert "".join(event.delta for event in events if event.type == "transcript.text.delta") == WORDS
    assert events[-1].type == "transcript.text.done"
    assert form_sent(upstream, "/v1/audio/transcriptions", sound).texts["stream"] == "true"


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_translation_has_a_route_of_its_own(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(make_answer({"text": WORDS}))
    sound = sound_file()
    result = client.audio.translations.create(model="scripted/whisper-1", file=("fox.wav", sound))
    assert result.text == WORDS
    assert form_sent(upstream, "/v1/audio/translations", sound).texts == {"model": "whisper-1"}


def test_transcript_comes_to_an_asynchronous_client(media: Gateway, upstream: Upstream) -> None:
    upstream.script(make_answer({"text": WORDS}))
    sound = sound_file()

    async def ask() -> str:
        async with asynchronous(media) as client:
            asked = client.audio.transcriptions.create(model="scripted/whisper-1", file=("fox.wav", sound))
            return (await asked).text

    assert asyncio.run(ask()) == WORDS
    form_sent(upstream, "/v1/audio/transcriptions", sound)


@pytest.mark.parametrize(
    ("field", "given"), [("file", {"file": ("fox.wav", picture_file())}), ("temperature", {"temperature": 2})]
)
def test_wrong_form_is_refused_before_anything_is_sent(
    client: openai.OpenAI, upstream: Upstream, field: str, given: dict[str, Any]
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.transcriptions.create(
            **{"model": "scripted/whisper-1", "file": ("fox.wav", sound_file()), **given}
        )
    assert caught.value.param == field
    assert upstream.requests == []
