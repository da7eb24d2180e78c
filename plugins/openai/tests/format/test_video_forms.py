"""Forms that begin a video: those of the contract, and those that the vendor's SDK really sends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from format_openai_calls import call_for
from image_calls import B64, PNG
from operation_calls import FakeUpload, done, form_of

from tornado_gate.codec.multipart import FormReader, convert_fields_to_json
from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, Data, Link, Route, VideoRequest, WireRequest
from tornado_gate_openai.format import videos

VIDEOS, GENERATIONS = videos.ROUTES[:2]
FIELDS = {"model": "m", "prompt": "A quiet lake", "seconds": "4", "size": "720x1280"}
PICTURE = FakeUpload(PNG, field="input_reference", filename="lake.png", media_type="image/png")
MP4 = b"\0\0\0\x18ftypisom\0\0\0\0" + bytes(40)
SDK = {"user-agent": "OpenAI/Python 3.52.0", "x-stainless-lang": "python"}
VENDORS = [{"headers": {"user-agent": "AsyncOpenAI/Python 3.52"}}, {"headers": SDK}, {"dialect": "vendor"}]


def read_request(*files: FakeUpload, call: Call | None = None, route: Route = VIDEOS, **fields: Any) -> VideoRequest:
    """A field that is None is left out."""
    said = {name: value for name, value in {**FIELDS, **fields}.items() if value is not None}
    request = done(videos.parse(call or call_for(), form_of(route, said, *files)))
    assert isinstance(request, VideoRequest)
    return request


def fault_of(*files: FakeUpload, call: Call | None = None, **fields: Any) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        read_request(*files, call=call, **fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize("route", [VIDEOS, GENERATIONS])
def test_both_paths_take_the_contracts_form(route: Route) -> None:
    assert route.multipart == "too"
    request = read_request(PICTURE, route=route, watermark="true")
    assert request == VideoRequest(
        model="m",
        prompt="A quiet lake",
        wire_format="openai-videos",
        image=PICTURE,
        seconds=4.0,
        width=720,
        height=1280,
        watermark=True,
        names={
            "seconds": "seconds",
            "width": "size",
            "height": "size",
            "image": "input_reference",
            "webhook": "webhook_url",
        },
    )


@pytest.mark.parametrize("name", ["seconds", "size", "prompt", "input_reference"])
def test_a_client_of_the_contract_must_send_all_of_it(name: str) -> None:
    files = [] if name == "input_reference" else [PICTURE]
    fault = fault_of(*files, **({name: None} if files else {}))
    assert (fault.param, fault.code) == (name, "missing_required_parameter")


@pytest.mark.parametrize("fields", VENDORS)
def test_a_client_of_the_vendors_may_leave_out_what_its_sdk_does(fields: Any) -> None:
    request = read_request(call=call_for(**fields), seconds=None, size=None)
    assert (request.seconds, request.width, request.image) == (None, None, None)


def test_conf_may_hold_sdks_to_the_contract() -> None:
    assert fault_of(call=call_for(headers=SDK, dialect="contract"), seconds=None).param == "seconds"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("seconds", ["", "0", "61", "four", "-4", "4 ", ["4", "5"]]),
        ("size", ["", "720", "63x720", "720x4097", "720*1280", ["720x1280"]]),
        ("watermark", ["", "yes", "1", "True", ["true", "true"]]),
        ("fps", ["", "0", "61", "24.0", "x"]),
        ("n", ["0", "5", "two"]),
        ("seed", ["1.5", "", "9" * 19]),
        ("width", ["", "720.5"]),
        ("duration", ["x", "0", "61", "1e1"]),
        ("metadata", ["", "style", "[]", "{", '{"a":1,"a":2}']),
        ("model", [["m", "m"]]),
        ("prompt", ["", ["a", "b"]]),
        ("image", ["ftp://example.com/a.png"]),
        ("input_reference", ["https://example.com/a.png", ["a", "b"]]),
        ("webhook_url", ["", "example.com"]),
    ],
)
def test_a_wrong_field_is_named(name: str, wrong: list[Any]) -> None:
    assert [fault_of(PICTURE, **{name: value}).param for value in wrong] == [name] * len(wrong)


def test_numbers_words_and_objects_are_read_from_their_text() -> None:
    request = read_request(
        PICTURE,
        fps="24",
        n="2",
        seed="-7",
        width="720",
        height="1280",
        duration="4.0",
        watermark="false",
        user="u",
        metadata='{"style":"oil"}',
        webhook_url="https://example.com/hook",
    )
    assert (request.fps, request.n, request.seed, request.watermark) == (24, 2, -7, False)
    assert (request.seconds, request.user, request.webhook) == (4.0, "u", "https://example.com/hook")
    assert request.metadata == {"style": "oil"}
    assert read_request(PICTURE, **{"metadata[style]": "oil", "metadata[mood]": "calm"}).metadata == {
        "style": "oil",
        "mood": "calm",
    }


def test_members_of_an_object_that_is_there_already_stay_what_they_are_called() -> None:
    request = read_request(PICTURE, **{"metadata": "{}", "metadata[style]": "oil"})
    assert request.extra == {"metadata[style]": "oil"}


@pytest.mark.parametrize(
    ("code", "data", "media_type"),
    [
        ("wrong_media_type", MP4, "video/mp4"),
        ("wrong_media_type", MP4, "image/png"),
        ("wrong_media_type", MP4, "application/octet-stream"),
        ("wrong_media_type", PNG, "image/jpeg"),
        ("wrong_media_type", b"", "image/png"),
        ("wrong_media_type", b"hello", "text/plain"),
        ("invalid_image", PNG[:20], "image/png"),
    ],
)
def test_a_reference_is_looked_at_whatever_it_is_called(code: str, data: bytes, media_type: str) -> None:
    fault = fault_of(FakeUpload(data, field="input_reference", filename="a.png", media_type=media_type))
    assert (fault.param, fault.code) == ("input_reference", code)


def test_a_reference_of_no_declared_type_is_what_it_is() -> None:
    file = FakeUpload(PNG, field="input_reference", filename="a", media_type="application/octet-stream")
    assert read_request(file).image == file


def test_the_picture_may_be_called_image_and_may_be_an_address() -> None:
    file = FakeUpload(PNG, field="image", media_type="image/png")
    assert read_request(file).field_name("image") == "image"
    assert read_request(image="https://example.com/a.png").image == Link(url="https://example.com/a.png")


def test_a_page_that_sends_an_empty_field_for_no_file_has_sent_none() -> None:
    assert fault_of(input_reference="").code == "missing_required_parameter"
    assert read_request(call=call_for(dialect="vendor"), input_reference="").image is None


def test_two_pictures_are_one_too_many() -> None:
    assert fault_of(PICTURE, PICTURE).param == "input_reference"
    assert fault_of(PICTURE, image="https://example.com/a.png").param == "image"


def test_other_files_and_fields_are_not_dropped_silently() -> None:
    call = call_for()
    request = read_request(PICTURE, FakeUpload(PNG, field="mask"), call=call, camera="pan")
    assert call.losses == ["mask"]
    assert request.extra == {"camera": "pan"}


# What openai-python really sends


def sent_by_sdk(folder: Path, **arguments: Any) -> VideoRequest:
    """What `videos.create` of the vendor's SDK asks for, read from the bytes that it sends."""
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        request.read()
        sent.append(request)
        return httpx2.Response(200, json={"id": "video_1", "object": "video"})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        client = openai.OpenAI(api_key="k", base_url="http://gate/v1", http_client=http)
        with pytest.deprecated_call():  # the vendor closes its own service; its clients stay
            client.videos.create(**arguments)
    return asyncio.run(_read(sent[0], folder))


