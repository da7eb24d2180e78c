"""Responses about tasks, in the contract's dialect or the vendor's.

Sources: the contract's "Video task"; openai-python 3.52, types/video.py and types/video_delete_response.py, whose fields are
always present and may be null. For the prefixed routes, the contract has only ``task_id`` and ``status``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.errors import GateError, NotFound
from tornado_gate.streams.events import close, read_single_event
from tornado_gate.types import (
    Call,
    Reply,
    StreamError,
    StreamEvent,
    TaskList,
    TaskRequest,
    TaskResult,
    VideoRequest,
    VideoTask,
)
from tornado_gate_openai.format.dialect import Dialect
from tornado_gate_openai.format.paths import KEEP_ALIVE, PREFIXED_VIDEOS
from tornado_gate_openai.format.replies import EVENT_STREAM_TYPE, JSON_TYPE, render_error_frame
from tornado_gate_openai.format.videos.reply_options import Kind, TaskState
from tornado_gate_openai.format.videos.requests import choose_video_dialect

FAILED_CODE: Final = "video_generation_failed"
"""The error code of a failed task without a code."""


def reply(call: Call, request: VideoRequest | TaskRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a video or task request other than a download."""
    if isinstance(request, TaskRequest) and request.action == "events":
        return Reply(
            content_type=EVENT_STREAM_TYPE,
            chunks=_stream_frames(choose_video_dialect(call), events),
            keep_alive=KEEP_ALIVE,
        )
    return Reply(content_type=JSON_TYPE, chunks=_render_whole(call, request, events))


async def _render_whole(
    call: Call, request: VideoRequest | TaskRequest, events: AsyncIterator[StreamEvent]
) -> AsyncIterator[bytes]:
    try:
        if isinstance(request, TaskRequest) and request.action == "list":
            body = render_list(await read_single_event(events, TaskList), choose_video_dialect(call))
        else:
            result = await read_single_event(events, TaskResult)
            body = _render_result(call, request, result)
    finally:
        await close(events)
    yield orjson.dumps(body)


def _render_result(call: Call, request: VideoRequest | TaskRequest, result: TaskResult) -> dict[str, Any]:
    """Return the JSON body of the response. Raises NotFound for a task of another kind than the route's."""
    kind = request.reply_state.kind if isinstance(request.reply_state, TaskState) else None
    if result.deleted:
        return {"id": result.task.id, "object": "video.deleted", "deleted": True}
    if kind is not None:
        require_kind(result.task, kind)
        return render_prefixed(result.task)
    if isinstance(request, VideoRequest) and request.wire_format == PREFIXED_VIDEOS:
        return render_prefixed(result.task)
    return render_task(result.task, choose_video_dialect(call))


async def _stream_frames(dialect: Dialect, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    """Yield frames. A failure before the first frame is raised and keeps its status; a later one is the last frame."""
    begun = False
    try:
        async for event in events:
            match event:
                case TaskResult(task=task):
                    yield sse.render_json(render_task(task, dialect), f"video.{_render_event(task)}")
                    begun = True
                case StreamError(error=error):
                    raise error
    except GateError as error:
        if not begun:
            raise
        yield render_error_frame(error)
    finally:
        await close(events)


def _render_event(task: VideoTask) -> str:
    return task.status if task.status in ("completed", "failed") else "progress"


def render_task(task: VideoTask, dialect: Dialect) -> dict[str, Any]:
    """Return a task of the unified routes. Unset values are "" where the contract requires a string."""
    body = {
        **task.asked,
        "id": task.id,
        "task_id": task.id,
        "object": "video",
        "model": task.model,
        "status": "in_progress" if dialect == "vendor" and task.status == "pending" else task.status,
        "progress": task.progress,
        "created_at": task.created_at,
        "completed_at": task.completed_at,
        "expires_at": task.expires_at,
        "seconds": _format_seconds(task),
        "size": task.size or "",
        "prompt": task.prompt,
        "remixed_from_video_id": task.remixed_from,
        "error": _render_task_error(task),
    }
    if task.position is not None:
        body["position"] = task.position
    if task.status == "completed" and task.urls:
        body["url"] = task.urls[0]
        body["urls"] = list(task.urls)
    return body


def render_prefixed(task: VideoTask) -> dict[str, Any]:
    """Return a task of the prefixed routes, in the contract's dialect for every caller."""
    body: dict[str, Any] = {
        "task_id": task.id,
        "status": task.status,
        "progress": task.progress,
        "created_at": task.created_at,
        "model": task.model,
    }
    if task.position is not None:
        body["position"] = task.position
    if task.status == "completed":
        body["completed_at"] = task.completed_at
        body["expires_at"] = task.expires_at
        body["videos"] = [
            {"id": file.id, "url": url, "duration": file.duration}
            for file, url in zip(task.files, task.urls, strict=False)
        ]
    if task.status == "failed":
        body["completed_at"] = task.completed_at
        body["error"] = _render_task_error(task)
    return body


def render_list(tasks: TaskList, dialect: Dialect) -> dict[str, Any]:
    """Return a page of tasks. The next page starts after ``last_id``."""
    data = [render_task(task, dialect) for task in tasks.tasks]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": tasks.has_more,
    }


def require_kind(task: VideoTask, kind: Kind) -> None:
    """Raise NotFound for a task without an image on the image-to-video route.

    Any task is valid on ``text2video``, because its requests may have an image too.
    """
    if kind == "image" and task.kind != "image":
        raise NotFound(
            f"The task '{task.id}' is not an image-to-video task. Read it on the 'text2video' route.",
            code="task_not_found",
        )


def _format_seconds(task: VideoTask) -> str:
    """Return the requested length, else the length of the first video, else ""."""
    if task.seconds:
        return task.seconds
    duration = task.files[0].duration if task.files else None
    return "" if duration is None else f"{duration:g}"


def _render_task_error(task: VideoTask) -> dict[str, str] | None:
    if task.status != "failed":
        return None
    return {
        "code": task.error_code or FAILED_CODE,
        "message": task.error_message or "The video could not be generated.",
    }
