"""The verbatim lane of pictures: who takes it, what goes up, what comes down."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import orjson
import pytest
from format_openai_calls import text_of
from hypothesis import given
from hypothesis import strategies as st
from image_calls import (
    B64,
    EDITS,
    IMAGE,
    PNG,
    TEXT,
    VARIATIONS,
    Shelf,
    call_of,
    fault_of,
    file,
    form_of,
    frames_in,
    items,
    wire_of,
)

from tornado_gate.errors import InvalidField, UpstreamError, UpstreamRefused
from tornado_gate.testing import iterate
from tornado_gate.types import Call, Reply, UpstreamResponse, Usage, VerbatimRequest, WireRequest, replace
from tornado_gate_openai.format import images
from tornado_gate_openai.format.images.lane import MAX_DROPPED_IMAGES, MAX_PARSED_BYTES, ImagesAdapter, drop_images

SDK = {"x-stainless-lang": "python"}
USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
ANSWER = {"created": 1, "data": [{"b64_json": B64}], "usage": USAGE}
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


def forward(call: Call, wire: WireRequest) -> VerbatimRequest | None:
    return asyncio.run(images.forward(call, wire))


def forwarded(call: Call, wire: WireRequest) -> VerbatimRequest:
    request = forward(call, wire)
    assert request is not None
    return request


def replied(call: Call, wire: WireRequest, *pieces: Any, headers: dict[str, str] = JSON) -> Reply:
    incoming = UpstreamResponse(chunks=iterate(pieces), headers=headers)
    return images.forward_response(call, forwarded(call, wire), incoming)


def generation(**fields: Any) -> WireRequest:
    return wire_of({"prompt": "a cat", **fields})


@pytest.mark.parametrize(
    ("family", "fields", "rest", "passes"),
    [
        ("three", {}, {"headers": SDK}, True),
        ("three", {"response_format": "b64_json"}, {}, True),
        ("three", {"output_format": "webp"}, {}, True),
        ("three", {"stream": True}, {}, True),
        ("three", {}, {}, False),
        ("three", {"response_format": "url"}, {"headers": SDK}, False),
        ("one", {"response_format": "b64_json"}, {}, True),
        ("two", {"response_format": "b64_json"}, {}, True),
        ("two", {}, {"headers": SDK}, False),
        ("two", {"response_format": "b64_json", "stream": True}, {}, False),
        ("none", {"response_format": "b64_json"}, {}, True),
        ("none", {"output_format": "png"}, {}, False),
        ("none", {"stream": True}, {}, False),
    ],
)
def test_only_what_comes_back_as_wanted_goes_up_as_it_came(family: str, fields: Any, rest: Any, passes: bool) -> None:
    call = call_of(family, **rest)
    assert (forward(call, generation(**fields)) is not None) is passes
    form = {name: "true" if value is True else value for name, value in fields.items()}
    assert (forward(call, form_of(**form)) is not None) is passes


def test_the_other_shape_is_always_taken_apart() -> None:
    call = call_of("three", dialect="vendor")
    assert forward(call, wire_of(items(TEXT))) is None
    assert forward(call, wire_of(items(IMAGE, TEXT), EDITS)) is None


def test_a_body_goes_up_byte_for_byte() -> None:
    raw = b'{ "prompt": "\\u0061 cat",\n "x": 1e2, "response_format": "b64_json" }'
    request = forwarded(call_of("one"), wire_of(raw))
    assert request.raw == raw
    assert (request.wire_format, request.operation, request.path) == (
        "openai-images",
        "images",
        "/v1/images/generations",
    )


@pytest.mark.parametrize("family", ["three", "none"])
def test_models_that_answer_with_bytes_are_not_asked_for_them(family: str) -> None:
    call = call_of(family)
    call = replace(call, target=replace(call.target, upstream_model="gpt-image-2"))
    request = forwarded(call, generation(response_format="b64_json", stream="true"))
    assert orjson.loads(request.raw) == request.body == {"prompt": "a cat", "stream": True}
    assert request.stream is True


@pytest.mark.parametrize(
    ("wire", "param"), [(generation(n="1"), "n"), (generation(style="x"), "style"), (form_of(n="x"), "n")]
)
def test_a_wrong_body_goes_nowhere_on_either_lane(wire: WireRequest, param: str) -> None:
    call = call_of("three", dialect="vendor")
    with pytest.raises(InvalidField) as caught:
        forward(call, wire)
    assert caught.value.param == fault_of(call, wire).param == param


def test_a_form_goes_up_with_its_files() -> None:
    wire = form_of(file(media_type="", name="blob"), file("markup"), response_format="b64_json", n="2", stream="true")
    request = forwarded(call_of("three"), wire)
    assert (request.form, request.raw, request.stream) == (True, b"", True)
    assert request.body == {"prompt": "a cat", "n": "2", "stream": "true"}
    assert [(item.field, item.filename, item.media_type) for item in request.files] == [
        ("image", "picture.png", "image/png"),
        ("markup", "a.png", "image/png"),
    ]
    assert asyncio.run(request.files[0].read()) == PNG
    assert request.path == EDITS


def test_edits_in_json_go_up_only_for_files_that_the_upstream_has() -> None:
    call = call_of("three", dialect="vendor")
    body = {"prompt": "a cat", "images": [{"image_url": IMAGE["image"]}]}
    assert forward(call, wire_of(body, EDITS)) is None
    body["images"] = [{"file_id": "file-1"}]
    assert forwarded(call, wire_of(body, EDITS)).body == body


# What comes down


def test_an_answer_comes_down_byte_for_byte() -> None:
    call = call_of("three", headers=SDK)
    raw = b" " + orjson.dumps(ANSWER, option=orjson.OPT_INDENT_2)
    assert text_of(replied(call, generation(), raw[:50], raw[50:])) == raw
    assert call.meter.usage == Usage(input_tokens=3, output_tokens=4)
    assert call.meter.finish_reason == "stop"


@pytest.mark.parametrize("body", [b"{}", b'{"data": "x"}', b"[]", b"no json"])
def test_what_is_no_answer_is_the_upstreams_fault(body: bytes) -> None:
    with pytest.raises(UpstreamError):
        text_of(replied(call_of("three", headers=SDK), generation(), body))


def test_an_error_with_status_200_is_an_error() -> None:
    body = b'{"error": {"message": "not safe", "type": "invalid_request_error", "code": 400}}'
    with pytest.raises(UpstreamRefused, match="not safe"):
        text_of(replied(call_of("three", headers=SDK), generation(), body))


LONG = "iVBORw0K" * (MAX_PARSED_BYTES // 8)


def test_a_long_answer_comes_down_byte_for_byte() -> None:
    call = call_of("three", headers=SDK)
    raw = orjson.dumps({**ANSWER, "data": [{"b64_json": LONG}, {"b64_json": LONG, "revised_prompt": "a"}]})
    assert text_of(replied(call, generation(), *(raw[at : at + 5000] for at in range(0, len(raw), 5000)))) == raw
    assert call.meter.usage == Usage(input_tokens=3, output_tokens=4)


@pytest.mark.parametrize(
    "ending", [b"", b'"', b'"}]', b'"}],}', b'"}], "usage": {}} more', b'"}], "usage": 1, "data": "x"}', b'"}}']
)
def test_a_long_answer_that_is_broken_or_none_is_the_upstreams_fault(ending: bytes) -> None:
    raw = b'{"data": [{"b64_json": "' + LONG.encode() + ending
    with pytest.raises(UpstreamError):
        text_of(replied(call_of("three", headers=SDK), generation(), raw))


def test_a_long_answer_that_is_an_error_is_an_error() -> None:
    body = {"error": {"message": "not safe", "code": 400}, "data": [{"b64_json": LONG}]}
    with pytest.raises(UpstreamRefused, match="not safe"):
        text_of(replied(call_of("three", headers=SDK), generation(), orjson.dumps(body)))


ENTRIES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "b64_json": st.none() | st.sampled_from(["", "iVBO+/=", 'a"b', "\\", "b64_json"]),
            "revised_prompt": st.text('ab"\\:{', max_size=8) | st.just('"b64_json": "'),
            'x"b64_json': st.just("y"),
        },
    ),
    max_size=4,
)


@given(ENTRIES, st.booleans(), st.sampled_from([None, 2]))
def test_what_is_left_without_the_pictures_says_the_same(entries: Any, slashes: bool, indent: int | None) -> None:
    raw = json.dumps({"data": entries, "usage": USAGE}, indent=indent).encode()
    raw = raw.replace(b"/", b"\\/") if slashes else raw
    left = drop_images(raw)
    body = orjson.loads(left)
    assert body["usage"] == USAGE
    for entry, read in zip(entries, body["data"], strict=True):
        assert read.keys() == entry.keys()
        assert read.get("revised_prompt") == entry.get("revised_prompt")
        assert read.get("b64_json") == entry.get("b64_json") or (left != raw and read["b64_json"] == "")


def test_pictures_are_left_out_of_what_is_parsed() -> None:
    raw = orjson.dumps({"data": [{"b64_json": LONG}, {"b64_json": LONG}], "usage": USAGE})
    assert orjson.loads(drop_images(raw)) == {"data": [{"b64_json": ""}] * 2, "usage": USAGE}


def frame(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, "b64_json": B64, **fields}))


PARTIAL = frame("image_generation.partial_image", partial_image_index=0)
COMPLETED = frame("image_generation.completed", usage=USAGE)


def test_the_event_loop_omits_only_some_images_of_a_long_body() -> None:
    raw = orjson.dumps({"data": [{"b64_json": "A" * 1000}] * (MAX_DROPPED_IMAGES + 2)})
    adapter = ImagesAdapter()
    short = adapter.shorten_body(raw)
    assert short.count(b"A" * 1000) == 2
    assert adapter.parse_body(short) == {
        "data": [{"b64_json": ""}] * MAX_DROPPED_IMAGES + [{"b64_json": "A" * 1000}] * 2
    }
    assert adapter.shorten_body(raw[:1000]) == raw[:1000]


@pytest.mark.parametrize("ending", [b"", b"data: [DONE]\n\n"])
def test_a_stream_comes_down_byte_for_byte(ending: bytes) -> None:
    call = call_of("three")
    raw = PARTIAL + COMPLETED + COMPLETED + ending
    pieces = [raw[at : at + 100] for at in range(0, len(raw), 100)]
    assert text_of(replied(call, generation(stream=True), *pieces, headers=EVENTS)) == raw
    assert call.meter.usage == Usage(input_tokens=6, output_tokens=8, image_tokens=0)


def test_a_stream_that_stops_ends_with_an_error() -> None:
    raw = text_of(replied(call_of("three"), generation(stream=True), PARTIAL, headers=EVENTS))
    assert raw.startswith(PARTIAL)
    assert frames_in(raw[len(PARTIAL) :])[-1][1]["error"]["type"] == "upstream_error"


def test_nothing_follows_the_upstreams_own_error() -> None:
    error = b'event: error\ndata: {"type":"error","error":{"message":"x","type":"server_error"}}\n\n'
    raw = text_of(replied(call_of("three"), generation(stream=True), PARTIAL, error, headers=EVENTS))
    assert raw == PARTIAL + error


def test_a_stream_that_begins_with_an_error_is_raised() -> None:
    error = b'data: {"type":"error","error":{"message":"x","code":400}}\n\n'
    with pytest.raises(UpstreamRefused):
        text_of(replied(call_of("three"), generation(stream=True), error, headers=EVENTS))


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        (generation(stream=True), "image_generation.completed"),
        (form_of(stream="true"), "image_edit.completed"),
    ],
)
def test_a_whole_answer_is_made_the_stream_that_was_asked_for(wire: WireRequest, name: str) -> None:
    call = call_of("three")
    ((first, completed),) = frames_in(text_of(replied(call, wire, orjson.dumps(ANSWER))))
    assert (first, completed["b64_json"], completed["usage"]["total_tokens"]) == (name, B64, 7)
    assert call.meter.usage == Usage(input_tokens=3, output_tokens=4)


# Variations


@pytest.mark.parametrize("asked", [None, "url", "b64_json"])
def test_a_variation_is_named_by_address_unless_its_bytes_are_wanted(asked: str | None) -> None:
    call = call_of("one")
    wire = form_of(path=VARIATIONS, n="1", **({} if asked is None else {"response_format": asked}))
    request = forwarded(call, wire)
    assert request.body == {"prompt": "a cat", "n": "1", "response_format": "b64_json"}
    assert (request.path, request.form, len(request.files)) == (VARIATIONS, True, 1)
    body = orjson.loads(text_of(replied(call, wire, orjson.dumps(ANSWER))))
    assert body["data"] == [{"b64_json": B64} if asked == "b64_json" else {"url": "https://gate/media/1"}]
    assert isinstance(call.files, Shelf)
    assert call.files.kept == ([] if asked == "b64_json" else [(PNG, "image/png", "image-1.png")])
    assert call.meter.usage == Usage(input_tokens=3, output_tokens=4)


def test_a_variation_that_is_no_json_is_the_upstreams_fault() -> None:
    with pytest.raises(UpstreamError):
        text_of(replied(call_of("one"), form_of(path=VARIATIONS), b"<html>"))


def test_a_variation_that_failed_is_an_error() -> None:
    with pytest.raises(UpstreamError, match="bad"):
        text_of(replied(call_of("one"), form_of(path=VARIATIONS), b'{"error": {"message": "bad", "code": 400}}'))
