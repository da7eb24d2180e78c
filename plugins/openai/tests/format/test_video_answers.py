"""Answers about videos: the shapes of the contract and of the vendor, held against the types of its SDK."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from format_openai_calls import call_for, chunks_of, text_of
from openai.pagination import SyncConversationCursorPage
from openai.types import Video, VideoDeleteResponse
from operation_calls import events_of

from tornado_gate.errors import NotFound, UpstreamError
from tornado_gate.streams.events import OrderError
from tornado_gate.types import (
    Call,
    Reply,
    StreamError,
    StreamEvent,
    TaskList,
    TaskRequest,
    TaskResult,
    VideoFile,
    VideoRequest,
    VideoTask,
    replace,
)
from tornado_gate_openai.format import videos
from tornado_gate_openai.format.videos.reply_options import Kind, TaskState

QUEUED = VideoTask(
    id="video_1",
    model="m",
    status="queued",
    progress=0,
    created_at=1000,
    prompt="A lake",
    seconds="4",
    size="1280x720",
    position=3,
)
PENDING = replace(QUEUED, status="pending", progress=40, position=None)
COMPLETED = replace(
    PENDING,
    status="completed",
    progress=100,
    completed_at=1060,
    expires_at=9000,
    files=(
        VideoFile(id="f1", media_type="video/mp4", size=10, duration=4.0),
        VideoFile(id="f2", media_type="video/mp4", size=20),
    ),
    urls=("https://gate/media/1?s=a", "https://gate/media/2?s=b"),
)
FAILED = replace(PENDING, status="failed", completed_at=1030, error_code="policy", error_message="Not allowed.")
SDK = {"user-agent": "OpenAI/Python 3.52.0"}

CREATE = VideoRequest(model="m", prompt="A lake", wire_format="openai-videos")
PREFIXED = VideoRequest(model="m", prompt="A lake", wire_format="prefixed-videos")
SHOW = TaskRequest(action="show", task_id="video_1")
EVENTS = TaskRequest(action="events", task_id="video_1", stream=True)
CONTRACT = {
    "id": str,
    "object": str,
    "model": str,
    "status": str,
    "progress": int,
    "created_at": int,
    "seconds": str,
    "size": str,
}


def reply_of(request: VideoRequest | TaskRequest, *events: StreamEvent, call: Call | None = None) -> Reply:
    return videos.reply(call or call_for(operation="videos"), request, events_of(*events))


def answer(request: VideoRequest | TaskRequest, event: StreamEvent, call: Call | None = None) -> Any:
    reply = reply_of(request, event, call=call)
    assert (reply.status, reply.content_type) == (200, "application/json")
    return orjson.loads(text_of(reply))


def shown(task: VideoTask, kind: Kind | None = None, call: Call | None = None) -> Any:
    return answer(
        TaskRequest(action="show", task_id=task.id, reply_state=TaskState(kind=kind)), TaskResult(task=task), call
    )


def test_what_was_begun_is_answered_in_all_shapes_at_once() -> None:
    body = answer(CREATE, TaskResult(task=QUEUED))
    assert (body["task_id"], body["id"], body["status"], body["object"]) == ("video_1", "video_1", "queued", "video")
    assert {name: type(body[name]) for name in CONTRACT} == CONTRACT
    assert (body["seconds"], body["size"], body["prompt"], body["position"]) == ("4", "1280x720", "A lake", 3)


@pytest.mark.parametrize("task", [QUEUED, PENDING, COMPLETED, FAILED])
@pytest.mark.parametrize("call", [call_for(), call_for(headers=SDK), call_for(dialect="vendor")])
def test_the_contracts_fields_are_always_of_its_types(task: VideoTask, call: Call) -> None:
    for body in (shown(task, call=call), shown(replace(task, seconds=None, size=None), call=call)):
        assert {name: type(body[name]) for name in CONTRACT} == CONTRACT


@pytest.mark.parametrize("task", [QUEUED, PENDING, COMPLETED, FAILED])
def test_the_vendors_type_accepts_what_its_sdk_gets(task: VideoTask) -> None:
    body = shown(task, call=call_for(headers=SDK))
    video = Video.model_validate(body)
    assert set(Video.model_fields) <= body.keys()
    assert video.created_at == 1000
    assert video.status == {"pending": "in_progress"}.get(task.status, task.status)
    assert (video.completed_at, video.expires_at) == (task.completed_at, task.expires_at)
    assert (video.error is None) == (task.status != "failed")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "pending"),
        ({"headers": {"user-agent": "curl/8"}}, "pending"),
        ({"headers": SDK}, "in_progress"),
        ({"headers": {"x-stainless-lang": "js"}}, "in_progress"),
        ({"dialect": "vendor"}, "in_progress"),
        ({"dialect": "contract", "headers": SDK}, "pending"),
    ],
)
def test_a_task_at_work_is_called_as_its_caller_calls_it(fields: Any, word: str) -> None:
    assert shown(PENDING, call=call_for(**fields))["status"] == word


def test_a_completed_task_says_where_its_videos_are() -> None:
    body = shown(COMPLETED)
    assert body["url"] == "https://gate/media/1?s=a"
    assert body["urls"] == list(COMPLETED.urls)
    assert (body["completed_at"], body["expires_at"], body["error"]) == (1060, 9000, None)
    assert "url" not in shown(replace(PENDING, urls=COMPLETED.urls))


def test_a_failed_task_says_why() -> None:
    assert shown(FAILED)["error"] == {"code": "policy", "message": "Not allowed."}
    unsaid = shown(replace(FAILED, error_code="", error_message=""))["error"]
    assert unsaid == {"code": "video_generation_failed", "message": "The video could not be generated."}


def test_a_length_that_nobody_asked_for_is_that_of_the_video() -> None:
    assert shown(replace(COMPLETED, seconds=None))["seconds"] == "4"
    assert shown(replace(PENDING, seconds=None))["seconds"] == ""


def test_a_task_repeats_what_was_asked_and_nothing_of_it_hides_the_task() -> None:
    body = shown(replace(PENDING, asked={"user": "u", "status": "completed"}, remixed_from="video_0"))
    assert (body["user"], body["status"], body["remixed_from_video_id"]) == ("u", "pending", "video_0")


@pytest.mark.parametrize("call", [call_for(), call_for(headers=SDK)])
def test_prefixed_routes_speak_the_contracts_words_to_everybody(call: Call) -> None:
    created = answer(PREFIXED, TaskResult(task=QUEUED), call)
    envelope = {"task_id": "video_1", "created_at": 1000, "model": "m"}
    assert created == {**envelope, "status": "queued", "progress": 0, "position": 3}
    assert shown(PENDING, "text", call) == {**envelope, "status": "pending", "progress": 40}
    assert shown(FAILED, "text", call) == {
        **envelope,
        "status": "failed",
        "progress": 40,
        "completed_at": 1030,
        "error": {"code": "policy", "message": "Not allowed."},
    }
    assert shown(COMPLETED, "text", call) == {
        **envelope,
        "status": "completed",
        "progress": 100,
        "completed_at": 1060,
        "expires_at": 9000,
        "videos": [
            {"id": "f1", "url": "https://gate/media/1?s=a", "duration": 4.0},
            {"id": "f2", "url": "https://gate/media/2?s=b", "duration": None},
        ],
    }


def test_a_task_of_text_is_not_found_among_those_of_pictures() -> None:
    with pytest.raises(NotFound) as caught:
        shown(PENDING, "image")
    assert (caught.value.status, caught.value.code) == (404, "task_not_found")
    assert shown(replace(PENDING, kind="image"), "image")["task_id"] == "video_1"


def test_text_to_video_that_was_given_a_picture_is_found_where_it_was_begun() -> None:
    assert shown(replace(PENDING, kind="image"), "text")["task_id"] == "video_1"


def test_a_deleted_task_is_confirmed_as_the_vendor_does() -> None:
    body = answer(TaskRequest(action="delete", task_id="video_1"), TaskResult(task=COMPLETED, deleted=True))
    assert body == {"id": "video_1", "object": "video.deleted", "deleted": True}
    assert VideoDeleteResponse.model_validate(body).deleted


def test_a_remix_is_answered_like_a_video() -> None:
    request = TaskRequest(action="remix", task_id="video_1", request=CREATE)
    body = answer(
        request, TaskResult(task=replace(QUEUED, id="video_2", remixed_from="video_1")), call_for(headers=SDK)
    )
    assert Video.model_validate(body).remixed_from_video_id == "video_1"


def test_a_list_is_a_page_that_the_vendors_sdk_can_turn() -> None:
    request = TaskRequest(action="list")
    tasks = (COMPLETED, replace(PENDING, id="video_0"))
    body = answer(request, TaskList(tasks=tasks, has_more=True), call_for(headers=SDK))
    assert (body["object"], body["first_id"], body["last_id"], body["has_more"]) == ("list", "video_1", "video_0", True)
    page = SyncConversationCursorPage[Video].model_validate(body)
    info = page.next_page_info()
    assert info is not None
    assert info.params == {"after": "video_0"}
    assert [video.status for video in page.data] == ["completed", "in_progress"]


def test_an_empty_list_names_nothing() -> None:
    body = answer(TaskRequest(action="list"), TaskList(tasks=()))
    assert body == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def frames(reply: Reply) -> list[tuple[str, Any]]:
    """Each chunk is one frame: its name and its data."""
    found = []
    for chunk in chunks_of(reply):
        assert chunk.endswith(b"\n\n")
        lines = dict(line.split(b": ", 1) for line in chunk.strip().split(b"\n"))
        found.append((lines.get(b"event", b"").decode(), orjson.loads(lines[b"data"])))
    return found


@pytest.mark.parametrize("end", [COMPLETED, FAILED])
def test_events_are_the_tasks_states_until_it_ends(end: VideoTask) -> None:
    reply = reply_of(
        EVENTS,
        TaskResult(task=QUEUED, last=False),
        TaskResult(task=PENDING, last=False),
        TaskResult(task=end),
    )
    assert reply.content_type == "text/event-stream; charset=utf-8"
    assert reply.keep_alive == b": ping\n"
    assert frames(reply) == [
        ("video.progress", shown(QUEUED)),
        ("video.progress", shown(PENDING)),
        (f"video.{end.status}", shown(end)),
    ]


def test_events_of_a_task_that_has_ended_are_its_end() -> None:
    assert [name for name, _ in frames(reply_of(EVENTS, TaskResult(task=COMPLETED)))] == ["video.completed"]


def test_events_speak_the_callers_dialect() -> None:
    reply = reply_of(EVENTS, TaskResult(task=PENDING), call=call_for(headers=SDK))
    assert frames(reply)[0][1]["status"] == "in_progress"


def test_events_that_break_off_end_with_an_error() -> None:
    error = NotFound("There is no task.", code="task_not_found")
    reply = reply_of(EVENTS, TaskResult(task=PENDING, last=False), StreamError(error=error))
    assert frames(reply)[-1] == ("", {"error": error.body()})


@pytest.mark.parametrize("request_of", [EVENTS, SHOW, CREATE])
def test_a_failure_before_anything_keeps_its_status(request_of: VideoRequest | TaskRequest) -> None:
    with pytest.raises(UpstreamError) as caught:
        text_of(reply_of(request_of, StreamError(error=UpstreamError("no", code="x"))))
    assert caught.value.code == "x"


def test_another_answer_than_was_asked_for_is_an_error() -> None:
    with pytest.raises(OrderError):
        text_of(reply_of(SHOW, TaskList(tasks=())))
    with pytest.raises(OrderError):
        text_of(reply_of(TaskRequest(action="list"), TaskResult(task=PENDING)))
