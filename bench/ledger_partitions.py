"""Measures of a large ledger in PostgreSQL, before and after its rows are in partitions by month.

Usage: python -m bench.ledger_partitions [--rows 10000000] [--months 6]. Fills two databases of one real PostgreSQL with the same
rows: one of the version before, which is then migrated while a node writes and another one reads, and one with partitions. Prints
tables for docs/deployment/large-ledgers.md.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from sqlalchemy import Table, text

from tests.ledger.rows import make_stored_row
from tests.support import postgres
from tornado_gate.config.model import LedgerConfig
from tornado_gate.database import opening
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import migrate, open_database
from tornado_gate.database.usage_tables import COUNTERS, OWNER_DAYS, TOTALS, USER_DAYS
from tornado_gate.ledger.partitions import make_months
from tornado_gate.ledger.reports import Reports, sum_rows
from tornado_gate.ledger.retention import Retention
from tornado_gate.ledger.rows import DAY, HOUR, UsageQuery
from tornado_gate.ledger.spending import find_period
from tornado_gate.ledger.writing import write_rows

MONTH = 30 * DAY
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "maintenance_work_mem": "256MB"}
REPEATS = 5
OLD_REVISION = "0009_state"
FILL = """
INSERT INTO usage SELECT lpad(to_hex(%(start)s + n * %(step)s), 14, '0') || lpad(to_hex(n), 10, '0'),
  'req_' || lpad(to_hex(%(start)s + n * %(step)s), 14, '0'), 'key_' || k, 'user_' || k %% 100, 'team_' || k %% 20,
  'model-' || k %% 12, 'provider-' || k %% 3, 'chat', CASE WHEN n %% 50 = 0 THEN 500 ELSE 200 END,
  CASE WHEN n %% 50 = 0 THEN 'failed' ELSE 'complete' END, n %% 8000, NULL, NULL, NULL, n %% 2000, NULL, 0, 0, n %% 9999999,
  '[]', '{"key_name":"key","account":"account","upstream_model":"model","plugin":"fake","format":"plain","end_user":"end_'
  || n %% 5000 || '","first_byte_ms":120.5,"total_ms":900.25,"attempts":1}'
