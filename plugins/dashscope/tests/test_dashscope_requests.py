"""The addresses and bodies of requests."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from dashscope_calls import BASE, PNG, call_for, make_request, translate_request

from tornado_gate.errors import InvalidField, UnsupportedOperation
from tornado_gate.testing import KEY, chat
from tornado_gate.types import Data, Link
from tornado_gate_openai.wire.dashscope_images import parse_request

PICTURE = Link(url="https://h.example/a.png")


@dataclass(frozen=True)
class File:
    """A file of a form."""

    content: bytes
    field: str = "image[]"
    filename: str = "a.png"
    media_type: str = "image/png"

    @property
    def size(self) -> int:
        return len(self.content)

    async def read(self, size: int = -1) -> bytes:
        return self.content if size < 0 else self.content[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.content


@pytest.mark.parametrize(
    ("model", "images", "path"),
    [
        ("qwen-image-plus", (), "multimodal-generation/generation"),
        ("wan2.6-t2i", (), "multimodal-generation/generation"),
        ("wan2.2-t2i-flash", (), "text2image/image-synthesis"),
        ("wan2.5-i2i-preview", (PICTURE,), "image2image/image-synthesis"),
    ],
)
def test_each_model_has_its_path(model: str, images: Any, path: str) -> None:
    outgoing = translate_request(make_request(images=images), call_for(model))
    assert outgoing.url == f"{BASE}/api/v1/services/aigc/{path}"


@pytest.mark.parametrize(
    ("model", "path", "asked_with"),
    [
        ("qwen-image-plus", "text2image/image-synthesis", "prompt"),
        ("wan2.6-t2i", "image-generation/generation", "messages"),
    ],
)
def test_conf_may_have_a_model_work_by_task(model: str, path: str, asked_with: str) -> None:
    outgoing = translate_request(make_request(), call_for(model, asynchronous=["*"]))
    assert outgoing.url.endswith(path)
    assert outgoing.headers["x-dashscope-async"] == "enable"
    assert outgoing.json["input"].keys() == {asked_with}


def test_a_request_that_is_answered_at_once_asks_for_no_task() -> None:
    assert "x-dashscope-async" not in translate_request(make_request()).headers


def test_the_key_is_in_a_header_and_not_in_the_address() -> None:
    outgoing = translate_request(make_request())
    assert outgoing.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in outgoing.url


def test_headers_of_the_entry_replace_ours() -> None:
    outgoing = translate_request(
        make_request(), call_for(headers={"Authorization": "Basic x", "X-DashScope-WorkSpace": "w"})
    )
    assert outgoing.headers["authorization"] == "Basic x"
    assert outgoing.headers["x-dashscope-workspace"] == "w"


def test_a_request_of_the_openai_kind_as_qwen_takes_it() -> None:
    call = call_for()
    outgoing = translate_request(make_request(size="1328x1328", quality="high", n=1), call)
    assert outgoing.json == {
        "model": "qwen-image-plus",
        "input": {"messages": [{"role": "user", "content": [{"text": "A cat"}]}]},
        "parameters": {"n": 1, "size": "1328*1328"},
    }
    assert call.losses == ["quality"]


def test_a_request_of_the_vendors_kind_as_a_task_loses_nothing() -> None:
    parameters = {"size": "1024*1024", "n": 2, "negative_prompt": "dogs", "odd": {"a": 1}}
    messages = [{"role": "user", "content": [{"text": "A cat"}]}]
    request = parse_request({"model": "asked", "input": {"messages": messages}, "parameters": parameters})
    call = call_for("wan2.2-t2i-plus", strict=True)
    assert translate_request(request, call).json == {
        "model": "wan2.2-t2i-plus",
        "input": {"prompt": "A cat", "negative_prompt": "dogs"},
        "parameters": {"n": 2, "size": "1024*1024", "odd": {"a": 1}},
    }


def test_one_picture_is_asked_for_where_the_vendor_would_make_four() -> None:
    assert translate_request(make_request(), call_for("wan2.6-t2i")).json["parameters"] == {"n": 1}
    messages = [{"role": "user", "content": [{"text": "A cat"}]}]
    own = parse_request({"model": "asked", "input": {"messages": messages}})
    assert "parameters" not in translate_request(own, call_for("wan2.6-t2i")).json


@pytest.mark.parametrize(
    ("model", "ratio", "size"),
    [
        ("qwen-image", "16:9", "1664*928"),
        ("qwen-image-max", "3:4", "1104*1472"),
        ("qwen-image-2.0-pro", "16:9", "2688*1536"),
        ("wan2.5-t2i-preview", "9:16", "960*1696"),
        ("wan2.6-t2i", "1:1", "1280*1280"),
        ("wan2.2-t2i-flash", "1:1", "1024*1024"),
    ],
)
def test_a_ratio_becomes_a_size_of_the_model(model: str, ratio: str, size: str) -> None:
    call = call_for(model, strict=True)
    assert translate_request(make_request(aspect_ratio=ratio), call).json["parameters"]["size"] == size


@pytest.mark.parametrize(
    ("model", "fields", "lost"),
    [
        ("qwen-image", {"aspect_ratio": "21:9"}, ["aspect_ratio"]),
        ("a-model-of-tomorrow", {"aspect_ratio": "16:9"}, ["aspect_ratio"]),
        ("qwen-image", {"aspect_ratio": "16:9", "resolution": "2K"}, ["resolution"]),
        ("qwen-image-edit", {"size": "512x512", "images": (PICTURE,)}, ["size"]),
        ("wan2.7-image", {"resolution": "4K"}, ["resolution"]),
        ("wan2.7-image-pro", {"resolution": "4K", "images": (PICTURE,)}, ["resolution"]),
    ],
)
def test_what_the_model_has_no_size_for_is_lost(model: str, fields: Any, lost: list[str]) -> None:
    call = call_for(model)
    translate_request(make_request(**fields), call)
    assert call.losses == lost


@pytest.mark.parametrize("label", ["2K", "2k"])
def test_a_label_is_a_size_where_the_model_knows_it(label: str) -> None:
    outgoing = translate_request(make_request(resolution=label), call_for("wan2.7-image-pro", strict=True))
    assert outgoing.json["parameters"]["size"] == "2K"


def test_a_file_of_a_form_goes_up_as_a_data_url() -> None:
    outgoing = translate_request(make_request(images=(File(PNG), PICTURE)), call_for("qwen-image-edit-plus"))
    text = base64.b64encode(PNG).decode()
    assert outgoing.json["input"]["messages"][0]["content"] == [
        {"image": f"data:image/png;base64,{text}"},
        {"image": PICTURE.url},
        {"text": "A cat"},
    ]


def test_a_file_that_is_no_picture_is_the_callers_fault() -> None:
    with pytest.raises(InvalidField) as caught:
        translate_request(
            make_request(images=(File(b"%PDF-1.7"),), names={"images": "image"}), call_for("qwen-image-edit-plus")
        )
    assert caught.value.param == "image"


def test_pictures_for_a_model_that_takes_none_are_refused() -> None:
    with pytest.raises(UnsupportedOperation) as caught:
        translate_request(
            make_request(images=(Data(media_type="image/png", base64="AAAA"),), names={"images": "image"})
        )
    assert caught.value.param == "image"


def test_an_edit_without_a_picture_is_refused() -> None:
    with pytest.raises(InvalidField) as caught:
        translate_request(make_request(), call_for("qwen-image-edit-plus"))
    assert (caught.value.param, caught.value.code) == ("images", "missing_required_parameter")


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(UnsupportedOperation):
        translate_request(chat())