async def _read(request: httpx2.Request, folder: Path) -> VideoRequest:
    reader = FormReader(request.headers["content-type"], folder)
    try:
        await reader.feed(request.content)
        await reader.finish()
        wire = WireRequest(
            route=VIDEOS,
            path=request.url.path,
            path_arguments={},
            query={},
            headers={},
            raw=b"",
            json=convert_fields_to_json(reader.fields),
            files=tuple(reader.files),
            form=True,
        )
        headers = {name.lower(): value for name, value in request.headers.items()}
        parsed = await videos.parse(call_for(headers=headers), wire)
    finally:
        reader.close()
    assert isinstance(parsed, VideoRequest)
    return parsed


def test_the_sdk_sends_a_form_without_a_file(tmp_path: Path) -> None:
    request = sent_by_sdk(tmp_path, model="sora-2", prompt="A lake")
    assert (request.model, request.prompt, request.image, request.seconds) == ("sora-2", "A lake", None, None)


def test_the_sdks_every_argument_is_understood(tmp_path: Path) -> None:
    request = sent_by_sdk(
        tmp_path,
        model="sora-2",
        prompt="A lake",
        seconds="8",
        size="1280x720",
        input_reference=("lake.png", PNG, "image/png"),
        extra_body={"watermark": True, "n": 2, "metadata": {"style": "oil"}},
    )
    assert (request.seconds, request.width, request.height, request.n) == (8.0, 1280, 720, 2)
    assert request.watermark is True
    assert request.metadata == {"style": "oil"}
    assert request.image is not None
    assert request.extra == {}


@pytest.mark.parametrize("url", ["https://example.com/lake.png", f"data:image/png;base64,{B64}"])
def test_the_sdks_reference_by_address_is_understood(tmp_path: Path, url: str) -> None:
    """It takes none itself, though its types do; what is passed by `extra_body` goes as its Node client sends it."""
    body = {"input_reference": {"image_url": url}}
    request = sent_by_sdk(tmp_path, model="sora-2", prompt="A lake", extra_body=body)
    assert request.image == (Link(url=url) if url.startswith("https") else Data(media_type="image/png", base64=B64))
    assert request.field_name("image") == "input_reference.image_url"


def test_the_sdks_reference_to_a_file_at_the_vendor_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidField) as caught:
        sent_by_sdk(tmp_path, model="sora-2", prompt="A lake", extra_body={"input_reference": {"file_id": "file_1"}})
    assert caught.value.param == "input_reference.file_id"
