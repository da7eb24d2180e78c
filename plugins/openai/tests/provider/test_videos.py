"""Videos, against a real server: begun, asked about, fetched, deleted, remixed. Answers have the shapes of types/video.py."""

from __future__ import annotations

import base64
import email
import email.policy
import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import tornado_gate_openai.provider as plugin
from tests.support.upstream import Answer, Close, Upstream, answer
from tornado_gate.errors import (
    GateError,
    InvalidField,
    UnsupportedOperation,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamRefused,
)
from tornado_gate.http.upstream import Pool
from tornado_gate.streams.events import OrderChecker, read_single_event
from tornado_gate.types import (
    Call,
    Data,
    Timeouts,
    UpstreamRequest,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
    replace,
)

MakeCall = Callable[..., Call]

KEY = "upstream-key"
JOB = "video_68d7512d07848190"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MP4 = b"\0\0\0\x18ftypmp42" + b"\0" * 50
OPERATION = {"id": JOB}
POLL = VideoPoll(model="gpt", task_id="video_1", operation=OPERATION)


def make_request(**fields: Any) -> VideoRequest:
    return VideoRequest(**{"model": "gpt", "prompt": "A cat", "task_id": "video_1", **fields})


def video(status: str = "queued", **fields: Any) -> dict[str, Any]:
    return {
        "id": JOB,
        "object": "video",
        "model": "sora-2",
        "status": status,
        "progress": 0,
        "created_at": 1758941485,
        "size": "1280x720",
        "seconds": "8",
        **fields,
    }


def make_answer(body: Any, status: int = 200, **headers: str) -> Answer:
    return answer(json.dumps(body), status=status, headers={"content-type": "application/json", **headers})


async def translate_request(call: Call, request: Any) -> UpstreamRequest:
    outgoing = plugin.translate_request(call, request)
    if inspect.isawaitable(outgoing):
        outgoing = await outgoing
    assert isinstance(outgoing, UpstreamRequest)
    return outgoing


@asynccontextmanager
async def reaching(make: MakeCall, upstream: Upstream, **settings: Any) -> AsyncIterator[Call]:
    """A call that reaches a real upstream."""
    pool = Pool(Timeouts(connect=2))
    async with AsyncExitStack() as closing:
        closing.push_async_callback(pool.close)
        call = make(upstream_model="sora-2", **settings)
        target = replace(call.target, base_url=f"{upstream.url}/v1")
        yield replace(call, target=target, pool=pool, closing=closing)


async def stands(call: Call, request: Any) -> VideoOperation:
    """All stops of a request, the order of events checked."""
    incoming = await plugin.call_upstream(call, await translate_request(call, request))
    checker = OrderChecker()

    async def checked() -> Any:
        async for event in plugin.translate_response(call, request, incoming):
            checker.check(event)
            yield event
        assert checker.is_complete()

    return await read_single_event(checked(), VideoOperation)


