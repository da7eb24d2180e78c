"""What bodies and forms may hold: types, required fields, both shapes, files."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, get_type_hints

import pytest
from image_calls import (
    B64,
    EDITS,
    IMAGE,
    TEXT,
    VARIATIONS,
    call_of,
    catch_refusal,
    fault_of,
    file,
    form_of,
    items,
    parsed,
    png,
    read_request,
    wire_of,
)
from openai.types.image_edit_params import ImageEditParamsBase
from openai.types.image_generate_params import ImageGenerateParamsNonStreaming

from tornado_gate.errors import GateError, InvalidField, UnsupportedOperation
from tornado_gate.types import Data, Link, replace
from tornado_gate_openai.fields.images import GenerationBodySchema
from tornado_gate_openai.format import images

INTEGERS = ("n", "output_compression", "partial_images", "frame_count", "frame_duration_ms")
NOT_INTEGERS: list[Any] = [True, 1.5, "5", [], {}]
NO_STREAM: list[Any] = [1, "yes", "", "True", [], {}]
NOT_STRINGS: list[Any] = [True, 1, 1.5, [], {}]
WRONG: list[tuple[str, Any]] = (
    [(name, value) for name in INTEGERS for value in NOT_INTEGERS]
    + [
        (name, value)
        for name in ("prompt", "size", "quality", "style", "user", "background", "moderation", "output_format")
        for value in NOT_STRINGS
    ]
    + [("stream", value) for value in NO_STREAM]
    + [("response_format", value) for value in ("json", True, 1)]
    + [("svg", "x"), ("complexity", "xhigh"), ("safety_identifier", 1), ("prompt", ""), ("prompt", None)]
)


def test_every_field_of_the_vendors_generations_is_checked() -> None:
    assert set(get_type_hints(ImageGenerateParamsNonStreaming)) | {"input_fidelity"} == set(
        GenerationBodySchema().fields
    )


def test_every_field_of_the_vendors_edits_is_checked_or_a_file() -> None:
    assert set(get_type_hints(ImageEditParamsBase)) - set(GenerationBodySchema().fields) == {"image", "markup", "mask"}


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_of_the_wrong_type_is_named(name: str, value: Any) -> None:
    fault = catch_refusal("none", **{name: value})
    assert (fault.status, fault.param) == (400, name)


def test_a_missing_prompt_is_named() -> None:
    fault = fault_of(call_of(), wire_of({"n": 1}))
    assert (fault.param, fault.code) == ("prompt", "missing_required_parameter")


@pytest.mark.parametrize("name", [name for name in GenerationBodySchema().fields if name not in ("model", "prompt")])
def test_null_says_nothing(name: str) -> None:
    nothing: dict[str, Any] = {name: None}
    assert read_request(**nothing) == read_request()


def test_unknown_fields_are_kept() -> None:
    assert read_request(steps=5, complexity="high").extra == {"steps": 5, "complexity": "high"}


def test_the_model_is_the_one_that_the_core_found() -> None:
    assert read_request().model == "sdxl"


# The other shape


@pytest.mark.parametrize(
    ("param", "body"),
    [
        ("model", {"input": {"messages": []}}),
        ("input", {"model": "m", "parameters": {}}),
        ("input", {"model": "m", "input": "text"}),
        ("input.messages", {"model": "m", "input": {}}),
        ("input.messages", {"model": "m", "input": {"messages": {}}}),
        ("input.messages", {"model": "m", "input": {"messages": []}}),
        ("input.messages.0", {"model": "m", "input": {"messages": ["x"]}}),
        ("input.messages.0.role", {"model": "m", "input": {"messages": [{"content": [TEXT]}]}}),
        ("input.messages.0.role", {"model": "m", "input": {"messages": [{"role": 1, "content": [TEXT]}]}}),
        ("input.messages.0.content", {"model": "m", "input": {"messages": [{"role": "user"}]}}),
        ("input.messages.0.content", {"model": "m", "input": {"messages": [{"role": "user", "content": "x"}]}}),
        ("input.messages.0.content", {"model": "m", "input": {"messages": [{"role": "user", "content": []}]}}),
        ("input.messages.0.content.0", items("x")),  # type: ignore[arg-type]
        ("input.messages.0.content.0.text", items({})),
        ("input.messages.0.content.0.text", items({"text": 1})),
        ("input.messages.0.content.1.text", items(TEXT, IMAGE)),
        ("input.messages", items({"text": ""})),
        ("parameters", items(TEXT) | {"parameters": []}),
        ("parameters.negative_prompt", items(TEXT, negative_prompt=1)),
        ("parameters.prompt_extend", items(TEXT, prompt_extend="true")),
        ("parameters.watermark", items(TEXT, watermark=1)),
        ("parameters.size", items(TEXT, size="1024x1024")),
        ("parameters.size", items(TEXT, size=1024)),
        ("parameters.size", items(TEXT, size="*")),
        ("parameters.size", items(TEXT, size="auto")),
        ("parameters.n", items(TEXT, n="1")),
        ("parameters.n", items(TEXT, n=True)),
        ("parameters.n", items(TEXT, n=0)),
        ("parameters.seed", items(TEXT, seed=1.5)),
        ("response_format", items(TEXT) | {"response_format": "x"}),
    ],
)
def test_a_fault_in_the_other_shape_is_named_by_its_path(param: str, body: Any) -> None:
    fault = fault_of(call_of(), wire_of(body))
    assert (fault.status, fault.param) == (400, param)


def test_the_other_shape_is_the_same_request() -> None:
    body = items(TEXT, negative_prompt="dogs", prompt_extend=False, watermark=True, size="1024*768", n=2, style="x")
    request = parsed(call_of(), wire_of(body))
    assert (request.prompt, request.negative_prompt, request.size, request.n) == ("a cat", "dogs", "1024x768", 2)
    assert (request.prompt_extend, request.watermark, request.extra) == (False, True, {"parameters.style": "x"})


@pytest.mark.parametrize(
    ("param", "body"),
    [
        ("input", {"model": "m"}),
        ("model", {"input": {"messages": [{"role": "user", "content": [TEXT, IMAGE]}]}}),
        ("input.messages", items(TEXT)),
        ("input.messages", items(IMAGE)),
        ("input.messages.0.content.0", items({})),
        ("input.messages.0.content.0", items({**TEXT, **IMAGE})),
        ("input.messages.0.content.0.image", items({"image": 1}, TEXT)),
        ("input.messages.0.content.0.image", items({"image": "ftp://x/y"}, TEXT)),
        ("input.messages.0.content.0.image", items({"image": "not base64!"}, TEXT)),
        ("input.messages.0.content.1.image", items(IMAGE, {"image": "aGVsbG8="}, TEXT)),
        ("input.messages.0.content.1.text", items(IMAGE, {"text": 1})),
        ("input.messages", items(*[IMAGE] * 17, TEXT)),
        ("parameters.n", items(IMAGE, TEXT, n=11)),
    ],
)
def test_a_fault_in_an_edit_with_input_is_named_by_its_path(param: str, body: Any) -> None:
    fault = fault_of(call_of(), wire_of(body, EDITS))
    assert (fault.status, fault.param) == (400, param)


def test_an_edit_with_input_has_its_pictures_in_order() -> None:
    inline = {"image": f"data:image/png;base64,{B64}"}
    request = parsed(call_of(), wire_of(items(IMAGE, inline, TEXT, n=2), EDITS))
    assert request.images == (Link(url=IMAGE["image"]), Data(media_type="image/png", base64=B64))
    assert (request.prompt, request.n, request.reply_state.inline) == ("a cat", 2, False)


# The vendor's edits


def test_a_form_is_a_request_with_its_files() -> None:
    wire = form_of(file("image[]"), file("image[]", png(8, 8)), file("mask"), n="2", stream="true", user="u", x="y")
    request = parsed(call_of(), wire)
    assert [asyncio.run(picture.read()) for picture in request.images] == [png(), png(8, 8)]  # type: ignore[union-attr]
    assert request.mask is not None
    assert (request.n, request.stream, request.user, request.prompt) == (2, True, "u", "a cat")
    assert (request.extra, request.field_name("images")) == ({"x": "y"}, "image")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", "abc"),
        ("n", "1.5"),
        ("n", ""),
        ("n", ["1", "2"]),
        ("n", "9" * 30),
        ("output_compression", "1e2"),
        ("partial_images", "x"),
        ("stream", "yes"),
        ("size", ["1024x1024", "512x512"]),
        ("prompt", ""),
        ("image", "a.png"),
        ("mask", "a.png"),
    ],
)
def test_a_wrong_field_of_a_form_is_named(name: str, value: Any) -> None:
    wire = form_of(file("other")) if name == "image" else form_of()
    fault = fault_of(call_of(), replace(wire, json={**wire.json, name: value}))
    assert (fault.status, fault.param) == (400, name)


BOMB = png(64, 64)[:16] + b"\x00\x01\x00\x00\x00\x01\x00\x00" + png(64, 64)[24:]


@pytest.mark.parametrize(
    ("files", "param"),
    [
        ([file("other")], "image"),
        ([file(data=b"")], "image"),
        ([file(data=b"hello")], "image"),
        ([file(data=png()[:20])], "image"),
        ([file(media_type="image/jpeg")], "image"),
        ([file(data=BOMB)], "image"),
        ([file("image[]"), file("image[]", b"GIF8")], "image.1"),
        ([file(), file("mask", b"hello")], "mask"),
        ([file(), file("mask", png(32, 64))], "mask"),
        ([file(), file("mask"), file("mask")], "mask"),
        ([file("image[]")] * 17, "image"),
    ],
)
def test_a_file_that_is_no_picture_to_edit_is_named(files: Any, param: str) -> None:
    fault = fault_of(call_of(), form_of(*files))
    assert (fault.status, fault.param) == (400, param)


def test_a_file_of_no_declared_type_gets_the_one_that_it_is() -> None:
    (picture,) = parsed(call_of(), form_of(file(media_type="application/octet-stream", name="blob"))).images
    assert (picture.media_type, picture.filename) == ("image/png", "picture.png")  # type: ignore[union-attr]


def test_files_without_a_word_are_kept() -> None:
    markup = file("markup")
    assert parsed(call_of(), form_of(file(), markup)).extra == {"markup": markup}


def json_edit(**fields: Any) -> Any:
    return wire_of({"prompt": "a cat", "images": [{"image_url": IMAGE["image"]}], **fields}, EDITS)


def test_an_edit_in_json_says_where_its_pictures_are() -> None:
    inline = {"image_url": f"data:image/png;base64,{B64}"}
    request = parsed(call_of(), json_edit(images=[inline], mask=inline, n=2))
    assert request.images == (request.mask,) == (Data(media_type="image/png", base64=B64),)
    assert (request.n, request.extra, request.field_name("images")) == (2, {}, "images")


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("images", {"images": None}),
        ("images", {"images": []}),
        ("images", {"images": "x"}),
        ("images", {"images": [{"image_url": IMAGE["image"]}] * 17}),
        ("images.0", {"images": ["x"]}),
        ("images.0", {"images": [{}]}),
        ("images.0", {"images": [{"image_url": "x", "file_id": "y"}]}),
        ("images.0.image_url", {"images": [{"image_url": 1}]}),
        ("images.0.image_url", {"images": [{"image_url": "file:///etc/passwd"}]}),
        ("images.0.image_url", {"images": [{"image_url": "aGVsbG8="}]}),
        ("images.0.file_id", {"images": [{"file_id": "file-1"}]}),
        ("mask", {"mask": "x"}),
        ("mask.file_id", {"mask": {"file_id": "file-1"}}),
        ("n", {"n": "1"}),
        ("prompt", {"prompt": None}),
        ("partial_images", {"partial_images": 1}),
    ],
)
def test_a_fault_of_an_edit_in_json_is_named(param: str, fields: Any) -> None:
    assert fault_of(call_of(), json_edit(**fields)).param == param


def test_a_mask_in_json_is_as_large_as_the_picture() -> None:
    other = "data:image/png;base64," + base64.b64encode(png(8, 8)).decode()
    wire = json_edit(images=[{"image_url": f"data:image/png;base64,{B64}"}], mask={"image_url": other})
    assert fault_of(call_of(), wire).param == "mask.image_url"


def test_variations_cannot_be_made_by_models_that_are_not_the_vendors() -> None:
    with pytest.raises(UnsupportedOperation) as caught:
        parsed(call_of("one"), form_of(path=VARIATIONS))
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "operation_not_supported", "model")


@pytest.mark.parametrize(("family", "error"), [("two", UnsupportedOperation), ("three", UnsupportedOperation)])
def test_newer_models_make_no_variations(family: str, error: type[GateError]) -> None:
    with pytest.raises(error):
        asyncio.run(images.forward(call_of(family), form_of(path=VARIATIONS)))


@pytest.mark.parametrize(
    ("fields", "files", "param"),
    [({"n": "x"}, [file()], "n"), ({"size": "8x8"}, [file()], "size"), ({}, [file(), file()], "image")],
)
def test_a_wrong_variation_goes_nowhere(fields: Any, files: Any, param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        asyncio.run(images.forward(call_of("one"), form_of(*files, path=VARIATIONS, **fields)))
    assert caught.value.param == param
