"""The table of the families: what each takes and what it refuses, in both shapes of body."""

from __future__ import annotations

from typing import Any

import pytest
from image_calls import (
    FAMILIES,
    TEXT,
    call_of,
    catch_refusal,
    fault_of,
    file,
    form_of,
    items,
    parsed,
    read_request,
    wire_of,
)

from tornado_gate.types import replace
from tornado_gate_openai.format.images import ROUTES

TAKEN: dict[str, list[dict[str, Any]]] = {
    "one": [
        {"prompt": "x" * 1000},
        *({"n": n} for n in (1, 10)),
        *({"size": size} for size in ("256x256", "512x512", "1024x1024")),
        *({"quality": quality} for quality in ("standard", "auto")),
        *({"response_format": kind} for kind in ("url", "b64_json")),
        *({"stream": stream} for stream in (True, False, "true", "false")),
        {"user": "u"},
    ],
    "two": [
        {"prompt": "x" * 4000},
        {"n": 1},
        *({"size": size} for size in ("1024x1024", "1792x1024", "1024x1792")),
        *({"quality": quality} for quality in ("standard", "hd")),
        *({"style": style} for style in ("vivid", "natural")),
        *({"response_format": kind} for kind in ("url", "b64_json")),
    ],
    "three": [
        {"prompt": "x" * 32_000},
        *({"n": n} for n in (1, 10)),
        *({"size": size} for size in ("1024x1024", "1536x1024", "1024x1536", "auto")),
        *({"quality": quality} for quality in ("low", "medium", "high", "auto")),
        *({"background": background} for background in ("transparent", "opaque", "auto")),
        *({"background": "transparent", "output_format": kind} for kind in ("png", "webp")),
        *({"moderation": moderation} for moderation in ("low", "auto")),
        *({"output_format": kind} for kind in ("png", "jpeg", "webp")),
        *({"output_format": "webp", "output_compression": level} for level in (0, 50, 100)),
        {"output_compression": 100},
        {"stream": True, "partial_images": 3},
        {"partial_images": 0},
        {"input_fidelity": "high"},
        {"response_format": "url"},
    ],
    "wide": [
        *({"size": size} for size in ("auto", "1024x1024", "1536x864", "3840x2160", "1024x3072")),
        *({"quality": quality} for quality in ("low", "xhigh", "max")),
        *({"output_format": kind} for kind in ("gif", "svg")),
    ],
    "none": [
        {"prompt": "x" * 32_000},
        {"n": 10},
        *({"size": size} for size in ("auto", "16x16", "8192x8192", "777x333")),
        {"quality": "ultra"},
        {"style": "noir"},
        {"background": "transparent"},
    ],
}
REFUSED: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "one": [
        ("prompt", {"prompt": "x" * 1001}),
        *(("n", {"n": n}) for n in (0, 11, -1)),
        *(("size", {"size": size}) for size in ("1792x1024", "1536x1024", "auto", "1024*1024", "big", "")),
        *(("quality", {"quality": quality}) for quality in ("hd", "high", "")),
        ("style", {"style": "vivid"}),
        ("background", {"background": "opaque"}),
        ("moderation", {"moderation": "auto"}),
        ("output_format", {"output_format": "png"}),
        ("output_compression", {"output_compression": 100}),
        ("partial_images", {"partial_images": 1, "stream": True}),
        ("input_fidelity", {"input_fidelity": "low"}),
    ],
    "two": [
        ("prompt", {"prompt": "x" * 4001}),
        *(("n", {"n": n}) for n in (0, 2, 10)),
        *(("size", {"size": size}) for size in ("256x256", "512x512", "1536x1024", "auto")),
        *(("quality", {"quality": quality}) for quality in ("low", "high")),
        ("style", {"style": "noir"}),
        ("background", {"background": "transparent"}),
        ("moderation", {"moderation": "low"}),
        ("output_format", {"output_format": "webp"}),
    ],
    "three": [
        ("prompt", {"prompt": "x" * 32_001}),
        *(("n", {"n": n}) for n in (0, 11)),
        *(("size", {"size": size}) for size in ("256x256", "1792x1024", "1024x1025")),
        *(("quality", {"quality": quality}) for quality in ("standard", "hd", "xhigh")),
        ("style", {"style": "vivid"}),
        ("background", {"background": "clear"}),
        ("background", {"background": "transparent", "output_format": "jpeg"}),
        ("moderation", {"moderation": "high"}),
        ("output_format", {"output_format": "gif"}),
        ("output_format", {"output_format": "bmp"}),
        *(("output_compression", {"output_format": "jpeg", "output_compression": level}) for level in (-1, 101)),
        ("output_compression", {"output_compression": 50}),
        ("output_compression", {"output_format": "png", "output_compression": 50}),
        ("partial_images", {"stream": True, "partial_images": 4}),
        ("partial_images", {"partial_images": 1}),
        ("partial_images", {"stream": "false", "partial_images": 1}),
        ("input_fidelity", {"input_fidelity": "medium"}),
    ],
    "wide": [
        *(("size", {"size": size}) for size in ("1000x1000", "3856x2160", "512x3840", "0x16")),
        ("quality", {"quality": "hd"}),
    ],
    "none": [
        ("prompt", {"prompt": "x" * 32_001}),
        *(("n", {"n": n}) for n in (0, 11)),
        *(("size", {"size": size}) for size in ("15x16", "16x8193", "1024", "1024x", "x", "01024x1024", "1024X1024")),
        ("output_format", {"output_format": "gif"}),
    ],
}


