"""Videos: requests of callers, requests to providers, and the tasks that connect them.

A video takes minutes to generate, so a caller receives a task. The core stores the task and sends the provider, in order, a
VideoRequest (start), VideoPolls until the upstream has finished, and a VideoDownload for each video; each uses the provider's
usual three hooks. `operation` identifies the work at the upstream: JSON that only the provider reads, stored with the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.common_request import CommonRequest
from tornado_gate.types.media_requests import FileSource, MediaRequest
from tornado_gate.types.results import Usage
from tornado_gate.types.value import Value, field

TaskStatus = Literal["queued", "pending", "completed", "failed"]
"""A task's status changes only from left to right; it may skip a status."""


class VideoRequest(MediaRequest, frozen=True, kw_only=True):
    """Generate a video from `prompt`, optionally with `image` as its first frame.

    `seconds` is its length; `width` and `height` are pixels, both or neither; `fps` is frames per second; `n` is the number of
    videos; `seed` repeats a result; `watermark` is a switch. `stream`: the caller follows the task as a stream of events.
    `metadata` holds further parameters, such as negative_prompt. `remix_of` is the operation of an earlier video of the same
    provider that this request changes. `task_id` is the gateway's id of the task: if the upstream accepts a client's id, the
    core can find the operation by it after a crash. `webhook` is a URL that the core calls when the task has ended.
    """

    prompt: str
    task_id: str = ""
    image: FileSource | None = None
    seconds: float | None = None
    width: int | None = None
    height: int | None = None
    fps: int | None = None
    seed: int | None = None
    n: int | None = None
    watermark: bool | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    remix_of: Mapping[str, Any] | None = None
    webhook: str | None = None
    stream: bool = False


class VideoPoll(MediaRequest, frozen=True, kw_only=True):
    """Get the state of an operation. With `operation` None, look it up by `task_id`: the gateway crashed during the start.

    A provider without such a lookup raises UnsupportedOperation.
    """

    task_id: str
    operation: Mapping[str, Any] | None


class VideoDownload(MediaRequest, frozen=True, kw_only=True):
    """Download video number `index` (from 0) of the completed `operation` of the task `task_id`: the chunks of the
    UpstreamResponse are the file.
    """

    task_id: str
    operation: Mapping[str, Any]
    index: int = 0


class VideoCancel(MediaRequest, frozen=True, kw_only=True):
    """Cancel the `operation` of the task `task_id`, and delete it if the upstream supports that. The result is any
    VideoOperation; errors are ignored.
    """

    task_id: str
    operation: Mapping[str, Any]


class VideoOperation(Value, frozen=True, kw_only=True):
    """The state of an operation at the upstream: the only event of the response to each of these requests.

    `status` "lost": the upstream has no such operation (any more); "unknown": the provider cannot interpret the upstream's
    status. `raw` is the upstream's own word for it. `progress` is 0 to 100 if the upstream reports it. `operation`, if present,
    replaces the task's. `videos` is the number of finished videos; `duration` is the length of each in seconds. `error` is the
    upstream's error message, safe to show, and `code` its code ("" becomes ``generation_failed``). `usage` is the usage of the
    work, if reported. `poll_after` is the minimum time to the next poll in seconds.
    """

    status: Literal["queued", "running", "completed", "failed", "lost", "unknown"]
    operation: Mapping[str, Any] | None = None
    progress: int | None = None
    videos: int = 1
    duration: float | None = None
    error: str = ""
    code: str = ""
    raw: str = ""
    poll_after: float | None = None
    usage: Usage | None = None


class VideoFile(Value, frozen=True, kw_only=True):
    """One finished video: `id` in the file store; `media_type` (``video/mp4``); `size` in bytes; `duration` in seconds, if
    known.
    """

    id: str
    media_type: str
    size: int
    duration: float | None = None


class VideoTask(Value, frozen=True, kw_only=True):
    """A task as its owner sees it. `position` in the queue counts from 1; `progress` is 0 to 100.

    `id`, `model` and `prompt` are the request's values; `remixed_from` is the id of the task that it changes. `status` only moves
    forward. `created_at`, `completed_at` and `expires_at` (when the files are deleted) are Unix seconds. `error_code` and
    `error_message` belong to a failed task, `files` to a completed one. `seconds` and `size` are the requested values. `kind` is
    "image" if the request has an image, else "text". `urls` are the signed URLs of the videos of a completed task, in order.
    `asked` holds further request fields that responses repeat.
    """

    id: str
    model: str
    status: TaskStatus
    progress: int
    created_at: int
    kind: Literal["text", "image"] = "text"
    prompt: str = ""
    seconds: str | None = None
    size: str | None = None
    completed_at: int | None = None
    expires_at: int | None = None
    position: int | None = None
    error_code: str = ""
    error_message: str = ""
    files: tuple[VideoFile, ...] = ()
    urls: tuple[str, ...] = ()
    remixed_from: str | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)


class TaskRequest(CommonRequest, frozen=True, kw_only=True):
    """A request about existing tasks. The core serves it, without a provider.

    `action` is the action on the task `task_id`. `stream`: the response is a stream of events.
    show: return the task when it has ended, or after `wait` seconds.
    events: stream TaskResults until the task has ended.
    content: return video number `index`.
    delete: cancel the task if it runs, and delete it.
    list: return at most `limit` tasks of the caller that follow the task `after`, newest first unless `order` is "asc".
    remix: start `request` from the task.
    """

    action: Literal["show", "events", "content", "delete", "list", "remix"]
    task_id: str = ""
    wait: float = 0.0
    index: int = 0
    after: str = ""
    limit: int = 20
    order: Literal["asc", "desc"] = "desc"
    request: VideoRequest | None = None
    stream: bool = False


class TaskResult(Value, frozen=True, kw_only=True):
    """The current state of `task`. `last` is false if more results follow in the stream. `deleted`: the task was deleted."""

    task: VideoTask
    last: bool = True
    deleted: bool = False


class TaskList(Value, frozen=True, kw_only=True):
    """Some `tasks` of the caller, in the order of the request; `has_more`: more follow."""

    tasks: tuple[VideoTask, ...]
    has_more: bool = False
