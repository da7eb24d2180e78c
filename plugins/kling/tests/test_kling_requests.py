"""Requests for videos: their translation, refusals and losses."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, ClassVar

import pytest
from kling_calls import (
    ACCESS,
    BASE,
    OURS,
    RUNNING,
    THEIRS,
    body,
    call_for,
    make_request,
    picture,
    png,
    poll,
    read_claims,
    stands,
    translate_request,
)

import tornado_gate_kling as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import InvalidField, UnsupportedOperation, UpstreamError
from tornado_gate.testing import KEY, ProviderContract, chat
from tornado_gate.types import Data, Link, VideoCancel, VideoOperation


class TestKling(ProviderContract):
    plugin: ClassVar[Any] = plugin
    entry = ProviderEntry(name="test", base_url=BASE, api_key=KEY)
    request = make_request(seconds=5)
    outgoing: ClassVar[Any] = {
        "model_name": "upstream-model",
        "prompt": "A cat",
        "duration": "5",
        "external_task_id": OURS,
    }
    chunks = (
        b'{"code":0,"message":"SUCCEED","request_id":"r","data":{"task_id":"867283741759111202",',
        b'"task_status":"submitted","task_info":{"external_task_id":"video_5f0c"},"created_at":1774805076166}}',
    )
    events = (VideoOperation(status="queued", operation=RUNNING),)


def catch_refusal(request: Any, model: str = "kling-v2-6") -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        translate_request(request, call_for(model))
    return caught.value


def lost(request: Any, model: str = "kling-v2-6") -> list[str]:
    call = call_for(model)
    translate_request(request, call)
    return call.losses


def test_a_text_goes_to_its_own_address_with_a_token() -> None:
    outgoing = translate_request(make_request())
    assert (outgoing.method, outgoing.url) == ("POST", f"{BASE}/v1/videos/text2video")
    assert outgoing.json == {"model_name": "kling-v2-6", "prompt": "A cat", "external_task_id": OURS}
    token = outgoing.headers["authorization"].removeprefix("Bearer ")
    assert read_claims(token)["iss"] == ACCESS


def test_the_entrys_own_headers_replace_ours_however_they_are_spelled() -> None:
    headers = translate_request(
        make_request(), call_for(headers={"Authorization": "Bearer own", "X-Team": "7"})
    ).headers
    assert headers == {"authorization": "Bearer own", "x-team": "7"}


def test_a_picture_goes_to_its_own_address_as_bare_base64() -> None:
    data = png(480, 480)
    url_safe = base64.urlsafe_b64encode(data).decode().rstrip("=")
    outgoing = translate_request(make_request(image=Data(media_type="image/png", base64=url_safe)))
    assert outgoing.url == f"{BASE}/v1/videos/image2video"
    assert base64.b64decode(outgoing.json["image"], validate=True) == data


def test_a_picture_elsewhere_goes_up_as_its_address() -> None:
    url = "https://pictures.example/cat.png?sign=a%2Fb"
    assert body(make_request(image=Link(url=url))) == {"image": url}


@pytest.mark.parametrize(
    ("image", "code"),
    [
        (picture(299, 400), "invalid_image"),
        (picture(400, 1001), "invalid_image"),
        (picture(480, 480, more=10 * 1024 * 1024), "image_too_large"),
        (
            Data(media_type="", base64=base64.b64encode(b"GIF89a\x90\x01\x90\x01\x00\x00\x00").decode()),
            "wrong_media_type",
        ),
        (Data(media_type="", base64="!!"), "invalid_base64"),
    ],
    ids=["too small", "too long", "too many bytes", "another kind", "no base64"],
)
def test_a_picture_that_the_vendor_would_not_take_is_refused_by_its_field(image: Data, code: str) -> None:
    error = catch_refusal(make_request(image=image, names={"image": "input_reference"}))
    assert (error.param, error.code, error.status) == ("input_reference", code, 400)


@pytest.mark.parametrize("size", [(300, 750), (750, 300), (480, 480)])
def test_a_picture_at_the_edge_of_what_is_taken_is_taken(size: tuple[int, int]) -> None:
    assert "image" in body(make_request(image=picture(*size)))


@pytest.mark.parametrize(
    ("model", "seconds", "duration"),
    [
        ("kling-v1", 5, "5"),
        ("kling-v2-6", 10.0, "10"),
        ("kling-v3", 3, "3"),
        ("kling-v3", 15, "15"),
        ("kling-v9", 20, "20"),
    ],
)
def test_seconds_are_a_text_as_the_vendor_wants_them(model: str, seconds: float, duration: str) -> None:
    assert body(make_request(seconds=seconds), call_for(model)) == {"duration": duration}


@pytest.mark.parametrize(
    ("model", "seconds", "allowed"),
    [
        ("kling-v1-6", 4, "5 or 10"),
        ("kling-v2-5-turbo", 8, "5 or 10"),
        ("kling-v3", 2, "from 3 to 15"),
        ("kling-v3", 16, "from 3 to 15"),
        ("kling-v3", 5.5, "from 3 to 15"),
        ("kling-v9", 5.5, "whole number"),
    ],
)
def test_seconds_that_the_model_does_not_have_are_refused_with_those_it_has(
    model: str, seconds: float, allowed: str
) -> None:
    error = catch_refusal(make_request(seconds=seconds, names={"seconds": "duration"}), model)
    assert error.param == "duration"
    assert allowed in error.message


@pytest.mark.parametrize(
    ("width", "height", "ratio"),
    [(1280, 720, "16:9"), (1920, 1080, "16:9"), (720, 1280, "9:16"), (1024, 1024, "1:1")],
)
def test_a_size_of_a_known_shape_becomes_that_shape(width: int, height: int, ratio: str) -> None:
    call = call_for()
    assert body(make_request(width=width, height=height), call) == {"aspect_ratio": ratio}
    assert call.losses == []


def test_a_size_of_another_shape_is_lost_by_the_callers_names() -> None:
    assert lost(make_request(width=1024, height=768)) == ["width", "height"]
    assert lost(make_request(width=1024, height=768, names={"width": "size", "height": "size"})) == ["size"]


def test_with_a_picture_a_size_holds_only_when_it_has_the_same_shape() -> None:
    call = call_for()
    assert "aspect_ratio" not in body(make_request(image=picture(640, 360), width=1280, height=720), call)
    assert call.losses == []
    assert lost(make_request(image=picture(480, 480), width=1280, height=720)) == ["width", "height"]
    assert lost(make_request(image=Link(url="https://p.example/a"), width=1280, height=720)) == ["width", "height"]


def test_a_model_that_needs_a_picture_says_so() -> None:
    error = catch_refusal(make_request(), "kling-v2-1")
    assert (error.param, error.code) == ("image", "missing_required_parameter")
    assert "image" in body(make_request(image=picture()), call_for("kling-v2-1"))


def test_known_wishes_go_up_under_their_names() -> None:
    wishes = {
        "negative_prompt": "people",
        "mode": "pro",
        "cfg_scale": 0.7,
        "camera_control": {"type": "simple", "config": {"zoom": 5}},
        "multi_shot": True,
        "shot_type": "customize",
        "multi_prompt": [{"index": 1, "prompt": "A", "duration": "5"}],
        "voice_list": [{"voice_id": "v"}],
        "sound": "on",
        "aspect_ratio": "1:1",
    }
    call = call_for("kling-v3")
    assert body(make_request(metadata=wishes), call) == wishes
    assert call.losses == []


@pytest.mark.parametrize(("said", "sound"), [(True, "on"), (False, "off"), ("off", "off")])
def test_sound_may_be_said_in_either_way(said: Any, sound: str) -> None:
    assert body(make_request(metadata={"sound": said}))["sound"] == sound


def test_wishes_for_pictures_go_up_only_with_one() -> None:
    wishes = {"dynamic_masks": [{"mask": "https://p.example/m"}], "element_list": [{"element_id": 1}]}
    assert body(make_request(image=Link(url="https://p.example/a"), metadata=wishes)).items() >= wishes.items()
    assert lost(make_request(metadata=wishes)) == ["metadata.dynamic_masks", "metadata.element_list"]
    assert lost(make_request(image=picture(), metadata={"aspect_ratio": "1:1"})) == ["metadata.aspect_ratio"]


def test_a_last_picture_alone_is_a_video_of_pictures() -> None:
    data = png(400, 400)
    tail = "data:image/png;base64," + base64.b64encode(data).decode()
    outgoing = translate_request(make_request(metadata={"image_tail": tail}))
    assert outgoing.url.endswith("/image2video")
    assert base64.b64decode(outgoing.json["image_tail"], validate=True) == data


@pytest.mark.parametrize(
    ("wishes", "param"),
    [
        ({"negative_prompt": 1}, "metadata.negative_prompt"),
        ({"cfg_scale": 1.5}, "metadata.cfg_scale"),
        ({"cfg_scale": True}, "metadata.cfg_scale"),
        ({"sound": "loud"}, "metadata.sound"),
        ({"camera_control": "zoom"}, "metadata.camera_control"),
        ({"multi_prompt": [1]}, "metadata.multi_prompt.0"),
        ({"image_tail": "ftp://x"}, "metadata.image_tail"),
    ],
)
def test_a_wish_of_the_wrong_kind_is_refused_by_its_path(wishes: dict[str, Any], param: str) -> None:
    error = catch_refusal(make_request(image=picture(), metadata=wishes), "kling-v3")
    assert (error.param, error.status) == (param, 400)


@pytest.mark.parametrize(("level", "mode"), [("high", "pro"), ("standard", "std"), ("LOW", "std")])
def test_the_level_of_quality_is_the_vendors_mode(level: str, mode: str) -> None:
    call = call_for()
    assert body(make_request(metadata={"quality_level": level}), call) == {"mode": mode}
    assert call.losses == []


def test_the_vendors_mode_stands_above_the_level_of_quality() -> None:
    call = call_for()
    assert body(make_request(metadata={"quality_level": "high", "mode": "std"}), call) == {"mode": "std"}
    assert call.losses == ["metadata.quality_level"]


def test_the_shape_that_a_wish_names_stands_above_the_size() -> None:
    call = call_for()
    assert body(make_request(width=1280, height=720, metadata={"aspect_ratio": "1:1"}), call) == {"aspect_ratio": "1:1"}
    assert call.losses == ["width", "height"]


def test_what_the_vendor_has_no_field_for_is_lost_by_name() -> None:
    request = make_request(
        fps=30,
        seed=1,
        n=2,
        user="u",
        extra={"response_format": "url"},
        metadata={"style": "noir", "quality_level": "cosmic", "callback_url": "https://x", "external_task_id": "y"},
    )
    call = call_for()
    assert body(request, call) == {}
    assert translate_request(request).json["external_task_id"] == OURS
    assert set(call.losses) == {
        *("fps", "seed", "n", "user", "response_format", "metadata.style", "metadata.quality_level"),
        *("metadata.callback_url", "metadata.external_task_id"),
    }


def test_one_video_and_wishes_of_null_are_no_loss() -> None:
    call = call_for()
    assert body(make_request(n=1, metadata={"negative_prompt": None, "style": None}), call) == {}
    assert call.losses == []


@pytest.mark.parametrize(
    ("model", "losses"),
    [
        ("kling-v1-6", ["metadata.sound"]),
        ("kling-v2-5-turbo", ["metadata.sound", "metadata.cfg_scale"]),
        ("kling-v2-6", ["metadata.cfg_scale"]),
        ("kling-v3", []),
        ("kling-of-tomorrow", []),
    ],
)
def test_what_a_model_does_not_know_is_lost(model: str, losses: list[str]) -> None:
    assert lost(make_request(metadata={"sound": "on", "cfg_scale": 0.5}), model) == losses


def test_a_strict_caller_gets_an_error_instead_of_a_loss() -> None:
    with pytest.raises(InvalidField, match=r"metadata\.style"):
        translate_request(make_request(metadata={"style": "noir"}), call_for(strict=True))


@pytest.mark.parametrize("wanted", [True, False])
def test_a_watermark_is_asked_for_in_the_vendors_field(wanted: bool) -> None:
    assert body(make_request(watermark=wanted)) == {"watermark_info": {"enabled": wanted}}


def test_a_video_cannot_be_made_of_an_earlier_one() -> None:
    with pytest.raises(UnsupportedOperation) as caught:
        translate_request(make_request(remix_of=RUNNING))
    assert caught.value.param == "remix_of"


def test_a_task_is_asked_about_where_it_was_begun() -> None:
    outgoing = translate_request(poll({"kind": "image2video", "task_id": THEIRS}))
    assert (outgoing.method, outgoing.url) == ("GET", f"{BASE}/v1/videos/image2video/{THEIRS}")
    assert outgoing.json is None


def test_what_is_kept_of_a_task_of_another_provider_is_refused() -> None:
    with pytest.raises(UpstreamError):
        translate_request(poll({"name": "operations/1"}))


def test_a_video_that_has_begun_cannot_be_stopped() -> None:
    with pytest.raises(UnsupportedOperation):
        translate_request(VideoCancel(model="asked", task_id=OURS, operation=RUNNING))


def test_other_operations_are_refused() -> None:
    with pytest.raises(UnsupportedOperation):
        translate_request(chat("Hello"))


def test_a_request_is_not_changed_by_being_sent_again() -> None:
    request, call = make_request(image=picture(), seconds=5, metadata={"mode": "pro"}), call_for()
    first = asyncio.run(plugin.translate_request(call, request)).json
    assert asyncio.run(plugin.translate_request(call, request)).json == first


def test_recorded_answers_are_of_the_shape_that_the_contract_reads() -> None:
    assert stands("submitted")["data"]["task_id"] == RUNNING["task_id"]
