"""Malformed heads of upstreams: each is a 502 that says so, or harmless; never an unexpected error. For both clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tornado.ioloop import IOLoop

from tests.support.raw import Peer, serving, then_wait
from tornado_gate.errors import UpstreamError, UpstreamRateLimited
from tornado_gate.http import upstream
from tornado_gate.testing import call_to
from tornado_gate.types import Timeouts, UpstreamRequest, UpstreamResponse, replace

OTHER = "日\udcff".encode("utf-8", "surrogateescape")
"""Bytes that are neither ASCII nor UTF-8, and a character outside of Latin-1."""


@pytest.fixture
def pool(io_loop: IOLoop) -> Iterator[upstream.Pool]:
    pool = upstream.Pool(Timeouts(connect=5))
    yield pool
    io_loop.run_sync(pool.close)


@asynccontextmanager
async def answered(pool: upstream.Pool, said: bytes) -> AsyncIterator[UpstreamResponse]:
    async with serving(then_wait(said)) as raw, AsyncExitStack() as closing:
        call = call_to(pool=pool, closing=closing)
        call = replace(call, target=replace(call.target, base_url=raw.url))
        yield await upstream.call_upstream(call, UpstreamRequest(url=raw.url, json={}))


def head(*lines: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, b"Content-Length: 2", *lines, b"", b"{}"])


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad Request"])
@pytest.mark.parametrize("value", [OTHER, b"application/json; x=" + OTHER, b"text/event-stream; x=\xe9"])
async def test_a_content_type_outside_of_ascii_is_a_502(pool: upstream.Pool, value: bytes, status: bytes) -> None:
    with pytest.raises(UpstreamError, match="Content-Type") as caught:
        async with answered(pool, head(b"Content-Type: " + value, status=status)):
            pass
    assert (caught.value.status, caught.value.code) == (502, "upstream_error")


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("name", [b"X-Any", b"Location", b"Retry-After", b"Content-Encoding", b"Set-Cookie"])
async def test_other_headers_outside_of_ascii_are_harmless(pool: upstream.Pool, name: bytes) -> None:
    async with answered(pool, head(name + b": " + OTHER, b"Content-Type: application/json")) as incoming:
        assert await incoming.read_json() == {}


@pytest.mark.gen_test(timeout=60)
async def test_a_retry_after_that_cannot_be_sent_is_dropped(pool: upstream.Pool) -> None:
    with pytest.raises(UpstreamRateLimited) as caught:
        async with answered(pool, head(b"Retry-After: " + OTHER, status=b"429 Slow")):
            pass
    assert caught.value.headers == {}


MALFORMED = {
    "a name outside of ASCII": head(b"\xff\xe9: a"),
    "a name with a space": head(b"a b: c"),
    "an empty name": head(b": c"),
    "a control character": head(b"a: b\x00c"),
    "a length that is no number": b"HTTP/1.1 200 OK\r\nContent-Length: \xef\xbc\x92\r\n\r\n{}",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "an enormous length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n{}",
    "a status that is no number": head(status=b"\xff\xff\xff"),
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "a header without an end": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
    "headers without an end": b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 30_000,
}


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("said", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_head_is_a_502(pool: upstream.Pool, said: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        async with answered(pool, said) as incoming:
            await incoming.read()
    assert caught.value.status == 502


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("piece", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"])
async def test_endless_interim_responses_are_given_up(io_loop: IOLoop, piece: bytes) -> None:
    """aiohttp does not bound them; there ``timeouts.first_event`` ends the attempt."""
    sent = 0
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        try:
            while True:
                sent += len(piece) * 100
                await peer.say(piece * 100)
        finally:
            gone.set()

    pool = upstream.Pool(Timeouts(connect=5))
    async with serving(script) as raw, AsyncExitStack() as closing:
        call = call_to(pool=pool, closing=closing)
        call = replace(call, target=replace(call.target, base_url=raw.url))
        with pytest.raises(UpstreamError, match="not valid HTTP"):
            await upstream.call_upstream(call, UpstreamRequest(url=raw.url, json={}))
        await gone.wait()
    await pool.close()


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("tail", [b"X-Trailer: " + b"y" * 1_000_000, b"X: y\r\n" * 200_000])
async def test_trailers_without_an_end_are_given_up(tail: bytes) -> None:
    said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + tail
    pool = upstream.Pool(Timeouts(connect=5))
    with pytest.raises(UpstreamError):
        async with answered(pool, said) as incoming:
            await incoming.read()
    await pool.close()
