"""A task's record as its owner may see it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tornado_gate.tasks.record import TaskRecord
from tornado_gate.types import VideoTask


def task_of(record: TaskRecord, *, position: int | None = None, urls: Sequence[str] = ()) -> VideoTask:
    """What answers are made of. `position` is its place in line, `urls` where its videos are."""
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
        completed_at=_whole(record.completed_at),
        expires_at=_whole(record.expires_at),
        position=position,
        error_code=record.error_code,
        error_message=record.error_message,
        files=record.files,
        urls=tuple(urls),
        remixed_from=record.remixed_from,
        asked=record.asked,
    )


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds)
