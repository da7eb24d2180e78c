"""The embeddings routes: what a body may hold, and the replies of both lanes."""

from __future__ import annotations

import asyncio
import base64
import struct
from typing import Any, get_type_hints

import orjson
import pytest
from format_openai_calls import call_for, chunks_of, text_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr
from openai.types import CreateEmbeddingResponse, EmbeddingCreateParams
from operation_calls import done, events_of, make_response, wire_of

from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamTimeout
from tornado_gate.streams.events import close
from tornado_gate.testing import iterate
from tornado_gate.types import (
    EmbeddingRequest,
    EmbeddingResult,
    Reply,
    StreamError,
    Usage,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate_openai.fields.embeddings import EmbeddingBodySchema
from tornado_gate_openai.format import embeddings
from tornado_gate_openai.wire import embeddings as openai_embeddings

PLAIN, ENGINES = embeddings.ROUTES
BODY: dict[str, Any] = {"model": "m", "input": "Hi"}
WRONG: dict[str, list[Any]] = {
    "model": [True, 1, [], {}, ""],
    "input": [True, 1, 1.5, {}, "", []],
    "dimensions": [True, 1.5, "5", [], {}],
    "encoding_format": [True, 1, "", "int8", []],
    "user": [True, 1, [], {}],
}


def wire_with(body: Any) -> WireRequest:
    return wire_of(PLAIN, body)


def read_request(body: Any = BODY, **fields: Any) -> EmbeddingRequest:
    request = done(embeddings.parse(call_for(), wire_with(body | fields)))
    assert isinstance(request, EmbeddingRequest)
    return request


def fault_of(body: Any) -> InvalidField:
    for hook in (embeddings.parse, embeddings.forward):
        with pytest.raises(InvalidField) as caught:
            done(hook(call_for(), wire_with(body)))
    return caught.value


def forwarded(*chunks: Any, key: str = "", call: Any = None) -> Reply:
    wire = wire_with(BODY)
    request = done(embeddings.forward(call_for(), wire))
    return embeddings.forward_response(call or call_for(key=key), request, make_response(chunks))


def test_every_field_of_the_vendor_is_checked() -> None:
    assert set(get_type_hints(EmbeddingCreateParams)) == set(EmbeddingBodySchema().fields) == set(WRONG)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_is_named(name: str, value: Any) -> None:
    fault = fault_of(BODY | {name: value})
    assert (fault.param, fault.status, fault.code) == (name, 400, "invalid_value")


@pytest.mark.parametrize("name", ["dimensions", "encoding_format", "user"])
def test_null_says_nothing(name: str) -> None:
    assert read_request(**{name: None}) == read_request()


def test_the_input_must_be_there() -> None:
    assert (fault_of({"model": "m"}).param, fault_of({"model": "m"}).code) == ("input", "missing_required_parameter")
    assert fault_of({"model": "m", "input": None}).param == "input"


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("input.0", [None]),
        ("input.0", [True]),
        ("input.0", [1.5]),
        ("input.0", [{}]),
        ("input.0", [""]),
        ("input.1", ["a", ""]),
        ("input.1", ["a", 1]),
        ("input.1", [1, "a"]),
        ("input.1", [1, True]),
        ("input.1", [1, -1]),
        ("input.1", [1, 2**63]),
        ("input.1", [[1], "a"]),
        ("input.0", [[]]),
        ("input.0.1", [[1, 1.5]]),
        ("input.1.0", [[1], ["a"]]),
        ("input.120000", [1] * 120_000 + [-1]),
        ("input.1.60000", [[1], [1] * 60_000 + ["a"]]),
    ],
)
def test_the_place_in_the_input_is_named(param: str, value: Any) -> None:
    assert fault_of({"model": "m", "input": value}).param == param


@pytest.mark.parametrize("value", [["a"] * 2048, [1] * 8191, [[1] * 8191, [2]], [0]])
def test_inputs_up_to_the_bounds_pass(value: Any) -> None:
    assert len(read_request(input=value).inputs) == (1 if isinstance(value[0], int) else len(value))


def test_many_tokens_do_not_hold_the_loop() -> None:
    async def count() -> int:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(turn())
        await embeddings.check_body({"model": "m", "input": [1] * embeddings.MAX_TOKENS})
        task.cancel()
        return turns

    assert asyncio.run(count()) >= embeddings.MAX_TOKENS // embeddings.TOKENS_PER_SLICE


