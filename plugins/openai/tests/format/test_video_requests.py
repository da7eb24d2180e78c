"""Bodies that begin a video: every field and its bounds, in the contract's names and in the vendor's."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
from format_openai_calls import call_for
from hypothesis import given
from hypothesis import strategies as st
from image_calls import PNG, png
from openai.types.video_create_params import VideoCreateParams
from operation_calls import done, wire_of

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.http.fetch.pictures import MAX_PIXELS
from tornado_gate.types import Call, Data, Link, Route, TaskRequest, VideoRequest
from tornado_gate_openai.fields.videos import MAX_PROMPT_LENGTH, MAX_URL_LENGTH, VideoBodySchema
from tornado_gate_openai.format import videos

ROUTES = {(route.method, route.path): route for route in videos.ROUTES}
VIDEOS = ROUTES["POST", "/v1/videos"]
GENERATIONS = ROUTES["POST", "/v1/video/generations"]
TEXT = ROUTES["POST", "/vendor/v1/videos/text2video"]
IMAGE = ROUTES["POST", "/vendor/v1/videos/image2video"]
REMIX = ROUTES["POST", "/v1/videos/{task_id}/remix"]
CREATE = (VIDEOS, GENERATIONS, TEXT, IMAGE)

B64 = base64.b64encode(PNG).decode()
MP4 = b"\0\0\0\x18ftypisom\0\0\0\0" + bytes(40)
FULL: dict[str, Any] = {
    "model": "m",
    "prompt": "A quiet lake",
    "image": "https://example.com/lake.png",
    "duration": 4.5,
    "width": 1280,
    "height": 720,
    "fps": 24,
    "seed": 7,
    "n": 2,
    "response_format": "url",
    "user": "u",
    "metadata": {"negative_prompt": "rain", "style": "oil"},
}


def read_request(route: Route = VIDEOS, call: Call | None = None, **fields: Any) -> VideoRequest:
    request = done(videos.parse(call or call_for(), wire_of(route, {"model": "m", "prompt": "p", **fields})))
    assert isinstance(request, VideoRequest)
    return request


def fault_of(body: Any, route: Route = VIDEOS, call: Call | None = None) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        done(videos.parse(call or call_for(""), wire_of(route, body, task_id="video_1")))
    assert caught.value.status == 400
    return caught.value


def catch_refusal(route: Route = VIDEOS, **fields: Any) -> str:
    """The field that a body with these is refused for."""
    return fault_of({"model": "m", "prompt": "p", **fields}, route).param


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("route", CREATE)
def test_every_field_of_the_contract_reaches_the_request(route: Route) -> None:
    request = done(videos.parse(call_for(), wire_of(route, FULL)))
    assert request == VideoRequest(
        model="m",
        prompt="A quiet lake",
        wire_format=route.wire_format,
        user="u",
        image=Link(url="https://example.com/lake.png"),
        seconds=4.5,
        width=1280,
        height=720,
        fps=24,
        seed=7,
        n=2,
        metadata={"negative_prompt": "rain", "style": "oil"},
        names={"seconds": "duration", "image": "image", "webhook": "webhook_url"},
    )


def test_every_field_of_the_vendors_sdk_is_known() -> None:
    assert set(VideoCreateParams.__annotations__) <= set(VideoBodySchema().fields)


def test_the_vendors_names_mean_the_same_and_keep_their_names() -> None:
    request = read_request(seconds="8", size="720x1280", input_reference={"image_url": f"data:image/png;base64,{B64}"})
    assert (request.seconds, request.width, request.height) == (8.0, 720, 1280)
    assert request.image == Data(media_type="image/png", base64=B64)
    names = [request.field_name(name) for name in ("seconds", "width", "height", "image")]
    assert names == ["seconds", "size", "size", "input_reference.image_url"]


def test_what_is_not_said_is_not_asked_for() -> None:
    request = read_request(
        image=None, duration=None, seconds=None, width=None, height=None, size=None, fps=None, seed=None, n=None
    )
    assert request == VideoRequest(
        model="m",
        prompt="p",
        wire_format="openai-videos",
        names={"seconds": "duration", "image": "image", "webhook": "webhook_url"},
    )


def test_the_model_may_be_confs_default() -> None:
    assert done(videos.parse(call_for("house"), wire_of(VIDEOS, {"prompt": "p"}))).model == "house"


@pytest.mark.parametrize("route", CREATE)
@pytest.mark.parametrize(
    ("param", "code", "body"),
    [
        ("prompt", "missing_required_parameter", {"model": "m"}),
        ("prompt", "invalid_value", {"model": "m", "prompt": None}),
        ("prompt", "invalid_value", {"model": "m", "prompt": ""}),
        ("prompt", "invalid_value", {"model": "m", "prompt": " \n"}),
        ("prompt", "invalid_value", {"model": "m", "prompt": ["p"]}),
        ("prompt", "invalid_value", {"model": "m", "prompt": "p" * (MAX_PROMPT_LENGTH + 1)}),
        ("model", "invalid_value", {"prompt": "p"}),
        ("model", "invalid_value", {"model": 5, "prompt": "p"}),
    ],
)
def test_model_and_prompt_are_needed(route: Route, param: str, code: str, body: Any) -> None:
    fault = fault_of({"image": B64, **body}, route)
    assert (fault.param, fault.code) == (param, code)


def test_the_longest_prompt_is_taken() -> None:
    assert len(read_request(prompt="ä" * MAX_PROMPT_LENGTH).prompt) == MAX_PROMPT_LENGTH


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("duration", [0, -1, 0.99, 60.01, 10**9, True, "5", [5], {}]),
        ("seconds", [0, 61, "0", "61", "-4", "", "four", "4s", " 4", "٤", "4.", "1e1", "nan", True, [], {}, 2**63]),
        ("fps", [0, -24, 61, 23.976, 24.0, "24", True]),
        ("n", [0, -1, 5, 1.0, "1", True]),
        ("seed", [1.5, "7", True, 2**63]),
        ("watermark", [0, 1, "true", "yes", []]),
        ("user", [5, [], {}]),
        ("response_format", [5, ["url"]]),
        ("metadata", ["{}", [], 5, True]),
        ("image", [5, [], {"url": "x"}, "", "file:///etc/passwd", "ftp://example.com/a.png"]),
        ("size", ["1280X720", "1280*720", "1280x", "x720", "1280x720x3", "auto", "", " 1280x720", "٦٤x64", 720]),
        ("size", ["63x64", "64x63", "4097x64", "64x4097", "0x0", "-64x64", "999999x999999", "9999999x64"]),
        ("input_reference", ["https://example.com/a.png", 5, [], {}, {"file_id": "f", "image_url": "u"}]),
        ("input_reference.image_url", [{"image_url": 5}, {"image_url": ""}, {"image_url": "gopher://x"}]),
        ("input_reference.file_id", [{"file_id": "file_1"}]),
        (
            "webhook_url",
            [5, "", "example.com", "/hook", "ftp://example.com", "javascript:alert(1)", "http://", "https://:80"],
        ),
        (
            "webhook_url",
            ["https://u:p@example.com/", "https://u@example.com", "http://a b/", "http://a/\r\nx", "http://[::"],
        ),
        ("webhook_url", ["http://a:99999/", "http://a:0/", "http://a\\@b/", "https://a/" + "x" * MAX_URL_LENGTH]),
    ],
)
def test_a_wrong_field_is_named(name: str, wrong: list[Any]) -> None:
    field = name.partition(".")[0]
    assert [catch_refusal(**{field: value}) for value in wrong] == [name] * len(wrong)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("duration", [1, 60, 1.5]),
        ("seconds", ["1", "60", "4.5", 4, 4.5]),
        ("fps", [1, 60]),
        ("n", [1, 4]),
        ("seed", [0, -1, 2**63 - 1]),
        ("watermark", [True, False]),
        (
            "webhook_url",
            ["https://example.com/hook?a=b", "http://127.0.0.1:8000", "https://[::1]/", "https://münchen.example/"],
        ),
    ],
)
def test_what_is_within_bounds_is_taken(name: str, right: list[Any]) -> None:
    field = {"duration": "seconds", "webhook_url": "webhook"}.get(name, name)
    given = [getattr(read_request(**{name: value}), field) for value in right]
    assert given == ([float(value) for value in right] if field == "seconds" else right)


@pytest.mark.parametrize("side", [64, 4096])
def test_the_smallest_and_the_largest_sides_are_taken(side: int) -> None:
    assert read_request(width=side, height=side).width == side
    assert read_request(size=f"{side}x{side}").height == side


@pytest.mark.parametrize("side", [0, -720, 63, 4097, 10**9, 720.0, "720", True])
def test_a_wrong_side_is_named(side: Any) -> None:
    assert catch_refusal(width=side, height=720) == "width"
    assert catch_refusal(width=1280, height=side) == "height"


def test_a_side_alone_needs_the_other() -> None:
    for there, other in (("width", "height"), ("height", "width")):
        fault = fault_of({"model": "m", "prompt": "p", there: 720})
        assert (fault.param, fault.code) == (other, "missing_required_parameter")


def test_two_names_for_one_thing_must_agree() -> None:
    assert catch_refusal(duration=4, seconds="5") == "seconds"
    assert catch_refusal(width=1280, height=720, size="720x1280") == "size"
    request = read_request(duration=4, seconds="4", width=1280, height=720, size="1280x720")
    assert (request.seconds, request.width, request.height) == (4.0, 1280, 720)
    assert request.field_name("width") == "width"


def test_two_pictures_are_one_too_many() -> None:
    assert catch_refusal(image=B64, input_reference={"image_url": "https://example.com/a.png"}) == "image"


def test_conf_may_move_the_bounds_of_a_model() -> None:
    call = call_for(facts={"video_bounds": {"seconds": [5, 10], "n": [1, 1]}})
    assert read_request(call=call, duration=10, fps=60).seconds == 10
    for fields, param in (
        ({"duration": 4}, "duration"),
        ({"seconds": "11"}, "seconds"),
        ({"n": 2}, "n"),
        ({"fps": 61}, "fps"),
    ):
        assert fault_of({"model": "m", "prompt": "p", **fields}, call=call).param == param


@pytest.mark.parametrize("image", [B64, data_url(PNG), data_url(PNG, "image/PNG"), B64.rstrip("=")])
def test_a_picture_may_stand_in_the_body(image: str) -> None:
    assert isinstance(read_request(image=image).image, Data)


@pytest.mark.parametrize(
    ("code", "image"),
    [
        ("wrong_media_type", base64.b64encode(MP4).decode()),
        ("wrong_media_type", data_url(MP4, "video/mp4")),
        ("wrong_media_type", data_url(MP4)),
        ("wrong_media_type", data_url(b"%PDF-1.7 and more", "application/pdf")),
        ("wrong_media_type", data_url(PNG, "image/jpeg")),
        ("wrong_media_type", data_url(b"")),
        ("invalid_image", data_url(PNG[:20])),
        ("image_too_large", data_url(PNG[:16] + (MAX_PIXELS).to_bytes(4, "big") + (2).to_bytes(4, "big") + PNG[24:])),
        ("invalid_base64", "?" * 40),
        ("invalid_url", "data:image/png,plain"),
    ],
)
@pytest.mark.parametrize("vendor", [False, True])
def test_what_is_no_picture_is_refused_by_its_content(code: str, image: str, vendor: bool) -> None:
    reference = {"input_reference": {"image_url": image}} if vendor else {"image": image}
    fault = fault_of({"model": "m", "prompt": "p", **reference})
    assert fault.param == ("input_reference.image_url" if vendor else "image")
    assert fault.code == code


def test_an_address_is_not_fetched_here() -> None:
    """The call has no fetcher."""
    assert read_request(image="http://10.0.0.1/a.png").image == Link(url="http://10.0.0.1/a.png")


def test_only_image_to_video_needs_a_picture() -> None:
    fault = fault_of({"model": "m", "prompt": "p"}, IMAGE)
    assert (fault.param, fault.code) == ("image", "missing_required_parameter")
    assert catch_refusal(IMAGE, image=None) == "image"
    assert read_request(IMAGE, image=B64).image == Data(media_type="", base64=B64)
    assert read_request(TEXT).image is None
    assert read_request(TEXT, image=B64).image is not None
    assert read_request(VIDEOS).image is None


def test_other_forms_of_answer_are_lost() -> None:
    call = call_for()
    read_request(call=call, response_format="b64_json")
    assert call.losses == ["response_format"]
    assert fault_of({"model": "m", "prompt": "p", "response_format": "b64_json"}, call=call_for(strict=True)).param == (
        "response_format"
    )


def test_unknown_fields_are_kept_for_the_provider_to_know_or_lose() -> None:
    assert read_request(camera="pan", stream=True).extra == {"camera": "pan", "stream": True}


def test_a_remix_says_what_to_change() -> None:
    wire = wire_of(REMIX, {"prompt": "at night", "user": "u", "style": "x", "seconds": 4}, task_id="video_1")
    request = done(videos.parse(call_for(""), wire))
    assert isinstance(request, TaskRequest)
    assert (request.action, request.task_id) == ("remix", "video_1")
    assert request.request == VideoRequest(
        model="",
        prompt="at night",
        user="u",
        wire_format="openai-videos",
        extra={"style": "x", "seconds": 4},
        names={"webhook": "webhook_url"},
    )


@pytest.mark.parametrize(
    ("param", "body"),
    [
        ("prompt", {}),
        ("prompt", {"prompt": ""}),
        ("prompt", {"prompt": 5}),
        ("webhook_url", {"prompt": "p", "webhook_url": "x"}),
        ("metadata", {"prompt": "p", "metadata": []}),
    ],
)
def test_a_wrong_remix_is_named(param: str, body: Any) -> None:
    assert fault_of(body, REMIX).param == param


def test_a_large_picture_is_looked_at_from_its_beginning() -> None:
    """Noise behind the header is not decoded."""
    padded = png(32, 32) + bytes(400_000)
    assert read_request(image=data_url(padded)).image is not None


_values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["4", "64x64", B64, "https://a/", "data:;base64,"])
    | st.lists(st.none(), max_size=1)
    | st.dictionaries(st.sampled_from(["image_url", "file_id"]), st.text(max_size=4) | st.integers(0, 9))
)


@given(
    body=st.dictionaries(st.sampled_from([*VideoBodySchema().fields, "x"]), _values),
    route=st.sampled_from((*CREATE, REMIX)),
)
def test_no_body_raises_anything_but_a_400_that_names_a_field(body: dict[str, Any], route: Route) -> None:
    try:
        raw = orjson.dumps(body)
    except TypeError:  # an integer beyond 64 bits, which no body can hold as one
        return
    try:
        done(videos.parse(call_for(), wire_of(route, raw, task_id="video_1")))
    except GateError as error:
        assert error.status == 400
        assert error.param
