"""Callers that read nothing of their response: their upstream is closed, and so is their connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from tests.server.test_refused_bodies import connect
from tests.support.front import Client
from tests.support.gates import KEY, START, WORDS, FakeProvider
from tests.support.served import CHAT
from tornado_gate import types
from tornado_gate.http.server.front import HttpServer
from tornado_gate.http.server.pacing import Times
from tornado_gate.http.server.refusals import Limit
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.server.front_refusals import GateRefusals
from tornado_gate.types import replace

TOTAL_SECONDS = 1.0


async def flood(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
    """Events without end."""
    for event in (START, WORDS[0]):
        yield event
    while True:
        yield types.PartDelta(index=0, data="x" * 100_000)
        await asyncio.sleep(0)


async def flood_verbatim() -> AsyncIterator[bytes]:
    while True:
        yield b"data: " + b"x" * 100_000 + b"\n\n"
        await asyncio.sleep(0)


async def ask_and_stall(base_url: str) -> Client:
    """A caller that has the head of its streamed response and reads no more."""
    client = await connect(base_url)
    body = orjson.dumps({**CHAT, "stream": True})
    await client.send(
        f"POST /plain HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    assert (await client.head()).status == 200
    client.pause()
    return client


def reconfigure(gate: Gate, **timeouts: float) -> None:
    """Build the snapshot again, with these timeouts of every provider."""
    config = gate.snapshot.config
    providers = {
        name: replace(entry, timeouts=replace(entry.timeouts, **timeouts)) for name, entry in config.providers.items()
    }
    gate.replace(build(replace(config, providers=providers), gate.host, gate.snapshot.number + 1))


@pytest.fixture(params=["common lane", "verbatim lane"])
def flooding(
    request: pytest.FixtureRequest, fake: FakeProvider, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> FakeProvider:
    """A provider whose streams never end, in both lanes."""
    fake.script = flood
    if request.param == "verbatim lane":
        fake.speaks = frozenset({"plain"})
        monkeypatch.setattr(fake, "_chunks", flood_verbatim)
        reconfigure(gate)
    return fake


@pytest.mark.gen_test(timeout=60)
async def test_the_total_timeout_ends_a_stream_that_nobody_reads(
    base_url: str, http_server: object, flooding: FakeProvider, gate: Gate
) -> None:
    reconfigure(gate, total=TOTAL_SECONDS)
    client = await ask_and_stall(base_url)
    async with asyncio.timeout(30):
        await gate.requests.wait_until_idle()
    assert flooding.closed, "the upstream was not closed"
    client.reset()


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("http_server", ["httptools"], indirect=True)
async def test_a_reader_without_progress_is_cut_and_its_upstream_closed(
    base_url: str, http_server: HttpServer, flooding: FakeProvider, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    http_server.times = Times(stall_seconds=0.2)
    http_server.refusals = GateRefusals(gate)
    client = await ask_and_stall(base_url)
    async with asyncio.timeout(30):
        await gate.requests.wait_until_idle()
    assert flooding.closed, "the upstream was not closed"
    assert "server.stalled_reader_seconds" in caplog.text
    assert f'connection_limits_total{{limit="{Limit.STALLED}"}} 1.0' in gate.metrics.render()[0].decode()
    client.reset()
