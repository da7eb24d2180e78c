"""tornado-gate tasks"""

from __future__ import annotations

import asyncio
import heapq
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, format_table, load, protect_storage
from tornado_gate.cli.tasktexts import (
    ENDED_STATUSES,
    describe_task,
    describe_task_fully,
    escape_unprintable,
    format_cell,
    sort_active_first,
)
from tornado_gate.cli.webhook_secret import webhook_secret
from tornado_gate.server.process.command_name import get_command_name

if TYPE_CHECKING:
    from tornado_gate.config.model import Config
    from tornado_gate.storage.files import MediaStore
    from tornado_gate.tasks.record import TaskRecord
    from tornado_gate.tasks.store import TaskStore

T = TypeVar("T")

STATUSES = ("queued", "pending", "completed", "failed")
CANCEL_SECONDS = 15.0
"""The number of seconds for which `cancel` waits for the server that runs the task."""
SERVER_PICK_UP_SECONDS = 3.0
"""The seconds for which `cancel` leaves a task without a lease to the servers, which can also cancel it at the upstream."""
POLL_SECONDS = 0.1


class TaskCommandError(Exception):
    """The command cannot be executed. The message names the cause."""


@click.group(short_help="List, show, cancel and remove video tasks.")
def tasks() -> None:
    """List, show, cancel and remove video tasks of all accounts, with or without a running server.

    The tasks are in the data directory, or with `tasks: {store: database}` in the database, for all nodes. Run these commands as
    the user that the server runs as.
    """


tasks.add_command(webhook_secret)


def _run_with_store(
    conf_file: Path | None, data_dir: Path | None, work: Callable[[TaskStore, Config], Awaitable[T]]
) -> T:
    """Return the result of `work`. Exits with a message if it fails. Creates no folder if there were never any tasks."""
    from tornado_gate.errors import ConfigError, GateError
    from tornado_gate.tasks.opening import make_task_store
    from tornado_gate.tasks.store import LeaseLost

    _, config = load(conf_file, data_dir)
    folder = config.server.data_dir / "tasks"
    has_tasks = os.path.isdir(folder)  # also False for a folder that may not be read
    if has_tasks:
        protect_storage(config)

    async def main() -> T:
        store = make_task_store(config)
        if has_tasks or store.is_shared:
            await store.open()
        try:
            return await work(store, config)
        finally:
            await store.close()

    try:
        return asyncio.run(main())
    except GateError as error:
        exit_with_message(error.message)
    except ConfigError as error:  # the library of media.store is not installed
        exit_with_message(str(error))
    except TaskCommandError as error:
        exit_with_message(str(error))
    except LeaseLost:
        exit_with_message("a server has just taken the task; run the command again.")


async def _load_task(store: TaskStore, task_id: str) -> TaskRecord:
    from tornado_gate.errors import NotFound

    try:
        return await store.get(task_id)
    except NotFound:
        message = f"there is no task with the ID '{escape_unprintable(task_id)}', or it has expired"
        raise TaskCommandError(f"{message}; `{get_command_name()} tasks list` lists all tasks.") from None


# list


@tasks.command("list", short_help="List tasks, unfinished ones first.")
@conf_option
@data_dir_option
@click.option("--account", metavar="A", help="List only tasks of this account.")
@click.option("--status", type=click.Choice(STATUSES), help="List only tasks with this status.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of tasks.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def list_tasks(
    conf_file: Path | None, data_dir: Path | None, account: str | None, status: str | None, limit: int, as_json: bool
) -> None:
    """List tasks of all accounts: unfinished ones first, newest first. Times are UTC.

    The most recent failures:

    \b
      tornado-gate tasks list --status failed --limit 10
    """

    async def work(store: TaskStore, _config: Config) -> tuple[list[TaskRecord], bool]:
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
        click.echo(f"Only the first {limit} tasks are listed; use --limit for more.", err=True)


async def _list_account_tasks(
    store: TaskStore, account: str, status: str | None, limit: int
) -> tuple[list[TaskRecord], bool]:
    """Return the newest tasks of an account, and whether there are more. With `status`, all tasks are read."""
    page = await store.list(account, "", limit if status is None else 10**9, "desc")
    records = [record for record in page.records if status in (None, record.status)]
    return sort_active_first(records[:limit]), page.has_more or len(records) > limit


async def _list_all_tasks(store: TaskStore, status: str | None, limit: int) -> tuple[list[TaskRecord], bool]:
    """Return the first tasks of the list, of all accounts, and whether there are more. Other tasks are not kept in
    memory.
    """
    best: list[tuple[bool, int, str, TaskRecord]] = []
    has_more = False
    async for record in store.scan():
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


@tasks.command(short_help="Show one task, without its prompt.")
@conf_option
@data_dir_option
@click.argument("id_", metavar="ID")
@click.option("--prompt", is_flag=True, help="Also show the request, the upstream's task ID and the full webhook URL.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of lines.")
def show(conf_file: Path | None, data_dir: Path | None, id_: str, prompt: bool, as_json: bool) -> None:
    """Show the progress, provider, error and files of a task. Times are UTC.

    Prompts are private to the callers: they are shown only with --prompt.

    \b
      tornado-gate tasks show video_0123456789abcdef0123456789abcdef
    """

    async def work(store: TaskStore, config: Config) -> dict[str, Any]:
        record = await _load_task(store, id_)
        async with open_video_store(config) as videos:
            stored = {file.id for file in record.files if await videos.measure_file(file.id) is not None}
        return describe_task_fully(record, videos.location, stored, await store.is_cancel_requested(id_), prompt)

    description = _run_with_store(conf_file, data_dir, work)
    if as_json:
        click.echo(json.dumps(description, indent=2))
        return
    lines = [(name, value) for name, value in description.items() if value not in (None, "", [])]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        for item in value if isinstance(value, list) else [value]:
            click.echo(f"{name + ':':{width + 1}}  {escape_unprintable(format_cell(item))}")


