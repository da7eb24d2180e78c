"""The events of a response that is known completely say what its result says."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given

from tests.streams.test_events import RESULTS, result_of
from tornado_gate.errors import UpstreamError
from tornado_gate.streams.events import (
    WholeEvents,
    collect,
    convert_whole,
    iterate_events,
    render_json,
    render_single,
    replay,
)
from tornado_gate.streams.stages import LARGE_BYTES
from tornado_gate.testing import iterate
from tornado_gate.types import (
    Audio,
    BufferedBody,
    ChatResult,
    Data,
    StreamEvent,
    Text,
    TokenCount,
    UpstreamResponse,
)

SMALL = result_of(Text(text="hi"))


async def read(events: WholeEvents) -> list[StreamEvent]:
    return [event async for event in events]


@given(RESULTS)
def test_whole_events_are_the_events_of_their_result(result: ChatResult) -> None:
    assert asyncio.run(read(WholeEvents(result))) == list(replay(result))


@given(RESULTS)
def test_a_result_that_is_taken_directly_is_the_one_that_its_events_make(result: ChatResult) -> None:
    whole = WholeEvents(result)
    if whole.is_direct:
        assert result == asyncio.run(collect(whole)) == asyncio.run(collect(iterate_events(replay(result))))


@pytest.mark.parametrize(
    "result",
    [
        result_of(Text(text="x" * (LARGE_BYTES + 1))),
        result_of(Text(text="x"), logprobs={"content": [{"token": "x"}]}),
        result_of(Audio(source=Data(media_type="audio/wav", base64="AAAA"))),
        ChatResult(model="m", choices=()),
    ],
    ids=["large", "log probabilities", "audio", "no choice"],
)
def test_a_result_that_is_large_or_differs_from_its_events_is_read_as_events(result: ChatResult) -> None:
    assert not WholeEvents(result).is_direct


def test_events_are_read_once_and_not_after_closing() -> None:
    async def count() -> tuple[int, int, int]:
        whole, closed = WholeEvents(SMALL), WholeEvents(SMALL)
        await closed.aclose()
        return len(await read(whole)), len(await read(whole)), len(await read(closed))

    assert asyncio.run(count()) == (5, 0, 0)


def test_one_event_of_another_operation_is_a_response() -> None:
    count = TokenCount(input_tokens=3)
    assert asyncio.run(read(WholeEvents(count))) == [count]
    chunks = render_single(WholeEvents(count, size=10), TokenCount, lambda event: b"%d" % event.input_tokens)
    assert isinstance(chunks, BufferedBody)
    assert chunks.data == b"3"


async def join(chunks: Any) -> bytes:
    return b"".join([chunk async for chunk in chunks])


def test_a_whole_response_is_rendered_immediately_and_the_same_as_its_events() -> None:
    def render(result: ChatResult) -> Any:
        return {"model": result.model, "parts": len(result.choices[0].parts)}

    chunks = render_json(WholeEvents(SMALL), render)
    assert isinstance(chunks, BufferedBody)
    assert chunks.data == asyncio.run(join(render_json(iterate_events(replay(SMALL)), render)))


def test_a_response_that_cannot_be_rendered_fails_when_it_is_read() -> None:
    def render(result: ChatResult) -> Any:
        raise UpstreamError("no such finish reason")

    chunks = render_json(WholeEvents(SMALL), render)
    with pytest.raises(UpstreamError, match="no such finish reason"):
        asyncio.run(join(chunks))


def convert(body: Any) -> ChatResult:
    return result_of(Text(text=body["text"]))


def test_a_short_body_in_memory_is_converted() -> None:
    whole = convert_whole(UpstreamResponse(chunks=BufferedBody(b'{"text": "hi"}')), convert)
    assert whole is not None
    assert (whole.result, whole.is_direct) == (SMALL, True)


@pytest.mark.parametrize("data", [b"{", b"{}", b"[]", orjson.dumps({"text": "x" * LARGE_BYTES})])
def test_a_body_that_is_wrong_or_long_is_left_to_whoever_reads_it(data: bytes) -> None:
    assert convert_whole(UpstreamResponse(chunks=BufferedBody(data)), convert) is None


def test_a_body_that_is_still_arriving_is_not_converted() -> None:
    assert convert_whole(UpstreamResponse(chunks=iterate([b'{"text": "hi"}'])), convert) is None
