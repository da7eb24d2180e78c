"""Requests as the vendor's APIs take them, and what cannot be said there."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tornado_gate.errors import InvalidField
from tornado_gate.testing import call_to
from tornado_gate.types import Call, Data, ImageRequest, Link
from tornado_gate_openai.wire.dashscope_images import parse_request, render_request, render_task

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()


def make_request(**fields: Any) -> ImageRequest:
    return ImageRequest(**{"model": "m", "prompt": "A cat", "wire_format": "openai-images", **fields})


def call_for(model: str = "qwen-image-plus", *, strict: bool = False) -> Call:
    return call_to(upstream_model=model, strict=strict)


def test_a_request_of_this_shape_comes_out_as_it_went_in() -> None:
    body = {
        "model": "upstream",
        "workspace": "w",
        "input": {
            "messages": [{"role": "user", "content": [{"image": "https://h.example/a.png"}, {"text": "A cat"}]}],
            "scene": "s",
        },
        "parameters": {
            "n": 1,
            "negative_prompt": "",
            "prompt_extend": True,
            "seed": 7,
            "watermark": False,
            "size": "1328*1328",
            "bbox_list": [[1, 2]],
        },
    }
    call = call_for("upstream", strict=True)
    assert render_request(call, parse_request(body)) == body


@pytest.mark.parametrize("size", ["2K", "1024*768", "10:9"])
def test_every_size_of_this_shape_comes_out_as_it_went_in(size: str) -> None:
    messages = [{"role": "user", "content": [{"text": "A cat"}]}]
    body = {"model": "upstream", "input": {"messages": messages}, "parameters": {"size": size}}
    assert render_request(call_for("upstream", strict=True), parse_request(body)) == body


def test_several_messages_of_this_shape_come_out_as_they_went_in() -> None:
    messages = [
        {"role": "system", "content": [{"text": "Be bold"}]},
        {"role": "user", "content": [{"text": "A cat"}]},
    ]
    body = {"model": "upstream", "input": {"messages": messages}}
    assert render_request(call_for("upstream", strict=True), parse_request(body)) == body


def test_a_request_of_another_format_becomes_a_message() -> None:
    call = call_for(strict=True)
    request = make_request(
        n=2, size="1024x1536", seed=3, negative_prompt="dogs", images=(Link(url="https://h.example/a"),)
    )
    assert render_request(call, request) == {
        "model": "qwen-image-plus",
        "input": {"messages": [{"role": "user", "content": [{"image": "https://h.example/a"}, {"text": "A cat"}]}]},
        "parameters": {"n": 2, "negative_prompt": "dogs", "seed": 3, "size": "1024*1536"},
    }


def test_values_that_ask_for_what_comes_anyway_are_no_loss() -> None:
    call = call_for(strict=True)
    request = make_request(
        size="auto", quality="auto", background="auto", moderation="auto", output_format="png", partial_images=0
    )
    assert "parameters" not in render_request(call, request)
    assert call.losses == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quality", "high"),
        ("style", "vivid"),
        ("background", "transparent"),
        ("moderation", "low"),
        ("output_format", "webp"),
        ("output_compression", 80),
        ("partial_images", 2),
        ("input_fidelity", "high"),
        ("user", "u"),
        ("aspect_ratio", "16:9"),
        ("resolution", "2K"),
        ("mask", Data(media_type="image/png", base64=PNG)),
    ],
)
def test_what_has_no_parameter_is_lost_by_the_callers_name(field: str, value: Any) -> None:
    call = call_for()
    body = render_request(call, make_request(**{field: value}, names={field: f"their.{field}"}))
    assert call.losses == [f"their.{field}"]
    assert "parameters" not in body


def test_fields_of_another_format_are_lost_and_with_strictness_refused() -> None:
    call = call_for()
    body = render_request(call, make_request(extra={"parameters.seed": 1, "odd": 2}))
    assert call.losses == ["parameters.seed", "odd"]
    assert body.keys() == {"model", "input"}
    with pytest.raises(InvalidField):
        render_request(call_for(strict=True), make_request(extra={"odd": 2}))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Link(url="https://h.example/a.png"), "https://h.example/a.png"),
        (Data(media_type="image/webp", base64="AAAA"), "data:image/webp;base64,AAAA"),
        (Data(media_type="", base64=PNG), f"data:image/png;base64,{PNG}"),
        (Data(media_type="", base64="_9j_4AAQ"), "data:image/jpeg;base64,/9j/4AAQ"),
    ],
)
def test_a_picture_is_an_address_or_a_data_url_with_its_kind(source: Any, expected: str) -> None:
    body = render_request(call_for(), make_request(images=(source,)))
    assert body["input"]["messages"][0]["content"][0] == {"image": expected}


def test_a_task_of_wan_takes_what_not_to_show_beside_the_prompt() -> None:
    body = render_task(call_for("wan2.2-t2i-flash"), make_request(negative_prompt="dogs", n=1, size="1024x1024"))
    assert body == {
        "model": "wan2.2-t2i-flash",
        "input": {"prompt": "A cat", "negative_prompt": "dogs"},
        "parameters": {"n": 1, "size": "1024*1024"},
    }


def test_a_task_of_qwen_takes_it_among_the_parameters() -> None:
    body = render_task(call_for("qwen-image-plus"), make_request(negative_prompt="dogs"))
    assert body["input"] == {"prompt": "A cat"}
    assert body["parameters"] == {"negative_prompt": "dogs"}


def test_a_task_of_an_editing_model_takes_its_pictures_as_an_array() -> None:
    images = (Link(url="https://h.example/1"), Link(url="https://h.example/2"))
    body = render_task(call_for("wan2.5-i2i-preview"), make_request(images=images))
    assert body["input"] == {"prompt": "A cat", "images": ["https://h.example/1", "https://h.example/2"]}


def test_the_older_editing_model_takes_one_picture_and_a_function() -> None:
    call = call_for("wanx2.1-imageedit")
    images = (Link(url="https://h.example/1"), Link(url="https://h.example/2"))
    body = render_task(call, make_request(images=images, names={"images": "image"}))
    assert body["input"] == {
        "prompt": "A cat",
        "function": "description_edit",
        "base_image_url": "https://h.example/1",
    }
    assert call.losses == ["image"]


def test_the_function_that_a_caller_names_is_the_one_that_is_asked_for() -> None:
    messages = [{"role": "user", "content": [{"image": "https://h.example/1"}, {"text": "Paint"}]}]
    request = parse_request({"model": "m", "input": {"messages": messages, "function": "doodle"}})
    body = render_task(call_for("wanx2.1-imageedit", strict=True), request)
    assert body["input"]["function"] == "doodle"


def test_messages_that_a_task_cannot_have_are_lost_and_their_words_kept() -> None:
    call = call_for("wan2.2-t2i-flash")
    messages = [
        {"role": "system", "content": [{"text": "Be bold"}]},
        {"role": "user", "content": [{"text": "A cat"}]},
    ]
    body = render_task(call, parse_request({"model": "m", "input": {"messages": messages}}))
    assert body["input"] == {"prompt": "Be bold\nA cat"}
    assert call.losses == ["input.messages"]
