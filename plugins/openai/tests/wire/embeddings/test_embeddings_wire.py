"""The embeddings wire format: requests, answers of both spellings, big answers in pieces."""

from __future__ import annotations

import asyncio
import base64
import struct
from array import array
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec.vectors import to_floats
from tornado_gate.errors import GateError, InvalidField, UpstreamError
from tornado_gate.testing import call_to
from tornado_gate.types import (
    Call,
    EmbeddingRequest,
    EmbeddingResult,
    UpstreamResponse,
    Usage,
)
from tornado_gate_openai.wire import embeddings as wire


def call_for(**fields: Any) -> Call:
    return call_to(operation="embeddings", model="m", upstream_model="up", **fields)


def answer(*entries: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"object": "list", "data": list(entries), "model": "up", **fields}


def entry(index: int | None, embedding: Any) -> dict[str, Any]:
    return {"object": "embedding", "embedding": embedding} | ({} if index is None else {"index": index})


def packed(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def read(raw: bytes, cut: int = 7, **rest: Any) -> EmbeddingResult:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(raw), cut):
            yield raw[start : start + cut]

    return asyncio.run(wire.read_response(UpstreamResponse(chunks=pieces()), **rest))


def written(result: EmbeddingResult, encoding: str = "float") -> list[bytes]:
    async def collect() -> list[bytes]:
        return [chunk async for chunk in wire.render_response(result, model="m", encoding=encoding)]

    return asyncio.run(collect())


def numbers_of(result: EmbeddingResult) -> list[list[float]]:
    return [to_floats(vector) for vector in result.vectors]


@pytest.mark.parametrize(
    ("value", "inputs"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
    ],
)
def test_each_spelling_of_the_input_is_a_row_of_inputs(value: Any, inputs: Any) -> None:
    body = {"model": "m", "input": value, "dimensions": 3, "user": "u", "encoding_format": "base64", "x": 1, "y": None}
    request = wire.parse_request(body, model="m")
    assert (request.inputs, request.dimensions, request.user, request.extra) == (inputs, 3, "u", {"x": 1})
    assert (request.field_name("inputs"), request.wire_format) == ("input", "openai-embeddings")
    call = call_for()
    assert wire.render_request(call, request) == {
        "model": "up",
        "input": value,
        "encoding_format": "base64",
        "dimensions": 3,
        "user": "u",
        "x": 1,
    }
    assert call.losses == []


def test_what_was_not_said_is_not_sent() -> None:
    body = wire.render_request(call_for(), EmbeddingRequest(model="m", inputs=("a", "b")))
    assert body == {"model": "up", "input": ["a", "b"], "encoding_format": "base64"}


def test_what_another_format_says_and_this_one_cannot_is_lost_in_the_callers_words() -> None:
    request = EmbeddingRequest(
        model="m",
        inputs=("a",),
        wire_format="gemini-embeddings",
        task="RETRIEVAL_QUERY",
        title="T",
        extra={"autoTruncate": True},
        names={"task": "taskType"},
    )
    call = call_for()
    assert "autoTruncate" not in wire.render_request(call, request)
    assert call.losses == ["taskType", "title", "autoTruncate"]
    with pytest.raises(InvalidField) as caught:
        wire.render_request(call_for(strict=True), request)
    assert caught.value.param == "taskType"


def test_base64_is_little_endian_float32() -> None:
    text = base64.b64encode(packed(1.5, -0.25)).decode()
    result = wire.parse_response(answer(entry(0, text), usage={"prompt_tokens": 4, "total_tokens": 4}))
    assert result.vectors == (packed(1.5, -0.25),)
    assert (result.model, result.usage) == ("up", Usage(input_tokens=4))
    body = orjson.loads(b"".join(written(result, "base64")))
    assert struct.unpack("<2f", base64.b64decode(body["data"][0]["embedding"])) == (1.5, -0.25)


def test_numbers_keep_all_their_digits() -> None:
    result = wire.parse_response(answer(entry(0, [0.1, 2, -3e-9])))
    assert numbers_of(result) == [[0.1, 2.0, -3e-9]]


