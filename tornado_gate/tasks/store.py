"""The interface of a task store. Its contract tests are in tests/tasks/test_store_contract.py.

Several processes share a store. A change is durable when its method returns; a change that was unfinished when its process died
has no effect. Every method may raise MediaFull (507) and MediaUnavailable (503), and works again when the storage does.

A lease ends with its process, and may end earlier if its process cannot reach the storage. The process then runs the task
until it notices this, but the store does not accept its changes any more: they raise LeaseLost.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Literal, NamedTuple, Protocol

from tornado_gate.errors import InvalidField, NotFound, RateLimited, RequestError
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.types import Upload

MAX_SEARCHED = 2000
"""The maximum number of records that one search reads, so that it ends within a fraction of a second."""


class TaskConflict(RequestError):
    """An error: the request contradicts an earlier one of the same caller."""

    status = 409
    code = "conflict"


class LeaseLost(Exception):
    """An error: another process may have taken the lease of the task. The run of the task must end."""


class ActiveTask(NamedTuple):
    """A task that has not ended. `provider` and `account` are digests; `created` is its record's `created_ns`."""

    created: int
    provider: str
    account: str
    id: str


class TaskPage(NamedTuple):
    """A page of an account's tasks; `has_more`: others follow."""

    records: tuple[TaskRecord, ...]
    has_more: bool


class TaskSearch(NamedTuple):
    """The tasks of all accounts that match a search, and the id after which the search continues; "" at its end."""

    records: tuple[TaskRecord, ...]
    next: str


ActiveTasks = list[ActiveTask]
TaskIds = list[str]
WaitingTasks = dict[str, deque[ActiveTask]]
"""The tasks of one provider by the digest of their account, oldest first within an account."""


class Slot(Protocol):
    """A slot for a running task of a provider entry. It ends with its process at the latest."""

    async def release(self) -> None:
        """Release the slot; the second call has no effect. Raises nothing."""


class Lease(Protocol):
    """The exclusive right to run and save one task. It ends with its process at the latest, however the process ends."""

    @property
    def task_id(self) -> str: ...

    @property
    def is_held(self) -> bool: ...

    async def release(self) -> None:
        """Release the lease; the second call has no effect. Raises nothing."""


class Turn(NamedTuple):
    """A task, with the right to run it now."""

    task: ActiveTask
    lease: Lease
    slot: Slot


