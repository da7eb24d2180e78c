"""The pump of a stream and the task that reads the same flow give the caller the same, however the upstream's bytes arrive."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.quick_loop import run_quickly
from tornado_gate import passthrough
from tornado_gate.errors import GateError, UpstreamError, UpstreamTimeout
from tornado_gate.http.client.connection import ClientConnection, ConnectionOwner
from tornado_gate.http.client.request import Origin
from tornado_gate.http.client.response import HttpResponse
from tornado_gate.http.upstream import connection_error
from tornado_gate.pipeline.stream_pump import StreamPump
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.stages import LARGE_BYTES, Flow
from tornado_gate.testing import call_to
from tornado_gate.types import Call, Timeouts, UpstreamResponse, VerbatimRequest
from tornado_gate_openai.format.stream_adapters import ADAPTERS
from tornado_gate_openai.format.verbatim import OpenAIForwardState
from tornado_gate_openai.wire import chat

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXT = 'data: {"choices":[{"index":0,"delta":{"content":"ä"},"finish_reason":null}],"usage":null}\n\n'.encode()
CRLF = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\r\n\r\n'
REASON = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}\n\n'
ERROR = b'data: {"error":{"message":"busy","type":"server_error"}}\n\n'
COMMENT = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
FRAMES = st.lists(st.sampled_from([TEXT, TEXT, TEXT, CRLF, REASON, USAGE, ERROR, COMMENT, DONE]), max_size=9)
ENDS = st.sampled_from(["complete", "broken", "silent"])
HIDDEN = OpenAIForwardState(hide_usage=True)


class Transport(asyncio.Transport):
    """A connection to an upstream whose bytes a test delivers."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = self.paused = False

    def write(self, data: Any) -> None: ...

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return 0


class Owner:
    """A pool that keeps no connection."""

    def on_connection_idle(self, connection: ClientConnection) -> None: ...

    def on_connection_lost(self, connection: ClientConnection) -> None: ...


