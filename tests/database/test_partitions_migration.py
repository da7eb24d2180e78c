"""The table `usage` of an earlier version becomes partitions while other nodes write to it, in PostgreSQL."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import event, text

from tests.ledger.rows import make_stored_row
from tests.support.postgres import PostgresServer
from tests.support.variants import vary
from tornado_gate.database import opening
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import list_revisions, migrate, open_database
from tornado_gate.database.usage_tables import OTHER_ROWS
from tornado_gate.ledger.partitions import list_partitions, make_months
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import DAY, UsageQuery
from tornado_gate.ledger.writing import COLUMNS, write_rows

FORK = multiprocessing.get_context("fork")
MOST_WAIT_SECONDS = 5.0
"""The longest wait of a writer. It is far below a second on an idle machine; see docs/deployment/large-ledgers.md."""
_NUMBERS = itertools.count(1)


@pytest.fixture
def address(postgres: PostgresServer) -> Iterator[str]:
    name = f"old_{next(_NUMBERS)}"
    yield postgres.create(name)
    postgres.drop(name)


@pytest.fixture
def old(address: str, tmp_path: Path) -> Iterator[Database]:
    """A database of the version before, with rows of the last 200 days. It stands for a node with the earlier code too:
    that code writes the same statements.
    """
    database = Database(tmp_path / "old", address)
    config = Config()
    config.set_main_option("script_location", str(opening.FOLDER))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0009_state")
    now = time.time()
    write_rows(database, [make_stored_row(now - number * DAY) for number in range(200)], may_repeat=False)
    yield database
    database.close()


def count_rows(database: Database) -> dict[str, int]:
    with database.read() as connection:
        rows = connection.execute(text("SELECT tableoid::regclass::text, count(*) FROM usage GROUP BY 1"))
        return {str(name): int(number) for name, number in rows}


def list_objects(database: Database, statement: str) -> list[str]:
    with database.read() as connection:
        return [str(name) for name in connection.execute(text(statement)).scalars()]


def check_migrated(database: Database) -> None:
    """The database is as a new one, but for the partition with the old rows, which has kept its own indexes."""
    assert list_objects(database, "SELECT version_num FROM alembic_version") == [list_revisions()[-1]]
    with database.read() as connection:
        assert list_partitions(connection)[0].name == "usage_before"
    indexes = "SELECT indexname FROM pg_indexes WHERE tablename = 'usage_before' ORDER BY indexname"
    expected = [f"ix_usage_before_{name}" for name in ("errors", "key", "model", "request_id", "team", "user")]
    assert list_objects(database, indexes) == [*expected, "pk_usage_before"]
    assert list_objects(database, "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal") == []
    assert list_objects(database, "SELECT conname FROM pg_constraint WHERE conname = 'usage_end'") == []
    make_months(database, time.time())


@contextmanager
def watch(database: Database, react: Callable[[str], None]) -> Iterator[None]:
    """Call `react` after each statement and each commit of a database."""

    def follow(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        react(statement)

    def follow_commit(_connection: Any) -> None:
        react("COMMIT")

    engine: sqlalchemy.Engine = database._engine
    event.listen(engine, "after_cursor_execute", follow)
    event.listen(engine, "commit", follow_commit)
    yield
    event.remove(engine, "after_cursor_execute", follow)
    event.remove(engine, "commit", follow_commit)


def test_rows_are_kept_and_the_old_table_is_not_read_under_a_lock(old: Database, address: str, tmp_path: Path) -> None:
    newest = time.time()
    before = list_objects(
        old, "SELECT pg_relation_filenode(indexrelid) FROM pg_index WHERE indrelid = 'usage'::regclass"
    )
    with old.write() as connection:
        connection.execute(text("GRANT SELECT ON usage TO PUBLIC"))
    database = open_database(tmp_path / "new", address)
    check_migrated(database)
    after = "SELECT pg_relation_filenode(indexrelid) FROM pg_index WHERE indrelid = 'usage_before'::regclass"
    assert list_objects(database, after) == before
    grants = "SELECT privilege_type FROM information_schema.table_privileges WHERE table_name = 'usage' AND grantee = 'PUBLIC'"
    assert list_objects(database, grants) == ["SELECT"]
    write_rows(old, [make_stored_row(newest)], may_repeat=False)
    assert count_rows(database) == {"usage_before": 201}
    rows = Reports(database).usage(UsageQuery(start=0, end=time.time(), group_by=("model",)))
    assert [row.requests for row in rows] == [201]
    database.close()


def test_the_constraint_saves_postgresql_from_reading_the_rows(old: Database, address: str, tmp_path: Path) -> None:
    notices: list[str] = []
    database = Database(tmp_path / "new", address)

    def listen(connection: Any, _record: Any) -> None:
        connection.execute("SET client_min_messages = debug1")
        connection.commit()
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))

    event.listen(database._engine, "connect", listen)
    migrate(database)
    assert 'partition constraint for table "usage_before" is implied by existing constraints' in notices
    assert not [notice for notice in notices if "building index" in notice and "usage_before" in notice]
    database.close()


def test_rows_of_a_wrong_clock_are_kept_during_the_migration(old: Database, address: str, tmp_path: Path) -> None:
    future = time.time() + 400 * DAY
    write_rows(old, [make_stored_row(future)], may_repeat=False)
    database = Database(tmp_path / "new", address)

    def write_future(statement: str) -> None:
        if "VALIDATE" in statement:
            write_rows(old, [make_stored_row(future), make_stored_row(time.time())], may_repeat=False)

    with watch(database, write_future):
        migrate(database)
    check_migrated(database)
    assert count_rows(database) == {"usage_before": 201, OTHER_ROWS: 2}
    database.close()


def run_until(folder: Path, address: str, number: int) -> None:
    """In a process of its own: migrate, and be killed after `number` statements and commits."""
    database = Database(folder, address)
    numbers = itertools.count(1)

    def kill(_statement: str) -> None:
        if next(numbers) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    with watch(database, kill):
        migrate(database)


def count_statements(old: Database, postgres: PostgresServer, folder: Path) -> int:
    """The statements and commits of the migration of a copy of a database."""
    name = str(old._url.database)
    old.close()
    seen: list[str] = []
    copy = Database(folder, postgres.create(f"copy_of_{name}", name))
    with watch(copy, seen.append):
        migrate(copy)
    copy.close()
    postgres.drop(f"copy_of_{name}")
    return len(seen)


@pytest.mark.parametrize("part", vary(0.7, *(number / 14 for number in range(1, 14))))
def test_a_process_that_is_killed_leaves_what_the_next_one_continues(
    old: Database, postgres: PostgresServer, address: str, tmp_path: Path, part: float
) -> None:
    number = max(1, round(part * count_statements(old, postgres, tmp_path / "copy")))
    process = FORK.Process(target=run_until, args=(tmp_path / "killed", address, number))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    write_rows(old, [make_stored_row(time.time())], may_repeat=False)
    database = open_database(tmp_path / "new", address)
    check_migrated(database)
    assert sum(count_rows(database).values()) == 201
    database.close()


class Writer:
    """A node that writes one row after the other until `stop`. `longest` is the longest write in seconds."""

    def __init__(self, database: Database) -> None:
        self.written, self.longest = 0, 0.0
        self._database = database
        self._ends = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._result = self._pool.submit(self._write)

    def _write(self) -> None:
        while not self._ends.is_set():
            begin = time.monotonic()
            self.written += write_rows(self._database, [make_stored_row(time.time())], may_repeat=self.written % 2 == 1)
            self.longest = max(self.longest, time.monotonic() - begin)

    def stop(self) -> None:
        self._ends.set()
        self._result.result(60)
        self._pool.shutdown()


def fill(database: Database, rows: int) -> None:
    """Add copies of a row, evenly over the last days."""
    names = ", ".join(f'"{name}"' for name in COLUMNS if name != "id")
    row_id = "lpad(to_hex(:now - CAST(number AS bigint) * 1000000), 14, '0') || 'ffffffffff'"
    with database.write() as connection:
        connection.execute(
            text(
                f"INSERT INTO usage (id, {names}) SELECT {row_id}, {names} "
                "FROM generate_series(1, :rows) AS number, (SELECT * FROM usage LIMIT 1) AS model"
            ),
            {"now": int(time.time() * 1e6), "rows": rows},
        )


@pytest.mark.qa
def test_writers_of_two_nodes_wait_shortly_and_no_write_fails(old: Database, address: str, tmp_path: Path) -> None:
    fill(old, 300_000)
    second = Database(tmp_path / "second", address)
    writers = [Writer(old), Writer(second)]
    waits: list[str] = []

    def react(statement: str) -> None:
        if "VALIDATE" in statement:
            report.execute(text("SELECT count(*) FROM usage"))  # holds the table until the migration has waited for it

    def end_report(record: logging.LogRecord) -> bool:
        waits.append(record.getMessage())
        report.rollback()
        return True

    database = Database(tmp_path / "new", address)
    logger = logging.getLogger("tornado_gate.database.migrations")
    logger.addFilter(end_report)
    with old.read() as report, watch(database, react):
        migrate(database)
    logger.removeFilter(end_report)
    for writer in writers:
        writer.stop()
    assert "the migration waits for another session" in waits[0]
    check_migrated(database)
    assert sum(count_rows(database).values()) == 300_200 + sum(writer.written for writer in writers)
    assert max(writer.longest for writer in writers) < MOST_WAIT_SECONDS
    for each in (second, database):
        each.close()


@pytest.mark.qa
def test_two_nodes_that_start_at_once_migrate_once(old: Database, address: str, tmp_path: Path) -> None:
    fill(old, 100_000)
    barrier = threading.Barrier(2)

    def start(number: int) -> None:
        database = Database(tmp_path / f"node-{number}", address)
        barrier.wait(60)
        migrate(database)
        make_months(database, time.time())
        database.close()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(start, range(2)))
    check_migrated(old)
    assert sum(count_rows(old).values()) == 100_200


@pytest.mark.qa
def test_a_migration_that_was_killed_long_ago_begins_again(old: Database, address: str, tmp_path: Path) -> None:
    """The end of the first partition has passed meanwhile, and rows have gone to the other table."""
    module = ScriptDirectory(str(opening.FOLDER)).get_revision("0010_partitions").module
    end = f"{int((time.time() - 3 * DAY) * 1e6):014x}"
    with old.write() as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_find_end", lambda _connection: end)
        module._fence(connection)
    write_rows(old, [make_stored_row(time.time())], may_repeat=False)
    assert sum(count_rows(old).values()) == 200 - 3  # the trigger has taken the others
    database = open_database(tmp_path / "new", address)
    check_migrated(database)
    assert count_rows(database) == {"usage_before": 201}
    database.close()