class TaskStore(Protocol):
    """The tasks of all accounts. One object per process. `is_shared`: other machines have it too, but not the same files."""

    is_shared: bool

    async def open(self) -> None:
        """Prepare the storage. Raises when it cannot be used; the store may be used nevertheless, once the storage works."""

    async def close(self) -> None:
        """Finish the changes that have begun. Leases and slots that are still held end with the process."""

    def get_time(self) -> float:
        """Return the time in Unix seconds, by one clock for all processes that share the store."""

    def digest(self, text: str) -> str:
        """Return the digest of an account or a provider in an `ActiveTask`: 8 hex digits.

        Two may have the same, which is rare.
        """

    # One task

    async def create(
        self,
        record: TaskRecord,
        image: AsyncIterator[bytes] | None,
        idempotency_key: str = "",
        *,
        limit: int | None = None,
    ) -> TaskRecord:
        """Store a new task and its image; engines find it from then on. Return the record as it was stored.

        Raises RateLimited (too_many_tasks) when the account has `limit` tasks that have not ended. The limit is exact, even when
        several processes create tasks at the same time.

        If the account has used the idempotency key for a task that still exists, no task is created. The existing task is
        returned if its digest is the same, and TaskConflict is raised if not. If several processes use one key at the same time,
        one creates the task. `created_at` may change by microseconds, so that no two tasks of a process have the same.
        """

    async def find_earlier(self, record: TaskRecord, idempotency_key: str) -> TaskRecord | None:
        """Return the task that `create` would return for this record and key instead of a new one.

        Raises the same TaskConflict.
        """

    async def get(self, task_id: str) -> TaskRecord:
        """Return the record. Raises NotFound (task_not_found), also for an invalid id and for a damaged record."""

    async def find_image(self, task_id: str) -> Upload | None:
        """Return the image of a task that has not ended, None without an image. Raises NotFound when the task does not exist."""

    async def save(self, record: TaskRecord, lease: Lease) -> None:
        """Replace the record.

        Raises ValueError without the task's lease, LeaseLost if another process has taken it, and NotFound when the task was
        deleted: it is not created again.
        """

    async def finish(self, record: TaskRecord, lease: Lease) -> None:
        """Save a task that is done, remove it from the active ones and delete its image. May be called again."""

    async def delete(self, task_id: str) -> None:
        """Delete the task and everything that belongs to it, including its idempotency key. Raises NotFound."""

    async def request_cancel(self, task_id: str) -> None:
        """Request that the process which runs the task cancels it. Raises NotFound."""

    async def is_cancel_requested(self, task_id: str) -> bool:
        """Return whether its cancellation was requested; false for a task that has ended.

        Raises LeaseLost if another process has taken the lease that this process had.
        """

    # The right to work

    async def acquire_lease(self, task_id: str) -> Lease | None:
        """Return the lease of a task that has not ended.

        Return None when the lease is held, here or elsewhere, or the task does not exist.
        """

    async def check_lease(self, lease: Lease) -> None:
        """Return if no other process can have the lease now. Call it before a change that the store does not guard.

        Raises LeaseLost.
        """

    async def acquire_slot(self, provider: str, limit: int) -> Slot | None:
        """Return one of the `limit` slots that a provider has over all processes; None when all are held.

        `provider` is its digest.
        """

    async def acquire_turn(self, provider: str, limit: int, waiting: WaitingTasks) -> Turn | None:
        """Return the task of a provider, identified by its digest, that is to run now; None without a free slot or a task to run.

        Accounts alternate, over all processes: it is the oldest task of the account whose last turn is longest ago. The tasks
        that were considered are removed from `waiting`: this one, and tasks that run already or no longer exist.
        """

    # Many tasks

    async def list_active(self) -> ActiveTasks:
        """Return the tasks that have not ended, oldest first. Reads no record."""

    async def count_active(self, account: str) -> int:
        """Return the number of tasks of this account that have not ended."""

    async def list(self, account: str, after: str, limit: int, order: Literal["asc", "desc"]) -> TaskPage:
        """Return at most `limit` tasks of the account, oldest or newest first, that follow the task `after` ("": from the start).

        Raises InvalidField when the account has no task `after`.
        """

    async def list_all(self, after: str, limit: int, accepts: Callable[[TaskRecord], bool]) -> TaskSearch:
        """Return at most `limit` tasks of all accounts for which `accepts` is true, newest first, that follow the task `after`.

        One search reads a bounded number of records, so it may find fewer and yet continue. Raises InvalidField as `list`.
        """

    def scan(self) -> AsyncIterator[TaskRecord]:
        """Yield every readable record, in no order. Reads all records: for commands, not for servers."""

    async def sweep(self, now: float) -> TaskIds:
        """Delete the tasks that have ended and expired at `now`, and files that dead processes have left.

        Other tasks are not read.

        Return the ids of the deleted tasks.
        """


def require_lease(record: TaskRecord, lease: Lease) -> None:
    """Raise ValueError without the task's own lease."""
    if not lease.is_held or lease.task_id != record.id:
        raise ValueError(f"{record.id} cannot be saved without its lease")


def compute_digest(text: str) -> str:
    """Return a digest of 8 hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def compute_key_digest(account: str, key: str) -> str:
    """Return the digest of an account's idempotency key, 64 hex digits."""
    text = f"{len(account)}\n{account}{key}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def task_not_found_error() -> NotFound:
    """Return the error for a task that never existed, was deleted, or belongs to another account."""
    return NotFound("The task does not exist or has expired. Check its id.", param="task_id", code="task_not_found")


def too_many_tasks_error(limit: int) -> RateLimited:
    message = f"This account has reached its limit of {limit} unfinished video tasks. Wait until one has ended."
    return RateLimited(message, retry_after=30, code="too_many_tasks")


def newer_record_error() -> MediaUnavailable:
    return MediaUnavailable("This task was taken by a newer version of the gateway. Try again later.")


def unknown_after_error() -> InvalidField:
    return InvalidField("after", "'after' must be the id of one of your tasks.")


def key_conflict_error() -> TaskConflict:
    message = "This Idempotency-Key was used for another request. Use a new key, or send that request again."
    return TaskConflict(message, code="idempotency_conflict")