def test_entries_are_put_in_the_order_of_their_indexes() -> None:
    result = wire.parse_response(answer(entry(2, [3.0]), entry(0, [1.0]), entry(1, [2.0])))
    assert numbers_of(result) == [[1.0], [2.0], [3.0]]


def test_entries_without_indexes_are_in_the_order_in_which_they_came() -> None:
    assert numbers_of(wire.parse_response(answer(entry(None, [3.0]), entry(None, [1.0])))) == [[3.0], [1.0]]


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"data": None},
        {"data": [1]},
        answer(entry(0, [])),
        answer(entry(0, None)),
        answer(entry(0, ["a"])),
        answer(entry(0, [None])),
        answer(entry(0, [[1.0]])),
        answer(entry(0, "no base64!")),
        answer(entry(0, base64.b64encode(b"abc").decode())),
        answer(entry(0, "")),
        answer(entry(1, [1.0])),
        answer(entry(0, [1.0]), entry(0, [2.0])),
        answer(entry(0, [1.0]), entry(2, [2.0])),
        answer(entry(0, [1.0]), entry(None, [2.0])),
        answer(entry(True, [1.0]), entry(0, [2.0])),
    ],
)
def test_an_answer_that_lacks_a_vector_is_the_upstreams_fault(body: Any) -> None:
    for ask in (lambda: wire.parse_response(body), lambda: read(orjson.dumps(body))):
        with pytest.raises(UpstreamError) as caught:
            ask()
        assert caught.value.status == 502


def test_a_wrong_number_of_vectors_is_the_upstreams_fault() -> None:
    body = answer(entry(0, [1.0]))
    assert wire.parse_response(body, count=1).vectors
    for ask in (lambda: wire.parse_response(body, count=2), lambda: read(orjson.dumps(body), count=2)):
        with pytest.raises(UpstreamError, match="1 vectors for 2 inputs"):
            ask()


def test_an_error_with_status_200_is_an_error() -> None:
    body = {"error": {"message": "too many", "code": 429}}
    for ask in (lambda: wire.parse_response(body), lambda: read(orjson.dumps(body))):
        with pytest.raises(GateError) as caught:
            ask()
        assert (caught.value.status, caught.value.message) == (429, "too many")


def test_an_answer_that_breaks_off_is_no_json() -> None:
    with pytest.raises(UpstreamError):
        read(orjson.dumps(answer(entry(0, [1.0]), entry(1, [1.0])))[:-1])


@pytest.mark.parametrize("cut", [1, 2, 13, 64, 100_000])
@pytest.mark.parametrize("spaces", [False, True])
def test_an_answer_read_piece_by_piece_is_the_same_however_it_is_cut(cut: int, spaces: bool) -> None:
    usage = {"prompt_tokens": 7, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 2}}
    text = base64.b64encode(packed(0.5, 0.25)).decode()
    body = answer(entry(1, [0.1, 0.2]), entry(0, text), model='a {"model"}', usage=usage, metadata={"a": {}})
    raw = orjson.dumps(body, option=orjson.OPT_INDENT_2 if spaces else None)
    assert read(raw, cut, count=2) == wire.parse_response(body)


def test_a_long_answer_gives_the_loop_its_turns_while_it_is_read() -> None:
    raw = orjson.dumps(answer(*(entry(index, [1.0] * 1000) for index in range(200))))

    async def count() -> tuple[int, int]:
        async def whole() -> AsyncIterator[bytes]:
            yield raw

        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(turn())
        result = await wire.read_response(UpstreamResponse(chunks=whole()))
        task.cancel()
        return turns, len(result.vectors)

    turns, vectors = asyncio.run(count())
    assert vectors == 200
    assert turns >= len(raw) // wire.BYTES_PER_SLICE - 1
    assert turns > 5


def test_an_answer_has_the_contracts_shape() -> None:
    result = EmbeddingResult(vectors=((0.5, 0.25), packed(1.0, 2.0)), model="up", usage=Usage(input_tokens=3))
    assert orjson.loads(b"".join(written(result))) == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]},
            {"object": "embedding", "index": 1, "embedding": [1.0, 2.0]},
        ],
        "model": "m",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
    assert len(written(result)) == 1


