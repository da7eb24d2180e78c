"""What comes back of pictures on the common lane: addresses or bytes, usage, details, streams."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from format_openai_calls import text_of
from image_calls import (
    B64,
    EDITS,
    IMAGE,
    PNG,
    RESULT,
    TEXT,
    Shelf,
    answer_of,
    call_of,
    file,
    form_of,
    frames_in,
    items,
    parsed,
    png,
    read_request,
    reply_of,
    wire_of,
)
from openai.types import (
    ImageEditCompletedEvent,
    ImageGenCompletedEvent,
    ImageGenPartialImageEvent,
    ImagesResponse,
)

from tornado_gate.errors import GateError, Unavailable, UpstreamError, UpstreamRateLimited
from tornado_gate.types import GeneratedImage, ImageResult, PartialImage, StreamError, Usage, WireRequest
from tornado_gate_openai.wire.images import render_usage

SDK = {"x-stainless-lang": "python"}
AI_SDK = {"user-agent": "ai/7.0.173 ai-sdk-provider-utils/5.0.81 node.js/v20.20.2"}
PLAIN: Mapping[str, str] = {"user-agent": "curl/8"}
NOTHING = render_usage(Usage())
USAGE = Usage(input_tokens=10, output_tokens=5, image_tokens=4)
COUNTED = {
    "total_tokens": 15,
    "input_tokens": 10,
    "output_tokens": 5,
    "input_tokens_details": {"text_tokens": 6, "image_tokens": 4},
}
DETAILED = ImageResult(
    images=(GeneratedImage(data=PNG, media_type="image/png", revised_prompt="a fat cat"),),
    created=7,
    usage=USAGE,
    background="opaque",
    output_format="png",
    quality="auto",
    size="64x64",
)
PARTIAL = PartialImage(index=1, data=png(8, 8), media_type="image/png")


def generation(**fields: Any) -> WireRequest:
    return wire_of({"prompt": "a cat", **fields})


@pytest.mark.parametrize(
    ("family", "fields", "rest", "inline"),
    [
        ("none", {}, {}, False),
        ("none", {"response_format": "url"}, {}, False),
        ("none", {"response_format": "b64_json"}, {}, True),
        ("none", {"output_format": "webp"}, {}, True),
        ("none", {}, {"headers": SDK}, False),
        ("one", {}, {"headers": SDK}, False),
        ("two", {"response_format": "b64_json"}, {"headers": PLAIN}, True),
        ("two", {}, {"dialect": "vendor"}, False),
        ("three", {}, {"headers": PLAIN}, False),
        ("three", {"output_format": "png"}, {"headers": PLAIN}, True),
        ("three", {"output_format": "png", "response_format": "url"}, {}, False),
        ("three", {"response_format": "url"}, {"headers": SDK}, False),
        ("three", {"response_format": "b64_json"}, {}, True),
        ("three", {}, {"headers": SDK}, True),
        ("three", {}, {"headers": {"user-agent": "OpenAI/Python 3.52"}}, True),
        ("three", {}, {"headers": SDK, "dialect": "contract"}, False),
        ("three", {}, {"headers": AI_SDK}, True),
        ("none", {}, {"headers": AI_SDK}, True),
        ("one", {}, {"headers": AI_SDK}, True),
        ("one", {"response_format": "url"}, {"headers": AI_SDK}, False),
        ("one", {}, {"headers": AI_SDK, "dialect": "contract"}, False),
        ("three", {}, {"headers": {"user-agent": "litellm/1.80.0"}}, True),
        ("three", {}, {"dialect": "vendor"}, True),
    ],
)
def test_a_caller_gets_bytes_or_an_address(family: str, fields: Any, rest: Any, inline: bool) -> None:
    call = call_of(family, **rest)
    (entry,) = answer_of(call, generation(**fields))["data"]
    assert entry == ({"b64_json": B64} if inline else {"url": "https://gate/media/1"})
    assert isinstance(call.files, Shelf)
    assert call.files.kept == ([] if inline else [(PNG, "image/png", "image-1.png")])


def test_a_generation_answers_as_the_contract_shows() -> None:
    body = answer_of(call_of("one"), generation())
    assert body.keys() == {"created", "data", "usage"}
    assert isinstance(body["created"], int)
    assert body["usage"] == NOTHING
    ImagesResponse.model_validate(body)


def test_what_the_upstream_says_comes_back_for_the_newer_models() -> None:
    body = answer_of(call_of("three"), generation(), DETAILED)
    assert body == {
        "created": 7,
        "background": "opaque",
        "output_format": "png",
        "size": "64x64",
        "data": [{"url": "https://gate/media/1", "revised_prompt": "a fat cat"}],
        "usage": COUNTED,
    }


def test_the_older_models_have_no_details() -> None:
    assert answer_of(call_of("two"), generation(), DETAILED).keys() == {"created", "data", "usage"}


def test_several_pictures_come_in_their_order() -> None:
    data = [png(1, 1), png(2, 2)]
    result = ImageResult(images=tuple(GeneratedImage(data=picture, media_type="image/webp") for picture in data))
    call = call_of()
    body = answer_of(call, generation(n=2), result)
    assert [entry["url"] for entry in body["data"]] == ["https://gate/media/1", "https://gate/media/2"]
    assert isinstance(call.files, Shelf)
    assert call.files.kept == [(data[0], "image/webp", "image-1.webp"), (data[1], "image/webp", "image-2.webp")]


@pytest.mark.parametrize(("result", "prompt", "usage"), [(RESULT, "a cat", NOTHING), (DETAILED, "a fat cat", COUNTED)])
def test_a_generation_with_input_answers_address_prompt_and_usage(
    result: ImageResult, prompt: str, usage: dict[str, Any]
) -> None:
    body = answer_of(call_of("three", headers=SDK), wire_of(items(TEXT)), result)
    assert body == {
        "created": body["created"],
        "data": [{"url": "https://gate/media/1", "revised_prompt": prompt}],
        "usage": usage,
    }


def test_a_generation_with_input_may_ask_for_bytes() -> None:
    body = answer_of(call_of(), wire_of(items(TEXT) | {"response_format": "b64_json"}))
    assert body["data"] == [{"b64_json": B64, "revised_prompt": "a cat"}]


def test_an_edit_with_input_answers_addresses_alone() -> None:
    body = answer_of(call_of(), wire_of(items(IMAGE, TEXT), EDITS), DETAILED)
    assert body == {"created": 7, "data": [{"url": "https://gate/media/1"}]}


def test_an_edit_of_the_vendors_reports_usage_when_there_is_some() -> None:
    assert answer_of(call_of(), form_of(), DETAILED)["usage"] == COUNTED
    assert "usage" not in answer_of(call_of(), form_of())


def test_a_gateway_that_keeps_no_files_says_so() -> None:
    with pytest.raises(Unavailable, match="b64_json"):
        answer_of(call_of(files=None), generation())


@pytest.mark.parametrize("events", [(StreamError(error=UpstreamRateLimited("slow down")),), (PARTIAL,)])
def test_a_failure_of_a_whole_answer_is_raised(events: Any) -> None:
    with pytest.raises(GateError) as caught:
        answer_of(call_of(), generation(), *events)
    assert caught.value.status in (429, 502)


# Streams


def streamed(family: str, wire: WireRequest, *events: Any) -> list[tuple[str, Any]]:
    call = call_of(family)
    request = parsed(call, wire)
    reply = reply_of(call, request, events)
    assert reply.content_type.startswith("text/event-stream")
    return frames_in(text_of(reply))


@pytest.mark.parametrize("stream", [True, "true"])
def test_a_stream_has_unfinished_pictures_and_a_finished_one(stream: Any) -> None:
    wire = generation(stream=stream, partial_images=2, quality="high")
    (first, partial), (second, completed) = streamed("three", wire, PARTIAL, DETAILED)
    assert (first, second) == ("image_generation.partial_image", "image_generation.completed")
    ImageGenPartialImageEvent.model_validate(partial, strict=True)
    assert partial == {
        "type": "image_generation.partial_image",
        "partial_image_index": 1,
        "b64_json": partial["b64_json"],
        "created_at": partial["created_at"],
        "background": "auto",
        "quality": "high",
        "size": "8x8",
        "output_format": "png",
    }
    ImageGenCompletedEvent.model_validate(completed, strict=True)
    assert completed == {
        "type": "image_generation.completed",
        "b64_json": B64,
        "created_at": 7,
        "background": "opaque",
        "quality": "auto",
        "size": "64x64",
        "output_format": "png",
        "usage": COUNTED,
    }


def test_a_stream_of_edits_has_its_own_names() -> None:
    ((name, completed),) = streamed("three", form_of(file(), stream="true"), RESULT)
    assert name == completed["type"] == "image_edit.completed"
    ImageEditCompletedEvent.model_validate(completed, strict=True)
    assert completed["usage"] == NOTHING


@pytest.mark.parametrize("family", ["one", "two", "none"])
def test_every_model_streams_the_picture_that_is_done(family: str) -> None:
    ((name, completed),) = streamed(family, generation(stream="true"), RESULT)
    assert (name, completed["b64_json"]) == ("image_generation.completed", B64)


def test_of_several_pictures_the_last_reports_the_usage_of_all() -> None:
    result = ImageResult(images=RESULT.images * 2, usage=USAGE)
    usages = [frame["usage"] for _, frame in streamed("none", generation(stream=True, n=2), result)]
    assert usages == [NOTHING, COUNTED]


def test_a_stream_that_fails_ends_with_an_error() -> None:
    frames = streamed("three", generation(stream=True), PARTIAL, StreamError(error=UpstreamError("broken")))
    assert [name for name, _ in frames] == ["image_generation.partial_image", ""]
    assert frames[-1][1]["error"] == {
        "message": "broken",
        "type": "upstream_error",
        "param": "",
        "code": "upstream_error",
    }


def test_a_stream_that_fails_at_once_keeps_its_status() -> None:
    request = read_request("three", stream=True)
    with pytest.raises(UpstreamRateLimited):
        text_of(reply_of(call_of("three"), request, [UpstreamRateLimited("slow down")]))


def test_pictures_of_some_megabytes_come_back_whole() -> None:
    data = PNG + bytes(range(256)) * 16_000
    result = ImageResult(images=(GeneratedImage(data=data, media_type="image/png"),))
    call = call_of()
    raw = text_of(reply_of(call, read_request(response_format="b64_json"), [result]))
    assert base64.b64decode(orjson.loads(raw)["data"][0]["b64_json"]) == data
