"""The verbatim lane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from format_anthropic_calls import QUESTION, call_for, chunks_of, text_of, wire_with
from hypothesis import given
from hypothesis import strategies as st

import tornado_gate_anthropic.format as plugin
from tornado_gate import sse
from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamOverloaded, UpstreamTimeout
from tornado_gate.testing import iterate
from tornado_gate.types import BufferedBody, Call, Reply, UpstreamResponse, Usage, VerbatimRequest

EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json; charset=utf-8"}

START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
)
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
WORD = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"text":"\\u0041"}}\n\n'
ODD = b'event: x_new\ndata: {"type":"x_new", "a" : 1e2}\n\n'
DELTA = b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
BROKEN = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'


def forwarded(**fields: Any) -> VerbatimRequest:
    return plugin.forward_request(call_for(), wire_with(QUESTION | fields))


def replied(call: Call, *pieces: Any, headers: dict[str, str] = EVENTS, **fields: Any) -> Reply:
    incoming = UpstreamResponse(chunks=iterate(pieces), headers=headers)
    return plugin.forward_response(call, forwarded(**fields), incoming)


def streamed(*pieces: Any) -> bytes:
    return text_of(replied(call_for(), *pieces, stream=True))


def error_in(raw: bytes) -> Any:
    """The error in the last event; nothing may follow it."""
    assert raw.endswith(b"\n\n")
    name, _, data = raw[:-2].rpartition(b"\n\n")[2].partition(b"\n")
    assert name == b"event: error"
    return orjson.loads(data.removeprefix(b"data: "))["error"]


@pytest.mark.parametrize(
    ("path", "operation"), [("/v1/messages", "chat"), ("/v1/messages/count_tokens", "count_tokens")]
)
def test_a_body_goes_up_as_it_came(path: str, operation: str) -> None:
    raw = b'{ "messages": [{"content":"\\u0048i","role":"user"}],\n "x": 1e2, "model": "m", "temperature": 1.0 }'
    request = plugin.forward_request(call_for(), wire_with(raw, path))
    assert request.raw == raw
    assert (request.wire_format, request.operation, request.path) == ("anthropic-messages", operation, path)
    assert (request.stream, request.body["x"]) == (False, 100.0)


def test_a_wrong_body_goes_nowhere() -> None:
    with pytest.raises(InvalidField) as caught:
        forwarded(temperature="hot")
    assert caught.value.param == "temperature"


def test_a_whole_answer_comes_as_it_was() -> None:
    call = call_for()
    raw = b'{"usage": {"input_tokens": 1, "output_tokens": 2},\n "content": [], "stop_reason": "max_tokens"}'
    reply = replied(call, raw[:20], raw[20:], headers=JSON)
    assert reply.content_type == JSON["content-type"]
    assert chunks_of(reply) == [raw]
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "length")


def test_a_token_count_comes_as_it_was() -> None:
    assert text_of(replied(call_for(), b'{"input_tokens": 7}', headers=JSON)) == b'{"input_tokens": 7}'


def test_a_whole_answer_that_is_no_json_is_an_upstream_error() -> None:
    with pytest.raises(UpstreamError, match="not valid JSON"):
        text_of(replied(call_for(), b"<html>", headers=JSON))


def test_a_whole_answer_that_is_an_error_is_raised() -> None:
    body = BROKEN.partition(b"data: ")[2]
    with pytest.raises(UpstreamOverloaded):
        text_of(replied(call_for(), body, headers=JSON))


ANSWERS = st.sampled_from(
    [
        b'{"usage": {"input_tokens": 1, "output_tokens": 2}, "content": [], "stop_reason": "max_tokens"}',
        b'{"input_tokens": 7}',
        b'{"content": [1]}',
        b"{}",
        b"null",
        BROKEN.partition(b"data: ")[2],
    ]
) | st.binary(max_size=9)


@given(ANSWERS, st.sampled_from(["application/json", "application/JSON; x=y", "", "text/html"]))
def test_an_answer_that_is_there_as_a_whole_is_the_same_at_once(raw: bytes, content_type: str) -> None:
    def outcome(chunks: AsyncIterator[bytes]) -> Any:
        call = call_for()
        incoming = UpstreamResponse(chunks=chunks, headers={"content-type": content_type})
        try:
            reply = plugin.forward_response(call, forwarded(), incoming)
            assert isinstance(reply.chunks, BufferedBody) is isinstance(chunks, BufferedBody)
            told: Any = (reply.content_type, text_of(reply))
        except GateError as error:
            told = (type(error), error.status, error.body())
        return told, call.meter

    assert outcome(BufferedBody(raw)) == outcome(iterate([raw[:5], raw[5:]]))


def test_the_error_that_a_whole_answer_is_comes_at_once() -> None:
    incoming = UpstreamResponse(chunks=BufferedBody(BROKEN.partition(b"data: ")[2]), headers=JSON)
    with pytest.raises(UpstreamOverloaded):
        plugin.forward_response(call_for(), forwarded(), incoming)


def test_events_come_as_they_were_and_usage_is_noted() -> None:
    call = call_for()
    whole = START + PING + WORD + ODD + DELTA + STOP
    reply = replied(call, whole, stream=True)
    assert (reply.content_type, reply.keep_alive) == ("text/event-stream", PING)
    assert chunks_of(reply) == [whole]
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=3, output_tokens=7), "stop")


@given(data=st.data())
def test_chunks_end_at_frame_borders_however_the_bytes_are_cut(data: st.DataObject) -> None:
    crlf = WORD.replace(b"\n", b"\r\n")
    whole = b": hello\n\n" + START + WORD + crlf + PING + ODD + DELTA + STOP
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    chunks = chunks_of(replied(call_for(), *pieces, stream=True))
    assert b"".join(chunks) == whole
    assert all(chunk.endswith((b"\n\n", b"\r\n\r\n")) for chunk in chunks)


def test_one_byte_at_a_time_gives_the_same() -> None:
    whole = START + WORD + DELTA + STOP
    assert streamed(*(whole[place : place + 1] for place in range(len(whole)))) == whole


@pytest.mark.parametrize("raw", [BROKEN, BROKEN.rstrip()])
def test_an_error_in_the_first_data_is_raised_even_after_comments(raw: bytes) -> None:
    with pytest.raises(UpstreamOverloaded):
        streamed(b": waiting\n\n", raw)


def test_a_later_error_passes_and_nothing_follows() -> None:
    assert streamed(START, BROKEN + WORD, STOP) == START + BROKEN


def test_an_upstream_that_breaks_off_becomes_an_error_event() -> None:
    raw = streamed(START, WORD, UpstreamTimeout("too slow"))
    assert raw.startswith(START + WORD)
    told = {"message": "too slow", "type": "timeout_error", "param": "", "code": "upstream_timeout"}
    assert error_in(raw) == told


def test_an_upstream_that_breaks_off_before_its_first_frame_keeps_its_status() -> None:
    with pytest.raises(UpstreamTimeout):
        streamed(b": ping\n\n", START[:10], UpstreamTimeout("too slow"))


def test_a_break_after_the_stop_is_no_error() -> None:
    assert streamed(START, DELTA, STOP, UpstreamError("reset")) == START + DELTA + STOP


@pytest.mark.parametrize("last", [b"", WORD[:60], PING])
def test_a_stream_that_stops_early_ends_with_an_error(last: bytes) -> None:
    raw = streamed(START, WORD, last)
    assert error_in(raw)["message"] == "The upstream's stream ended before the response was complete."
    assert b"message_stop" not in raw


@pytest.mark.parametrize("only", [(), (b": ping\n\n",), (b"data: {",)])
def test_a_stream_without_a_whole_frame_is_an_upstream_error(only: tuple[bytes, ...]) -> None:
    with pytest.raises(UpstreamError, match="ended before the response was complete"):
        streamed(*only)


def test_a_missing_stop_is_added_after_a_stop_reason() -> None:
    assert streamed(START, DELTA) == START + DELTA + STOP


def test_a_last_frame_without_its_border_gets_one() -> None:
    assert streamed(START, DELTA, STOP.rstrip()) == START + DELTA + STOP


def test_a_frame_without_end_is_an_error() -> None:
    raw = streamed(START, b"data: " + b"x" * (sse.MAX_FRAME_BYTES + 1))
    assert error_in(raw)["code"] == "upstream_event_too_large"


def test_the_upstreams_own_content_type_decides() -> None:
    whole = b'{"type": "message", "content": []}'
    assert chunks_of(replied(call_for(), whole, headers=JSON, stream=True)) == [whole]
    assert text_of(replied(call_for(), START, DELTA, STOP, headers=EVENTS)) == START + DELTA + STOP


@pytest.mark.parametrize(
    ("stream", "content_type"), [(True, "text/event-stream; charset=utf-8"), (False, "application/json")]
)
def test_without_a_content_type_the_request_decides(stream: bool, content_type: str) -> None:
    assert replied(call_for(), headers={}, stream=stream).content_type == content_type