class Exchange:
    """A stream of an upstream, with the steps of the verbatim lane, and what its caller gets: a `StreamReceiver`."""

    def __init__(self, *, hides_usage: bool = False, timeouts: Timeouts | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.transport = Transport()
        self.connection = ClientConnection(cast(ConnectionOwner, Owner()), Origin("http", "h", 80), loop)
        self.connection.connection_made(self.transport)
        self.response = self.connection.begin_request(b"", b"")
        self.response.explain = explain
        self.timeouts = timeouts or Timeouts()
        self.call: Call = call_to()
        self.hides_usage = hides_usage
        self.pump: StreamPump | None = None
        self.pieces: list[bytes] = []
        self.last_pieces: list[bytes] | None = None
        self.error: BaseException | None = None
        self.is_over = self.is_left = False
        self.full: asyncio.Future[None] | None = None
        self.changed = asyncio.Event()

    def add_steps(self, chunks: Any) -> Any:
        request = VerbatimRequest(
            wire_format="",
            operation="chat",
            path="/",
            raw=b"",
            body={},
            stream=True,
            state=HIDDEN if self.hides_usage else None,
        )
        incoming = UpstreamResponse(chunks=chunks, headers=self.response.headers)
        return passthrough.forward_answer(self.call, ADAPTERS[chat.WIRE_FORMAT], request, incoming).chunks

    def make_deadlines(self) -> Deadlines:
        return Deadlines(self.timeouts, "up", streaming=True)

    def start_pump(self) -> None:
        flow = Flow[bytes](self.response)
        assert self.add_steps(flow) is flow
        self.pump = StreamPump(flow, self.response, None, self.make_deadlines)
        self.pump.start(self)

    async def read_as_task(self) -> None:
        deadlines = self.make_deadlines()
        await self.read(self.add_steps(deadlines.limit_gaps(self.response)))

    async def read(self, chunks: Any) -> None:
        try:
            async for chunk in chunks:
                self.pieces.append(chunk)
        except GateError as error:
            self.error = error
        self.is_over = True

    def deliver(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            if not self.transport.aborted:
                self.connection.data_received(piece)

    def get_outcome(self) -> tuple[Any, ...]:
        meter = self.call.meter
        code = self.error.code if isinstance(self.error, GateError) else self.error
        return b"".join(self.pieces), code, self.is_over, meter.usage, meter.finish_reason, meter.late_error is None

    # The receiver

    def send_chunks(self, chunks: list[bytes]) -> asyncio.Future[None] | None:
        self.pieces += chunks
        return self.full

    def end_stream(self, chunks: list[bytes], error: BaseException | None) -> None:
        self.pieces += chunks
        self.last_pieces = chunks
        self.error, self.is_over = error, True
        self.changed.set()

    def leave_stream(self) -> None:
        self.is_left = True
        self.changed.set()

    def report_unread(self) -> GateError:
        return UpstreamTimeout("not read")

    def fail_unexpectedly(self) -> None:
        raise AssertionError("unexpected failure")


def explain(fault: Exception) -> Exception:
    return connection_error("up", fault, answered=True)


def frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(borders) if start < end]


async def pass_on(pieces: list[bytes], end: str, *, hides_usage: bool, with_task: bool) -> Exchange:
    """Deliver a response to a caller. The gap timeout ends a silent one that is incomplete."""
    exchange = Exchange(hides_usage=hides_usage, timeouts=Timeouts(gap=0.01) if end == "silent" else None)
    exchange.deliver([HEAD])
    reading = asyncio.create_task(exchange.read_as_task()) if with_task else None
    if reading is None:
        exchange.start_pump()
    for piece in pieces:
        if reading is not None:
            for _ in range(4):
                await asyncio.sleep(0)
        exchange.deliver([piece])
    if end == "broken" and not exchange.response.ended:
        exchange.connection.connection_lost(None)
    if reading is not None:
        await reading
        return exchange
    if not exchange.is_over and not exchange.is_left:
        await exchange.changed.wait()
    if exchange.is_left:
        pump = exchange.pump
        assert pump is not None
        pump.limit_task(lambda error: error)
        await exchange.read(pump.flow)
    return exchange


@given(FRAMES.filter(bool), st.lists(st.integers(0, 1500), max_size=12), ENDS, st.booleans())
def test_any_split_of_the_upstreams_bytes_gives_the_caller_what_a_task_gives(
    frames: list[bytes], places: list[int], end: str, hides_usage: bool
) -> None:
    pieces = cut(b"".join(map(frame, frames)) + (b"0\r\n\r\n" if end == "complete" else b""), places)

    async def both() -> tuple[Exchange, Exchange]:
        pumped = await pass_on(pieces, end, hides_usage=hides_usage, with_task=False)
        read = await pass_on(pieces, end, hides_usage=hides_usage, with_task=True)
        return pumped, read

    pumped, read = run_quickly(both())  # a busy machine must not let the gap timeout pass between two pieces
    assert pumped.get_outcome() == read.get_outcome()
    assert pumped.response.listener is None


@pytest.mark.gen_test
async def test_events_of_one_read_are_one_write() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT) + frame(TEXT)])
    exchange.start_pump()
    exchange.deliver([frame(TEXT) + frame(TEXT) + frame(REASON)])

    assert exchange.pieces == [TEXT + TEXT, TEXT + TEXT + REASON]


@pytest.mark.gen_test
async def test_events_that_arrive_with_the_end_are_sent_with_it() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    assert exchange.last_pieces is None
    exchange.deliver([frame(TEXT) + frame(REASON) + b"0\r\n\r\n"])

    assert exchange.pieces[:1] == [TEXT]
    assert exchange.last_pieces is not None
    assert b"".join(exchange.last_pieces).startswith(TEXT + REASON)


@pytest.mark.gen_test
async def test_a_caller_who_does_not_read_pauses_the_upstream_in_bounded_memory() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    exchange.full = asyncio.get_running_loop().create_future()
    exchange.deliver([frame(TEXT)])
    sent = len(exchange.pieces)
    text = TEXT * 100
    while not exchange.transport.paused:
        exchange.deliver([frame(text)])
    assert len(exchange.pieces) == sent
    assert exchange.response.size < 64 * 1024 + 2 * len(text)

    full, exchange.full = exchange.full, None
    full.set_result(None)
    await asyncio.sleep(0)
    assert not exchange.transport.paused
    exchange.deliver([frame(REASON) + frame(DONE) + b"0\r\n\r\n"])
    assert exchange.is_over
    assert b"".join(exchange.pieces).endswith(TEXT + REASON + DONE)


