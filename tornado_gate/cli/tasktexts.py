"""Render video tasks for the command line: as JSON, and as text for a terminal. Pure."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from tornado_gate.tasks.record import TaskRecord
    from tornado_gate.types import VideoFile

ENDED_STATUSES = ("completed", "failed")


def sort_active_first(records: Sequence[TaskRecord]) -> list[TaskRecord]:
    return sorted(records, key=lambda record: (record.status not in ENDED_STATUSES, record.created_ns), reverse=True)


def describe_task(record: TaskRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "account": record.account,
        "caller": record.caller_id,
        "model": record.model,
        "provider": record.provider,
        "upstream_model": record.upstream_model,
        "step": record.step,
        "status": record.status,
        "progress": record.progress,
        "created": _format_time(record.created_at),
        "completed": _format_time(record.completed_at),
        "error": record.error_code or None,
    }


def describe_task_fully(
    record: TaskRecord, videos: str, stored: Container[str], cancel_requested: bool, prompt: bool
) -> dict[str, Any]:
    image = record.image
    description = describe_task(record) | {
        "kind": record.kind,
        "started": _format_time(record.started_at),
        "updated": _format_time(record.updated_at),
        "expires": _format_time(record.expires_at),
        "next_poll": None if record.status in ENDED_STATUSES else _format_time(record.next_poll_at),
        "run_seconds": round(record.spent, 1),
        "failures": record.failures,
        "error_message": record.error_message or None,
        "cancel_requested": cancel_requested,
        "image": image and {"media_type": image.get("media_type"), "size": image.get("size")},
        "files": [_describe_file(file, videos, file.id in stored) for file in record.files],
        "webhook": _describe_webhook(record, prompt),
        "remixed_from": record.remixed_from,
    }
    if prompt:
        description |= {"request": dict(record.request), "operation": record.operation and dict(record.operation)}
    return description


def _describe_file(file: VideoFile, videos: str, is_there: bool) -> dict[str, Any]:
    return {
        "path": f"{videos}/{file.id}",
        "media_type": file.media_type,
        "size": file.size,
        "duration": file.duration,
        "is_there": is_there,
    }


def _describe_webhook(record: TaskRecord, whole: bool) -> dict[str, Any] | None:
    """Return the webhook's state. Without `whole`, only the origin of its URL is shown: webhook URLs often contain secrets."""
    if record.webhook is None:
        return None
    url = str(record.webhook.get("url", ""))
    state = {"done": "over", "telling": "telling"}.get(record.step, "waiting")
    return {
        "url": url if whole else _get_origin(url),
        "state": state,
        "failed_attempts": record.webhook.get("attempts", 0),
        "next_attempt": _format_time(record.webhook.get("next_at")) if state == "telling" else None,
    }


def _get_origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _format_time(seconds: float | None) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None


def format_cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {format_cell(item)}" for name, item in value.items() if item is not None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def escape_unprintable(text: str) -> str:
    """Escape control characters in texts of callers and upstreams, so that they cannot control the terminal."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)
