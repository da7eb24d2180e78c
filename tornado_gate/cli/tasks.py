"""tornado-gate tasks"""

from __future__ import annotations

import asyncio
import heapq
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, format_table, load
from tornado_gate.cli.tasktexts import (
    ENDED_STATUSES,
    describe_task,
    describe_task_fully,
    escape_unprintable,
    format_cell,
    sort_active_first,
)

if TYPE_CHECKING:
    from tornado_gate.config.model import Config
    from tornado_gate.tasks.file_store import FileTaskStore
    from tornado_gate.tasks.record import TaskRecord

T = TypeVar("T")

STATUSES = ("queued", "pending", "completed", "failed")
CANCEL_SECONDS = 15.0
"""How long `cancel` waits for a gateway that runs the task."""
SERVER_PICK_UP_SECONDS = 3.0
"""How long a task that its upstream knows, and nobody runs, is left to a gateway, which could have the upstream stop too."""
POLL_SECONDS = 0.1

_DURATION = re.compile(r"([0-9]{1,6})([mhdw])", re.IGNORECASE)
_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SHARD = re.compile(r"[0-9a-f]{2}", re.ASCII)


class TaskCommandError(Exception):
    """What was asked for cannot be done; the message says why."""


@click.group(short_help="Look at video tasks, cancel and remove them.")
def tasks() -> None:
    """Video tasks, of all accounts, as they lie below the data directory: with a running server or without one.

    Run these commands as the user that the server runs as.
    """


def _run_with_store(
    conf_file: Path | None, data_dir: Path | None, work: Callable[[FileTaskStore, Config], Awaitable[T]]
) -> T:
    """What `work` gives. Ends the command when it cannot be done. Where no task ever was, no folder is made."""
    from tornado_gate.errors import GateError
    from tornado_gate.tasks.file_store import FileTaskStore

    _, config = load(conf_file, data_dir)
    folder = config.server.data_dir / "tasks"

    async def main() -> T:
        store = FileTaskStore(folder)
        if folder.is_dir():
            await store.open()
        try:
            return await work(store, config)
        finally:
            await store.close()

    try:
        return asyncio.run(main())
    except GateError as error:
        exit_with_message(error.message)
    except TaskCommandError as error:
        exit_with_message(str(error))


async def _load_task(store: FileTaskStore, task_id: str) -> TaskRecord:
    from tornado_gate.errors import NotFound

    try:
        return await store.get(task_id)
    except NotFound:
        message = f"there is no task with the ID '{escape_unprintable(task_id)}', or it has expired"
        raise TaskCommandError(f"{message}; `tornado-gate tasks list` shows those that exist.") from None


async def scan(store: FileTaskStore) -> AsyncIterator[TaskRecord]:
    """Every record that can be read, in no order. Looks at all of them: for commands, not for servers."""
    from tornado_gate.errors import NotFound
    from tornado_gate.storage.files import MediaUnavailable
    from tornado_gate.tasks.file_index import ID
    from tornado_gate.tasks.record import RecordNewer

    def names(folder: str) -> list[str]:
        with store.disk.explained():
            try:
                return store.disk.names(folder)
            except NotADirectoryError:
                return []

    for shard in filter(_SHARD.fullmatch, await asyncio.to_thread(names, "records")):
        for name in await asyncio.to_thread(names, f"records/{shard}"):
            task_id = name.removesuffix(".json")
            if not ID.fullmatch(task_id):
                continue
            try:
                yield await store.get(task_id)
            except NotFound:  # it has just gone, or is damaged, which the log says
                continue
            except MediaUnavailable as error:
                if not isinstance(error.__cause__, RecordNewer):
                    raise


# list


