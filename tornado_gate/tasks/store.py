"""What any store of tasks promises, wherever it keeps them. Its contract tests are in tests/tasks/test_store_contract.py.

Several processes share a store. What a method has done when it returns outlives every one of them; what it had not finished
when its process died has not happened at all. Any method may raise Full (507) and Unavailable (503) errors of the storage,
and works again when the storage does.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Literal, NamedTuple, Protocol

from tornado_gate.errors import NotFound, RequestError
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.types import Upload


class Conflict(RequestError):
    """What the caller asks for does not go with what it asked for before."""

    status = 409
    code = "conflict"


class ActiveTask(NamedTuple):
    """A task that has not ended. `provider` and `account` are digests; `created` is its record's `created_ns`."""

    created: int
    provider: str
    account: str
    id: str


class Page(NamedTuple):
    """Some of an account's tasks; `has_more` says whether others follow."""

    records: tuple[TaskRecord, ...]
    has_more: bool


ActiveTasks = list[ActiveTask]
Names = list[str]


class Slot(Protocol):
    """A place among the running tasks of a provider entry. It ends with its process at the latest."""

    def release(self) -> None:
        """Give it back; of no effect the second time."""


class Lease(Protocol):
    """The sole right to run, and to save, one task. It ends with its process at the latest, however that dies."""

    @property
    def task_id(self) -> str: ...

    @property
    def held(self) -> bool: ...

    def release(self) -> None:
        """Give it back; of no effect the second time."""


class TaskStore(Protocol):
    """The tasks of all accounts. One object for each process."""

    async def open(self) -> None:
        """Before anything else. Raises where the storage cannot be used, but may be gone on with: it may heal."""

    async def close(self) -> None:
        """After everything else. Leases and slots that somebody still has go with the process."""

    def digest(self, text: str) -> str:
        """What `ActiveTask` calls an account or a provider: 8 hex digits. Two of them may fall together, once in ages."""

    # One task

    async def create(
        self, record: TaskRecord, image: AsyncIterator[bytes] | None, idempotency_key: str = ""
    ) -> TaskRecord:
        """Keep a new task and its image; whoever looks for tasks to run will find it. The record as it was kept.

        When the account has used the idempotency key for a task that is still there, nothing is made: the answer is that
        task when its digest is the same. Raises Conflict when it is not. Of several processes that come with one key at the
        same time, one makes the task. `created_at` may be moved by microseconds, so that two tasks of a process differ.
        """

    async def earlier(self, record: TaskRecord, idempotency_key: str) -> TaskRecord | None:
        """The task that `create` would give for this record and key instead of a new one. Raises Conflict as it does."""

    async def get(self, task_id: str) -> TaskRecord:
        """Raises NotFound (task_not_found), also for a name that can be none, and for a record that is damaged."""

    async def image(self, task_id: str) -> Upload | None:
        """The image of a task that has not ended, None for one without. Raises NotFound for one that is not there."""

    async def save(self, record: TaskRecord, lease: Lease) -> None:
        """Put the record in the place of the one before. Raises ValueError without the task's lease, NotFound when the
        task was deleted meanwhile: it does not come back."""

    async def ended(self, record: TaskRecord, lease: Lease) -> None:
        """`save` a task that is done, and make it active no more; its image is forgotten. May be called again."""

    async def delete(self, task_id: str) -> None:
        """Forget the task and all that belongs to it, its idempotency key too. Raises NotFound."""

    async def request_cancel(self, task_id: str) -> None:
        """Let whoever runs the task, in whatever process, know that it shall not. Raises NotFound."""

    async def cancel_requested(self, task_id: str) -> bool:
        """Whether somebody did; false for a task that has ended."""

    # The right to work

    async def lease(self, task_id: str) -> Lease | None:
        """The right to run a task that has not ended; None when another has it, here or elsewhere, or there is no such."""

    async def slot(self, provider: str, limit: int) -> Slot | None:
        """One of `limit` places of a provider, given by its digest, over all processes; None when all are taken."""

    # Many tasks

    async def active(self) -> ActiveTasks:
        """The tasks that have not ended, oldest first. Costs no look at any record."""

    async def count_active(self, account: str) -> int:
        """How many tasks of this account have not ended."""

    async def list(self, account: str, after: str, limit: int, order: Literal["asc", "desc"]) -> Page:
        """At most `limit` tasks of the account in the order they came, or the newest first, from behind the task `after`
        ("": from the start). Raises InvalidField for an `after` that the account has not."""

    async def sweep(self, now: float) -> Names:
        """Forget the tasks that ended and whose `expires_at` is not after `now`, without a look at others; the ids of them.
        Also cleans up what processes that died have left."""


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def no_such_task() -> NotFound:
    """The one answer for what never was, what is gone, and what is another account's."""
    return NotFound("There is no such task, or it has expired.", param="task_id", code="task_not_found")


def key_conflict() -> Conflict:
    message = "This Idempotency-Key was used for another request. Use a new key, or send that request again."
    return Conflict(message, code="idempotency_conflict")
