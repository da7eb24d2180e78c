"""The queues of a provider: which place a task has when accounts take turns."""

from __future__ import annotations

from tornado_gate.tasks.queues import TaskQueues
from tornado_gate.tasks.store import ActiveTask


def task(created: int, account: str = "a", provider: str = "p") -> ActiveTask:
    return ActiveTask(created, provider, account, f"{provider}{account}{created}")


LARGE = [task(number) for number in range(1, 112)]


def test_a_new_task_is_next_behind_a_long_queue_of_another_account() -> None:
    queues = TaskQueues([*LARGE, task(200, "b")])
    assert queues.find_position(task(200, "b"), 4) == 1
    assert queues.find_position(task(200, "b"), 1) == 1
    assert TaskQueues(LARGE).find_position(task(200, "b"), 1) == 1, "it is not in a queue yet"


def test_an_account_alone_is_served_in_the_order_of_creation() -> None:
    queues = TaskQueues([*LARGE, task(300, "a", "other")])
    assert [queues.find_position(one, 4) for one in LARGE[:7]] == [1, 1, 1, 1, 1, 2, 3]
    assert queues.find_position(task(300, "a", "other"), 4) == 1


def test_the_last_of_a_long_queue_comes_after_all_others() -> None:
    queues = TaskQueues([*LARGE, task(200, "b"), task(201, "b")])
    assert queues.find_position(LARGE[-1], 1) == 112


def test_waiting_tasks_are_those_that_do_not_run_here() -> None:
    queues = TaskQueues([task(1), task(2, "b"), task(3), task(4, "a", "q")])
    waiting = queues.group_waiting({"pa1"})
    assert {provider: {account: list(tasks) for account, tasks in of.items()} for provider, of in waiting.items()} == {
        "p": {"b": [task(2, "b")], "a": [task(3)]}, "q": {"a": [task(4, "a", "q")]},
    }  # fmt: skip
    assert queues.without("pa1").active == [task(2, "b"), task(3), task(4, "a", "q")]
    assert queues.without("unknown") is queues
