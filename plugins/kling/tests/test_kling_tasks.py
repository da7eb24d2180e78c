"""A task from its beginning to its end, and every way in which its creation can fail."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kling_calls import (
    ACCESS,
    OURS,
    RUNNING,
    SECRET,
    THEIRS,
    fault,
    make_answer,
    make_request,
    operation,
    picture,
    poll,
    read_claims,
    stands,
)

from tests.support.upstream import Reset, Upstream, answer
from tornado_gate.errors import (
    GateError,
    UpstreamError,
    UpstreamKeyRefused,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
)
from tornado_gate.types import replace

IMAGE = {"kind": "image2video", "task_id": THEIRS}
BEGIN = "/v1/videos/text2video"


def raised(url: str, request: Any) -> GateError:
    with pytest.raises(GateError) as caught:
        operation(url, request)
    return caught.value


def paths(upstream: Upstream) -> list[str]:
    return [f"{request.method} {request.path}" for request in upstream.requests]


def test_a_text_is_begun_with_a_token_that_holds(upstream: Upstream) -> None:
    upstream.script(make_answer(stands("submitted")))
    video = operation(upstream.url, make_request(seconds=10))
    assert (video.status, video.operation) == ("queued", RUNNING)
    request = upstream.requests[0]
    assert (request.method, request.path) == ("POST", BEGIN)
    assert request.json == {"model_name": "kling-v2-6", "prompt": "A cat", "duration": "10", "external_task_id": OURS}
    assert request.headers["content-type"] == "application/json"
    token = request.headers["authorization"].removeprefix("Bearer ")
    assert read_claims(token)["iss"] == ACCESS


def test_a_picture_is_begun_and_remembered_as_one(upstream: Upstream) -> None:
    upstream.script(make_answer(stands("processing")))
    video = operation(upstream.url, make_request(image=picture()))
    assert (video.status, video.operation) == ("running", IMAGE)
    assert upstream.requests[0].path == "/v1/videos/image2video"


@pytest.mark.parametrize(("word", "status"), [("submitted", "queued"), ("processing", "running")])
def test_a_task_under_way_says_so(upstream: Upstream, word: str, status: str) -> None:
    upstream.script(make_answer(stands(word, task_status_msg=None, task_result=None)))
    video = operation(upstream.url, poll(RUNNING))
    assert (video.status, video.operation, video.error) == (status, RUNNING, "")
    assert paths(upstream) == [f"GET {BEGIN}/{THEIRS}"]


def test_a_word_that_is_not_known_is_handed_on(upstream: Upstream) -> None:
    upstream.script(make_answer(stands("dreaming")))
    video = operation(upstream.url, poll(RUNNING))
    assert (video.status, video.raw) == ("unknown", "dreaming")


def test_a_finished_task_has_its_videos_and_their_length(upstream: Upstream) -> None:
    videos = [
        {
            "id": "a",
            "url": "https://cdn.example/a.mp4?sign=1",
            "watermark_url": "https://cdn.example/aw.mp4",
            "duration": "5.1",
        },
        {"id": "b", "url": "https://cdn.example/b.mp4", "duration": "5.1"},
    ]
    result = {"task_result": {"videos": videos}, "final_unit_deduction": "2", "watermark_info": {"enabled": False}}
    upstream.script(make_answer(stands("succeed", **result)))
    video = operation(upstream.url, poll(IMAGE))
    assert (video.status, video.videos, video.duration) == ("completed", 2, 5.1)
    assert video.operation == {**IMAGE, "urls": ["https://cdn.example/a.mp4?sign=1", "https://cdn.example/b.mp4"]}


def test_where_a_watermark_was_asked_for_the_video_has_it(upstream: Upstream) -> None:
    videos = [{"id": "a", "url": "https://cdn.example/a", "watermark_url": "https://cdn.example/aw", "duration": "5"}]
    upstream.script(make_answer(stands("succeed", task_result={"videos": videos}, watermark_info={"enabled": True})))
    video = operation(upstream.url, poll(RUNNING))
    assert video.operation == {**RUNNING, "urls": ["https://cdn.example/aw"]}


@pytest.mark.parametrize("result", [None, {}, {"videos": None}, {"videos": [{"id": "a"}, 1]}])
def test_a_finished_task_without_a_video_has_none(upstream: Upstream, result: Any) -> None:
    upstream.script(make_answer(stands("succeed", task_result=result)))
    video = operation(upstream.url, poll(RUNNING))
    assert (video.status, video.videos, video.duration) == ("completed", 0, None)


@pytest.mark.parametrize("duration", ["", "long", None, "nan", "-1", {}])
def test_a_length_that_is_none_is_not_told(upstream: Upstream, duration: Any) -> None:
    result = {"videos": [{"id": "a", "url": "https://cdn.example/a", "duration": duration}]}
    upstream.script(make_answer(stands("succeed", task_result=result)))
    assert operation(upstream.url, poll(RUNNING)).duration is None


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("Failure to pass the risk control system", "content_policy_violation"),
        ("Content moderation review failed.", "content_policy_violation"),
        ("Image pixel is invalid", "generation_failed"),
        ("", "generation_failed"),
        (None, "generation_failed"),
    ],
)
def test_a_failed_task_says_why_in_the_upstreams_words(upstream: Upstream, why: str | None, code: str) -> None:
    upstream.script(make_answer(stands("failed", task_status_msg=why, task_result={})))
    video = operation(upstream.url, poll(RUNNING))
    assert (video.status, video.code, video.error) == ("failed", code, why or "")


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 1301), (400, 1300), (200, 1301)],
)
def test_a_beginning_against_the_policy_is_a_video_that_failed(upstream: Upstream, status: int, code: int) -> None:
    upstream.script(make_answer(fault(code, "The prompt is not allowed"), status))
    video = operation(upstream.url, make_request())
    assert (video.status, video.code) == ("failed", "content_policy_violation")
    assert (video.error, video.operation) == ("The prompt is not allowed", None)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("status", "code", "kind", "shown"),
    [
        (400, 1201, UpstreamRefused, 400),
        (404, 1203, UpstreamRefused, 404),
        (429, 1302, UpstreamRateLimited, 429),
        (429, 1303, UpstreamRateLimited, 429),
        (503, 5001, UpstreamOverloaded, 503),
        (504, 5002, UpstreamTimeout, 504),
        (500, 5000, UpstreamError, 502),
        (200, 1201, UpstreamRefused, 400),
        (200, 1303, UpstreamRateLimited, 429),
        (200, 5001, UpstreamOverloaded, 503),
        (200, 7777, UpstreamError, 502),
    ],
)
def test_a_beginning_that_is_refused_has_the_error_of_its_code(
    upstream: Upstream, status: int, code: int, kind: type[GateError], shown: int
) -> None:
    upstream.script(
        make_answer(fault(code, "what is wrong"), status, path=BEGIN, retry_after="7"),
        make_answer(fault(1203, "no task"), 404),
    )
    error = raised(upstream.url, make_request())
    assert type(error) is kind
    assert error.status == shown
    if kind is UpstreamRefused:
        assert error.message == "what is wrong"
        assert error.code == str(code)
    if kind is UpstreamRateLimited:
        assert error.headers == {"Retry-After": "7"}


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, 1000), (401, 1002), (401, 1004), (429, 1101), (429, 1102), (403, 1103), (429, 1304), (200, 1004), (401, 0)],
)
@pytest.mark.parametrize("request_", [make_request(), poll(RUNNING), poll()], ids=["begin", "poll", "look up"])
def test_what_is_about_our_account_is_no_business_of_the_caller(
    upstream: Upstream, caplog: pytest.LogCaptureFixture, status: int, code: int, request_: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    upstream.script(make_answer(fault(code or -5, f"{ACCESS} owes: task not found"), status, path="/v1"))
    error = raised(upstream.url, request_)
    assert (type(error), error.status, error.code) == (UpstreamKeyRefused, 502, "upstream_authentication")
    assert "owes" not in error.message
    assert len(upstream.requests) == 1
    assert not any(secret in error.message + caplog.text for secret in (ACCESS, SECRET))


def test_no_key_comes_down_with_the_upstreams_words(upstream: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    upstream.script(make_answer(fault(1201, f"{ACCESS} and {SECRET} sent what is wrong"), 400))
    error = raised(upstream.url, make_request())
    assert error.message == "*** and *** sent what is wrong"
    upstream.script(make_answer(stands("failed", task_status_msg=f"{SECRET} failed")))
    assert operation(upstream.url, poll(RUNNING)).error == "*** failed"
    assert not any(secret in caplog.text for secret in (ACCESS, SECRET, "eyJ"))


@pytest.mark.parametrize(
    "said",
    [(404, fault(1203, "task not found")), (400, fault(1201, "Task does not exist")), (200, fault(1203, "gone"))],
)
def test_a_task_that_the_upstream_does_not_know_is_lost(upstream: Upstream, said: tuple[int, Any]) -> None:
    upstream.script(make_answer(said[1], said[0]))
    assert operation(upstream.url, poll(RUNNING)).status == "lost"


def test_a_404_that_is_not_the_vendors_does_not_end_a_task(upstream: Upstream) -> None:
    upstream.script(answer("<h1>Not Found</h1>", status=404, headers={"content-type": "text/html"}))
    error = raised(upstream.url, poll(RUNNING))
    assert type(error) is UpstreamError
    assert error.retryable


def test_a_beginning_that_nobody_saw_is_found_by_our_name(upstream: Upstream) -> None:
    upstream.script(make_answer(fault(1203, "task not found"), 404), make_answer(stands("processing")))
    video = operation(upstream.url, poll())
    assert (video.status, video.operation) == ("running", IMAGE)
    assert paths(upstream) == [f"GET /v1/videos/{kind}/{OURS}" for kind in ("text2video", "image2video")]


def test_a_beginning_that_never_was_is_lost(upstream: Upstream) -> None:
    upstream.script(make_answer(fault(1203, "task not found"), 404), make_answer(fault(1203, "task not found"), 404))
    assert operation(upstream.url, poll()).status == "lost"
    assert len(upstream.requests) == 2


def test_a_task_of_another_name_is_not_ours(upstream: Upstream) -> None:
    other = stands("processing", task_info={"external_task_id": "somebody-elses"})
    upstream.script(make_answer(other), make_answer(other))
    assert operation(upstream.url, poll()).status == "lost"


@pytest.mark.parametrize("data", [None, {}, [], [stands("processing")["data"]]])
def test_an_answer_without_a_task_is_no_task_of_ours(upstream: Upstream, data: Any) -> None:
    nothing = {"code": 0, "message": "SUCCEED", "data": data}
    upstream.script(make_answer(nothing), make_answer(nothing))
    assert operation(upstream.url, poll()).status == "lost"


def test_whether_it_began_is_not_known_while_the_upstream_is_down(upstream: Upstream) -> None:
    upstream.script(make_answer(fault(1203, "task not found"), 404), make_answer(fault(5001, "maintenance"), 503))
    assert type(raised(upstream.url, poll())) is UpstreamOverloaded


def test_a_name_that_is_taken_is_the_task_that_we_began_before(upstream: Upstream) -> None:
    upstream.script(
        make_answer(fault(1201, f"External_task_id {OURS} already exists"), 400), make_answer(stands("processing"))
    )
    video = operation(upstream.url, make_request())
    assert (video.status, video.operation) == ("running", RUNNING)
    assert paths(upstream) == [f"POST {BEGIN}", f"GET {BEGIN}/{OURS}"]


def test_a_beginning_whose_answer_was_cut_off_is_found(upstream: Upstream) -> None:
    upstream.script(answer(Reset()), make_answer(stands("submitted"), path=f"{BEGIN}/{OURS}"))
    video = operation(upstream.url, make_request())
    assert (video.status, video.operation) == ("queued", RUNNING)
    assert paths(upstream)[-1] == f"GET {BEGIN}/{OURS}"


def test_a_beginning_that_ran_out_of_time_upstream_is_found(upstream: Upstream) -> None:
    upstream.script(make_answer(fault(5002, "backlog"), 504), make_answer(stands("submitted")))
    assert operation(upstream.url, make_request()).operation == RUNNING


def test_a_beginning_that_failed_and_left_nothing_keeps_its_own_error(upstream: Upstream) -> None:
    upstream.script(make_answer(fault(5002, "backlog"), 504), make_answer(fault(1203, "task not found"), 404))
    assert type(raised(upstream.url, make_request())) is UpstreamTimeout


def test_a_beginning_without_a_name_is_not_looked_for(upstream: Upstream) -> None:
    upstream.script(make_answer(fault(5002, "backlog"), 504))
    assert type(raised(upstream.url, make_request(task_id=""))) is UpstreamTimeout
    assert len(upstream.requests) == 1
    assert "external_task_id" not in upstream.requests[0].json


def test_a_name_cannot_lead_to_another_address(upstream: Upstream) -> None:
    upstream.script(make_answer(fault(1203, "no"), 404), make_answer(fault(1203, "no"), 404))
    assert operation(upstream.url, replace(poll(), task_id="../../account?x#y")).status == "lost"
    assert upstream.requests[0].path == f"{BEGIN}/..%2F..%2Faccount%3Fx%23y"


@pytest.mark.parametrize("body", ["<html>", "[]", '"text"', ""])
def test_an_answer_that_is_no_envelope_is_the_upstreams_fault(upstream: Upstream, body: str) -> None:
    upstream.script(answer(body, repeat=True))
    error = raised(upstream.url, poll(RUNNING))
    assert (type(error), error.status) == (UpstreamError, 502)


@pytest.mark.parametrize("task_id", [None, 5, "", "..", "a/b", "x" * 129])
def test_a_task_without_an_id_that_it_could_be_asked_by_is_the_upstreams_fault(
    upstream: Upstream, task_id: Any
) -> None:
    upstream.script(make_answer(stands("submitted", task_id=task_id)))
    assert type(raised(upstream.url, make_request())) is UpstreamError


def test_an_upstream_that_is_not_there_is_an_upstream_error() -> None:
    assert isinstance(raised("http://127.0.0.1:9", make_request()), UpstreamError)
