"""Answers that come with their headers: there at once, their connection free at once, and nothing left to close."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.raw import Peer, Raw, Script, always, answer, chunked, on_both_loops, once, serving
from tornado_gate import errors
from tornado_gate.http import upstream
from tornado_gate.testing import call_to
from tornado_gate.types import BufferedBody, Timeouts, UpstreamRequest, UpstreamResponse, replace


class Closing(AsyncExitStack):
    """Counts what is pushed."""

    pushed = 0

    def callback(self, callback: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        self.pushed += 1
        return super().callback(callback, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class Stage:
    """An upstream that follows a script, and a pool of connections to it."""

    raw: Raw
    pool: upstream.Pool

    async def ask(self, closing: Closing) -> UpstreamResponse:
        call = call_to(pool=self.pool, closing=closing)
        call = replace(call, target=replace(call.target, base_url=self.raw.url))
        return await upstream.call_upstream(call, UpstreamRequest(url=self.raw.url, json={}))


@asynccontextmanager
async def stage(script: Script) -> AsyncIterator[Stage]:
    async with serving(script) as raw:
        pool = upstream.Pool(Timeouts(connect=5))
        try:
            yield Stage(raw, pool)
        finally:
            await pool.close()


BODY = b'{"id": 1}'
WHOLE = {
    "a length": answer(BODY),
    "chunks": chunked(BODY[:4], BODY[4:]),
    "chunks and a trailer": chunked(BODY, end=b"0\r\nX-Sum: 1\r\n\r\n"),
    "100 before": b"HTTP/1.1 100 Continue\r\n\r\n" + answer(BODY),
    "201": answer(BODY, "201 Created"),
    "a coding that is none": answer(BODY, Content_Encoding="identity"),
}


@on_both_loops
@pytest.mark.parametrize("said", WHOLE.values(), ids=WHOLE)
async def test_an_answer_that_is_there_is_whole_and_its_connection_free_before_it_is_read(said: bytes) -> None:
    async with stage(always(said)) as scene, Closing() as closing:
        first, second = await scene.ask(closing), await scene.ask(closing)
        assert len(scene.raw.peers) == 1
        assert closing.pushed == 0
        for response in (first, second):
            assert isinstance(response.chunks, BufferedBody)
            assert response.chunks.data == BODY
            assert [chunk async for chunk in response.chunks] == [BODY]


@on_both_loops
async def test_an_answer_outlives_its_call_when_it_is_whole() -> None:
    async with stage(always(answer(BODY))) as scene:
        async with Closing() as closing:
            response = await scene.ask(closing)
        assert await response.read_json() == {"id": 1}


OTHERS = {
    "no body": (answer(b""), b""),
    "gzip": (answer(gzip.compress(BODY), Content_Encoding="gzip"), BODY),
    "deflate": (answer(zlib.compress(BODY), Content_Encoding="deflate"), BODY),
}


@on_both_loops
@pytest.mark.parametrize(("said", "body"), OTHERS.values(), ids=OTHERS)
async def test_what_is_empty_or_packed_is_read_as_any_other(said: bytes, body: bytes) -> None:
    async with stage(always(said)) as scene, Closing() as closing:
        response = await scene.ask(closing)
        assert not isinstance(response.chunks, BufferedBody)
        assert [chunk async for chunk in response.chunks] == [body][: len(body)]
        assert closing.pushed == 1


@on_both_loops
@pytest.mark.parametrize("said", [answer(BODY), chunked(BODY)], ids=["a length", "chunks"])
async def test_a_body_that_is_not_complete_is_waited_for_by_its_reader_alone(said: bytes) -> None:
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said[:-1])
        await go_on.wait()
        await peer.say(said[-1:])
        await peer.gone()

    async with stage(script) as scene, Closing() as closing:
        response = await scene.ask(closing)
        assert not isinstance(response.chunks, BufferedBody)
        assert closing.pushed == 1
        go_on.set()
        assert await response.read() == BODY


@on_both_loops
async def test_half_an_answer_is_never_whole() -> None:
    async with stage(once(answer(BODY)[:-1])) as scene, Closing() as closing:
        with pytest.raises(errors.UpstreamError, match="closed the connection"):
            await (await scene.ask(closing)).read()


@on_both_loops
async def test_a_refusal_is_an_error_however_it_comes() -> None:
    async with stage(always(answer(b'{"error": "no such model"}', "404 Not Found"))) as scene, Closing() as closing:
        for _ in range(2):
            with pytest.raises(errors.UpstreamRefused, match="no such model"):
                await scene.ask(closing)
        assert len(scene.raw.peers) == 1