def form(body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    """A form as Python's own parser reads it: texts, and (file name, media type, bytes)."""
    head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
    found: dict[str, Any] = {}
    for part in email.message_from_bytes(head + body, policy=email.policy.HTTP).iter_parts():
        name, content = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
        assert isinstance(content, bytes)
        filename = part.get_filename()
        found[name] = content.decode() if filename is None else (filename, part.get_content_type(), content)
    return found


@pytest.mark.gen_test
async def test_a_video_is_begun_with_a_form_as_the_vendors_sdk_does(call: MakeCall, upstream: Upstream) -> None:
    upstream.script(make_answer(video()))
    async with reaching(call, upstream) as used:
        operation = await stands(used, make_request(seconds=8.0, width=1280, height=720))
        assert used.losses == []
    assert operation == VideoOperation(status="queued", operation=OPERATION, progress=0, raw="queued")
    (request,) = upstream.requests
    assert (request.method, request.path) == ("POST", "/v1/videos")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert form(request.body, request.headers) == {
        "model": "sora-2",
        "prompt": "A cat",
        "seconds": "8",
        "size": "1280x720",
    }


@pytest.mark.gen_test
async def test_a_picture_is_a_file_of_the_form(call: MakeCall, upstream: Upstream) -> None:
    upstream.script(make_answer(video()))
    picture = Data(media_type="image/png", base64=base64.b64encode(PNG).decode())
    async with reaching(call, upstream, video_json=True) as used:
        await stands(used, make_request(image=picture))
    (request,) = upstream.requests
    assert form(request.body, request.headers) == {
        "model": "sora-2",
        "prompt": "A cat",
        "input_reference": ("picture.png", "image/png", PNG),
    }


@pytest.mark.gen_test
async def test_a_setting_asks_in_json_where_there_is_no_file(call: MakeCall) -> None:
    outgoing = await translate_request(call(video_json=True, upstream_model="sora-2"), make_request(seconds=4))
    assert outgoing.json == {"model": "sora-2", "prompt": "A cat", "seconds": "4"}
    assert outgoing.headers["content-type"] == "application/json"


@pytest.mark.gen_test
async def test_what_conf_says_of_fields_holds_for_videos(call: MakeCall) -> None:
    used = call(video_json=True, drop=["size", "input_reference"], rename={"seconds": "duration"})
    picture = Data(media_type="image/png", base64=base64.b64encode(PNG).decode())
    wishes = make_request(
        seconds=4, width=1280, height=720, image=picture,
        names={"width": "size", "height": "size", "image": "input_reference"},
    )  # fmt: skip
    outgoing = await translate_request(used, wishes)
    assert outgoing.json == {"model": "gpt-4o", "prompt": "A cat", "duration": "4"}
    assert used.losses == ["size", "input_reference"]


@pytest.mark.gen_test
async def test_the_picture_has_the_name_that_conf_gives_it(call: MakeCall, upstream: Upstream) -> None:
    upstream.script(make_answer(video()))
    picture = Data(media_type="image/png", base64=base64.b64encode(PNG).decode())
    async with reaching(call, upstream, rename={"input_reference": "first_frame"}) as used:
        await stands(used, make_request(image=picture))
    (request,) = upstream.requests
    assert form(request.body, request.headers)["first_frame"] == ("picture.png", "image/png", PNG)


@pytest.mark.gen_test
async def test_what_is_no_picture_is_the_callers_fault(call: MakeCall) -> None:
    with pytest.raises(InvalidField) as caught:
        await translate_request(
            call(), make_request(image=Data(media_type="", base64="AAAA"), names={"image": "input_reference"})
        )
    assert caught.value.param == "input_reference"


@pytest.mark.gen_test
async def test_what_sora_does_not_do_is_lost_by_name(call: MakeCall) -> None:
    used = call()
    await translate_request(
        used, make_request(fps=24, seed=1, n=3, watermark=False, user="u", metadata={"negative_prompt": "dogs"})
    )
    assert set(used.losses) == {"fps", "seed", "n", "watermark", "user", "metadata.negative_prompt"}


@pytest.mark.gen_test
async def test_a_remix_asks_for_a_change_of_an_earlier_video(call: MakeCall, upstream: Upstream) -> None:
    upstream.script(make_answer(video(id="video_2", remixed_from_video_id=JOB)))
    async with reaching(call, upstream) as used:
        operation = await stands(
            used, make_request(prompt="At night", remix_of=OPERATION, seconds=8, width=1280, height=720)
        )
        assert used.losses == []
    assert operation.operation == {"id": "video_2"}
    (request,) = upstream.requests
    assert (request.path, request.json) == (f"/v1/videos/{JOB}/remix", {"prompt": "At night"})


@pytest.mark.gen_test
async def test_a_poll_says_how_far_it_is_and_when_to_ask_again(call: MakeCall, upstream: Upstream) -> None:
    upstream.script(
        make_answer(video("in_progress", progress=42), **{"openai-poll-after-ms": "2500"}),
        make_answer(video("completed", progress=100)),
        make_answer(video("dreaming")),
    )
    async with reaching(call, upstream) as used:
        running, done, odd = [await stands(used, POLL) for _ in range(3)]
    assert (running.status, running.progress, running.poll_after) == ("running", 42, 2.5)
    assert (done.status, done.duration, done.videos) == ("completed", 8.0, 1)
    assert (odd.status, odd.raw) == ("unknown", "dreaming")
    for request in upstream.requests:
        assert (request.method, request.path, request.body) == ("GET", f"/v1/videos/{JOB}", b"")
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert "content-type" not in request.headers


@pytest.mark.gen_test
async def test_a_failure_has_the_upstreams_words(call: MakeCall, upstream: Upstream) -> None:
    error = {"code": "moderation_blocked", "message": "Blocked."}
    upstream.script(make_answer(video("failed", error=error)))
    async with reaching(call, upstream) as used:
        operation = await stands(used, POLL)
    assert (operation.status, operation.error, operation.code) == ("failed", "Blocked.", "moderation_blocked")


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("request_of", [POLL, VideoCancel(model="gpt", task_id="video_1", operation=OPERATION)])
@pytest.mark.gen_test
async def test_a_job_that_the_upstream_does_not_know_is_lost(
    call: MakeCall, upstream: Upstream, status: int, request_of: Any
) -> None:
    upstream.script(make_answer({"error": {"message": "No such video"}}, status))
    async with reaching(call, upstream) as used:
        assert await stands(used, request_of) == VideoOperation(status="lost")


@pytest.mark.gen_test
async def test_a_cancellation_deletes_the_job(call: MakeCall, upstream: Upstream) -> None:
    upstream.script(make_answer({"id": JOB, "object": "video.deleted", "deleted": True}))
    async with reaching(call, upstream) as used:
        request = VideoCancel(model="gpt", task_id="video_1", operation=OPERATION)
        assert (await stands(used, request)).status == "lost"
    (request_seen,) = upstream.requests
    assert (request_seen.method, request_seen.path) == ("DELETE", f"/v1/videos/{JOB}")


@pytest.mark.gen_test
async def test_a_download_is_the_file_itself(call: MakeCall, upstream: Upstream) -> None:
    upstream.script(answer(MP4[:20], MP4[20:], headers={"content-type": "video/mp4"}))
    async with reaching(call, upstream) as used:
        outgoing = await translate_request(used, VideoDownload(model="gpt", task_id="video_1", operation=OPERATION))
        incoming = await plugin.call_upstream(used, outgoing)
        assert incoming.headers["content-type"] == "video/mp4"
        assert await incoming.read() == MP4
    (request,) = upstream.requests
    assert (request.method, request.path) == ("GET", f"/v1/videos/{JOB}/content")


@pytest.mark.gen_test
async def test_a_file_that_is_gone_is_an_error(call: MakeCall, upstream: Upstream) -> None:
    upstream.script(make_answer({"error": {"message": "Expired"}}, 404))
    async with reaching(call, upstream) as used:
        outgoing = await translate_request(used, VideoDownload(model="gpt", task_id="video_1", operation=OPERATION))
        with pytest.raises(UpstreamRefused, match="Expired"):
            await plugin.call_upstream(used, outgoing)


@pytest.mark.parametrize(
    "request_of",
    [
        VideoPoll(model="gpt", task_id="video_1", operation=None),
        VideoDownload(model="gpt", task_id="video_1", operation=OPERATION, index=1),
    ],
)
@pytest.mark.gen_test
async def test_what_the_vendor_cannot_say_is_refused(call: MakeCall, request_of: Any) -> None:
    with pytest.raises(UnsupportedOperation):
        await translate_request(call(), request_of)


@pytest.mark.parametrize("operation", [{}, {"id": ".."}, {"name": "models/veo/operations/1"}])
@pytest.mark.gen_test
async def test_an_operation_of_another_provider_leads_nowhere(call: MakeCall, operation: Any) -> None:
    with pytest.raises(UpstreamError):
        await translate_request(call(), VideoPoll(model="gpt", task_id="video_1", operation=operation))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (make_answer({"error": {"message": "Bad size", "param": "size"}}, 400), UpstreamRefused),
        (make_answer({"error": {"message": "busy"}}, 503), UpstreamOverloaded),
        (make_answer({"error": {"message": f"wrong key {KEY}"}}, 401), UpstreamError),
        (make_answer({"error": {"message": "odd"}}), UpstreamError),
        (make_answer({"object": "list", "data": []}), UpstreamError),
        (answer("<html>", headers={"content-type": "text/html"}), UpstreamError),
        (answer(Close()), UpstreamError),
    ],
)
@pytest.mark.gen_test
async def test_a_beginning_that_fails_is_an_error_without_our_key(
    call: MakeCall, upstream: Upstream, said: Answer, error: type[GateError]
) -> None:
    upstream.script(said)
    async with reaching(call, upstream) as used:
        with pytest.raises(error) as caught:
            await stands(used, make_request())
    assert KEY not in caught.value.message
    assert KEY not in str(caught.value)


@pytest.mark.gen_test
async def test_the_key_is_in_no_address(call: MakeCall) -> None:
    for request in (
        make_request(),
        make_request(remix_of=OPERATION),
        POLL,
        VideoCancel(model="g", task_id="t", operation=OPERATION),
    ):
        outgoing = await translate_request(call(), request)
        assert KEY not in outgoing.url
        assert KEY in outgoing.headers["authorization"]
