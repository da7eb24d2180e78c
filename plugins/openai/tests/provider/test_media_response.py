"""What comes down beyond chat. The bodies have the shapes of OpenAI's API reference."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate.codec.vectors import to_floats
from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamRateLimited
from tornado_gate.streams.events import OrderChecker
from tornado_gate.types import (
    Call,
    Data,
    EmbeddingRequest,
    EmbeddingResult,
    ImageRequest,
    ImageResult,
    MediaRequest,
    ModerationRequest,
    ModerationResult,
    PartialImage,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    StreamError,
    StreamEvent,
    Text,
    TranscriptionRequest,
    TranscriptionResult,
    UpstreamResponse,
    Usage,
)
from tornado_gate_openai.provider import answers

MakeCall = Callable[..., Call]

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PNG64 = base64.b64encode(PNG).decode()

EMBEDDING = EmbeddingRequest(model="gpt", inputs=("a", "b"))
MODERATION = ModerationRequest(model="gpt", inputs=((Text(text="Hi"),),))
IMAGE = ImageRequest(model="gpt", prompt="A hat")
SPEECH = SpeechRequest(model="gpt", text="Hi", format="pcm")
TRANSCRIPTION = TranscriptionRequest(model="gpt", audio=Data(media_type="audio/wav", base64=""))
REQUESTS: dict[str, MediaRequest] = {
    "embedding": EMBEDDING,
    "moderation": MODERATION,
    "image": IMAGE,
    "speech": SPEECH,
    "transcription": TRANSCRIPTION,
}
NAMES = sorted(REQUESTS)


def answer(body: Any, content_type: str = JSON, size: int = 0) -> UpstreamResponse:
    """An upstream's answer, whole or in pieces of `size` bytes."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)

    async def chunks() -> AsyncIterator[bytes]:
        step = size or max(1, len(raw))
        for start in range(0, len(raw), step):
            yield raw[start : start + step]

    return UpstreamResponse(chunks=chunks(), headers={"content-type": content_type} if content_type else {})


def frames(*values: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % orjson.dumps(value) for value in values)


async def events_of(call: Call, request: Any, incoming: UpstreamResponse) -> list[StreamEvent]:
    """The events, their order checked."""
    checker = OrderChecker()
    found = []
    async for event in plugin.translate_response(call, request, incoming):
        checker.check(event)
        found.append(event)
    assert checker.is_complete()
    return found


async def one(call: Call, request: Any, incoming: UpstreamResponse) -> Any:
    (event,) = await events_of(call, request, incoming)
    return event


def vector(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def embeddings(*vectors: Any) -> dict[str, Any]:
    data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(vectors)]
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    return {"object": "list", "data": data[::-1], "model": "text-embedding-3-small", "usage": usage}


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("vectors", [(vector(1, 0.5), vector(-1, 2)), ([1, 0.5], [-1, 2])])
@pytest.mark.gen_test
async def test_vectors_come_in_the_order_of_their_inputs(call: MakeCall, vectors: Any, size: int) -> None:
    result = await one(call(), EMBEDDING, answer(embeddings(*vectors), size=size))
    assert isinstance(result, EmbeddingResult)
    assert [to_floats(one_vector) for one_vector in result.vectors] == [[1, 0.5], [-1, 2]]
    assert result.usage is not None
    assert result.usage.input_tokens == 2


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.gen_test
async def test_too_few_or_too_many_vectors_are_a_fault_of_the_upstream(call: MakeCall, count: int) -> None:
    with pytest.raises(UpstreamError, match=f"{count} vectors for 2 inputs"):
        await one(call(), EMBEDDING, answer(embeddings(*[vector(1)] * count)))


def verdicts(count: int) -> dict[str, Any]:
    verdict = {
        "flagged": True,
        "categories": {"violence": True, "hate": False},
        "category_scores": {"violence": 0.9, "hate": 0.01},
        "category_applied_input_types": {"violence": ["text"], "hate": ["text"]},
    }
    return {"id": "modr-1", "model": "omni-moderation-latest", "results": [verdict] * count}


