"""Models that use tasks, against a real server: creation, polls, success, failure, callers who leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from dashscope_calls import CREATED, PNG, TASK, made, make_answer, make_request, picture, reaching, stands

from tests.support.upstream import Hang, Upstream, answer
from tornado_gate import errors
from tornado_gate_dashscope import tasks

ASKED = f"/api/v1/tasks/{TASK}"
CANCEL = f"{ASKED}/cancel"


def done(upstream: Upstream, *paths: str, faults: int = 0) -> Any:
    results: list[dict[str, str]] = [{"url": upstream.url + path, "actual_prompt": "A fine cat"} for path in paths]
    results += [{"code": "DataInspectionFailed", "message": "unfit"}] * faults
    return stands("SUCCEEDED", results=results)


@pytest.mark.gen_test
async def test_a_task_is_made_asked_about_until_it_ends_and_its_picture_fetched(upstream: Upstream) -> None:
    upstream.script(
        make_answer(CREATED), stands("PENDING"), stands("RUNNING"), done(upstream, "/oss/1.png"), picture("/oss")
    )
    async with reaching(upstream.url) as call:
        result = await made(call, make_request(size="1024x1024"))
    (image,) = result.images
    assert (image.data, image.media_type, image.revised_prompt) == (PNG, "image/png", "A fine cat")
    create, *questions, _ = upstream.requests
    assert (create.method, create.path) == ("POST", "/api/v1/services/aigc/text2image/image-synthesis")
    assert create.headers["x-dashscope-async"] == "enable"
    assert create.json == {
        "model": "wan2.2-t2i-flash",
        "input": {"prompt": "A cat"},
        "parameters": {"n": 1, "size": "1024*1024"},
    }
    assert [(question.method, question.path) for question in questions] == [("GET", ASKED)] * 3
    assert all(question.headers["authorization"] == create.headers["authorization"] for question in questions)
    assert all("x-dashscope-async" not in question.headers for question in questions)


@pytest.mark.gen_test
async def test_a_task_of_messages_answers_with_choices(upstream: Upstream) -> None:
    choices = [{"message": {"content": [{"image": f"{upstream.url}/oss/1.png", "type": "image"}]}}]
    upstream.script(make_answer(CREATED), stands("SUCCEEDED", choices=choices), picture("/oss"))
    async with reaching(upstream.url, "wan2.6-t2i", asynchronous=["wan2.6-*"]) as call:
        result = await made(call, make_request())
    assert [image.data for image in result.images] == [PNG]
    assert upstream.requests[0].path == "/api/v1/services/aigc/image-generation/generation"


@pytest.mark.gen_test
async def test_pictures_that_were_made_come_although_one_was_not(upstream: Upstream) -> None:
    upstream.script(
        make_answer(CREATED), done(upstream, "/oss/1.png", "/oss/2.png", faults=1), picture("/oss"), picture("/oss")
    )
    async with reaching(upstream.url) as call:
        result = await made(call, make_request(n=3))
        assert call.losses == ["n"]
    assert len(result.images) == 2


@pytest.mark.gen_test
async def test_strictness_does_not_throw_away_pictures_that_were_made(upstream: Upstream) -> None:
    upstream.script(make_answer(CREATED), done(upstream, "/oss/1.png", faults=1), picture("/oss"))
    async with reaching(upstream.url, strict=True) as call:
        assert len((await made(call, make_request(n=2))).images) == 1


@pytest.mark.gen_test
async def test_a_task_none_of_whose_pictures_was_made_fails_with_the_reason(upstream: Upstream) -> None:
    upstream.script(make_answer(CREATED), done(upstream, faults=2))
    async with reaching(upstream.url) as call:
        with pytest.raises(errors.UpstreamRefused, match="unfit"):
            await made(call, make_request(n=2))


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("status", "code", "kind", "shown"),
    [
        ("FAILED", "DataInspectionFailed", errors.UpstreamRefused, 400),
        ("FAILED", "InvalidParameter.Size", errors.UpstreamRefused, 400),
        ("FAILED", "Throttling.AllocationQuota", errors.UpstreamRateLimited, 429),
        ("FAILED", "InternalError.Algo", errors.UpstreamError, 502),
        ("CANCELED", None, errors.UpstreamError, 502),
        ("UNKNOWN", None, errors.UpstreamError, 502),
        ("SOMETHING_NEW", None, errors.UpstreamError, 502),
    ],
)
async def test_a_task_that_ends_without_pictures_is_an_error(
    upstream: Upstream, status: str, code: str | None, kind: type[errors.GateError], shown: int
) -> None:
    reason = {"code": code, "message": "it says"} if code else {}
    upstream.script(make_answer(CREATED), stands(status, **reason))
    async with reaching(upstream.url) as call:
        with pytest.raises(kind) as caught:
            await made(call, make_request())
    assert caught.value.status == shown
    assert len(upstream.requests) == 2, "a task that has ended is not cancelled"


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"code": "InvalidParameter", "message": "bad"}, 400, errors.UpstreamRefused),
        ({"code": "InvalidParameter", "message": "bad"}, 200, errors.UpstreamRefused),
        ({"output": {"task_status": "PENDING"}}, 200, errors.UpstreamError),
        ({"output": {"task_status": "PENDING", "task_id": "../models"}}, 200, errors.UpstreamError),
        ("odd", 200, errors.UpstreamError),
    ],
)
async def test_a_task_that_is_not_made_is_not_asked_about(
    upstream: Upstream, body: Any, status: int, kind: type[errors.GateError]
) -> None:
    upstream.script(make_answer(body, status))
    async with reaching(upstream.url) as call:
        with pytest.raises(kind):
            await made(call, make_request())
    assert len(upstream.requests) == 1


@pytest.mark.gen_test
async def test_questions_that_fail_now_and_then_are_asked_again(upstream: Upstream) -> None:
    busy = [make_answer({"code": "ServiceUnavailable"}, status) for status in (500, 503, 429, 504)]
    upstream.script(
        make_answer(CREATED), *busy, stands("RUNNING"), *busy, done(upstream, "/oss/1.png"), picture("/oss")
    )
    async with reaching(upstream.url) as call:
        assert len((await made(call, make_request())).images) == 1
    assert len([request for request in upstream.requests if request.path == ASKED]) == 10


@pytest.mark.gen_test
async def test_questions_that_fail_for_ever_end_and_the_task_is_cancelled(upstream: Upstream) -> None:
    upstream.script(make_answer(CREATED), make_answer({}, path=CANCEL), *[make_answer({}, 500, ASKED)] * 20)
    async with reaching(upstream.url) as call:
        with pytest.raises(errors.UpstreamError) as caught:
            await made(call, make_request())
        requests = await asyncio.to_thread(upstream.wait_for_requests, 2 + tasks.MAX_FAILURES)
    assert caught.value.status == 502
    assert [request.path for request in requests[1:]] == [ASKED] * tasks.MAX_FAILURES + [CANCEL]


@pytest.mark.gen_test
@pytest.mark.parametrize(("status", "shown"), [(401, 502), (404, 404)])
async def test_a_refused_question_is_not_asked_again(upstream: Upstream, status: int, shown: int) -> None:
    upstream.script(make_answer(CREATED), make_answer({}, path=CANCEL), make_answer({"message": "no"}, status, ASKED))
    async with reaching(upstream.url) as call:
        with pytest.raises(errors.UpstreamError) as caught:
            await made(call, make_request())
        requests = await asyncio.to_thread(upstream.wait_for_requests, 3)
    assert caught.value.status == shown
    assert [request.path for request in requests[1:]] == [ASKED, CANCEL]


@pytest.mark.gen_test
async def test_a_question_that_is_never_answered_is_asked_again(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "POLL_TIMEOUT_SECONDS", 0.2)
    upstream.script(make_answer(CREATED), answer(Hang()), done(upstream, "/oss/1.png"), picture("/oss"))
    async with reaching(upstream.url) as call:
        assert len((await made(call, make_request())).images) == 1
    assert upstream.requests[1].closed


@pytest.mark.gen_test
async def test_a_caller_who_leaves_has_the_task_cancelled(upstream: Upstream) -> None:
    upstream.script(make_answer(CREATED), make_answer({"request_id": "r"}, path=CANCEL), answer(Hang()))
    async with reaching(upstream.url) as call:
        asking = asyncio.create_task(made(call, make_request()))
        await asyncio.to_thread(upstream.wait_for_requests, 2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        *_, last = await asyncio.to_thread(upstream.wait_for_requests, 3)
    assert (last.method, last.path) == ("POST", CANCEL)
    assert last.headers["authorization"] == upstream.requests[0].headers["authorization"]
    assert last.body == b""


@pytest.mark.gen_test
async def test_a_deadline_waits_for_no_cancellation(upstream: Upstream) -> None:
    upstream.script(make_answer(CREATED), answer(Hang(), path=CANCEL), answer(Hang()))
    async with reaching(upstream.url) as call:
        deadline = asyncio.timeout(None)

        async def limited() -> None:
            async with deadline:
                await made(call, make_request())

        asking = asyncio.create_task(limited())
        await asyncio.to_thread(upstream.wait_for_requests, 2)
        deadline.reschedule(0)
        with pytest.raises(TimeoutError):
            await asking
        (farewell,) = tasks._cancellations
        *_, last = await asyncio.to_thread(upstream.wait_for_requests, 3)
        assert (last.path, last.closed) == (CANCEL, False)
        assert not farewell.done()
        farewell.cancel()


@pytest.mark.gen_test
async def test_a_cancellation_that_fails_is_nobodys_concern(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "CANCEL_TIMEOUT_SECONDS", 0.2)
    upstream.script(make_answer(CREATED), answer(Hang(), path=CANCEL), make_answer({}, 404, ASKED))
    async with reaching(upstream.url) as call:
        with pytest.raises(errors.UpstreamRefused):
            await made(call, make_request())
        (farewell,) = tasks._cancellations
        await asyncio.wait([farewell])
    assert farewell.exception() is None
    assert not tasks._cancellations


@pytest.mark.gen_test
async def test_an_entry_that_conf_has_dropped_gets_no_new_connections(upstream: Upstream) -> None:
    upstream.script(make_answer(CREATED), make_answer({}, 404, ASKED))
    async with reaching(upstream.url) as call:
        with pytest.raises(errors.UpstreamRefused):
            await made(call, make_request())
        (farewell,) = tasks._cancellations
        await call.pool.close()
        await asyncio.wait([farewell])
        assert farewell.exception() is None
        assert call.pool._session is call.pool._client is None
