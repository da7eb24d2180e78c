"""A long body that its reader wants whole is received directly into the object that the reader gets."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http.test_client_responses import Wire
from tests.http.test_upstream_pieces import BEHIND, LARGE, opened
from tests.support.raw import Peer, answer, on_both_loops, once, serving
from tornado_gate.errors import Unavailable, UpstreamTimeout
from tornado_gate.http.client import direct_body
from tornado_gate.http.client.connection import MAX_GATHERED_BYTES, MIN_BYTES_PAST_PARSER
from tornado_gate.http.client.faults import ConnectionBroken, ResponseTooLarge
from tornado_gate.http.client.pool import HttpClient
from tornado_gate.http.client.response import HttpResponse, SizeBound
from tornado_gate.http.large_responses import LargeResponses
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.types import Timeouts, UpstreamResponse

MIB = 1024 * 1024
TOTAL = 64 * MIB


class SwitchingWire(Wire):
    """A `Wire` whose protocol can be replaced, as that of a transport."""

    protocol: asyncio.BaseProtocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def feed(self, data: bytes) -> None:
        """Give the protocol of the moment a segment, as a transport does."""
        while data:
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                buffer = memoryview(self.protocol.get_buffer(-1))
                size = min(len(buffer), len(data))
                buffer[:size] = data[:size]
                self.protocol.buffer_updated(size)
                data = data[size:]
            else:
                self.connection.data_received(data)
                data = b""


async def begin(wire: SwitchingWire, said: bytes) -> HttpResponse:
    """Send a request, and return its response after its head and a part of its body."""
    wire.protocol = wire.connection
    task = asyncio.create_task(wire.connection.begin_request(b"head", b"body").wait_for_head())
    await asyncio.sleep(0)
    wire.feed(said)
    return await task


def read(response: HttpResponse, total: int = TOTAL) -> UpstreamResponse:
    """Return the response as hooks get it, with a budget for large responses."""
    return UpstreamResponse(chunks=response, reader=LargeResponses(total).open_reader(""))


async def ask(client: HttpClient, url: str) -> bytes:
    return await read(await client.request("POST", url, {}, b"{}")).read()


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(min_value=MIN_BYTES_PAST_PARSER - 50, max_value=len(LARGE)),
    begun=st.integers(min_value=0, max_value=2000),
    cuts=st.lists(st.integers(min_value=1, max_value=len(LARGE) + 100), max_size=8),
)
def test_a_body_is_the_same_wherever_it_is_cut(length: int, begun: int, cuts: list[int]) -> None:
    async def receive() -> tuple[bytes, int, bool]:
        wire = SwitchingWire(asyncio.get_running_loop())
        said = answer(LARGE[:length])
        first = len(said) - length + begun
        response = await begin(wire, said[:first])
        task = asyncio.create_task(read(response).read())
        await asyncio.sleep(0)
        for start, end in pairwise(sorted({first, *(cut for cut in cuts if first < cut < len(said)), len(said)})):
            wire.feed(said[start:end])
            await asyncio.sleep(0)
        return await task, wire.freed, wire.aborted

    assert asyncio.run(receive()) == (LARGE[:length], 1, False)


@on_both_loops
@pytest.mark.parametrize(("behind", "kept"), BEHIND.values(), ids=BEHIND)
async def test_what_comes_behind_a_body_is_nobodys(behind: bytes, kept: bool) -> None:
    wire = SwitchingWire(asyncio.get_running_loop())
    said = answer(LARGE)
    response = await begin(wire, said[:300])
    task = asyncio.create_task(read(response).read())
    await asyncio.sleep(0)
    assert wire.protocol is not wire.connection
    wire.feed(said[300:] + behind)
    assert await task == LARGE
    assert (bool(wire.freed), wire.aborted) == (kept, not kept)


@on_both_loops
async def test_long_and_short_answers_take_turns_on_one_connection() -> None:
    bodies = [LARGE, b"small", LARGE[:-1], LARGE * 8, b"", LARGE]

    async def script(peer: Peer) -> None:
        for body in bodies:
            await peer.request()
            await peer.say(answer(body))
        await peer.gone()

    async with serving(script) as raw, opened() as client:
        assert [await ask(client, raw.url) for _ in bodies] == bodies
        assert len(raw.peers) == 1


@on_both_loops
async def test_a_body_that_is_cut_off_is_never_given() -> None:
    async with serving(once(answer(LARGE)[:-1])) as raw, opened() as client:
        with pytest.raises(ConnectionBroken):
            await ask(client, raw.url)


@on_both_loops
async def test_a_reader_who_leaves_closes_the_connection() -> None:
    async with serving(once(answer(LARGE)[:-1])) as raw, opened() as client:
        response = await client.request("POST", raw.url, {}, b"{}")
        assert response.gather_body(lambda size: None) == len(LARGE)
        response.close()
        with pytest.raises(ConnectionBroken, match="closed the response"):
            await anext(response)


@on_both_loops
async def test_memory_is_reserved_before_the_body_has_it() -> None:
    wire = SwitchingWire(asyncio.get_running_loop())
    response = await begin(wire, answer(b"", Content_Length=str(5 * MIB)))
    with pytest.raises(Unavailable, match=r"limits\.answers_bytes"):
        await read(response, 6 * MIB).read()  # an account has half
    assert wire.protocol is wire.connection
    upstream = read(response, 8 * MIB)
    task = asyncio.create_task(upstream.read())
    await asyncio.sleep(0)
    assert wire.protocol is not wire.connection
    wire.feed(b" " * 5 * MIB)
    assert len(await task) == 5 * MIB


@on_both_loops
@pytest.mark.parametrize("length", [10**10, MAX_GATHERED_BYTES + 1, MIN_BYTES_PAST_PARSER - 1])
async def test_a_very_long_or_short_body_is_not_gathered(length: int) -> None:
    wire = SwitchingWire(asyncio.get_running_loop())
    response = await begin(wire, answer(b"", Content_Length=str(length)))
    assert response.gather_body(lambda size: pytest.fail("memory was reserved")) == 0
    with pytest.raises(ResponseTooLarge):
        response.limit_size(SizeBound(1000, "limits.answer_bytes"))


@on_both_loops
async def test_a_body_that_still_arrives_extends_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_body, "PROGRESS_SECONDS", 0)
    loop = asyncio.get_running_loop()
    wire, said = SwitchingWire(loop), answer(LARGE)
    response = await begin(wire, said[:300])
    deadlines = Deadlines(Timeouts(gap=0.3, first_event=60, total=60), "slow", streaming=False)
    upstream = read(response).replace(deadlines.limit_gaps(response))
    task = asyncio.create_task(deadlines.wait_for_first_event(upstream.read()))
    began = loop.time()
    for at in range(300, 300 + 6 * 1000, 1000):
        done, _ = await asyncio.wait([task], timeout=0.1)
        assert not done
        wire.feed(said[at : at + 1000])
    assert loop.time() - began > 0.5
    with pytest.raises(UpstreamTimeout, match=r"sent no data for 0\.3 s"):
        await task
