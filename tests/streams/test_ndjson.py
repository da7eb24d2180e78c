"""Lines of JSON, however the bytes are cut; on both lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate import ndjson, passthrough
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams.event_bound import DEFAULT_EVENT_BYTES, set_event_bytes
from tornado_gate.testing import call_to, chunks_of, iterate
from tornado_gate.types import Call, Reply, UpstreamResponse, VerbatimRequest

STREAM = '{"a": "ü"}\n\n  \n[1,2]\n{"b":\t"\u2028"}\n5\n'.encode()
VALUES = [{"a": "ü"}, [1, 2], {"b": "\u2028"}, 5]


def values(pieces: Iterable[bytes]) -> list[Any]:
    async def read() -> list[Any]:
        return [value async for value in ndjson.read_json_lines(chunks_of(pieces), "acme")]

    return asyncio.run(read())


@given(
    st.lists(st.integers(0, len(STREAM)), max_size=8), st.sampled_from([b"\n", b"\r\n"]), st.sampled_from([b"\n", b""])
)
def test_cuts_anywhere_give_the_same_values(cuts: list[int], line_end: bytes, last: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end).rstrip() + last
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert values(stream[a:b] for a, b in pairwise(borders)) == VALUES


def test_what_is_no_json_is_the_upstreams_fault_after_the_values_before_it() -> None:
    got: list[Any] = []

    async def read(pieces: list[bytes]) -> None:
        async for value in ndjson.read_json_lines(chunks_of(pieces), "acme"):
            got.append(value)

    for pieces in ([b"1\n2\n{oops\n3\n"], [b"1\n2", b'\n{"cut": "o'], [b"1\n2\n<html>\n"]):
        got.clear()
        with pytest.raises(UpstreamError, match="The provider 'acme' sent a line that is not valid JSON"):
            asyncio.run(read(pieces))
        assert got == [1, 2]


@pytest.fixture
def small_bound() -> Iterator[int]:
    set_event_bytes(1000)
    yield 1000
    set_event_bytes(DEFAULT_EVENT_BYTES)


def test_a_line_is_bounded_and_the_stream_is_not(small_bound: int) -> None:
    assert values([b'"xxxxxxxxx"\n'] * 200) == ["x" * 9] * 200
    with pytest.raises(UpstreamError) as caught:
        values([b"[", *[b"1," * 100] * 100])
    assert caught.value.code == "upstream_event_too_large"


class Meter:
    def __init__(self, call: Call) -> None:
        self.call = call
        self.finished = self.done = False

    def note(self, raw: bytes) -> None:
        body = orjson.loads(raw)
        if "why" in body:
            self.call.meter.record_finish(body["why"])
            self.finished = self.done = True


class Adapter(ndjson.LineAdapter):
    def meter(self, call: Call, request: VerbatimRequest) -> Meter:
        return Meter(call)

    def parse_error(self, body: Any) -> GateError | None:
        return UpstreamError(body["error"]) if isinstance(body, dict) and "error" in body else None

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return ndjson.render_json({"error": error.message}) if error else b""


def forward(*pieces: bytes, content_type: str = "application/x-ndjson", stream: bool = True) -> tuple[Reply, Call]:
    request = VerbatimRequest(wire_format="words", operation="chat", path="/", raw=b"", body={}, stream=stream)
    incoming = UpstreamResponse(chunks=iterate(pieces), headers={"content-type": content_type})
    call = call_to()
    return passthrough.forward_answer(call, Adapter(), request, incoming), call


def read(reply: Reply) -> bytes:
    async def join() -> bytes:
        return b"".join([chunk async for chunk in reply.chunks])

    return asyncio.run(join())


@pytest.mark.parametrize("last", [b"\n", b""])
def test_the_verbatim_lane_forwards_lines_as_they_came(last: bytes) -> None:
    reply, call = forward(b'{"word": ', b'"Hi"}\r\n\n{"x":1.0}\n{"why"', b': "stop"}' + last)
    assert reply.content_type == "application/x-ndjson"
    assert read(reply) == b'{"word": "Hi"}\r\n{"x":1.0}\n{"why": "stop"}' + last
    assert call.meter.finish_reason == "stop"


def test_the_verbatim_lane_knows_errors_and_streams_that_break_off() -> None:
    with pytest.raises(UpstreamError, match="busy"):
        read(forward(b'{"error": "busy"}\n')[0])
    for cut in (b'{"word": "Hi"}\n{"wh', b'{"word": "Hi"}\n'):
        first, second = read(forward(cut)[0]).splitlines()
        assert (first, "ended before the response was complete" in orjson.loads(second)["error"]) == (
            cut.split(b"\n")[0],
            True,
        )


def test_a_stream_of_another_type_is_one_if_the_caller_asked_for_it() -> None:
    assert forward(content_type="text/plain")[0].content_type == "application/x-ndjson"
    assert forward(b"{}", content_type="application/json")[0].content_type == "application/json"