@pytest.mark.gen_test
async def test_a_verdict_has_its_categories_and_scores(call: MakeCall) -> None:
    result = await one(call(), MODERATION, answer(verdicts(1)))
    assert isinstance(result, ModerationResult)
    (verdict,) = result.verdicts
    assert (verdict.flagged, verdict.categories) == (True, {"violence": True, "hate": False})
    assert verdict.scores == {"violence": 0.9, "hate": 0.01}


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.gen_test
async def test_there_is_a_verdict_for_each_input(call: MakeCall, count: int) -> None:
    with pytest.raises(UpstreamError, match=f"{count} moderation results for 1 inputs"):
        await one(call(), MODERATION, answer(verdicts(count)))


@pytest.mark.gen_test
async def test_a_transcript_has_its_text_and_times(call: MakeCall) -> None:
    body = {"task": "transcribe", "language": "english", "duration": 1.5, "text": "Hi", "words": [], "segments": []}
    body["segments"] = [{"id": 0, "start": 0.0, "end": 1.5, "text": "Hi"}]
    result = await one(call(), TRANSCRIPTION, answer(body))
    assert isinstance(result, TranscriptionResult)
    assert (result.text, result.language, result.duration) == ("Hi", "english", 1.5)
    assert [segment["end"] for segment in result.segments] == [1.5]


@pytest.mark.gen_test
async def test_speech_comes_in_the_pieces_in_which_it_was_sent(call: MakeCall) -> None:
    events = await events_of(call(), SPEECH, answer(b"abcdef", "audio/pcm", size=4))
    assert events == [
        SpeechStart(media_type="audio/pcm"),
        SpeechChunk(data=b"abcd"),
        SpeechChunk(data=b"ef"),
        SpeechEnd(),
    ]


@pytest.mark.gen_test
async def test_an_upstream_that_streams_speech_as_events_is_understood(call: MakeCall) -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    raw = frames(
        {"type": "speech.audio.delta", "audio": base64.b64encode(b"ab").decode()},
        {"type": "speech.audio.done", "usage": usage},
    )
    events = await events_of(call(), SPEECH, answer(raw, SSE))
    assert events[1:] == [SpeechChunk(data=b"ab"), SpeechEnd(usage=Usage(input_tokens=1, output_tokens=2))]


USAGE = {
    "total_tokens": 30,
    "input_tokens": 10,
    "output_tokens": 20,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 0},
}


@pytest.mark.parametrize("asked", [IMAGE, ImageRequest(model="gpt", prompt="A hat", stream=True)])
@pytest.mark.gen_test
async def test_a_whole_picture_is_its_bytes_whether_a_stream_was_asked_for_or_not(
    call: MakeCall, asked: ImageRequest
) -> None:
    body = {"created": 5, "data": [{"b64_json": PNG64, "revised_prompt": "A red hat"}], "usage": USAGE, "size": "1x1"}
    result = await one(call(), asked, answer(body))
    assert isinstance(result, ImageResult)
    (picture,) = result.images
    assert (picture.data, picture.media_type, picture.revised_prompt) == (PNG, "image/png", "A red hat")
    assert (result.created, result.size) == (5, "1x1")
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (10, 20)


@pytest.mark.parametrize("content_type", [SSE, ""])
@pytest.mark.parametrize("kind", ["image_generation", "image_edit"])
@pytest.mark.gen_test
async def test_unfinished_pictures_come_first(call: MakeCall, kind: str, content_type: str) -> None:
    raw = frames(
        {"type": f"{kind}.partial_image", "partial_image_index": 0, "b64_json": PNG64, "created_at": 5},
        {"type": f"{kind}.completed", "b64_json": PNG64, "created_at": 6, "output_format": "png", "usage": USAGE},
    )
    request = ImageRequest(model="gpt", prompt="A hat", stream=True, partial_images=1)
    partial, result = await events_of(call(), request, answer(raw, content_type, size=10))
    assert partial == PartialImage(index=0, data=PNG, media_type="image/png")
    assert isinstance(result, ImageResult)
    assert result.images[0].data == PNG


class Fetcher:
    """Has a picture, or a reason to refuse."""

    def __init__(self, refusal: GateError | None = None) -> None:
        self.refusal = refusal
        self.data, self.media_type = PNG, "image/png"
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def fetch(self, url: str, *, kinds: Any, param: str) -> Any:
        self.asked.append((url, tuple(kinds)))
        if self.refusal:
            raise self.refusal
        return self


