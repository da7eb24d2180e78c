"""Metrics of video tasks: how many wait and run, and how they end."""

from __future__ import annotations

import time
from collections import Counter
from typing import Literal

from tornado_gate.pipeline.gate import Gate
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.record import TaskRecord


class TaskMetrics:
    """Counts the tasks of an engine, from the moment it is made."""

    def __init__(self, gate: Gate, engine: TaskEngine) -> None:
        self._gate = gate
        self._engine = engine
        engine.on_look = self.count_active
        engine.on_end = self.note_end

    def count_active(self) -> None:
        """How many video tasks wait and run, of all processes, and how old the oldest is."""
        engine = self._engine
        names = {engine.store.digest(name): name for name in self._gate.snapshot.config.providers}
        active = Counter(names.get(task.provider, "") for task in engine.queues.active)
        places = engine.rules.concurrency
        counts = {(name, "running"): min(number, places) for name, number in active.items()}
        counts |= {(name, "queued"): max(0, number - places) for name, number in active.items()}
        oldest = time.time() - engine.queues.active[0].created / 1e9 if engine.queues.active else 0.0
        self._gate.metrics.set_video_tasks(counts, max(0.0, oldest))

    def note_end(self, record: TaskRecord) -> None:
        """One has ended: how, and after how long."""
        seconds = (record.completed_at or record.created_at) - record.created_at
        found = self._gate.snapshot.models.find(record.model)
        model = found.entry.name if found else ""
        outcome: Literal["completed", "failed"] = "completed" if record.status == "completed" else "failed"
        self._gate.metrics.count_video_ended(record.provider, model, outcome, max(0.0, seconds))
