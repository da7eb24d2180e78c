"""What an upstream sends too much of: each bound ends the response with an error that names it, and closes the connection."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson
import pytest
from tornado.ioloop import IOLoop

from tests.support.raw import Peer, answer, serving
from tornado_gate.config.model import LimitsConfig
from tornado_gate.errors import UpstreamError
from tornado_gate.http import upstream
from tornado_gate.http.client.content_coding import PIECE_BYTES
from tornado_gate.streams import sse
from tornado_gate.streams.json_array import iterate_elements
from tornado_gate.testing import call_to
from tornado_gate.types import Call, Timeouts, UpstreamRequest, UpstreamResponse, replace
from tornado_gate.types.wire import MAX_CONTAINERS, UNCOUNTED_BYTES

MIB = 1024 * 1024
LIMITS = LimitsConfig(answer_bytes=2 * MIB, media_answer_bytes=3 * MIB, stream_bytes=4 * MIB)
SSE = "text/event-stream; charset=utf-8"
Read = Callable[[UpstreamResponse], Awaitable[Any]]


@pytest.fixture
def pool(io_loop: IOLoop) -> Iterator[upstream.Pool]:
    pool = upstream.Pool(Timeouts(connect=5), LIMITS)
    yield pool
    io_loop.run_sync(pool.close)


class Sender:
    """A script that answers with `pieces` and then waits until the gateway closes the connection. `given` counts its bytes."""

    def __init__(self, pieces: Iterator[bytes], **headers: str) -> None:
        self.pieces = pieces
        self.head = answer(b"", **{"Content_Length": "", "Connection": "close", **headers})
        self.given = 0
        self.closed = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        try:
            await peer.say(self.head)
            for piece in self.pieces:
                self.given += len(piece)
                await peer.say(piece)
        finally:
            await peer.gone()
            self.closed.set()


def endless(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


@asynccontextmanager
async def answered(pool: upstream.Pool, sender: Sender, **outgoing: Any) -> AsyncIterator[UpstreamResponse]:
    """The answer of `sender`."""
    async with serving(sender) as raw, AsyncExitStack() as closing:
        call = call_to(pool=pool, closing=closing)
        call = replace(call, target=replace(call.target, base_url=raw.url))
        yield await upstream.call_upstream(call, UpstreamRequest(url=raw.url, **{"json": {}, **outgoing}))


async def catch_refusal(pool: upstream.Pool, sender: Sender, read: Read, **fields: Any) -> UpstreamError:
    """The error with which reading the answer ends, after the connection was closed."""
    async with serving(sender) as raw:
        async with AsyncExitStack() as closing:
            call: Call = call_to(pool=pool, closing=closing)
            call = replace(call, target=replace(call.target, base_url=raw.url), **fields)
            with pytest.raises(UpstreamError) as caught:
                await read(await upstream.call_upstream(call, UpstreamRequest(url=raw.url, json={})))
        await sender.closed.wait()
    return caught.value


async def read_all(chunks: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in chunks]


async def forward(incoming: UpstreamResponse) -> None:
    async for _ in incoming.chunks:
        pass


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize(
    ("operation", "content_type", "key", "most"),
    [
        ("chat", "application/json", "limits.answer_bytes", 2 * MIB),
        ("images", "application/json", "limits.media_answer_bytes", 3 * MIB),
        ("speech", "audio/mpeg", "limits.media_answer_bytes", 3 * MIB),
        ("videos", "application/json", "limits.answer_bytes", 2 * MIB),
        ("chat", SSE, "limits.stream_bytes", 4 * MIB),
        ("images", SSE, "limits.stream_bytes", 4 * MIB),
    ],
)
@pytest.mark.parametrize("read", [UpstreamResponse.read, forward], ids=["read", "forwarded"])
async def test_an_answer_without_an_end_is_given_up(
    pool: upstream.Pool, read: Read, operation: str, content_type: str, key: str, most: int
) -> None:
    sender = Sender(endless(b'data: {"a": 1}\n\n' * 4096), Content_Type=content_type)
    error = await catch_refusal(pool, sender, read, operation=operation)
    assert (error.status, error.code) == (502, "upstream_answer_too_large")
    assert key in error.message
    assert str(most) in error.message
    assert most < sender.given < most + 16 * MIB  # the rest is in the buffers of the system


@pytest.mark.gen_test(timeout=60)
async def test_an_answer_that_announces_too_much_is_not_read(pool: upstream.Pool) -> None:
    sender = Sender(iter(()), Content_Type="application/json", Content_Length=str(2 * MIB + 1), Connection="")
    error = await catch_refusal(pool, sender, UpstreamResponse.read)
    assert error.code == "upstream_answer_too_large"


@pytest.mark.gen_test(timeout=60)
async def test_a_bound_may_be_smaller_than_what_arrives_with_the_head(pool: upstream.Pool) -> None:
    pool.bounds = upstream.make_size_bounds(LimitsConfig(answer_bytes=10))
    whole = iter([b"4\r\n1234\r\n4\r\n5678\r\n4\r\n9012\r\n0\r\n\r\n"])
    sender = Sender(whole, Transfer_Encoding="chunked")
    error = await catch_refusal(pool, sender, UpstreamResponse.read)
    assert error.code == "upstream_answer_too_large"


@pytest.mark.gen_test(timeout=60)
async def test_an_answer_of_exactly_the_bound_is_read(pool: upstream.Pool) -> None:
    body = b"x" * LIMITS.answer_bytes
    sender = Sender(iter([body]), Content_Length=str(len(body)))
    async with answered(pool, sender) as incoming:
        assert await incoming.read() == body


@pytest.mark.gen_test(timeout=60)
async def test_a_file_is_not_bounded_by_the_limits_of_answers(pool: upstream.Pool) -> None:
    body = b"\x00" * (5 * MIB)
    sender = Sender(iter([body]), Content_Type="video/mp4", Content_Length=str(len(body)))
    async with answered(pool, sender, method="GET", json=None, file_types=("video/",)) as incoming:
        assert sum(map(len, await read_all(incoming.chunks))) == len(body)


def pack(coding: str, size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31 if coding == "gzip" else zlib.MAX_WBITS)
    return b"".join([packer.compress(bytes(MIB)) for _ in range(size // MIB)]) + packer.flush()


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("read", [UpstreamResponse.read, forward], ids=["read", "forwarded"])
async def test_a_small_body_that_inflates_to_much_is_given_up(pool: upstream.Pool, coding: str, read: Read) -> None:
    pool.bounds = upstream.make_size_bounds(LimitsConfig())
    sender = Sender(iter([pack(coding, 16 * MIB)]), Content_Encoding=coding)
    error = await catch_refusal(pool, sender, read)
    assert (error.status, error.code) == (502, "upstream_compression_too_high")


@pytest.mark.gen_test(timeout=60)
async def test_the_size_of_an_answer_counts_after_decompression(pool: upstream.Pool) -> None:
    body = orjson.dumps([number * 7919 % 10007 for number in range(500_000)])
    packed = gzip.compress(body, compresslevel=1)
    assert len(packed) < LIMITS.answer_bytes < len(body)
    error = await catch_refusal(pool, Sender(iter([packed]), Content_Encoding="gzip"), UpstreamResponse.read)
    assert error.code == "upstream_answer_too_large"


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, gzip", "gzip, br", "identity, gzip, deflate"])
async def test_other_and_several_codings_are_refused_before_the_body(pool: upstream.Pool, coding: str) -> None:
    body = gzip.compress(gzip.compress(b"{}"))
    sender = Sender(iter([body]), Content_Encoding=coding)
    error = await catch_refusal(pool, sender, UpstreamResponse.read)
    assert error.status == 502
    assert "not valid HTTP" in error.message


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("coding", ["gzip", "identity, GZIP", "deflate"])
async def test_a_coding_that_was_not_requested_is_undone(pool: upstream.Pool, coding: str) -> None:
    body = bytes(range(256)) * 4096
    packed = gzip.compress(body) if "deflate" not in coding else zlib.compress(body)
    pieces = [packed[at : at + 1000] for at in range(0, len(packed), 1000)]
    sender = Sender(iter(pieces), Content_Encoding=coding, Content_Length=str(len(packed)))
    async with answered(pool, sender) as incoming:
        chunks = await read_all(incoming.chunks)
    assert b"".join(chunks) == body
    assert max(map(len, chunks)) <= PIECE_BYTES


@pytest.mark.gen_test(timeout=60)
async def test_decompression_gives_other_tasks_a_turn_after_each_piece(pool: upstream.Pool) -> None:
    """A body that has arrived completely holds many pieces: between two of them the loop runs."""
    body = b"".join(b"%d," % (number * number) for number in range(150_000))
    packed = gzip.compress(body, compresslevel=1)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    sender = Sender(iter([packed]), Content_Encoding="gzip", Content_Length=str(len(packed)))
    async with answered(pool, sender) as incoming:
        counting = asyncio.create_task(count_turns())
        await forward(incoming)
        counting.cancel()
    assert turns >= len(body) // PIECE_BYTES // 2  # the last piece of the data at hand needs no turn


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("value", [b"[],", b"{},", b'{"a":1},', b'"a",', b"1,"])
async def test_json_with_too_many_values_is_given_up_before_it_is_parsed(pool: upstream.Pool, value: bytes) -> None:
    pool.bounds = upstream.make_size_bounds(LimitsConfig(answer_bytes=1024 * MIB))
    sender = Sender(endless(value * 100_000), Content_Type="application/json")
    sender.head += b"["
    error = await catch_refusal(pool, sender, UpstreamResponse.read_json)
    assert (error.status, error.code) == (502, "upstream_answer_too_complex")


@pytest.mark.gen_test(timeout=60)
async def test_bytes_that_are_not_json_are_not_counted(pool: upstream.Pool) -> None:
    body = b"\x00" + b"[" * (UNCOUNTED_BYTES + MAX_CONTAINERS)
    async with answered(pool, Sender(iter([body]), Content_Length=str(len(body)))) as incoming:
        assert await incoming.read() == body


async def read_events(incoming: UpstreamResponse) -> None:
    await read_all(sse.read_json_frames(incoming.chunks))


async def read_elements(incoming: UpstreamResponse) -> None:
    await read_all(iterate_elements(incoming.chunks))


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize(
    ("beginning", "read"), [(b'data: "', read_events), (b'[{"a": "', read_elements)], ids=["events", "array"]
)
async def test_an_event_without_an_end_is_given_up(pool: upstream.Pool, beginning: bytes, read: Read) -> None:
    pool.bounds = upstream.make_size_bounds(LimitsConfig())
    sender = Sender(endless(b"x" * MIB), Content_Type=SSE)
    sender.head += beginning
    error = await catch_refusal(pool, sender, read)
    assert (error.status, error.code) == (502, "upstream_event_too_large")
    assert sender.given < 48 * MIB


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize(
    ("beginning", "end", "read"),
    [(b"data: [", b"0]\n\n", read_events), (b'[{"a": [', b"0]}]", read_elements)],
    ids=["events", "array"],
)
async def test_an_event_with_too_many_values_is_given_up(
    pool: upstream.Pool, beginning: bytes, end: bytes, read: Read
) -> None:
    sender = Sender(iter([b"[]," * (MAX_CONTAINERS + UNCOUNTED_BYTES), end]), Content_Type=SSE)
    pool.bounds = upstream.make_size_bounds(LimitsConfig())
    sender.head += beginning
    error = await catch_refusal(pool, sender, read)
    assert error.code == "upstream_answer_too_complex"


@pytest.mark.gen_test(timeout=60)
async def test_the_error_body_of_a_refusal_is_read_up_to_its_bound(pool: upstream.Pool) -> None:
    body = pack("gzip", 16 * MIB)
    for headers in ({}, {"Content_Encoding": "gzip", "Content_Length": str(len(body))}):
        sender = Sender(iter([body]) if headers else endless(b"x" * MIB), **headers)
        sender.head = sender.head.replace(b"200 OK", b"400 Bad Request")
        async with serving(sender) as raw, AsyncExitStack() as closing:
            call = call_to(pool=pool, closing=closing)
            call = replace(call, target=replace(call.target, base_url=raw.url))
            with pytest.raises(UpstreamError) as caught:
                await upstream.call_upstream(call, UpstreamRequest(url=raw.url, json={}))
            assert caught.value.status == 400
            await closing.aclose()
            await sender.closed.wait()
            assert sender.given < 16 * MIB