BY_ADDRESS = {"created": 5, "data": [{"url": "https://cdn.test/1.png?signature=s3cret"}]}


@pytest.mark.gen_test
async def test_a_picture_that_comes_by_address_all_the_same_is_fetched(call: MakeCall) -> None:
    fetcher = Fetcher()
    result = await one(call(fetcher=fetcher), IMAGE, answer(BY_ADDRESS))
    assert result.images[0].data == PNG
    assert fetcher.asked == [("https://cdn.test/1.png?signature=s3cret", ("image/",))]


@pytest.mark.parametrize(
    ("fetcher", "why", "code"),
    [
        (None, "fetching URLs is not available", "upstream_error"),
        (
            Fetcher(InvalidField("url", "Use another address.", code="private_address")),
            "private_address",
            "upstream_file_refused",
        ),
    ],
)
@pytest.mark.gen_test
async def test_a_picture_that_cannot_be_fetched_is_not_the_callers_fault(
    call: MakeCall, fetcher: Fetcher | None, why: str, code: str
) -> None:
    with pytest.raises(UpstreamError) as caught:
        await one(call(fetcher=fetcher), IMAGE, answer(BY_ADDRESS))
    assert (caught.value.status, caught.value.code) == (502, code)
    assert caught.value.message.endswith(f"could not be fetched: {why}.")
    assert "'ours'" in caught.value.message
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b'["a"]', b"{}", b'{"data": [1]}'])
@pytest.mark.gen_test
async def test_what_is_no_answer_is_a_fault_of_the_upstream(call: MakeCall, name: str, body: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        await events_of(call(), REQUESTS[name], answer(body))
    assert caught.value.status == 502
    assert caught.value.retryable


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.gen_test
async def test_an_error_with_status_200_is_an_error(call: MakeCall, name: str) -> None:
    body = {"error": {"message": "Slow down.", "type": "rate_limit_error", "code": 429}}
    with pytest.raises(UpstreamRateLimited) as caught:
        await events_of(call(), REQUESTS[name], answer(body))
    assert caught.value.message == "Slow down."


@pytest.mark.gen_test
async def test_an_error_inside_a_stream_of_pictures_ends_it(call: MakeCall) -> None:
    raw = frames(
        {"type": "image_generation.partial_image", "partial_image_index": 0, "b64_json": PNG64},
        {"type": "error", "error": {"message": "It broke", "type": "server_error"}},
    )
    request = ImageRequest(model="gpt", prompt="A hat", stream=True)
    _, last = await events_of(call(), request, answer(raw, SSE))
    assert isinstance(last, StreamError)
    assert last.error.message == "It broke"


# Large answers


def long(*texts: str) -> dict[str, Any]:
    return {"created": 5, "data": [{"b64_json": text, "revised_prompt": 'say "b64_json": "x"'} for text in texts]}


@pytest.mark.parametrize("gap", [b":", b" :\n "])
@pytest.mark.gen_test
async def test_a_long_answer_is_read_as_a_short_one(call: MakeCall, gap: bytes) -> None:
    body = long("A" * answers.LONG_BYTES, "B" * 40, "picture 0", "C\\/\u00e9" * 10, "")
    raw = orjson.dumps(body).replace(b'"b64_json":', b'"b64_json"' + gap)
    assert await answers.read_json_object(call(), answer(raw, size=1 << 16)) == body == orjson.loads(raw)


@pytest.mark.gen_test
async def test_the_loop_goes_on_between_the_pictures_of_a_long_answer(call: MakeCall) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    before = turns
    body = long(*["A" * answers.LONG_BYTES] * 5)
    assert await answers.read_json_object(call(), answer(body)) == body
    task.cancel()
    assert turns - before >= 5


@pytest.mark.parametrize("end", [b'"b64_json": "AAAA', b'"b64_json": "AA\\', b'"b64_json": "A"} ]'])
@pytest.mark.gen_test
async def test_a_long_answer_that_is_cut_off_is_no_json(call: MakeCall, end: bytes) -> None:
    raw = b'{"data": [' + b" " * answers.LONG_BYTES + b"{" + end
    with pytest.raises(UpstreamError, match="not valid JSON"):
        await answers.read_json_object(call(), answer(raw))
