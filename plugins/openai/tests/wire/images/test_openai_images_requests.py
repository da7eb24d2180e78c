"""Requests for pictures on the wire: what is asked of an upstream, and what of it is lost."""

from __future__ import annotations

import asyncio
import base64
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec.multipart import FormBody, FormReader, convert_fields_to_json
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import FetchedFile
from tornado_gate.types import Call, Caller, Data, ImageRequest, Link, Target, Upload, replace
from tornado_gate_openai.wire.images import (
    EDITS,
    WIRE_FORMAT,
    MemoryFile,
    find_family_by_model,
    parse_edit,
    parse_request,
    render_edit,
    render_request,
)

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">IIBBBBB", 8, 8, 8, 6, 0, 0, 0)
B64 = base64.b64encode(PNG).decode()
URL = "https://example.com/a"


class Web:
    """A web with one picture."""

    async def fetch(self, url: str, *, kinds: Any, param: str) -> FetchedFile:
        if url != URL:
            raise InvalidField(param, "no")
        return FetchedFile(url=url, media_type="image/png", data=PNG)


def call_to(model: str = "gpt-image-1", *, strict: bool = False) -> Call:
    target = Target(provider="p", plugin="openai", model="m", upstream_model=model)
    caller = Caller(id="c", account="a")
    return Call(
        id="1", operation="images", format="f", model="m", caller=caller, target=target, strict=strict, fetcher=Web()
    )


def rendered(request: ImageRequest, *, answers_bytes: bool = True) -> tuple[dict[str, Any], list[str]]:
    call = call_to()
    return render_request(call, request, answers_bytes=answers_bytes), call.losses


async def sent(form: FormBody) -> tuple[dict[str, Any], tuple[Upload, ...]]:
    """The fields and files of a form, as whoever gets it reads them."""
    raw = b"".join([chunk async for chunk in form.chunks()])
    assert len(raw) == form.length
    with tempfile.TemporaryDirectory() as folder:
        reader = FormReader(form.content_type, Path(folder))
        await reader.feed(raw)
        await reader.finish()
        files = [
            MemoryFile(field=file.field, filename=file.filename, media_type=file.media_type, data=await file.read())
            for file in reader.files
        ]
        reader.close()
    return convert_fields_to_json(reader.fields), tuple(files)


def edited(
    request: ImageRequest, call: Call, *, answers_bytes: bool = True
) -> tuple[dict[str, Any], tuple[Upload, ...]]:
    async def run() -> tuple[dict[str, Any], tuple[Upload, ...]]:
        return await sent(await render_edit(call, request, answers_bytes=answers_bytes))

    return asyncio.run(run())


WORDS = st.none() | st.text(min_size=1, max_size=8)
EXTRAS = st.dictionaries(st.sampled_from(("steps", "svg", "complexity")), st.integers() | st.text(), max_size=2)


@given(
    st.builds(
        ImageRequest,
        model=st.just("gpt-image-1"),
        wire_format=st.just(WIRE_FORMAT),
        prompt=st.text(),
        n=st.none() | st.integers(1, 10),
        size=WORDS,
        quality=WORDS,
        background=WORDS,
        moderation=WORDS,
        output_format=WORDS,
        output_compression=st.none() | st.integers(0, 100),
        user=WORDS,
        stream=st.booleans(),
        extra=EXTRAS,
    )
)
def test_a_request_survives_the_wire(request: ImageRequest) -> None:
    body, losses = rendered(request)
    assert (parse_request(body), losses) == (request, [])


@given(
    st.builds(
        ImageRequest,
        model=st.just("gpt-image-1"),
        wire_format=st.just(EDITS),
        prompt=st.text("abc", min_size=1),
        size=WORDS,
        quality=WORDS,
        user=WORDS,
        images=st.lists(st.binary(max_size=20).map(lambda data: PNG + data), min_size=1, max_size=3).map(tuple),
        mask=st.none() | st.just(PNG),
        names=st.just({"images": "image"}),
    )
)
def test_an_edit_survives_the_wire(described: ImageRequest) -> None:
    field = "image" if len(described.images) == 1 else "image[]"
    pictures = tuple(
        MemoryFile(field=field, filename="a.png", media_type="image/png", data=data)  # type: ignore[arg-type]
        for data in described.images
    )
    mask = described.mask and MemoryFile(field="mask", filename="a.png", media_type="image/png", data=PNG)
    request = replace(described, images=pictures, mask=mask)
    call = call_to()
    body, files = edited(request, call)
    assert parse_edit(body, files) == request
    assert call.losses == []


def test_a_model_that_answers_bytes_is_not_asked_for_them() -> None:
    request = parse_request(
        {"model": "m", "prompt": "p", "stream": "true", "partial_images": 2, "response_format": "url"}
    )
    body, losses = rendered(request)
    assert (body, losses) == (
        {"model": "gpt-image-1", "prompt": "p", "stream": True, "partial_images": 2},
        [],
    )


def test_another_model_is_asked_for_bytes_and_for_nothing_that_it_does_not_know() -> None:
    request = ImageRequest(
        model="m",
        prompt="p",
        style="vivid",
        stream=True,
        partial_images=2,
        background="opaque",
        moderation="low",
        output_format="png",
        output_compression=5,
        input_fidelity="high",
    )
    body, losses = rendered(request, answers_bytes=False)
    assert body == {"model": "gpt-image-1", "prompt": "p", "style": "vivid", "response_format": "b64_json"}
    assert set(losses) == {"background", "moderation", "output_compression", "input_fidelity", "partial_images"}
    assert rendered(replace(request, output_format="webp"), answers_bytes=False)[1].count("output_format") == 1