# cancel


@tasks.command(short_help="Cancel a task.")
@conf_option
@data_dir_option
@click.argument("id_", metavar="ID")
def cancel(conf_file: Path | None, data_dir: Path | None, id_: str) -> None:
    """Cancel a task that has not ended. Its status becomes failed with the code "cancelled".

    A server that runs the task is notified and also cancels it at the upstream, if possible; otherwise it is ended here.

    \b
      tornado-gate tasks cancel video_0123456789abcdef0123456789abcdef
    """
    record, unheard = _run_with_store(conf_file, data_dir, lambda store, config: _cancel_task(store, config, id_))
    if record.error_code != "cancelled":
        exit_with_message(f"{id_} cannot be cancelled: it is {record.status} already.")
    click.echo(f"{id_} is cancelled.")
    if unheard:
        click.echo(
            "No server runs the task, so it was not cancelled at its upstream, which may continue and charge for it.",
            err=True,
        )


async def _cancel_task(store: TaskStore, config: Config, task_id: str) -> tuple[TaskRecord, bool]:
    """Return the record of the ended task, and whether the upstream may not have been notified."""
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
                await lease.release()
        if ours:  # a server has just taken it
            ours = False
            await store.request_cancel(task_id)
        await asyncio.sleep(POLL_SECONDS)
        record = await _load_task(store, task_id)
        if record.status in ENDED_STATUSES:
            return record, False
    message = f"{task_id} was requested to stop, but was still running after {CANCEL_SECONDS:g} s"
    raise TaskCommandError(
        f"{message}: its server may be waiting for the upstream. Check its state with `{get_command_name()} tasks show`."
    )


async def _end_task(store: TaskStore, config: Config, record: TaskRecord, lease: Any) -> tuple[TaskRecord, bool]:
    """End a task whose lease this process holds, as a server does. The next running server sends its webhook."""
    from tornado_gate.tasks.record import advance

    if record.status in ENDED_STATUSES:
        return record, False
    now = store.get_time()
    ended = advance(
        record, step="done" if record.webhook is None else "telling", status="failed", error_code="cancelled",
        error_message="The task was cancelled.", updated_at=now, completed_at=now,
        expires_at=now + config.videos.keep_seconds,
    )  # fmt: skip
    await (store.finish(ended, lease) if ended.has_ended else store.save(ended, lease))
    return ended, record.step != "new"


# prune


@tasks.command(short_help="Remove ended tasks and their videos.")
@conf_option
@data_dir_option
@click.option(
    "--older-than",
    metavar="D",
    help="Minimum time since the end: 7d, 12h, 30m. Default: expired tasks.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, without removing it.")
def prune(conf_file: Path | None, data_dir: Path | None, older_than: str | None, dry_run: bool) -> None:
    """Remove ended tasks and their video files before they expire (videos.keep_seconds of the configuration).

    Servers remove expired tasks themselves; this frees space now:

    \b
      tornado-gate tasks prune --older-than 12h --dry-run
    """
    age = None if older_than is None else _parse_age(older_than)
    removed = _run_with_store(conf_file, data_dir, lambda store, config: _prune_tasks(store, config, age, dry_run))
    tasks = f"{removed.tasks} tasks with {removed.files} video files of {removed.size} bytes"
    click.echo(f"{tasks} would be removed." if dry_run else f"{tasks} were removed.")


class PruneResult(NamedTuple):
    """The result of `prune`. `size` is the size of the files on the disk, in bytes."""

    tasks: int
    files: int
    size: int


def _parse_age(text: str) -> float:
    """Return a duration in seconds."""
    from tornado_gate.codec.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--older-than") from None


@asynccontextmanager
async def open_video_store(config: Config) -> AsyncIterator[MediaStore]:
    """Open the store of finished videos, without its secret: no URL is signed."""
    from tornado_gate.storage.media_stores import BucketStart, open_media_stores

    videos = open_media_stores(config, BucketStart(b"unused")).videos
    try:
        yield videos
    finally:
        await videos.close()


async def _prune_tasks(store: TaskStore, config: Config, age: float | None, dry_run: bool) -> PruneResult:
    from tornado_gate.errors import NotFound

    now = store.get_time()
    done, sizes = 0, list[int]()
    async with open_video_store(config) as videos:
        async for record in store.scan():
            until = record.expires_at if age is None else (record.completed_at or record.updated_at) + age
            if not record.has_ended or until is None or until > now:
                continue
            sizes += [size async for size in _delete_videos(videos, record, dry_run)]
            if not dry_run:
                try:
                    await store.delete(record.id)
                except NotFound:  # a server has just deleted it
                    continue
            done += 1
    return PruneResult(done, len(sizes), sum(sizes))


async def _delete_videos(videos: MediaStore, record: TaskRecord, dry_run: bool) -> AsyncIterator[int]:
    """Delete the videos of a task, and yield the size of each that is gone; with `dry_run`, of each that would be."""
    for file in record.files:
        size = await videos.measure_file(file.id)
        if not dry_run:
            await videos.delete(file.id)
        if size is not None and (dry_run or await videos.measure_file(file.id) is None):
            yield size
