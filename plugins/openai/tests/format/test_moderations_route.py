"""The moderation route: what its body may hold, and the replies of both lanes."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, get_type_hints

import orjson
import pytest
from format_openai_calls import call_for, text_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr
from openai.types import ModerationCreateParams, ModerationCreateResponse
from operation_calls import done, events_of, make_response, wire_of

from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamTimeout
from tornado_gate.types import Data, Image, ModerationRequest, ModerationResult, Reply, StreamError, Text, Verdict
from tornado_gate_openai.fields.moderations import ModerationBodySchema
from tornado_gate_openai.format import moderations

(ROUTE,) = moderations.ROUTES
BODY: dict[str, Any] = {"model": "m", "input": "Hi"}
WORDS: dict[str, Any] = {"type": "text", "text": "Look"}
LINK: dict[str, Any] = {"type": "image_url", "image_url": {"url": "https://images.example/a.png"}}
VERDICT = Verdict(flagged=True, categories={"violence": True}, scores={"violence": 0.9})


def png(width: int = 1, height: int = 1) -> str:
    """The beginning of a picture, as a data URL."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return "data:image/png;base64," + base64.b64encode(data).decode()


def read_request(value: Any = "Hi", **fields: Any) -> ModerationRequest:
    request = done(moderations.parse(call_for(), wire_of(ROUTE, {"model": "m", "input": value, **fields})))
    assert isinstance(request, ModerationRequest)
    return request


def fault_of(body: Any) -> InvalidField:
    for hook in (moderations.parse, moderations.forward):
        with pytest.raises(InvalidField) as caught:
            done(hook(call_for(), wire_of(ROUTE, body)))
    assert caught.value.status == 400
    return caught.value


def picture(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_every_field_of_the_vendor_is_checked() -> None:
    assert set(get_type_hints(ModerationCreateParams)) == set(ModerationBodySchema().fields)


@pytest.mark.parametrize("value", [True, 1, 1.5, {}, "", []])
def test_a_wrong_input_is_named(value: Any) -> None:
    assert fault_of({"model": "m", "input": value}).param == "input"


def test_the_input_must_be_there() -> None:
    assert (fault_of({"model": "m"}).param, fault_of({"model": "m"}).code) == ("input", "missing_required_parameter")
    assert fault_of({"model": "m", "input": None}).param == "input"


@pytest.mark.parametrize("model", [True, 1, [], ""])
def test_a_wrong_model_is_named(model: Any) -> None:
    assert fault_of(BODY | {"model": model}).param == "model"


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("input.0", [None]),
        ("input.0", [1]),
        ("input.0", [["a"]]),
        ("input.1", ["a", ""]),
        ("input.1", ["a", WORDS]),
        ("input.1", [WORDS, "a"]),
        ("input.0.type", [{}]),
        ("input.0.type", [{"type": 5}]),
        ("input.0.text", [{"type": "text"}]),
        ("input.1.text", [WORDS, {"type": "text", "text": 5}]),
        ("input.0.image_url", [{"type": "image_url"}]),
        ("input.0.image_url", [{"type": "image_url", "image_url": "https://images.example/a.png"}]),
        ("input.0.image_url.url", [{"type": "image_url", "image_url": {}}]),
        ("input.0.image_url.url", [picture(5)]),
        ("input.0.image_url.url", [picture("ftp://images.example/a.png")]),
        ("input.1.image_url.url", [WORDS, picture("data:image/png;base64,AAAA")]),
        ("input.0.image_url.url", [picture("data:image/png,AAAA")]),
        ("input.0.image_url.url", [picture(png().replace("image/png", "image/jpeg"))]),
        ("input.0.image_url.url", [picture(png(100_000, 100_000))]),
    ],
)
def test_the_place_in_the_input_is_named(param: str, value: Any) -> None:
    assert fault_of({"model": "m", "input": value}).param == param


