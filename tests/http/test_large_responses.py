"""The memory of all large responses that are being read has one bound; every end of reading gives it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tornado_gate.errors import Unavailable, UpstreamError
from tornado_gate.hookspecs import provider_impl
from tornado_gate.http.large_responses import LargeResponses
from tornado_gate.http.upstream import Pool
from tornado_gate.streams import ndjson, sse
from tornado_gate.streams.json_array import ArraySplitter, iterate_elements
from tornado_gate.streams.stages import Flow
from tornado_gate.testing import call_to
from tornado_gate.testing.calls import load_provider
from tornado_gate.types import BufferedBody, Result, Timeouts, UpstreamRequest, UpstreamResponse
from tornado_gate.types.wire import WHOLE_BYTES

MIB = 1024 * 1024


@pytest.fixture
def responses() -> LargeResponses:
    return LargeResponses(6 * MIB)


async def pieces(count: int, last: BaseException | None = None) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * MIB
    if last is not None:
        raise last


def respond(responses: LargeResponses, chunks: AsyncIterator[bytes], account: str = "") -> UpstreamResponse:
    return UpstreamResponse(chunks=chunks, reader=responses.open_reader(account))


@pytest.mark.gen_test
async def test_responses_share_a_limit_and_give_it_back(responses: LargeResponses) -> None:
    whole = respond(responses, pieces(4))
    assert len(await whole.read()) == 4 * MIB  # the first MiB does not count
    assert responses.shares.held == 3 * MIB
    assert whole.reader is not None
    whole.reader.release()
    whole.reader.release()
    assert responses.shares.held == 0
    with pytest.raises(Unavailable, match=r"limits\.answers_bytes") as caught:
        await respond(responses, pieces(5)).read()
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (503, "overloaded", 5)
    assert responses.shares.held == 0


@pytest.mark.gen_test
async def test_an_account_leaves_room_for_others(responses: LargeResponses) -> None:
    is_read, go_on = asyncio.Event(), asyncio.Event()

    async def begin() -> AsyncIterator[bytes]:
        async for piece in pieces(4):
            yield piece
        is_read.set()
        await go_on.wait()

    first = respond(responses, begin(), "greedy")
    greedy = asyncio.create_task(first.read())
    await is_read.wait()
    assert responses.shares.count_held("greedy") == 3 * MIB
    with pytest.raises(Unavailable, match="your account's share"):
        await respond(responses, pieces(2), "greedy").read()
    assert len(await respond(responses, pieces(2), "other").read()) == 2 * MIB
    go_on.set()
    await greedy
    assert (responses.shares.held, responses.shares.count_held("greedy")) == (4 * MIB, 3 * MIB)


@pytest.mark.gen_test
async def test_a_response_that_breaks_off_holds_nothing(responses: LargeResponses) -> None:
    with pytest.raises(ConnectionError):
        await respond(responses, pieces(3, ConnectionError())).read()
    assert responses.shares.held == 0


@pytest.mark.gen_test
async def test_small_responses_are_read_while_nothing_is_left() -> None:
    assert len(await respond(LargeResponses(0), pieces(1)).read()) == MIB


def test_a_reader_releases_no_more_than_it_holds(responses: LargeResponses) -> None:
    first, second = responses.open_reader("a"), responses.open_reader("a")
    first.hold(MIB)
    second.hold(2 * MIB)  # the account holds 3 MiB now, half of all
    with pytest.raises(Unavailable):
        first.hold(1)
    assert responses.shares.count_held("a") == 2 * MIB, "the response that is given up holds nothing"
    first.release(MIB)
    second.release(MIB)
    assert responses.shares.count_held("a") == MIB
    second.release(5 * MIB)
    assert responses.shares.held == 0


@pytest.mark.gen_test
async def test_the_beginning_of_a_large_event_counts_until_the_event_is_complete(responses: LargeResponses) -> None:
    reader = responses.open_reader("a")
    long = b'data: "' + b"x" * (2 * MIB)
    lines, array, frames = ndjson.LineSplitter(), ArraySplitter(), sse.FrameSplitter(reader)
    lines.count_in(reader)
    array.count_in(reader)
    for feed, begin, end in (
        (frames.feed, long, b'"\n\n'),
        (lines.feed, b'"' + long, b"\n"),
        (array.feed, b'[{"a": "' + long[7:], b'"}'),
    ):
        assert feed(begin) == []
        assert 2 * MIB < responses.shares.count_held("a") < 2 * MIB + 20
        assert len(feed(end)) == 1
        assert responses.shares.held == 0


@pytest.mark.gen_test
async def test_parsers_count_in_the_reader_of_the_chunks_that_they_read(responses: LargeResponses) -> None:
    async def begin(start: bytes) -> AsyncIterator[bytes]:
        yield start
        for _ in range(4):
            yield b"x" * MIB

    for start, parse in (
        (b'data: "', sse.read_json_frames),
        (b'data: "', sse.read_frames),
        (b'"', ndjson.read_json_lines),
        (b'[{"a": "', iterate_elements),
    ):
        reader = responses.open_reader("a")
        with pytest.raises(Unavailable):
            async for _ in parse(Flow(begin(start), reader=reader)):
                pass
        assert responses.shares.held == 0
        with pytest.raises(UpstreamError):  # without a reader only the size of one event is limited
            async for _ in parse(pieces_of_one_event(start)):
                pass


async def pieces_of_one_event(start: bytes) -> AsyncIterator[bytes]:
    yield start
    for _ in range(17):
        yield b"x" * MIB


class _Sender:
    """A provider with its own `call_upstream`, which returns `response`."""

    def __init__(self, response: UpstreamResponse) -> None:
        self.response = response

    @provider_impl
    def translate_request(self) -> UpstreamRequest:
        return UpstreamRequest()

    @provider_impl
    async def call_upstream(self) -> UpstreamResponse:
        return self.response

    @provider_impl
    async def translate_response(self, incoming: UpstreamResponse) -> AsyncIterator[Result]:
        yield Result(value=await incoming.read())


@pytest.mark.gen_test
async def test_a_large_response_of_a_plugin_gets_a_reader_that_ends_with_the_request() -> None:
    pool = Pool(Timeouts())
    call = call_to(pool=pool)
    own = UpstreamResponse(chunks=pieces(3), status=201, headers={"a": "b"}, context=1, provider="p")
    response = await load_provider(_Sender(own)).call_upstream(call, UpstreamRequest())
    assert (response.status, response.headers, response.context, response.provider) == (201, {"a": "b"}, 1, "p")
    assert len(await response.read()) == 3 * MIB
    assert pool.large_responses.shares.count_held(call.caller.account) == 2 * MIB
    await call.closing.aclose()
    assert pool.large_responses.shares.held == 0


@pytest.mark.gen_test
@pytest.mark.parametrize(("size", "gets_reader"), [(WHOLE_BYTES, False), (WHOLE_BYTES + 1, True)])
async def test_a_buffered_response_of_a_plugin_gets_a_reader_if_it_is_large(size: int, gets_reader: bool) -> None:
    lane = load_provider(_Sender(UpstreamResponse(chunks=BufferedBody(bytes(size)))))
    response = await lane.call_upstream(call_to(pool=Pool(Timeouts())), UpstreamRequest())
    assert (response.reader is not None) == gets_reader


@pytest.mark.gen_test
async def test_a_response_keeps_the_reader_that_it_has(responses: LargeResponses) -> None:
    own = respond(responses, pieces(1))
    lane = load_provider(_Sender(own))
    assert await lane.call_upstream(call_to(pool=Pool(Timeouts())), UpstreamRequest()) is own
