"""The record of a task as its owner may see it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tornado_gate.tasks.record import TaskRecord
from tornado_gate.types import VideoTask


def build_video_task(record: TaskRecord, *, position: int | None = None, urls: Sequence[str] = ()) -> VideoTask:
    """Return the task of a response. `position` is its position in the queue, `urls` are the addresses of its videos."""
    request = record.request
    width, height = request.get("width"), request.get("height")
    seconds = request.get("seconds")
    return VideoTask(
        id=record.id,
        model=record.model,
        status=record.status,
        progress=record.progress,
        created_at=int(record.created_at),
        kind=record.kind,
        prompt=str(request.get("prompt") or ""),
        seconds=None if seconds is None else f"{seconds:g}",
        size=f"{width}x{height}" if width and height else None,
        completed_at=_truncate(record.completed_at),
        expires_at=_truncate(record.expires_at),
        position=position,
        error_code=record.error_code,
        error_message=record.error_message,
        files=record.files,
        urls=tuple(urls),
        remixed_from=record.remixed_from,
        asked=record.asked,
    )


def _truncate(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds)