@tasks.command("list", short_help="List tasks, those that have not ended first.")
@conf_option
@data_dir_option
@click.option("--account", metavar="A", help="Only the tasks of this account.")
@click.option("--status", type=click.Choice(STATUSES), help="Only tasks that stand so.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def list_tasks(
    conf_file: Path | None, data_dir: Path | None, account: str | None, status: str | None, limit: int, as_json: bool
) -> None:
    """Tasks of all accounts: first those that have not ended, then the others, the newest first. Times are UTC.

    What failed lately, and why:

    \b
      tornado-gate tasks list --status failed --limit 10
    """

    async def work(store: FileTaskStore, _config: Config) -> tuple[list[TaskRecord], bool]:
        if account is not None:
            return await _list_account_tasks(store, account, status, limit)
        return await _list_all_tasks(store, status, limit)

    records, has_more = _run_with_store(conf_file, data_dir, work)
    rows = [describe_task(record) for record in records]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        columns = ["id", "account", "model", "provider", "status", "progress", "created", "completed", "error"]
        cells = [[escape_unprintable(format_cell(shown[column])) for column in columns] for shown in rows]
        click.echo(format_table([column.upper() for column in columns], cells))
    if has_more:
        click.echo(f"There are more than these {limit}; --limit shows more of them.", err=True)


async def _list_account_tasks(
    store: FileTaskStore, account: str, status: str | None, limit: int
) -> tuple[list[TaskRecord], bool]:
    """The newest of one account, and whether there are more. Only with `status` are all of its tasks looked at."""
    page = await store.list(account, "", limit if status is None else 10**9, "desc")
    records = [record for record in page.records if status in (None, record.status)]
    return sort_active_first(records[:limit]), page.has_more or len(records) > limit


async def _list_all_tasks(store: FileTaskStore, status: str | None, limit: int) -> tuple[list[TaskRecord], bool]:
    """The first in the order of the list, whatever their account, and whether there are more. Holds no others."""
    best: list[tuple[bool, int, str, TaskRecord]] = []
    has_more = False
    async for record in scan(store):
        if status not in (None, record.status):
            continue
        entry = (record.status not in ENDED_STATUSES, record.created_ns, record.id, record)
        if len(best) < limit:
            heapq.heappush(best, entry)
        else:
            heapq.heappushpop(best, entry)
            has_more = True
    return sort_active_first([entry[-1] for entry in best]), has_more


# show


@tasks.command(short_help="Everything about one task but what was asked for.")
@conf_option
@data_dir_option
@click.argument("id_", metavar="ID")
@click.option("--prompt", is_flag=True, help="Also what the caller asked for, and what the upstream calls its work.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of lines.")
def show(conf_file: Path | None, data_dir: Path | None, id_: str, prompt: bool, as_json: bool) -> None:
    """How far a task is, who makes it, what went wrong, and where its files are. Times are UTC.

    Prompts are the callers' own affair: they are shown only with --prompt.

    \b
      tornado-gate tasks show video_0123456789abcdef0123456789abcdef
    """

    async def work(store: FileTaskStore, config: Config) -> dict[str, Any]:
        record = await _load_task(store, id_)
        return describe_task_fully(
            record, config.server.data_dir / "videos", await store.is_cancel_requested(id_), prompt
        )

    told = _run_with_store(conf_file, data_dir, work)
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    lines = [(name, value) for name, value in told.items() if value not in (None, "", [])]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        for item in value if isinstance(value, list) else [value]:
            click.echo(f"{name + ':':{width + 1}}  {escape_unprintable(format_cell(item))}")


# cancel


@tasks.command(short_help="Stop a task.")
@conf_option
@data_dir_option
@click.argument("id_", metavar="ID")
def cancel(conf_file: Path | None, data_dir: Path | None, id_: str) -> None:
    """Stop a task that has not ended: its caller sees it as failed, "cancelled".

    A server that runs it is told, which also has the upstream stop where it can; else the task is ended here.

    \b
      tornado-gate tasks cancel video_0123456789abcdef0123456789abcdef
    """
    record, unheard = _run_with_store(conf_file, data_dir, lambda store, config: _cancel_task(store, config, id_))
    if record.error_code != "cancelled":
        exit_with_message(f"{id_} cannot be cancelled: it is {record.status} already.")
    click.echo(f"{id_} is cancelled.")
    if unheard:
        click.echo("No server ran it, so its upstream was not told: it may go on, and cost what it costs.", err=True)