def test_a_request_is_what_the_body_says() -> None:
    request = read_request(input=["a", "b"], dimensions=5, encoding_format="base64", user="u", x_new=1)
    assert (request.inputs, request.dimensions, request.reply_state.encoding, request.user) == (
        ("a", "b"),
        5,
        "base64",
        "u",
    )
    assert (request.model, request.extra, request.wire_format) == ("m", {"x_new": 1}, "openai-embeddings")
    assert read_request().reply_state.encoding == "float"


def test_a_body_without_a_model_means_the_default() -> None:
    wire = wire_with({"input": "Hi"})
    assert done(embeddings.parse(call_for("conf-default"), wire)).model == "conf-default"
    forwarded = done(embeddings.forward(call_for("conf-default"), wire))
    assert (forwarded.raw, forwarded.body) == (wire.raw, {"input": "Hi"})


@pytest.mark.parametrize("model", ["other", 5, None, ""])
def test_on_the_engines_route_the_path_names_the_model(model: Any) -> None:
    raw = b'{"x_new": 1.50, "input" :"Hi", "model":' + orjson.dumps(model) + b"}"
    wire = wire_of(ENGINES, raw, model="a/b")
    assert wire.path == "/v1/engines/a/b/embeddings"
    assert done(embeddings.parse(call_for("a/b"), wire)).model == "a/b"
    request: VerbatimRequest = done(embeddings.forward(call_for("a/b"), wire))
    assert request.raw == b'{"x_new": 1.50, "input" :"Hi", "model":"a/b"}'
    assert request.body["model"] == "a/b"


def test_on_the_engines_route_a_body_without_a_model_gets_it() -> None:
    request: VerbatimRequest = done(embeddings.forward(call_for("m"), wire_of(ENGINES, b'{"input":"Hi"}', model="m")))
    assert orjson.loads(request.raw) == {"input": "Hi", "model": "m"}
    same = b'{"model": "m","input":"Hi"}'
    assert done(embeddings.forward(call_for("m"), wire_of(ENGINES, same, model="m"))).raw == same


def test_a_body_goes_up_as_it_came() -> None:
    raw = b'{ "input":["\\u0048i"], "model" : "m","x":1.0e3 }'
    request: VerbatimRequest = done(embeddings.forward(call_for(), wire_with(raw)))
    assert (request.raw, request.operation, request.wire_format) == (raw, "embeddings", "openai-embeddings")
    assert (request.path, request.stream, request.form) == ("/v1/embeddings", False, False)


def replied(*events: Any, **fields: Any) -> Reply:
    return embeddings.reply(call_for("asked-name"), read_request(**fields), events_of(*events))


def test_an_answer_has_the_contracts_shape() -> None:
    result = EmbeddingResult(vectors=((0.5, 1.0),), model="up", usage=Usage(input_tokens=2))
    reply = replied(result)
    assert reply.content_type == "application/json"
    body = orjson.loads(text_of(reply))
    assert body == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 1.0]}],
        "model": "asked-name",
        "usage": {"prompt_tokens": 2, "total_tokens": 2},
    }
    CreateEmbeddingResponse.model_validate(body, strict=True)


def test_base64_is_what_the_sdk_unpacks() -> None:
    body = orjson.loads(text_of(replied(EmbeddingResult(vectors=((0.5, -2.0),)), encoding_format="base64")))
    assert struct.unpack("<2f", base64.b64decode(body["data"][0]["embedding"])) == (0.5, -2.0)


def test_a_lost_vector_is_the_upstreams_fault() -> None:
    with pytest.raises(UpstreamError):
        text_of(replied(EmbeddingResult(vectors=((1.0,),)), input=["a", "b"]))


def test_a_failure_keeps_its_status() -> None:
    with pytest.raises(UpstreamTimeout):
        text_of(replied(StreamError(error=UpstreamTimeout("late"))))


SMALL = b'{ "object":"list", "data":[{"index":0,"embedding":[0.10]}],"usage":{"prompt_tokens":4,"total_tokens":4} }\n'


def test_a_small_answer_passes_unchanged_and_its_usage_is_noted() -> None:
    call = call_for()
    reply = forwarded(SMALL[:20], SMALL[20:], call=call)
    assert (reply.content_type, text_of(reply)) == ("application/json", SMALL)
    assert call.meter.usage == Usage(input_tokens=4)


