"""The usage of video tasks: a row of the ledger for each task that has ended, in any process.

The row has the task's id and moment. So a task has one row even if it ends twice, because a process died while it wrote the end.
The row stands in the hour in which the video was requested.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tornado_gate.config.attribution import TAG_HEADERS
from tornado_gate.ledger.entries import VIDEO_TASK, collect_tags, price_row
from tornado_gate.ledger.estimates import NO_USAGE
from tornado_gate.ledger.rows import make_row_id
from tornado_gate.pipeline.gate import Gate
from tornado_gate.tasks.record import CANCELLED, TaskRecord
from tornado_gate.telemetry.entries import Entry, find_outcome
from tornado_gate.types import Call, Caller, Charge, Meter, Progress, Target

FAILED_STATUS = 502


def describe_caller(call: Call) -> dict[str, Any]:
    """Return the ledger's data about the caller of a task, as JSON values: key, user, team and tags."""
    caller = call.caller
    tags = collect_tags(caller.tags, [call.headers[name] for name in TAG_HEADERS if name in call.headers])
    return {"key_name": caller.name, "user": caller.user, "team": caller.team, "tags": tags}


def record_task(gate: Gate, record: TaskRecord) -> None:
    """Add a task that has ended to the ledger.

    A failed task costs nothing. A task that its caller cancelled costs its finished work.
    """
    gate.ledger.add(_make_entry(gate, record))


def settle_task(gate: Gate, record: TaskRecord) -> None:
    """Settle the task's reservations of budgets to its cost. Called once, when its end is stored."""
    if record.reserved:
        entry = _make_entry(gate, record)
        cost = price_row(entry, NO_USAGE, entry.outcome or find_outcome(entry.status, entry.error_code))
        gate.admission.settle_task(record.reserved, 0, cost or 0)


def _make_entry(gate: Gate, record: TaskRecord) -> Entry:
    created = round(record.created_at * 1e6)
    is_completed = record.status == "completed"
    is_left = record.error_code == CANCELLED and record.operation is not None
    meter = Meter()
    if is_completed or is_left:
        meter.record_seconds(_count_seconds(record) if is_completed else _count_made_seconds(record))
        meter.record_variant(_describe_size(record.request), "")
    provider = gate.snapshot.config.providers.get(record.provider)
    return Entry(
        created,
        record.id,
        make_caller(record),
        Target(
            provider=record.provider,
            plugin=provider.plugin if provider else "",
            model=record.model,
            upstream_model=record.upstream_model,
        ),
        record.model,
        VIDEO_TASK,
        "",
        200 if is_completed else FAILED_STATUS,
        record.error_code,
        "aborted" if is_left else "",
        meter,
        Progress(attempts=1, model=record.model, error_message=record.error_message),
        Charge(),
        max(0.0, (record.completed_at or record.created_at) - record.created_at) * 1000,
        {},
        prices=gate.snapshot.prices,
        row_id=make_row_id(created, hashlib.sha256(record.id.encode()).hexdigest()[:10]),
    )


def make_caller(record: TaskRecord) -> Caller:
    """Return the caller of a task, as far as it is known after the request."""
    by = record.requested_by
    return Caller(
        id=record.caller_id,
        account=record.account,
        name=by.get("key_name", ""),
        user=by.get("user", ""),
        team=by.get("team", ""),
        tags=tuple(by.get("tags", ())),
    )


def _count_seconds(record: TaskRecord) -> float:
    """Return the seconds of all videos together. If the upstream did not report their length, return the requested seconds."""
    return sum(
        float(seconds)
        for file in record.files
        if isinstance(seconds := file.duration or record.request.get("seconds"), (int, float))
    )


def _count_made_seconds(record: TaskRecord) -> float:
    """Return the seconds that an upstream had made of a cancelled task, by its progress; all if it has reported none."""
    seconds = record.request.get("seconds")
    if not isinstance(seconds, (int, float)):
        return 0.0
    number = record.request.get("n")
    return float(seconds) * (number if isinstance(number, int) else 1) * (record.progress or 100) / 100


def _describe_size(request: Mapping[str, Any]) -> str:
    width, height = request.get("width"), request.get("height")
    return f"{width}x{height}" if width and height else ""
