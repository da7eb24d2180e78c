"""An answer that is there as a whole is replied at once, and as the same answer in pieces would be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from inspect import isawaitable
from typing import Any

import orjson
import pytest
from format_openai_calls import QUESTION, call_for, chunks_of, wire_with
from hypothesis import given
from hypothesis import strategies as st

import tornado_gate_openai.format as plugin
from tornado_gate.errors import GateError, UpstreamError, UpstreamRefused
from tornado_gate.testing import iterate
from tornado_gate.types import BufferedBody, Reply, UpstreamResponse

JSON = "application/json"
BODIES = {
    "/v1/chat/completions": QUESTION,
    "/v1/completions": {"model": "m", "prompt": "Hi"},
    "/v1/responses": {"model": "m", "input": "Hi"},
    "/v1/embeddings": {"model": "m", "input": "Hi"},
}
ANSWERS: list[Any] = [
    {"choices": [{"finish_reason": "length"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    {"choices": [{"message": {"content": "x" * 5000}}]},
    {"choices": [1]},
    {"output": [], "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 4}},
    {"data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 3}},
    {"error": {"message": "you may not do this", "code": 422}},
    {"object": "error", "message": "m", "code": 503},
    {},
    [],
    None,
]
VALUES = st.sampled_from(ANSWERS) | st.dictionaries(
    st.sampled_from(["choices", "usage", "error", "data", "output", "status"]),
    st.sampled_from([None, 1, "x", [], [{}], [1], {}, {"prompt_tokens": 1}, {"message": "m"}]),
)


def outcome(path: str, chunks: AsyncIterator[bytes], content_type: str) -> Any:
    """The reply's head, its bytes and the meter; or the error in their place, and the meter."""
    call = call_for(operation="embeddings" if path == "/v1/embeddings" else "chat")
    incoming = UpstreamResponse(chunks=chunks, headers={"content-type": content_type})
    try:
        reply = plugin.forward_response(call, requested(path), incoming)
        told: Any = (reply.content_type, reply.status, reply.keep_alive, b"".join(chunks_of(reply)))
    except GateError as error:
        told = (type(error), error.status, error.body())
    return told, call.meter


@cache
def requested(path: str) -> Any:
    given = plugin.forward_request(call_for(), wire_with(BODIES[path], path))

    async def awaited() -> Any:
        return await given

    return asyncio.run(awaited()) if isawaitable(given) else given


@given(
    path=st.sampled_from(sorted(BODIES)),
    raw=VALUES.map(orjson.dumps) | st.binary(max_size=20),
    content_type=st.sampled_from([JSON, "Application/JSON; charset=utf-8", "", "text/html"]),
)
def test_whole_and_in_pieces_are_one_answer(path: str, raw: bytes, content_type: str) -> None:
    pieces = [raw[:7], raw[7:]]
    assert outcome(path, BufferedBody(raw), content_type) == outcome(path, iterate(pieces), content_type)


def at_once(raw: bytes, **fields: Any) -> Reply:
    call = call_for()
    request = plugin.forward_request(call, wire_with(QUESTION | fields))
    return plugin.forward_response(
        call, request, UpstreamResponse(chunks=BufferedBody(raw), headers={"content-type": JSON})
    )


def test_nobody_has_to_wait_for_it() -> None:
    raw = orjson.dumps(ANSWERS[0])
    chunks = at_once(raw).chunks
    assert isinstance(chunks, BufferedBody)
    assert chunks.data is raw


def test_the_error_that_it_is_comes_at_once() -> None:
    with pytest.raises(UpstreamRefused) as caught:
        at_once(orjson.dumps(ANSWERS[5]))
    assert (caught.value.status, caught.value.message) == (422, "you may not do this")


def test_what_is_no_json_is_told_at_once() -> None:
    with pytest.raises(UpstreamError, match="not valid JSON"):
        at_once(b"<html>")


def test_a_stream_is_made_of_it_when_one_was_asked_for() -> None:
    reply = at_once(orjson.dumps(ANSWERS[0]), stream=True)
    assert reply.content_type.startswith("text/event-stream")
    assert not isinstance(reply.chunks, BufferedBody)
    assert chunks_of(reply)[-1] == b"data: [DONE]\n\n"