def large(usage_first: bool = False, secret: str = "") -> bytes:
    vector = ",".join(["0.12345678"] * 20_000)
    data = f'"data":[{{"index":0,"embedding":[{vector}]}}]'
    usage = '"usage":{"prompt_tokens":4,"total_tokens":4}'
    members = [usage, data] if usage_first else [data, usage]
    return f'{{"model":"up{secret}",{",".join(members)},"id":"{secret}"}}'.encode()


@pytest.mark.parametrize("usage_first", [True, False])
@pytest.mark.parametrize("size", [10, 1000, 65_536, 10**6])
def test_a_large_answer_passes_unchanged_and_its_usage_is_found(usage_first: bool, size: int) -> None:
    raw = large(usage_first)
    call = call_for()
    chunks = chunks_of(forwarded(*(raw[at : at + size] for at in range(0, len(raw), size)), call=call))
    assert b"".join(chunks) == raw
    assert call.meter.usage == Usage(input_tokens=4)
    if size < 10**6:
        assert len(chunks) > 1


def test_a_large_answer_passes_before_it_is_whole() -> None:
    raw = large()
    reply = forwarded(raw[:70_000], UpstreamError("broke off"))

    async def first() -> bytes:
        chunk = await anext(aiter(reply.chunks))
        with pytest.raises(UpstreamError, match="broke off"):
            await anext(aiter(reply.chunks))
        return chunk

    assert asyncio.run(first()) == raw[:70_000]


@pytest.mark.parametrize("size", [1, 7, 100, 10**6])
def test_a_large_answer_passes_however_it_is_cut(size: int) -> None:
    raw = large()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert text_of(forwarded(*pieces)) == raw


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"{}", b'{"data":5}', b'{"data":[5]}', b"<" * 100_000])
def test_what_is_no_answer_is_the_upstreams_fault(raw: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        text_of(forwarded(raw))
    assert caught.value.status == 502


def test_an_error_with_status_200_is_an_error() -> None:
    raw = orjson.dumps({"error": {"message": "slow", "code": 429}})
    with pytest.raises(GateError) as caught:
        text_of(forwarded(raw))
    assert (caught.value.status, caught.value.message) == (429, "slow")


def test_an_upstream_that_breaks_off_at_once_keeps_its_status() -> None:
    with pytest.raises(UpstreamTimeout):
        text_of(forwarded(UpstreamTimeout("late")))


def test_the_upstream_is_left_when_the_caller_leaves() -> None:
    closed: list[bool] = []

    async def chunks() -> Any:
        try:
            yield large()[:70_000]
            yield b"more"
        finally:
            closed.append(True)

    async def leave() -> None:
        request = done(embeddings.forward(call_for(), wire_with(BODY)))
        incoming = make_response(b"")
        force_setattr(incoming, "chunks", chunks())
        reply = embeddings.forward_response(call_for(), request, incoming)
        await anext(aiter(reply.chunks))
        await close(reply.chunks)

    asyncio.run(leave())
    assert closed == [True]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(value=_json, rest=st.dictionaries(st.sampled_from([*WRONG]), _json, max_size=3))
def test_no_body_raises_anything_but_a_400_that_names_a_field(value: Any, rest: dict[str, Any]) -> None:
    wire = wire_with({})
    force_setattr(wire, "json", {"model": "m", "input": value} | rest)
    try:
        done(embeddings.parse(call_for(), wire))
    except GateError as error:
        assert error.status == 400
        assert error.param


def test_every_route_names_its_format() -> None:
    assert {route.wire_format for route in embeddings.ROUTES} == {openai_embeddings.WIRE_FORMAT}
    assert [(route.method, route.path, route.operation, route.model) for route in embeddings.ROUTES] == [
        ("POST", "/v1/embeddings", "embeddings", "body"),
        ("POST", "/v1/engines/{model}/embeddings", "embeddings", "path"),
    ]


def test_the_events_are_closed_whatever_comes() -> None:
    closed: list[bool] = []

    async def events() -> Any:
        try:
            async for event in iterate([EmbeddingResult(vectors=((1.0,),))]):
                yield event
        finally:
            closed.append(True)

    text_of(embeddings.reply(call_for(), read_request(), events()))
    assert closed == [True]