async def _cancel_task(store: FileTaskStore, config: Config, task_id: str) -> tuple[TaskRecord, bool]:
    """The record of the task when it has ended, and whether its upstream may not know."""
    record = await _load_task(store, task_id)
    if record.status in ENDED_STATUSES:
        return record, False
    ours = record.step == "new"
    if not ours:
        await store.request_cancel(task_id)
    began = time.monotonic()
    while (waited := time.monotonic() - began) < CANCEL_SECONDS:
        lease = await store.acquire_lease(task_id) if ours or waited >= SERVER_PICK_UP_SECONDS else None
        if lease is not None:
            try:
                return await _end_task(store, config, await _load_task(store, task_id), lease)
            finally:
                lease.release()
        if ours:  # a server has taken it this moment
            ours = False
            await store.request_cancel(task_id)
        await asyncio.sleep(POLL_SECONDS)
        record = await _load_task(store, task_id)
        if record.status in ENDED_STATUSES:
            return record, False
    message = f"{task_id} was told to stop, but had not done so after {CANCEL_SECONDS:g} s"
    raise TaskCommandError(
        f"{message}: whoever runs it may be waiting for its upstream. `tasks show` says what becomes of it."
    )


async def _end_task(store: FileTaskStore, config: Config, record: TaskRecord, lease: Any) -> tuple[TaskRecord, bool]:
    """End a task whose lease is ours, as a server does. Its webhook is told by the next server that runs."""
    from tornado_gate.tasks.record import advance

    if record.status in ENDED_STATUSES:
        return record, False
    now = time.time()
    ended = advance(
        record, step="done" if record.webhook is None else "telling", status="failed", error_code="cancelled",
        error_message="The task was cancelled.", updated_at=now, completed_at=now,
        expires_at=now + config.videos.keep_seconds,
    )  # fmt: skip
    await (store.finish(ended, lease) if ended.has_ended else store.save(ended, lease))
    return ended, record.step != "new"


# prune


@tasks.command(short_help="Remove tasks that have ended, and their videos.")
@conf_option
@data_dir_option
@click.option("--older-than", metavar="D", help="Those that ended so long ago: 7d, 12h, 30m. Default: those expired.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def prune(conf_file: Path | None, data_dir: Path | None, older_than: str | None, dry_run: bool) -> None:
    """Remove ended tasks with their video files before their time, which is videos.keep_seconds of the configuration.

    Servers remove what has expired on their own; this makes room now:

    \b
      tornado-gate tasks prune --older-than 12h --dry-run
    """
    age = None if older_than is None else _parse_duration(older_than)
    removed = _run_with_store(conf_file, data_dir, lambda store, config: _prune_tasks(store, config, age, dry_run))
    what = f"{removed.tasks} tasks with {removed.files} video files of {removed.size} bytes"
    click.echo(f"{what} would be removed." if dry_run else f"{what} were removed.")


class PruneResult(NamedTuple):
    """`size` in bytes, as the files have them on the disk."""

    tasks: int
    files: int
    size: int


def _parse_duration(text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"'{text}' is no time span like 7d, 12h or 30m", param_hint="--older-than")
    return float(found[1]) * _UNIT_SECONDS[found[2].lower()]


async def _prune_tasks(store: FileTaskStore, config: Config, age: float | None, dry_run: bool) -> PruneResult:
    from tornado_gate.errors import NotFound
    from tornado_gate.storage.files import MediaStore

    videos = MediaStore(config.server.data_dir / "videos", secret=b"")  # only deletes: it signs no address
    now = time.time()
    done, files, size = 0, 0, 0
    async for record in scan(store):
        until = record.expires_at if age is None else (record.completed_at or record.updated_at) + age
        if not record.has_ended or until is None or until > now:
            continue
        for file in record.files:
            before = _get_file_size(videos.folder / file.id)
            if not dry_run:
                await videos.delete(file.id)
            if before is not None and (dry_run or _get_file_size(videos.folder / file.id) is None):
                files, size = files + 1, size + before
        if not dry_run:
            try:
                await store.delete(record.id)
            except NotFound:  # a server was faster
                continue
        done += 1
    return PruneResult(done, files, size)


def _get_file_size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