@pytest.mark.parametrize(("family", "fields"), [(name, fields) for name, rows in TAKEN.items() for fields in rows])
def test_what_a_family_takes_is_what_is_asked(family: str, fields: dict[str, Any]) -> None:
    request = read_request(family, **fields)
    for name, value in fields.items():
        if name not in ("response_format", "stream"):
            assert getattr(request, name) == value
    assert request.stream is (fields.get("stream") in (True, "true"))


@pytest.mark.parametrize(
    ("family", "param", "fields"), [(name, *row) for name, rows in REFUSED.items() for row in rows]
)
def test_what_a_family_refuses_is_a_400_that_names_the_field(family: str, param: str, fields: dict[str, Any]) -> None:
    fault = catch_refusal(family, **fields)
    assert (fault.status, fault.param, fault.type) == (400, param, "invalid_request_error")


@pytest.mark.parametrize(
    ("family", "fields", "words"),
    [
        ("one", {"size": "auto"}, "'256x256', '512x512' or '1024x1024'"),
        ("two", {"n": 2}, "must be 1 for a model of image family two, not 2"),
        ("three", {"quality": "hd"}, "'low', 'medium', 'high' or 'auto'"),
        ("one", {"background": "auto"}, "family three"),
        ("three", {"style": "vivid"}, "family two"),
        ("one", {"prompt": "x" * 1001}, "1000"),
        ("none", {"size": "1x1"}, "sides from 16 to 8192"),
        ("wide", {"size": "1x1"}, "multiples of 16"),
        ("three", {"background": "transparent", "output_format": "jpeg"}, "'png' or 'webp'"),
    ],
)
def test_a_refusal_says_what_is_allowed(family: str, fields: dict[str, Any], words: str) -> None:
    assert words in catch_refusal(family, **fields).message


@pytest.mark.parametrize("family", ["one", "two", "three"])
def test_conf_says_the_family_of_a_model_with_any_name(family: str) -> None:
    call = call_of("none", facts={"image_family": family})
    for param, fields in REFUSED[family]:
        assert fault_of(call, wire_of({"prompt": "a cat", **fields})).param == param
    for fields in TAKEN[family]:
        parsed(call, wire_of({"prompt": "a cat", **fields}))