def test_what_cannot_be_said_is_lost_in_the_callers_words() -> None:
    request = ImageRequest(
        model="m",
        prompt="p",
        wire_format="dashscope-images",
        negative_prompt="dogs",
        prompt_extend=False,
        seed=1,
        watermark=True,
        resolution="2K",
        style="vivid",
        input_fidelity="low",
        extra={"parameters.x": 1},
        names={"negative_prompt": "parameters.negative_prompt"},
    )
    body, losses = rendered(request)
    assert body == {"model": "gpt-image-1", "prompt": "p"}
    assert set(losses) == {
        "parameters.negative_prompt",
        "prompt_extend",
        "seed",
        "watermark",
        "resolution",
        "style",
        "input_fidelity",
        "parameters.x",
    }


def test_what_these_models_do_anyway_is_not_lost() -> None:
    request = ImageRequest(model="m", prompt="p", watermark=False, negative_prompt="", resolution="1K")
    assert rendered(request)[1] == []


def test_strict_callers_are_told_of_a_loss() -> None:
    with pytest.raises(InvalidField) as caught:
        render_request(call_to(strict=True), ImageRequest(model="m", prompt="p", seed=1), answers_bytes=True)
    assert caught.value.param == "seed"


@pytest.mark.parametrize(
    ("model", "ratio", "size"),
    [
        ("gpt-image-1", "1:1", "1024x1024"),
        ("gpt-image-1", "3:2", "1536x1024"),
        ("gpt-image-1", "2:3", "1024x1536"),
        ("gpt-image-1", "16:9", None),
        ("dall-e-3", "7:4", "1792x1024"),
        ("dall-e-2", "1:1", "1024x1024"),
        ("sdxl", "1:1", None),
        ("gpt-image-1", "wide", None),
    ],
)
def test_an_aspect_ratio_is_said_as_the_size_that_has_it(model: str, ratio: str, size: str | None) -> None:
    call = call_to(model)
    body = render_request(call, ImageRequest(model="m", prompt="p", aspect_ratio=ratio), answers_bytes=True)
    assert (body.get("size"), call.losses) == (size, [] if size else ["aspect_ratio"])


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("dall-e-2", "one"),
        ("openai/dall-e-3", "two"),
        ("gpt-image-1-mini", "three"),
        ("gpt-image-2.5-flare", "three"),
        ("chatgpt-image-latest", "three"),
    ],
)
def test_the_vendors_models_are_of_a_family(model: str, family: str) -> None:
    found = find_family_by_model(model)
    assert found is not None
    assert found.name == family


def test_other_models_are_of_none() -> None:
    assert find_family_by_model("my-gpt-image-1") is None


# Edits


def test_pictures_from_anywhere_become_files() -> None:
    request = ImageRequest(
        model="m",
        prompt="p",
        images=(Data(media_type="", base64=B64), Link(url=URL)),
        mask=Data(media_type="image/png", base64=B64),
        n=2,
        stream=True,
    )
    body, files = edited(request, call_to())
    assert body == {"model": "gpt-image-1", "prompt": "p", "n": "2", "stream": "true"}
    assert files == (
        MemoryFile(field="image[]", filename="image-1.png", media_type="image/png", data=PNG),
        MemoryFile(field="image[]", filename="image-2.png", media_type="image/png", data=PNG),
        MemoryFile(field="mask", filename="mask.png", media_type="image/png", data=PNG),
    )


def test_a_file_goes_up_as_what_it_is() -> None:
    upload = MemoryFile(field="image", filename="blob", media_type="application/octet-stream", data=PNG)
    _, (file,) = edited(ImageRequest(model="m", prompt="p", images=(upload,)), call_to())
    assert (file.field, file.filename, file.media_type) == ("image", "picture.png", "image/png")


def test_fields_and_files_without_a_word_go_up_to_the_same_vendor() -> None:
    markup = MemoryFile(field="markup", filename="m.png", media_type="image/png", data=PNG)
    extra = {"markup": markup, "svg": {"model": "x", "reasoning": {"effort": "low"}}, "flag": True, "tags": ["a", 1]}
    request = ImageRequest(
        model="m", prompt="p", wire_format=EDITS, images=(Data(media_type="", base64=B64),), extra=extra
    )
    body, files = edited(request, call_to())
    assert body == {
        "model": "gpt-image-1",
        "prompt": "p",
        "svg[model]": "x",
        "svg[reasoning][effort]": "low",
        "flag": "true",
        "tags": ["a", "1"],
    }
    assert [file.field for file in files] == ["image", "markup"]
    call = call_to()
    assert edited(replace(request, wire_format="other"), call)[0] == {"model": "gpt-image-1", "prompt": "p"}
    assert set(call.losses) == set(extra)


@pytest.mark.parametrize(
    ("images", "names", "param"),
    [
        ((Link(url="https://other"),), {}, "images"),
        ((Data(media_type="", base64=B64), Link(url="https://other")), {}, "images.1"),
        (
            (Link(url="https://other"),),
            {"images.0": "input.messages.0.content.1.image"},
            "input.messages.0.content.1.image",
        ),
        ((Data(media_type="", base64="aGVsbG8="),), {"images": "image"}, "image"),
    ],
)
def test_a_picture_that_cannot_be_had_is_named(images: Any, names: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        edited(ImageRequest(model="m", prompt="p", images=images, names=names), call_to())
    assert caught.value.param == param


def test_models_that_are_asked_for_bytes_edit_too() -> None:
    request = ImageRequest(model="m", prompt="p", images=(Data(media_type="", base64=B64),), background="opaque")
    call = call_to("dall-e-2")
    body, _ = edited(request, call, answers_bytes=False)
    assert body == {"model": "dall-e-2", "prompt": "p", "response_format": "b64_json"}
    assert call.losses == ["background"]
