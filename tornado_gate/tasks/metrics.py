"""Metrics of video tasks: the numbers of waiting and running ones, and their ends."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from tornado_gate.pipeline.gate import Gate
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.record import TaskRecord


class TaskMetrics:
    """The counters of an engine's tasks, from its creation on."""

    def __init__(self, gate: Gate, engine: TaskEngine) -> None:
        self._gate = gate
        self._engine = engine
        engine.on_look = self.count_active
        engine.on_end = self.note_end

    def count_active(self) -> None:
        """Set the numbers of waiting and running video tasks, of all processes, and the age of the oldest."""
        engine = self._engine
        names = {engine.store.digest(name): name for name in self._gate.snapshot.config.providers}
        active = Counter(names.get(task.provider, "") for task in engine.queues.active)
        places = engine.rules.concurrency
        counts = {(name, "running"): min(number, places) for name, number in active.items()}
        counts |= {(name, "queued"): max(0, number - places) for name, number in active.items()}
        oldest = engine.store.get_time() - engine.queues.active[0].created / 1e9 if engine.queues.active else 0.0
        self._gate.metrics.tasks.set_open(counts, max(0.0, oldest))

    def note_end(self, record: TaskRecord) -> None:
        """Count the end of a task, with its kind and its duration."""
        seconds = (record.completed_at or record.created_at) - record.created_at
        match = self._gate.snapshot.targets.models.find_model(record.model)
        model = match.entry.name if match else ""
        outcome: Literal["completed", "failed"] = "completed" if record.status == "completed" else "failed"
        self._gate.metrics.tasks.count_ended(record.provider, model, outcome, max(0.0, seconds))
