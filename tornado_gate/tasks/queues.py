"""The tasks that have not ended, by provider and account, as one look at the store has found them. No I/O.

At each provider the accounts alternate, and an account's tasks run in the order of their creation. So an account that queues a
hundred tasks delays the next one of another account by one task. `TaskStore.acquire_turn` keeps the turns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Container, Mapping, Sequence

from tornado_gate.tasks.store import ActiveTask, WaitingTasks


class TaskQueues:
    """The queues of `active`, which is sorted by creation. Immutable."""

    def __init__(self, active: Sequence[ActiveTask] = ()) -> None:
        self.active = active
        self._tasks: defaultdict[str, defaultdict[str, list[ActiveTask]]] = defaultdict(lambda: defaultdict(list))
        for task in active:
            self._tasks[task.provider][task.account].append(task)

    def without(self, task_id: str) -> TaskQueues:
        others = [task for task in self.active if task.id != task_id]
        return self if len(others) == len(self.active) else TaskQueues(others)

    def group_waiting(self, running: Container[str]) -> dict[str, WaitingTasks]:
        """Return the tasks whose ids are not in `running`, by provider; only providers and accounts that have such tasks."""
        waiting_of_provider: dict[str, WaitingTasks] = {}
        for provider, accounts in self._tasks.items():
            waiting = {
                account: deque([task for task in tasks if task.id not in running])
                for account, tasks in accounts.items()
            }
            if unfinished := {account: tasks for account, tasks in waiting.items() if tasks}:
                waiting_of_provider[provider] = unfinished
        return waiting_of_provider

    def find_position(self, task: ActiveTask, concurrency: int) -> int:
        """Return the position of a waiting task, from 1, if accounts alternate and `concurrency` tasks run; it may be new."""
        accounts: Mapping[str, list[ActiveTask]] = self._tasks.get(task.provider, {})
        rank = bisect_left(accounts.get(task.account, ()), task)
        before = rank
        for account, tasks in accounts.items():
            if account != task.account:
                before += min(rank, len(tasks)) + (len(tasks) > rank and tasks[rank] < task)
        return max(1, before - concurrency + 1)