FROM (SELECT n, (random() * random() * 400)::int AS k FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n) AS rows
"""


def make_old_database(folder: Path, address: str) -> Database:
    """A database of the version before."""
    database = Database(folder, address)
    config = Config()
    config.set_main_option("script_location", str(opening.FOLDER))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, OLD_REVISION)
    return database


def fill(address: str, database: Database, options: argparse.Namespace, now: float) -> None:
    """Insert the rows of all months, and their totals."""
    days = options.months * 30
    start, step = int((now - days * DAY) * 1e6), int(days * DAY * 1e6 / options.rows)
    begin = time.perf_counter()
    with psycopg.connect(address, autocommit=True) as connection:
        for day in range(days):
            first, last = options.rows * day // days, options.rows * (day + 1) // days - 1
            connection.execute(FILL, {"start": start, "step": step, "first": first, "last": last})
        connection.execute("ANALYZE usage")
    print(f"rows: {time.perf_counter() - begin:.0f} s", flush=True)
    begin = time.perf_counter()
    make_totals(address)
    print(f"totals: {time.perf_counter() - begin:.0f} s", flush=True)


def make_totals(address: str) -> None:
    """The totals of all rows, which have no tags."""
    hours = TOTALS["hours", False, True]
    others = [
        TOTALS["hours", False, False],
        TOTALS["days", False, True],
        TOTALS["days", False, False],
        OWNER_DAYS,
        USER_DAYS,
    ]
    with psycopg.connect(address, autocommit=True) as connection:
        sums = ", ".join(str(sum_rows(name).compile(compile_kwargs={"literal_binds": True})) for name in COUNTERS)
        bucket = "('x' || substr(id, 1, 14))::bit(56)::bigint / 3600000000 * 3600"
        insert_sums(connection, hours, "usage", bucket, sums)
        for table in others:
            span = HOUR if table.name.endswith("hours") else DAY
            sums = ", ".join(f"sum({name})" for name in COUNTERS)
            insert_sums(connection, table, hours.name, f"bucket - bucket % {span}", sums)
        connection.execute("ANALYZE")


def insert_sums(connection: psycopg.Connection[Any], table: Table, source: str, bucket: str, sums: str) -> None:
    names = ", ".join(f'"{column.name}"' for column in list(table.primary_key.columns)[1:])
    counters = ", ".join(COUNTERS)
    statement = f"INSERT INTO {table.name} (bucket, {names}, {counters}) SELECT {bucket}, {names}, {sums} FROM {source}"
    connection.execute(f"{statement} GROUP BY 1, {names}".encode())


def list_questions(database: Database, now: float) -> dict[str, Callable[[], Any]]:
    reports = Reports(database)
    middle = reports.requests(limit=1, end=now - 2.5 * MONTH)[0]

    def ask(*group_by: str, days: float, **filters: Any) -> Callable[[], Any]:
        return partial(reports.usage, UsageQuery(start=now - days * DAY, end=now, group_by=group_by, **filters))

    week = {"start": now - 2.5 * MONTH - 7 * DAY, "end": now - 2.5 * MONTH}
    return {
        "sums by day, model; 30 days": ask("day", "model", days=30),
        "sums by day, model; all": ask("day", "model", days=1000),
        "sums by key; the last 90 minutes": ask("key", days=1.5 / 24),
        "sums by end user; 1 day": ask("end_user", days=1),
        "sums by end user; 7 days": ask("end_user", days=7),
        "requests: newest": partial(reports.requests, limit=50),
        "requests: of a week in the past": partial(reports.requests, limit=50, **week),
        "requests: of a key, a week in the past": partial(reports.requests, limit=50, key="key_7", **week),
        "requests: errors, a week in the past": partial(reports.requests, limit=50, only_errors=True, **week),
        "requests: by end user, newest": partial(reports.requests, limit=50, end_user="end_77"),
        "requests: by end user that is not there": partial(reports.requests, limit=50, end_user="nobody"),
        "one request by its id": partial(reports.find_requests, middle.request_id),
    }


def measure(question: Callable[[], Any]) -> float:
    """The least milliseconds of a question."""
    question()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        question()
        times.append((time.perf_counter() - begin) * 1000)
    return min(times)


class Traffic:
    """A thread that repeats a call. `longest` is the longest call in seconds."""

    def __init__(self, call: Callable[[], Any], pause: float) -> None:
        self.calls, self.longest, self._call, self._pause = 0, 0.0, call, pause
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(self._pause):
            begin = time.perf_counter()
            self._call()
            self.longest = max(self.longest, time.perf_counter() - begin)
            self.calls += 1

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()


@contextmanager
def serve(address: str) -> Iterator[tuple[Traffic, Traffic]]:
    """Another node, which writes 20 batches of 100 rows and reads 20 pages per second."""
    with tempfile.TemporaryDirectory() as folder:
        node = Database(Path(folder), address)
        writer = Traffic(
            lambda: write_rows(node, [make_stored_row(time.time()) for _ in range(100)], may_repeat=False), 0.05
        )
        reader = Traffic(partial(Reports(node).requests, limit=50), 0.05)
        yield writer, reader
        writer.stop()
        reader.stop()
        node.close()


def describe(name: str, seconds: float, traffic: tuple[Traffic, Traffic]) -> None:
    writer, reader = traffic
    print(
        f"{name}: {seconds:.2f} s; longest write {writer.longest * 1000:.0f} ms of {writer.calls}, "
        f"longest page {reader.longest * 1000:.0f} ms of {reader.calls}",
        flush=True,
    )


def delete_old(database: Database, address: str, end: float, name: str) -> None:
    """Delete the rows of before `end` by the retention, beside another node."""
    rules, retention = LedgerConfig(keep_days=1, keep_totals_days=5000), Retention(database)
    with serve(address) as traffic:
        time.sleep(1)
        begin = time.perf_counter()
        while not retention.delete(rules, end + DAY):
            pass
        seconds = time.perf_counter() - begin
    describe(name, seconds, traffic)


def read_size(database: Database) -> str:
    sizes = "SELECT sum(pg_total_relation_size(oid)), sum(pg_relation_size(oid)) FROM pg_class"
    tables = "relkind = 'r' AND relname ~ '^usage(_before|_other|_20.*)?$'"
    with database.read() as connection:
        total, rows = connection.execute(text(f"{sizes} WHERE {tables}")).one()
    return f"{int(total) / 2**30:.2f} GiB, of which rows {int(rows) / 2**30:.2f}"


def main(options: argparse.Namespace) -> None:
    postgres._SETTINGS.update(SETTINGS)
    server = postgres.PostgresServer()
    now = time.time()
    try:
        with tempfile.TemporaryDirectory(prefix="gate-bench-") as folder:
            run(server, Path(folder), options, now)
    finally:
        server.close()


def run(server: postgres.PostgresServer, folder: Path, options: argparse.Namespace, now: float) -> None:
    address = server.create("old")
    old = make_old_database(folder / "old", address)
    fill(address, old, options, now)
    print(f"size before: {read_size(old)}")
    before = {name: measure(question) for name, question in list_questions(old, now).items()}
    with serve(address) as traffic:
        time.sleep(1)
        begin = time.perf_counter()
        migrate(old)
        seconds = time.perf_counter() - begin
    describe("migration", seconds, traffic)
    migrated = {name: measure(question) for name, question in list_questions(old, now).items()}
    month_end = find_period(now - options.months * MONTH).next_month
    delete_old(old, address, month_end, "retention of a month by DELETE")
    print(f"size after: {read_size(old)}")
    old.close()
    server.drop("old")
    address = server.create("new")
    new = open_database(folder / "new", address)
    for month in range(options.months + 1):
        make_months(new, now - month * MONTH)
    fill(address, new, options, now)
    print(f"size in months: {read_size(new)}")
    after = {name: measure(question) for name, question in list_questions(new, now).items()}
    delete_old(new, address, month_end, "retention of a month by DROP")
    print(f"size after: {read_size(new)}")
    new.close()
    print("| milliseconds | one table | migrated | months |\n|---|---|---|---|")
    for name, value in before.items():
        print(f"| {name} | {value:.1f} | {migrated[name]:.1f} | {after[name]:.1f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure a ledger in PostgreSQL without and with partitions.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--months", type=int, default=6)
    main(parser.parse_args())