def test_usage_is_never_absent() -> None:
    body = orjson.loads(b"".join(written(EmbeddingResult(vectors=((1.0,),)))))
    assert body["usage"] == {"prompt_tokens": 0, "total_tokens": 0}


def test_a_total_alone_is_what_was_read() -> None:
    assert wire.parse_usage({"total_tokens": 9}) == Usage(input_tokens=9)
    assert wire.parse_usage({"total_tokens": True}) is None
    assert wire.parse_usage(None) is None


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_a_big_answer_comes_in_pieces_with_turns_of_the_loop_in_between(encoding: str) -> None:
    vectors: tuple[bytes, ...] = (array("f", [0.5] * 1024).tobytes(),) * 256
    turns = 0

    async def count() -> list[bytes]:
        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(turn())
        result = EmbeddingResult(vectors=vectors)
        chunks = [chunk async for chunk in wire.render_response(result, model="m", encoding=encoding)]
        task.cancel()
        return chunks

    chunks = asyncio.run(count())
    stretches = 256 * 1024 // wire.NUMBERS_PER_SLICE
    assert len(chunks) == stretches
    assert turns >= stretches - 1
    body = orjson.loads(b"".join(chunks))
    assert [item["index"] for item in body["data"]] == list(range(256))
    assert max(map(len, chunks)) < wire.NUMBERS_PER_SLICE * 6


@pytest.mark.parametrize(
    ("beginning", "end", "tokens"),
    [
        (b'{"object":"list","data":[', b'0.1]}],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}', 5),
        (b'{"usage": {"prompt_tokens": 6, "total_tokens": 6}, "data": [', b"0.1]}]}", 6),
        (b"{", b'"usage" : {"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":1},"total_tokens":7}}', 7),
        (b"{", b'"usage":null}', None),
        (b"{", b'"usage":{"prompt_tok', None),
        (b"{", b'"usage":{oops}}', None),
        (b"{", b'"usage":{}}', None),
    ],
)
def test_usage_is_found_at_either_end(beginning: bytes, end: bytes, tokens: int | None) -> None:
    usage = wire.find_usage(beginning, end)
    assert (None if usage is None else usage.input_tokens) == tokens


_float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
_vectors = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(_float32, min_size=width, max_size=width), min_size=1, max_size=5)
)


@given(vectors=_vectors, encoding=st.sampled_from(["float", "base64"]), tokens=st.integers(0, 2**40))
def test_what_is_written_is_read_again(vectors: Sequence[Sequence[float]], encoding: str, tokens: int) -> None:
    result = EmbeddingResult(vectors=tuple(vectors), usage=Usage(input_tokens=tokens))
    raw = b"".join(written(result, encoding))
    for again in (wire.parse_response(orjson.loads(raw)), read(raw, 11)):
        assert numbers_of(again) == [list(vector) for vector in vectors]
        assert (again.usage, again.model) == (result.usage, "m")


_words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
_inputs: st.SearchStrategy[Iterable[Any]] = st.one_of(
    st.lists(_words, min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, 2**40), min_size=1, max_size=4), min_size=1),
)


@given(inputs=_inputs, dimensions=st.none() | st.integers(1, 4096), extra=st.dictionaries(_words, st.integers()))
def test_a_request_survives_being_written_and_read(inputs: list[Any], dimensions: int | None, extra: Any) -> None:
    known = {"model", "input", "encoding_format", "dimensions", "user"}
    request = EmbeddingRequest(
        model="up",
        wire_format=wire.WIRE_FORMAT,
        inputs=tuple(piece if isinstance(piece, str) else tuple(piece) for piece in inputs),
        dimensions=dimensions,
        extra={name: value for name, value in extra.items() if name not in known},
        names=wire.FIELD_NAMES,
    )
    assert wire.parse_request(wire.render_request(call_for(), request), model="up") == request