@pytest.mark.gen_test
@pytest.mark.parametrize("limit", ["gap", "total"])
async def test_a_limit_ends_the_stream_with_an_error_event_and_closes_the_upstream(limit: str) -> None:
    exchange = Exchange(timeouts=Timeouts(**{limit: 0.05}))
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    await exchange.changed.wait()

    assert b"upstream_timeout" in exchange.pieces[-1]
    assert limit.encode() in exchange.pieces[-1]
    assert b"[DONE]" not in exchange.pieces[-1]
    assert exchange.transport.aborted


@pytest.mark.gen_test
async def test_the_total_timeout_ends_the_wait_for_a_caller() -> None:
    exchange = Exchange(timeouts=Timeouts(total=0.05, gap=0.01))
    exchange.full = asyncio.get_running_loop().create_future()
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    await exchange.changed.wait()

    assert (exchange.pieces, str(exchange.error)) == ([TEXT], "not read")
    assert exchange.transport.aborted


@pytest.mark.gen_test
async def test_a_limit_before_the_first_event_is_left_to_a_task() -> None:
    exchange = Exchange(timeouts=Timeouts(first_event=0.05))
    exchange.deliver([HEAD + frame(COMMENT)])
    exchange.start_pump()
    await exchange.changed.wait()
    assert exchange.is_left
    assert exchange.transport.aborted
    assert exchange.pump is not None
    await exchange.read(exchange.pump.flow)

    assert exchange.pieces == []
    assert isinstance(exchange.error, UpstreamTimeout)
    assert "first_event" in str(exchange.error)


@pytest.mark.gen_test
async def test_an_interruption_is_an_error_event_and_closes_the_upstream() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    assert exchange.pump is not None
    exchange.pump.interrupt(UpstreamError("the gateway shuts down"))

    assert b"the gateway shuts down" in exchange.pieces[-1]
    assert exchange.is_over
    assert exchange.transport.aborted


@pytest.mark.gen_test
async def test_a_stopped_pump_closes_the_upstream_and_sends_nothing_more() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    assert exchange.pump is not None
    exchange.pump.stop()

    assert exchange.transport.aborted
    assert (exchange.pieces, exchange.is_over) == ([TEXT], False)


@pytest.mark.gen_test
async def test_a_large_event_is_left_to_a_task_which_goes_on_with_the_stream() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    large = TEXT.replace("ä".encode(), b"x" * (LARGE_BYTES + 1))
    exchange.deliver(cut(frame(large), list(range(0, LARGE_BYTES, 50_000))))
    assert exchange.is_left
    pump = exchange.pump
    assert pump is not None
    pump.limit_task(lambda error: error)
    reading = asyncio.create_task(exchange.read(pump.flow))
    exchange.deliver([frame(TEXT) + frame(REASON) + frame(DONE) + b"0\r\n\r\n"])
    await reading

    assert exchange.error is None
    assert b"".join(exchange.pieces) == TEXT + large + TEXT + REASON + DONE


@pytest.mark.gen_test
async def test_a_stream_that_ends_with_its_last_event_leaves_the_connection_some_time() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT) + frame(REASON) + frame(DONE)])
    exchange.start_pump()
    assert exchange.is_over
    assert not exchange.transport.aborted

    exchange.deliver([b"0\r\n\r\n"])
    assert isinstance(exchange.response, HttpResponse)
    assert exchange.response.ended


@pytest.mark.gen_test
async def test_no_event_is_lost_if_the_framing_is_longer_than_the_events() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    extension = b";x=" + b"x" * 30_000
    for _ in range(40):
        exchange.deliver([b"%x%b\r\n%b\r\n" % (len(TEXT), extension, TEXT)])

    assert exchange.pieces == [TEXT] * 41


@pytest.mark.gen_test
async def test_an_ended_pump_leaves_nothing_for_the_garbage_collector() -> None:
    exchange = Exchange()
    exchange.deliver([HEAD + frame(TEXT)])
    exchange.start_pump()
    assert exchange.pump is not None
    exchange.deliver([frame(REASON) + frame(DONE) + b"0\r\n\r\n"])
    gc.disable()
    try:
        pump = id(exchange.pump)
        assert pump in list_pumps()
        exchange.pump = None
        assert pump not in list_pumps()
    finally:
        gc.enable()


def list_pumps() -> set[int]:
    return {id(value) for value in gc.get_objects() if type(value) is StreamPump}
