"""The tasks that have not ended, by provider and account, as one look at the store has found them. No I/O.

Each provider takes the tasks of its accounts in turn, and those of one account in the order of their creation: an account
that queues a hundred tasks delays the next one of another account by one task. `TaskStore.acquire_turn` keeps the turns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Container, Sequence

from tornado_gate.tasks.store import ActiveTask, WaitingTasks


class TaskQueues:
    """The queues of `active`, which is sorted by creation. Does not change."""

    def __init__(self, active: Sequence[ActiveTask] = ()) -> None:
        self.active = active
        self._created: dict[str, dict[str, list[int]]] = {}
        for task in active:
            self._created.setdefault(task.provider, {}).setdefault(task.account, []).append(task.created)

    def without(self, task_id: str) -> TaskQueues:
        left = [task for task in self.active if task.id != task_id]
        return self if len(left) == len(self.active) else TaskQueues(left)

    def group_waiting(self, running: Container[str]) -> dict[str, WaitingTasks]:
        """The tasks whose ids are not in `running`, by provider."""
        found: dict[str, WaitingTasks] = {}
        for task in self.active:
            if task.id not in running:
                found.setdefault(task.provider, {}).setdefault(task.account, deque()).append(task)
        return found

    def find_position(self, task: ActiveTask, concurrency: int) -> int:
        """The position of a waiting task, from 1, if accounts take turns and `concurrency` tasks run; it may be new."""
        accounts = self._created.get(task.provider, {})
        rank = bisect_left(accounts.get(task.account, ()), task.created)
        before = rank
        for account, created in accounts.items():
            if account != task.account:
                before += min(rank, len(created)) + (len(created) > rank and created[rank] < task.created)
        return max(1, before - concurrency + 1)
