"""The vendor's shape to the common request: nothing is dropped, every field knows its path."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate.errors import InvalidField
from tornado_gate.types import Data, Link
from tornado_gate_openai.wire.dashscope_images import WIRE_FORMAT, parse_request


def body(*content: dict[str, Any], parameters: Any = None, **rest: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": list(content) or [{"text": "A cat"}]}]
    return {"model": "m", "input": {"messages": messages}, "parameters": parameters, **rest}


def test_prompt_and_known_parameters_are_fields() -> None:
    parameters = {
        "n": 2,
        "negative_prompt": "dogs",
        "prompt_extend": False,
        "seed": 0,
        "size": "1664*928",
        "watermark": False,
    }
    request = parse_request(body({"text": "A cat"}, parameters=parameters))
    assert (request.wire_format, request.model, request.prompt) == (WIRE_FORMAT, "m", "A cat")
    assert (request.n, request.seed, request.size) == (2, 0, "1664x928")
    assert (request.negative_prompt, request.prompt_extend, request.watermark) == ("dogs", False, False)
    assert request.extra == {}
    assert request.images == ()


def test_without_parameters_nothing_is_said() -> None:
    plain = body()
    del plain["parameters"]
    request = parse_request(plain)
    assert (request.n, request.size, request.watermark, request.prompt_extend) == (None, None, None, None)


def test_several_texts_are_lines_of_the_prompt() -> None:
    assert parse_request(body({"text": "A cat"}, {"text": "on a mat"})).prompt == "A cat\non a mat"


def test_pictures_are_links_or_data_in_their_order() -> None:
    request = parse_request(
        body({"image": "https://h.example/a.png"}, {"image": "data:image/jpeg;base64,AAAA"}, {"text": "Both"})
    )
    assert request.images == (
        Link(url="https://h.example/a.png"),
        Data(media_type="image/jpeg", base64="AAAA"),
    )


def test_a_picture_that_is_no_address_is_named_by_its_path() -> None:
    with pytest.raises(InvalidField) as caught:
        parse_request(body({"text": "x"}, {"image": "ftp://h.example/a.png"}))
    assert caught.value.param == "input.messages.0.content.1.image"


def test_fields_have_the_callers_names() -> None:
    request = parse_request(body({"image": "https://h.example/a.png"}, {"text": "Edit"}))
    assert request.field_name("prompt") == "input.messages.0.content.1.text"
    assert request.field_name("images") == request.field_name("images.0") == "input.messages.0.content.0.image"
    assert request.field_name("size") == request.field_name("aspect_ratio") == "parameters.size"
    assert request.field_name("n") == "parameters.n"
    assert request.field_name("mask") == "mask"


def test_what_is_not_known_is_kept_under_its_path() -> None:
    request = parse_request(body(parameters={"thinking_mode": True, "style": None}, workspace="w"))
    assert request.extra == {"parameters.thinking_mode": True, "workspace": "w"}


def test_members_beside_the_messages_are_kept() -> None:
    plain = body()
    plain["input"]["function"] = "doodle"
    assert parse_request(plain).extra == {"input.function": "doodle"}


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": [{"text": "Be bold"}]}, {"role": "user", "content": [{"text": "A cat"}]}],
        [{"role": "system", "content": [{"text": "Be bold"}, {"text": "A cat"}]}],
        [{"role": "user", "name": "n", "content": [{"text": "Be bold"}, {"text": "A cat"}]}],
        [{"role": "user", "content": [{"text": "Be bold", "weight": 2}, {"text": "A cat"}]}],
    ],
)
def test_messages_that_say_more_than_a_prompt_are_kept_whole(messages: list[Any]) -> None:
    request = parse_request({"model": "m", "input": {"messages": messages}})
    assert request.prompt == "Be bold\nA cat"
    assert request.extra == {"input.messages": messages}


def test_a_label_is_a_resolution_and_no_size() -> None:
    request = parse_request(body(parameters={"size": "2K"}))
    assert (request.size, request.resolution) == (None, "2K")
    assert request.field_name("resolution") == "parameters.size"


@pytest.mark.parametrize(("given", "expected"), [(True, True), ("true", True), ("false", False), (None, False)])
def test_stream_takes_both_spellings(given: Any, expected: bool) -> None:
    assert parse_request(body(stream=given)).stream is expected


def test_what_is_the_gateways_own_is_no_extra() -> None:
    request = parse_request(body(response_format="b64_json", user="u"))
    assert request.extra == {}
    assert request.user == "u"
