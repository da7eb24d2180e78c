"""The verbatim lane, for a format that is not ours: the example of the guide."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.guides import find_example
from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError, UpstreamError, UpstreamTimeout
from tornado_gate.streams.stages import LARGE_BYTES
from tornado_gate.testing import call_to, iterate
from tornado_gate.types import BufferedBody, Call, Reply, UpstreamResponse, VerbatimRequest

WORD = b'data: {"word": "Hi"}\n\n'
END = b'data: {"why": "done"}\n\n'
ERROR = b'data: {"error": "busy"}\n\n'
EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def plugin() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(find_example("# tornado_gate_words.py"), names)
    return names


def forward(
    adapter: passthrough.StreamAdapter, *pieces: Any, call: Call | None = None, headers: Any = None, stream: bool = True
) -> Reply:
    request = VerbatimRequest(wire_format="words", operation="chat", path="/", raw=b"", body={}, stream=stream)
    chunks: AsyncIterator[bytes] = iterate(pieces)
    if len(pieces) == 1 and isinstance(pieces[0], BufferedBody):
        chunks = pieces[0]
    incoming = UpstreamResponse(chunks=chunks, headers=EVENTS if headers is None else headers)
    return passthrough.forward_answer(call or call_to(), adapter, request, incoming)


def chunks_of(reply: Reply) -> list[bytes]:
    async def read() -> list[bytes]:
        return [chunk async for chunk in reply.chunks]

    return asyncio.run(read())


def streamed(plugin: dict[str, Any], *pieces: Any) -> list[bytes]:
    return chunks_of(forward(plugin["ADAPTER"], *pieces))


def test_frames_pass_as_they_came_and_are_noted(plugin: dict[str, Any]) -> None:
    call = call_to()
    odd = b'data:{"word" :"Hi","x":1.0}\r\n\r\n'

    assert chunks_of(forward(plugin["ADAPTER"], WORD, odd + WORD, END, call=call)) == [WORD, odd + WORD, END]
    assert call.meter.finish_reason == "stop"


def test_quiet_frames_are_not_parsed(plugin: dict[str, Any]) -> None:
    no_json = b"data: {\n\n"

    assert streamed(plugin, WORD + no_json * 9, no_json, no_json * 9 + END) == [
        WORD + no_json * 9,
        no_json,
        no_json * 9 + END,
    ]


def test_an_error_before_the_first_data_is_raised(plugin: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError, match="busy"):
        streamed(plugin, b": ping\n\n", ERROR)
    with pytest.raises(UpstreamTimeout):
        streamed(plugin, b": ping\n\n", UpstreamTimeout("late"))


def test_a_later_failure_is_the_last_frame(plugin: dict[str, Any]) -> None:
    assert streamed(plugin, WORD, UpstreamTimeout("late")) == [WORD, sse.render_json({"error": "late"})]
    assert streamed(plugin, WORD, ERROR, WORD) == [WORD, ERROR]
    assert streamed(plugin, WORD)[1:] == [
        sse.render_json({"error": "The upstream's stream ended before the response was complete."})
    ]


def test_text_that_is_not_utf8_is_an_error_before_it_reaches_the_caller(plugin: dict[str, Any]) -> None:
    spoilt, cut = WORD.replace(b"Hi", b"H\xffi"), WORD.replace(b"Hi", "Größe".encode())
    with pytest.raises(UpstreamError, match="UTF-8"):
        streamed(plugin, spoilt, END)
    assert streamed(plugin, WORD, WORD + spoilt, END) == [
        WORD,
        sse.render_json({"error": "The upstream's stream is not valid UTF-8."}),
    ]
    at = cut.index(b"\xc3") + 1
    assert streamed(plugin, WORD, cut[:at], cut[at:], END) == [WORD, cut, END], "a character may come in two reads"


def test_a_body_that_is_there_is_answered_at_once(plugin: dict[str, Any]) -> None:
    raw = b'{"answer": "Hi"}'
    reply = forward(plugin["ADAPTER"], BufferedBody(raw), headers=JSON)

    assert isinstance(reply.chunks, BufferedBody)
    assert reply.chunks.data is raw
    with pytest.raises(UpstreamError, match="busy"):
        forward(plugin["ADAPTER"], BufferedBody(b'{"error": "busy"}'), headers=JSON)
    with pytest.raises(UpstreamError, match="not valid JSON"):
        forward(plugin["ADAPTER"], BufferedBody(b"<html>"), headers=JSON)


def test_a_body_in_pieces_is_answered_when_it_is_whole(plugin: dict[str, Any]) -> None:
    assert chunks_of(forward(plugin["ADAPTER"], b'{"answer":', b' "Hi"}', headers=JSON)) == [b'{"answer": "Hi"}']


@pytest.mark.parametrize("raises_at", [1, 2])
def test_what_a_meter_raises_ends_the_stream_in_place_of_the_frame(raises_at: int) -> None:
    class Meter:
        finished = done = False
        count = 0

        def note(self, raw: bytes) -> None:
            self.count += 1
            if self.count == raises_at:
                raise UpstreamError("refused")

    class Adapter(passthrough.StreamAdapter):
        def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
            return Meter()

        def parse_error(self, body: Any) -> GateError | None:
            return None

        def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
            return sse.render_json({"error": error.message if error else ""})

    reply = forward(Adapter(), b": ping\n\n" + WORD + END + WORD)
    if raises_at == 1:
        with pytest.raises(UpstreamError, match="refused"):
            chunks_of(reply)
    else:
        assert chunks_of(reply) == [b": ping\n\n" + WORD, sse.render_json({"error": "refused"})]


def test_an_adapter_without_what_is_required_cannot_be_made() -> None:
    class Adapter(passthrough.StreamAdapter):
        pass

    with pytest.raises(TypeError, match="meter"):
        Adapter()  # type: ignore[abstract]


def test_comments_before_the_first_data_take_bounded_memory(plugin: dict[str, Any]) -> None:
    """An upstream that pings for a long time before it answers: only some of its comments are kept, and passed on then."""
    found = b"".join(streamed(plugin, *[b": ping\n\n" * 500] * 100, WORD, END))
    assert found.endswith(WORD + END)
    assert 0 < found.count(b": ping") * len(b": ping\n\n") <= passthrough.MAX_HELD_BYTES


def test_a_large_frame_is_looked_at_in_a_thread_and_passes_in_its_place(plugin: dict[str, Any]) -> None:
    threads: dict[bool, set[str]] = {False: set(), True: set()}

    class Watched(type(plugin["ADAPTER"])):  # type: ignore[misc]
        def is_quiet(self, frames: bytes) -> bool:
            threads[len(frames) > LARGE_BYTES].add(threading.current_thread().name)
            return bool(super().is_quiet(frames))

    large = b'data: {"word": "%b"}\n\n' % (b"long " * LARGE_BYTES)
    pieces = [large[start : start + 65_536] for start in range(0, len(large), 65_536)]
    call = call_to()
    sent = chunks_of(forward(Watched(), WORD, *pieces[:-1], pieces[-1] + WORD, WORD, END, call=call))
    assert b"".join(sent) == WORD + large + WORD + WORD + END
    assert call.meter.finish_reason == "stop"
    assert threads[True]
    assert threading.current_thread().name not in threads[True]
    assert threading.current_thread().name in threads[False]