def test_a_request_is_what_the_body_says() -> None:
    assert read_request("a").inputs == ((Text(text="a"),),)
    assert len(read_request(["a", "b"]).inputs) == 2
    (parts,) = read_request([WORDS, LINK, picture(png())], x_new=1).inputs
    assert [type(part) for part in parts] == [Text, Image, Image]
    assert isinstance(parts[2], Image)
    assert isinstance(parts[2].source, Data)
    assert read_request(x_new=1).extra == {"x_new": 1}


def test_a_body_without_a_model_means_the_default() -> None:
    wire = wire_of(ROUTE, {"input": "Hi"})
    assert done(moderations.parse(call_for("conf-default"), wire)).model == "conf-default"
    forwarded = done(moderations.forward(call_for("conf-default"), wire))
    assert (forwarded.raw, forwarded.body) == (wire.raw, {"input": "Hi"})


def replied(*events: Any, value: Any = "Hi") -> Reply:
    return moderations.reply(call_for("asked-name"), read_request(value), events_of(*events))


def test_an_answer_has_the_vendors_shape() -> None:
    reply = replied(ModerationResult(verdicts=(VERDICT,), model="up"), value=[WORDS, LINK])
    assert reply.content_type == "application/json"
    body = orjson.loads(text_of(reply))
    answer = ModerationCreateResponse.model_validate(body, strict=True)
    assert answer.id.startswith("modr-")
    assert (answer.model, answer.results[0].flagged) == ("asked-name", True)
    assert body["results"][0]["category_applied_input_types"]["violence"] == ["image", "text"]


def test_a_lost_verdict_is_the_upstreams_fault() -> None:
    with pytest.raises(UpstreamError):
        text_of(replied(ModerationResult(verdicts=(VERDICT,)), value=["a", "b"]))


def test_a_failure_keeps_its_status() -> None:
    with pytest.raises(UpstreamTimeout):
        text_of(replied(StreamError(error=UpstreamTimeout("late"))))


def forwarded(raw: bytes, **call: Any) -> Reply:
    request = done(moderations.forward(call_for(), wire_of(ROUTE, BODY | {"stream": True})))
    assert request.stream is False
    return moderations.forward_response(call_for(**call), request, make_response(raw))


def test_both_lanes_pass_what_they_got() -> None:
    raw = b'{ "input":"\\u0048i", "x":1.0e3 }'
    request = done(moderations.forward(call_for(), wire_of(ROUTE, raw)))
    assert (request.raw, request.operation, request.wire_format) == (raw, "moderation", "openai-moderations")
    answer = b'{"id":"modr-1","results":[ {"flagged":false} ],"x":1.50}\n'
    assert text_of(forwarded(answer)) == answer


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"{}", b'{"results":5}', b'{"results":[5]}'])
def test_what_is_no_answer_is_the_upstreams_fault(raw: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        text_of(forwarded(raw))
    assert caught.value.status == 502


def test_an_error_with_status_200_is_an_error() -> None:
    raw = orjson.dumps({"error": {"message": "slow", "code": 429}})
    with pytest.raises(GateError) as caught:
        text_of(forwarded(raw))
    assert (caught.value.status, caught.value.message) == (429, "slow")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["text", "image_url", "", "data:"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "image_url", "url"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=_json)
def test_no_body_raises_anything_but_a_400_that_names_a_field(value: Any) -> None:
    wire = wire_of(ROUTE, {})
    force_setattr(wire, "json", {"model": "m", "input": value})
    try:
        done(moderations.parse(call_for(), wire))
    except GateError as error:
        assert error.status == 400
        assert error.param


def test_a_translated_request_has_at_most_2048_inputs_and_another_upstream_decides_itself() -> None:
    for several in (["Hi"], [WORDS]):
        assert read_request(several * 2048).inputs
        with pytest.raises(InvalidField, match="2049 items; at most 2048") as caught:
            read_request(several * 2049)
        assert caught.value.param == "input"
        body = {"model": "m", "input": several * 2049}
        assert done(moderations.forward(call_for(), wire_of(ROUTE, body))).body == body


def test_one_empty_text_of_several_is_named() -> None:
    assert len(read_request(["a"]).inputs) == 1
    assert fault_of({"model": "m", "input": ["a", ""]}).param == "input.1"
