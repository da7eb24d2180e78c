"""The client half of Veo's long-running operations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamRateLimited
from tornado_gate.testing import call_to
from tornado_gate.types import Call, Data, VideoOperation, VideoRequest
from tornado_gate_gemini.wire import videos as wire

NAME = "models/veo-3.1-generate-preview/operations/abc123"
URI = "https://generativelanguage.googleapis.com/v1beta/files/x1y2:download?alt=media"


def call_for(**fields: Any) -> Call:
    return call_to(operation="videos", model="m", upstream_model="veo-3.1-generate-preview", **fields)


def rendered(call: Call | None = None, picture: Data | None = None, **fields: Any) -> dict[str, Any]:
    return wire.render_video_request(call or call_for(), VideoRequest(model="m", prompt="A cat", **fields), picture)


def parameters(**fields: Any) -> tuple[dict[str, Any], list[str]]:
    call = call_for()
    return rendered(call, **fields).get("parameters", {}), call.losses


def done(*uris: str, **response: Any) -> dict[str, Any]:
    samples = [{"video": {"uri": uri}} for uri in uris]
    answer = {"generatedSamples": samples, **response} if samples else response
    return {"name": NAME, "done": True, "response": {"generateVideoResponse": answer}}


def test_a_prompt_alone_is_all_that_is_said() -> None:
    assert rendered() == {"instances": [{"prompt": "A cat"}]}


def test_every_wish_has_its_parameter() -> None:
    call = call_for()
    picture = Data(media_type="image/png", base64="iVBORw0KGgo=")
    body = rendered(
        call, picture, seconds=8.0, width=1920, height=1080, seed=7, n=2, metadata={"negative_prompt": "dogs"}
    )  # fmt: skip
    assert body == {
        "instances": [
            {"prompt": "A cat", "image": {"bytesBase64Encoded": "iVBORw0KGgo=", "mimeType": "image/png"}},
        ],
        "parameters": {
            "aspectRatio": "16:9",
            "resolution": "1080p",
            "durationSeconds": 8,
            "negativePrompt": "dogs",
            "seed": 7,
            "sampleCount": 2,
        },
    }
    assert type(body["parameters"]["durationSeconds"]) is int
    assert call.losses == []


@pytest.mark.parametrize(
    ("width", "height", "ratio", "resolution", "lost"),
    [
        (1280, 720, "16:9", "720p", False),
        (720, 1280, "9:16", "720p", False),
        (1080, 1920, "9:16", "1080p", False),
        (3840, 2160, "16:9", "4k", False),
        (1024, 576, "16:9", None, True),
        (1792, 1024, "16:9", None, True),
        (1024, 1792, "9:16", None, True),
        (1080, 720, "16:9", None, True),
        (1024, 1024, None, None, True),
    ],
)
def test_a_size_is_a_ratio_and_a_resolution_or_is_told_as_lost(
    width: int, height: int, ratio: str | None, resolution: str | None, lost: bool
) -> None:
    found, losses = parameters(width=width, height=height)
    assert (found.get("aspectRatio"), found.get("resolution")) == (ratio, resolution)
    assert losses == (["width", "height"] if lost else [])


def test_a_size_that_is_lost_has_the_callers_name_once() -> None:
    _, losses = parameters(width=1024, height=1024, names={"width": "size", "height": "size"})
    assert losses == ["size"]


def test_what_has_no_word_is_lost_by_name() -> None:
    found, losses = parameters(
        fps=24, watermark=True, user="u", extra={"steps": 4, "none": None},
        metadata={"style": "oil", "negative_prompt": None, "nothing": None},
    )  # fmt: skip
    assert found == {}
    assert losses == ["fps", "watermark", "user", "steps", "metadata.style"]


def test_one_video_is_what_the_vendor_makes_without_being_told() -> None:
    assert parameters(n=1) == ({}, [])


def test_a_length_must_be_whole_seconds() -> None:
    with pytest.raises(InvalidField) as caught:
        rendered(seconds=4.5, names={"seconds": "duration"})
    assert caught.value.param == "duration"
    assert "whole number of seconds" in caught.value.message


def test_a_negative_prompt_must_be_text() -> None:
    with pytest.raises(InvalidField) as caught:
        rendered(metadata={"negative_prompt": ["dogs"]})
    assert caught.value.param == "metadata.negative_prompt"


@pytest.mark.parametrize("body", [{"name": NAME}, {"name": NAME, "done": False, "metadata": {"@type": "x"}}])
def test_an_operation_that_is_not_done_runs(body: Any) -> None:
    assert wire.parse_operation(body) == VideoOperation(status="running", operation={"name": NAME}, poll_after=10.0)


def test_a_done_operation_says_where_its_videos_are() -> None:
    operation = wire.parse_operation(done(URI, URI + "&2", raiMediaFilteredCount=1))
    assert (operation.status, operation.videos) == ("completed", 2)
    assert operation.operation == {"name": NAME, "videos": [URI, URI + "&2"]}


def test_a_done_operation_without_anything_has_no_videos() -> None:
    assert wire.parse_operation({"name": NAME, "done": True}).videos == 0


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": ["A child.", "A brand."]}, "A child. A brand."),
        ({"raiMediaFilteredCount": 1}, "The upstream's safety filter removed all videos."),
        ({"generatedSamples": [{}], "raiMediaFilteredReasons": ["A child."]}, "A child."),
    ],
)
def test_videos_that_were_all_filtered_are_a_failure_with_the_reason(response: Any, said: str) -> None:
    operation = wire.parse_operation(done(**response))
    assert (operation.status, operation.error, operation.code) == ("failed", said, "content_policy_violation")


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        ({"code": 3, "message": "Bad prompt."}, "Bad prompt.", "invalid_argument"),
        ({"code": 13, "message": "Internal."}, "Internal.", "internal"),
        ({"code": 8}, "", "resource_exhausted"),
        ({"code": 99, "message": "Odd."}, "Odd.", ""),
        ({"code": "x", "message": 5}, "", ""),
    ],
)
def test_an_operation_that_failed_has_the_upstreams_words(error: Any, said: str, code: str) -> None:
    operation = wire.parse_operation({"name": NAME, "done": True, "error": error})
    assert (operation.status, operation.error, operation.code) == ("failed", said, code)


@pytest.mark.parametrize(
    "error", [{"code": 7, "message": "project 5"}, {"code": 16}, {"code": 3, "message": "API key expired"}]
)
def test_of_a_fault_of_our_key_callers_learn_nothing(error: Any) -> None:
    operation = wire.parse_operation({"name": NAME, "done": True, "error": error})
    assert "refused the gateway's own credentials" in operation.error
    assert operation.code == "upstream_authentication"


def test_an_error_in_place_of_an_operation_is_raised() -> None:
    with pytest.raises(UpstreamRateLimited, match="slow down"):
        wire.parse_operation({"error": {"code": 429, "message": "slow down"}})
    for body in (None, [], {}, {"name": ""}, {"name": 5, "done": True}, "text"):
        with pytest.raises(UpstreamError):
            wire.parse_operation(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["generateVideoResponse", "generatedSamples", "video", "uri", "code", "message"])
            | st.text(max_size=5),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.fixed_dictionaries({"name": st.just(NAME), "done": st.booleans(), "response": JSON, "error": JSON}) | JSON)
def test_no_answer_is_a_crash(body: Any) -> None:
    try:
        assert wire.parse_operation(body).videos >= 0
    except GateError as error:
        assert error.status >= 400