def test_what_conf_says_beats_the_name() -> None:
    call = call_of("three", facts={"image_family": "one"})
    assert fault_of(call, wire_of({"prompt": "a cat", "background": "auto"})).param == "background"


@pytest.mark.parametrize("model", ["openai/dall-e-3", "dall-e-3-hd"])
def test_a_name_may_begin_with_its_provider_and_end_with_its_version(model: str) -> None:
    call = replace(call_of("none"), model=model)
    assert fault_of(call, wire_of({"prompt": "a cat", "n": 2})).param == "n"


IN_THE_OTHER_SHAPE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], int]] = {
    "one": ({"size": "512*512", "n": 10}, {"size": "1536*1024"}, {"n": 11}, 1000),
    "two": ({"size": "1792*1024", "n": 1}, {"size": "512*512"}, {"n": 2}, 4000),
    "three": ({"size": "1024*1536", "n": 10}, {"size": "512*512"}, {"n": 11}, 32_000),
    "none": ({"size": "777*333", "n": 10}, {"size": "8*8"}, {"n": 11}, 32_000),
}


@pytest.mark.parametrize("family", list(IN_THE_OTHER_SHAPE))
def test_the_same_rules_hold_for_the_other_shape(family: str) -> None:
    taken, size, n, longest = IN_THE_OTHER_SHAPE[family]
    call = call_of(family)
    request = parsed(call, wire_of(items(TEXT, **taken)))
    assert (request.size, request.n) == (taken["size"].replace("*", "x"), taken["n"])
    assert parsed(call, wire_of(items({"text": "x" * longest}))).prompt == "x" * longest
    assert fault_of(call, wire_of(items(TEXT, **size))).param == "parameters.size"
    assert fault_of(call, wire_of(items(TEXT, **n))).param == "parameters.n"
    fault = fault_of(call, wire_of(items({"text": "x" * longest}, {"text": "y"})))
    assert (fault.param, str(longest) in fault.message) == ("input.messages", True)


def test_sizes_are_named_as_the_other_shape_writes_them() -> None:
    message = fault_of(call_of("three"), wire_of(items(TEXT, size="16*16"))).message
    assert "'1024*1024', '1536*1024' or '1024*1536'" in message
    assert "auto" not in message


def test_a_label_is_a_size_only_of_models_without_a_family() -> None:
    assert parsed(call_of("none"), wire_of(items(TEXT, size="2K"))).resolution == "2K"
    assert fault_of(call_of("three"), wire_of(items(TEXT, size="2K"))).param == "parameters.size"


@pytest.mark.parametrize("family", list(FAMILIES))
def test_the_same_rules_hold_for_edits(family: str) -> None:
    call = call_of(family)
    for param, fields in REFUSED[family]:
        said = {name: "true" if value is True else str(value) for name, value in fields.items()}
        assert fault_of(call, form_of(file(), **said)).param == param


NEWER: list[dict[str, Any]] = [
    {"background": "auto"},
    {"moderation": "auto"},
    {"output_format": "png"},
    {"output_compression": 1},
    {"partial_images": 0},
    {"size": "1536x1024"},
    {"size": "auto"},
    {"stream": True},
    {"stream": "true"},
    {"quality": "low"},
    {"quality": "high"},
]
OLDER: list[dict[str, Any]] = [
    {},
    {"size": "1024x1024"},
    {"size": "512x512"},
    {"stream": False},
    {"stream": "false"},
    {"background": None},
    {"quality": "standard"},
    {"quality": "auto"},
    {"size": ["unhashable"], "n": {}},
]


@pytest.mark.parametrize(
    ("fields", "name"), [(fields, "images_three") for fields in NEWER] + [(fields, "images") for fields in OLDER]
)
def test_a_body_without_a_model_goes_to_the_family_that_can_do_it(fields: dict[str, Any], name: str) -> None:
    default = ROUTES[0].default
    assert default is not None
    assert default({"prompt": "a cat", **fields}) == name
