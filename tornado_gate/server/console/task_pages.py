"""Video tasks: the visitor's tasks, or the tasks of all accounts for an administrator."""

from __future__ import annotations

import time
from typing import Literal, get_args

from tornado_gate.accounts.names import find_names
from tornado_gate.errors import InvalidField
from tornado_gate.server.admin.views import TaskView, describe_task
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import mark, translate, translate_labels
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.service import ENDED_STATUSES
from tornado_gate.types import TaskStatus
from tornado_gate.types.value import Value

TASKS = "/console/tasks"
PAGE_TASKS = 25
STATUSES: tuple[str, ...] = get_args(TaskStatus)
STATUS_WORDS = {
    "queued": mark("waiting"),
    "pending": mark("running"),
    "completed": mark("completed"),
    "failed": mark("failed"),
}
STATUS_BADGES = {"queued": "", "pending": "warn", "completed": "good", "failed": "bad"}


class ShownTask(Value, frozen=True, kw_only=True):
    """A row of the table. `links` are addresses of the videos; `seconds` is the running time of the task."""

    task: TaskView
    links: tuple[str, ...]
    seconds: float | None


class TasksPage(ConsoleHandler):
    """`/console/tasks`. `?after=` is the id of the previous page's last task. `?owner=` is mine, all, or the id of an
    account.
    """

    access = "member"

    async def get(self) -> None:
        status = self.get_query_argument("status", "")
        status = status if status in STATUSES else ""
        owner = self._get_owner()
        after = self.get_query_argument("after", "")[:60]
        try:
            records, next_after = await self._list_tasks(owner, status, after)
        except InvalidField:  # the task no longer exists
            self.redirect(TASKS)
            return
        tasks = [self._make_shown(record) for record in records]
        accounts = {shown.task.account for shown in tasks} if owner != "mine" else set()
        self.render_page(
            "tasks.html",
            title=translate("Tasks"),
            tasks=tasks,
            owner=owner,
            chosen=status,
            statuses=translate_labels(STATUS_WORDS.items()),
            status_words=dict(translate_labels(STATUS_WORDS.items())),
            badges=STATUS_BADGES,
            after=after,
            next=next_after,
            names=await self.run_database(find_names, self.services.database, "user", accounts),
            is_running=any(shown.task.status not in ENDED_STATUSES for shown in tasks),
        )

    def _get_owner(self) -> str:
        """Return the owner of the shown tasks: "mine", and for administrators also "all" or an account."""
        owner = self.get_query_argument("owner", "")[:300]
        return owner if owner and self.user.role == "administrator" else "mine"

    async def _list_tasks(self, owner: str, status: str, after: str) -> tuple[list[TaskRecord], str]:
        """Return the tasks of a page, newest first, and the id after which the next page begins, "" on the last page."""
        store = self.services.tasks.engine.store
        account = self.user.id if owner == "mine" else owner
        if owner == "mine" and not status:
            order: Literal["desc"] = "desc"
            page = await store.list(account, after, PAGE_TASKS, order)
            return list(page.records), page.records[-1].id if page.has_more and page.records else ""
        records_page = await store.list_all(
            after,
            PAGE_TASKS,
            lambda record: account in ("all", record.account) and status in ("", record.status),
        )
        return list(records_page.records), records_page.next

    def _make_shown(self, record: TaskRecord) -> ShownTask:
        files = self.services.tasks.files
        expires = record.expires_at or time.time()
        links = tuple(files.sign(file.id, expires) for file in record.files) if record.status == "completed" else ()
        seconds = None
        if record.started_at is not None:
            seconds = (record.completed_at or time.time()) - record.started_at
        return ShownTask(task=describe_task(record), links=links, seconds=seconds)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(TASKS, TasksPage)]
