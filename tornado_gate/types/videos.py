"""Videos: what callers ask for, what a provider is asked in turn, and the task that lives between the two.

A video takes minutes, so a caller gets a task. The core keeps the task and asks the provider, in order: VideoRequest (begin),
VideoPoll until it is done, VideoDownload for each video; each goes through the provider's usual three hooks. What the upstream
calls its work is the `operation`: JSON that only its provider reads, kept with the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.common_request import CommonRequest
from tornado_gate.types.media_requests import FileSource, MediaRequest
from tornado_gate.types.results import Usage
from tornado_gate.types.value import Value, field

TaskStatus = Literal["queued", "pending", "completed", "failed"]
"""A task goes from left to right and never back; it may skip."""


class VideoRequest(MediaRequest, frozen=True, kw_only=True):
    """A video of `prompt`, or one that begins with `image`.

    `seconds` is its length; `width` and `height` are pixels, both or neither; `n` is how many. `metadata` are further
    wishes, such as negative_prompt. `remix_of` is the operation of an earlier video of the same provider that this one
    changes. `task_id` is the gateway's own name for the task: an upstream that takes a name of the caller's can be asked
    for it after a crash. `webhook` is told when the task has ended.
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
    """How far is it? `operation` None asks whether the upstream knows `task_id`: the gateway died while it began.

    A provider that cannot say raises UnsupportedOperation.
    """

    task_id: str
    operation: Mapping[str, Any] | None


class VideoDownload(MediaRequest, frozen=True, kw_only=True):
    """Give video number `index` of a completed operation: the chunks of the UpstreamResponse are the file."""

    task_id: str
    operation: Mapping[str, Any]
    index: int = 0


class VideoCancel(MediaRequest, frozen=True, kw_only=True):
    """Stop it, and forget it where the upstream can. Answered by any VideoOperation; failure is no tragedy."""

    task_id: str
    operation: Mapping[str, Any]


class VideoOperation(Value, frozen=True, kw_only=True):
    """The one event of an answer to all of these: where the upstream's work stands.

    `status` "lost" says that the upstream does not know the operation (any more); "unknown" that it used a word which the
    provider does not know, given in `raw`. `progress` is 0 to 100 where the upstream says it. `operation` replaces the
    task's when given. `videos` is how many there are, when completed; `duration` is seconds of each. `error` is what the
    upstream says of a failure, safe to show. `poll_after` is how many seconds the upstream wants to be left alone.
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
    """One finished video: `id` in the store of files; `size` in bytes, `duration` in seconds when known."""

    id: str
    media_type: str
    size: int
    duration: float | None = None


class VideoTask(Value, frozen=True, kw_only=True):
    """A task as its owner may see it. Times are Unix seconds; `position` counts from 1 while it waits in line.

    `seconds` and `size` are as they were asked for. `kind` is "image" when a picture was given, else "text". `urls` are signed
    addresses of the videos, in order, when it is completed. `asked` are further fields of the request that answers repeat.
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
    """What a caller asks of tasks that exist; answered by the core, no provider sees it.

    show: the task, after `wait` seconds at most when it has not ended by then; events: a stream of TaskResults until it
    has; content: video number `index`; delete: cancel it if it runs, and forget it; list: the caller's tasks, newest first
    unless `order` is "asc", after the task `after`, at most `limit`; remix: begin `request` from it.
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
    """A task as it is now. `last` is false where more will follow, in a stream of events. `deleted` answers a delete."""

    task: VideoTask
    last: bool = True
    deleted: bool = False


class TaskList(Value, frozen=True, kw_only=True):
    tasks: tuple[VideoTask, ...]
    has_more: bool = False
