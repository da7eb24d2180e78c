"""The hooks of the verbatim lane: bytes pass as they came, and what the gateway must know is noted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import orjson
import pytest
from format_gemini_calls import COUNT, GENERATE, SDK, STREAM, call_for, chunks_of, frames, wire_to
from hypothesis import given
from hypothesis import strategies as st

import tornado_gate_gemini.format as plugin
from tornado_gate.errors import GateError, UpstreamError, UpstreamRateLimited, UpstreamTimeout
from tornado_gate.testing import iterate
from tornado_gate.types import BufferedBody, Call, Reply, UpstreamResponse, Usage, VerbatimRequest

BODY = b'{ "contents" : [{"parts":[{"text":"Hi \\u00e9"}]}], "x_new": 1.0 }'
JSON = {"content-type": "application/json; charset=UTF-8"}
EVENTS = {"content-type": "text/event-stream"}

FIRST = b'data: {"candidates": [{"content": {"parts": [{"text": "a"}], "role": "model"}}], "x": 1.0}\r\n\r\n'
LAST = (
    b'data: {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1,'
    b' "candidatesTokenCount": 2}}\r\n\r\n'
)
ARRAY = b'[{\n  "candidates": [{"content": {"parts": [{"text": "a]"}]}}]\n}\n,\r\n{"candidates": [{"finishReason": "STOP"}]}\n]\n'


def forwarded(path: str = GENERATE, raw: bytes = BODY, **query: str) -> VerbatimRequest:
    return plugin.forward_request(call_for(), wire_to(path, raw, **query))


def replied(
    request: VerbatimRequest, pieces: Iterable[Any], headers: dict[str, str] = JSON, call: Call | None = None
) -> Reply:
    incoming = UpstreamResponse(chunks=iterate(pieces), headers=headers)
    return plugin.forward_response(call or call_for(), request, incoming)


def test_a_body_goes_up_as_it_came() -> None:
    for path, operation, streams in ((GENERATE, "chat", False), (STREAM, "chat", True), (COUNT, "count_tokens", False)):
        request = forwarded(path)
        assert (request.raw, request.operation, request.stream, request.path) == (BODY, operation, streams, path)


def test_the_form_of_the_stream_goes_up_too() -> None:
    assert forwarded(STREAM, alt="sse").path == f"{STREAM}?alt=sse"
    assert forwarded(GENERATE, alt="sse").path == GENERATE


def test_a_whole_answer_comes_down_as_it_came() -> None:
    raw = b'{ "candidates": [{"finishReason":"STOP"}], "usageMetadata": {"promptTokenCount": 3}}\n'
    call = call_for()
    assert chunks_of(replied(forwarded(), [raw[:9], raw[9:]], call=call)) == [raw]
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=3), "stop")


def test_a_count_comes_down_as_it_came() -> None:
    assert chunks_of(replied(forwarded(COUNT), [b'{"totalTokens": 31}'])) == [b'{"totalTokens": 31}']


@pytest.mark.parametrize("raw", [b"", b"<html>", b'{"a"'])
def test_a_whole_answer_that_is_no_json_is_a_fault(raw: bytes) -> None:
    with pytest.raises(UpstreamError, match="not valid JSON"):
        chunks_of(replied(forwarded(), [raw]))


def test_a_whole_answer_that_is_an_error_is_raised() -> None:
    with pytest.raises(UpstreamRateLimited, match="Slow"):
        chunks_of(replied(forwarded(), [b'{"error": {"code": 429, "message": "Slow"}}']))


ANSWERS = st.sampled_from(
    [
        b'{"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3}}',
        b'{"totalTokens": 31}',
        b'{"candidates": [1]}',
        b'{"error": {"code": 429, "message": "Slow"}}',
        b"{}",
        b"null",
    ]
) | st.binary(max_size=9)


@given(ANSWERS, st.sampled_from([GENERATE, COUNT]), st.sampled_from([JSON, EVENTS, {}]))
def test_an_answer_that_is_there_as_a_whole_is_the_same_at_once(raw: bytes, path: str, headers: dict[str, str]) -> None:
    def outcome(chunks: AsyncIterator[bytes]) -> Any:
        call = call_for()
        try:
            reply = plugin.forward_response(call, forwarded(path), UpstreamResponse(chunks=chunks, headers=headers))
            assert isinstance(reply.chunks, BufferedBody) is isinstance(chunks, BufferedBody)
            told: Any = (reply.content_type, b"".join(chunks_of(reply)))
        except GateError as error:
            told = (type(error), error.status, error.body())
        return told, call.meter

    assert outcome(BufferedBody(raw)) == outcome(iterate([raw[:5], raw[5:]]))


def test_the_error_that_a_whole_answer_is_comes_at_once() -> None:
    incoming = UpstreamResponse(chunks=BufferedBody(b'{"error": {"code": 429, "message": "Slow"}}'), headers=JSON)
    with pytest.raises(UpstreamRateLimited, match="Slow"):
        plugin.forward_response(call_for(), forwarded(), incoming)


def test_frames_come_down_as_they_came() -> None:
    call = call_for()
    reply = replied(forwarded(STREAM, alt="sse"), [FIRST, LAST], EVENTS, call)
    assert (reply.content_type, reply.keep_alive) == ("text/event-stream; charset=utf-8", b": ping\n\n")
    assert chunks_of(reply) == [FIRST, LAST]
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "stop")


@given(cut=st.integers(1, 60))
def test_frames_come_down_whole_however_they_are_cut(cut: int) -> None:
    raw = b": ping\n\n" + FIRST + LAST.rstrip()
    pieces = [raw[start : start + cut] for start in range(0, len(raw), cut)]
    chunks = chunks_of(replied(forwarded(STREAM, alt="sse"), pieces, EVENTS))
    assert [chunk.strip() for chunk in chunks] == [b": ping", FIRST.strip(), LAST.strip()]


@given(cut=st.integers(1, 60))
def test_an_array_comes_down_element_by_element(cut: int) -> None:
    pieces = [ARRAY[start : start + cut] for start in range(0, len(ARRAY), cut)]
    call = call_for()
    reply = replied(forwarded(STREAM), pieces, call=call)
    chunks = chunks_of(reply)
    assert reply.content_type == "application/json"
    assert orjson.loads(b"".join(chunks)) == orjson.loads(ARRAY)
    assert chunks[0].startswith(b'[{\n  "candidates"')
    assert call.meter.finish_reason == "stop"


def test_an_upstream_that_answers_in_the_other_form_is_understood() -> None:
    chunks = chunks_of(replied(forwarded(STREAM), [FIRST, LAST], EVENTS))
    assert [value["candidates"] for value in orjson.loads(b"".join(chunks))][1] == [{"finishReason": "STOP"}]
    raw = b"".join(chunks_of(replied(forwarded(STREAM, alt="sse"), [ARRAY], JSON)))
    assert frames(raw) == orjson.loads(ARRAY)


def broken(failure: Any, path_query: dict[str, str], headers: dict[str, str] | None = None) -> list[Any]:
    """The parsed chunks of a stream that began well and then failed."""
    first = FIRST if path_query else b'[{"candidates": [{"content": {"parts": [{"text": "a"}]}}]}'
    pieces = [first, failure] if failure is not None else [first]
    kind = EVENTS if path_query else JSON
    reply = replied(forwarded(STREAM, **path_query), pieces, kind, call_for(headers=headers))
    raw = b"".join(chunks_of(reply))
    return frames(raw) if path_query else list(orjson.loads(raw))


@pytest.mark.parametrize("query", [{}, {"alt": "sse"}])
@pytest.mark.parametrize(
    ("failure", "code"),
    [(None, "upstream_error"), (UpstreamTimeout("Too long."), "upstream_timeout"), (b"", "upstream_error")],
)
def test_a_stream_that_breaks_off_ends_with_an_error(query: dict[str, str], failure: Any, code: str) -> None:
    values = broken(failure, query)
    assert len(values) == 2
    assert values[-1]["error"]["code"] == code


@pytest.mark.parametrize("query", [{}, {"alt": "sse"}])
def test_an_error_of_the_upstreams_in_the_middle_is_told_in_the_callers_dialect(query: dict[str, str]) -> None:
    error = b'{"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}'
    failure = b"data: " + error + b"\n\n" if query else b"," + error + b"]"
    assert broken(failure, query)[-1] == {
        "error": {
            "message": "Overloaded",
            "type": "upstream_error",
            "param": "",
            "code": "upstream_overloaded",
            "status": "UNAVAILABLE",
        }
    }
    assert broken(failure, query, SDK)[-1]["error"]["code"] == 503


@pytest.mark.parametrize(
    ("pieces", "headers", "query"),
    [
        ([b'data: {"error": {"code": 503, "message": "no"}}\n\n'], EVENTS, {"alt": "sse"}),
        ([b': ping\n\ndata: {"error": {"code": 503, "message": "no"}}\n\n'], EVENTS, {"alt": "sse"}),
        ([b'[{"error": {"code": 503, "message": "no"}}]'], JSON, {}),
        ([b'{"error": {"code": 503, "message": "no"}}'], JSON, {"alt": "sse"}),
        ([], EVENTS, {"alt": "sse"}),
        ([b"[]"], JSON, {}),
        ([UpstreamError("gone")], JSON, {}),
    ],
)
def test_a_failure_before_the_first_chunk_keeps_its_status(pieces: Any, headers: Any, query: Any) -> None:
    with pytest.raises(GateError) as caught:
        chunks_of(replied(forwarded(STREAM, **query), pieces, headers))
    assert caught.value.status in (502, 503)


def test_a_frame_that_was_cut_off_is_not_passed_on() -> None:
    chunks = chunks_of(replied(forwarded(STREAM, alt="sse"), [FIRST, LAST[:30]], EVENTS))
    assert chunks[0] == FIRST
    assert frames(chunks[-1])[0]["error"]["code"] == "upstream_error"
    assert len(chunks) == 2
