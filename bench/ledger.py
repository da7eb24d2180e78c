"""Times of the questions that the console asks of a ledger with 1,000,000 requests, on SQLite and on a real PostgreSQL.

Usage: python -m bench.ledger [--rows 1000000] [--keys 10000] [--days 30] [--sqlite] [--postgresql]. Inserts the rows in bulk and
makes their totals by SQL, prints a table for docs/how-to/usage.md, and ends with exit code 1 if a question takes over 300 ms.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, func, insert, literal, literal_column, select, text

from tests.ledger.rows import make_stored_row
from tests.support.postgres import PostgresServer
from tornado_gate.accounts.people import User
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database
from tornado_gate.database.usage_tables import COUNTERS, OWNER_DAYS, TOTALS, USER_DAYS, usage
from tornado_gate.ledger.reports import Reports, sum_rows
from tornado_gate.ledger.rows import DAY, HOUR, UsageQuery, find_first_id
from tornado_gate.ledger.writing import StoredRow, insert_rows
from tornado_gate.server.console.usage_pages import load_usage
from tornado_gate.server.console.usage_query import parse_view

LIMIT_MILLISECONDS = 300
REPEATS = 7
BATCH_ROWS = 5000
MODELS = [f"model-{number}" for number in range(12)]
TEAMS = [f"team_{number}" for number in range(20)]
BUSY_USER = "user_busy"
KEYS_OF_BUSY_USER = 300
"""The keys that are used most have one owner."""
ADMINISTRATOR = User(
    id="user_000001", email="", name="", role="administrator", state="active", has_password=True, created=0.0
)


def make_rows(options: argparse.Namespace, now: float) -> Iterator[list[StoredRow]]:
    """Batches of rows of the last days, oldest first. Some keys are used much more often than others."""
    chosen = random.Random(1)
    keys = [f"key_{number:06d}" for number in range(options.keys)]
    users = [
        BUSY_USER if number < KEYS_OF_BUSY_USER else f"user_{number % (options.keys // 4):06d}"
        for number in range(options.keys)
    ]
    step = options.days * DAY / options.rows
    rows: list[StoredRow] = []
    for number in range(options.rows):
        owner = min(int(chosen.paretovariate(0.5)) - 1, options.keys - 1)
        failed = chosen.random() < 0.02
        moment = now - options.days * DAY + number * step
        rows.append(
            make_stored_row(
                moment,
                request_id=f"req_{round(moment * 1e6):014x}{secrets.token_hex(5)}",
                key=keys[owner],
                key_name=f"key {owner}",
                user=users[owner],
                team=TEAMS[owner % len(TEAMS)],
                model=chosen.choice(MODELS),
                provider=f"provider-{chosen.randrange(3)}",
                status=500 if failed else 200,
                outcome="failed" if failed else "complete",
                input_tokens=chosen.randrange(8000),
                output_tokens=chosen.randrange(2000),
                cost=chosen.randrange(10**7),
                tags='["nightly"]' if number % 10 == 0 else "[]",
            )
        )
        if len(rows) == BATCH_ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def make_totals(database: Database, start: float, end: float) -> None:
    """The totals of all rows, by SQL; each row has at most the tag "nightly"."""
    with database.write() as connection:
        for hour in range(int(start // HOUR) * HOUR, int(end) + 1, HOUR):
            rows = (usage.c.id >= find_first_id(hour), usage.c.id < find_first_id(hour + HOUR))
            for (span, tagged, _), table in TOTALS.items():
                groups: list[ColumnElement[Any]]
                if span == "hours":
                    names = [column.name for column in table.primary_key.columns][1:]
                    groups = [literal_column("'nightly'" if name == "tag" else f'"{name}"') for name in names]
                    chosen = select(literal(hour, BigInteger), *groups, *map(sum_rows, COUNTERS)).where(*rows)
                    chosen = chosen.where(usage.c.tags != "[]") if tagged else chosen
                    chosen = chosen.group_by(*(literal_column(f'"{name}"') for name in names if name != "tag"))
                    chosen = chosen.having(func.count() > 0)
                    connection.execute(insert(table).from_select(["bucket", *names, *COUNTERS], chosen))
        of_hours = {(tagged, keyed): table for (span, tagged, keyed), table in TOTALS.items() if span == "hours"}
        days = [(table, of_hours[key[1:]]) for key, table in TOTALS.items() if key[0] == "days"]
        for table, hours in (*days, (OWNER_DAYS, of_hours[False, True]), (USER_DAYS, of_hours[False, True])):
            names = [column.name for column in table.primary_key.columns][1:]
            day, groups = hours.c.bucket - hours.c.bucket % literal_column(str(DAY)), [hours.c[name] for name in names]
            chosen = select(day.label("day"), *groups, *(func.sum(hours.c[name]) for name in COUNTERS))
            chosen = chosen.group_by(literal_column("day"), *groups)
            connection.execute(insert(table).from_select(["bucket", *names, *COUNTERS], chosen))


def list_questions(reports: Reports, options: argparse.Namespace, now: float) -> dict[str, Callable[[], Any]]:
    """What the pages of the console ask, by a name."""
    start, day = now - options.days * DAY, now - DAY

    def ask(*group_by: str, begin: float = start, **filters: Any) -> Callable[[], Any]:
        return partial(reports.usage, UsageQuery(start=begin, end=now, group_by=group_by, **filters))

    def show(**wanted: str) -> Callable[[], Any]:
        view = parse_view(lambda name: {"range": "30d", "whose": "all", **wanted}.get(name, ""), ADMINISTRATOR, ())
        return partial(load_usage, reports, view, ADMINISTRATOR)

    newest = reports.requests(limit=50)
    middle = reports.requests(limit=1, end=start + options.days * DAY / 2)[0]
    busy, quiet = "key_000000", newest[-1].key
    return {
        "chart: day, status": ask("day", "status"),
        "chart: day, model": ask("day", "model"),
        "chart: day, team": ask("day", "team"),
        "chart: hour, model (last day)": ask("hour", "model", begin=day),
        "chart: hour, status (last 3 days)": ask("hour", "status", begin=now - 3 * DAY),
        "table: key": ask("key"),
        "table: user": ask("user"),
        "table: team, model": ask("team", "model"),
        "table: provider, status": ask("provider", "status"),
        "table: tag": ask("tag"),
        "table: key (last hour)": ask("key", begin=now - HOUR),
        "sum of everything": ask(),
        "chart of the busiest key: day, model": ask("day", "model", key=busy),
        "chart of a user: day, model": ask("day", "model", user="user_000001"),
        "chart of a team: day, status": ask("day", "status", team=TEAMS[0]),
        "requests: newest": partial(reports.requests, limit=50),
        "requests: a page in the middle": partial(reports.requests, limit=50, before=middle.id),
        "requests: newest errors": partial(reports.requests, limit=50, only_errors=True),
        "requests of the busiest key": partial(reports.requests, limit=50, key=busy),
        "requests of a quiet key": partial(reports.requests, limit=50, key=quiet),
        "requests of a user": partial(reports.requests, limit=50, user="user_000001"),
        "requests of a team": partial(reports.requests, limit=50, team=TEAMS[3]),
        "requests of a model": partial(reports.requests, limit=50, model=MODELS[3]),
        "one request by its id": partial(reports.find_requests, middle.request_id),
        "page of 30 days by model": show(group="model"),
        "page of 30 days by key": show(group="key"),
        "page of 30 days by user": show(group="user"),
        "page of 30 days by status": show(group="status"),
        "page of 30 days of a user with 300 keys, by key": show(group="key", user=BUSY_USER),
        "page of 30 days of a user with 300 keys, by model": show(group="model", user=BUSY_USER),
        "page of 30 days of a team with 500 keys, by key": show(group="key", team=TEAMS[0]),
        "page of 24 hours by model": show(group="model", range="24h"),
        "page of 24 hours by key": show(group="key", range="24h"),
    }


def measure(database: Database, question: Callable[[], Any]) -> tuple[float, float]:
    """The least time of a question, and its least CPU time here and in the server: other load on the machine only adds time."""
    question()
    times, costs = [], []
    for _ in range(REPEATS):
        server, begin, used = read_server_seconds(database), time.perf_counter(), time.thread_time()
        question()
        costs.append((time.thread_time() - used + read_server_seconds(database) - server) * 1000)
        times.append((time.perf_counter() - begin) * 1000)
    return min(times), min(costs)


def read_server_seconds(database: Database) -> float:
    """The CPU time of the server's process for the connection that was used last, which is the one that is used next."""
    if database.is_file:
        return 0.0
    with database.read() as connection:
        process = connection.execute(text("SELECT pg_backend_pid()")).scalar()
    return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


@contextmanager
def open_sqlite() -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="gate-bench-") as folder:
        database = open_database(Path(folder))
        yield database
        database.close()


@contextmanager
def open_postgresql() -> Iterator[Database]:
    server = PostgresServer()
    try:
        with tempfile.TemporaryDirectory(prefix="gate-bench-") as folder:
            database = open_database(Path(folder), server.create("bench"))
            yield database
            database.close()
    finally:
        server.close()


def run(database: Database, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Fill the ledger and return the time and the CPU time of each question in milliseconds."""
    now, begin, count = time.time(), time.perf_counter(), 0
    for rows in make_rows(options, now):
        with database.write() as connection:
            insert_rows(connection, rows)
        count += len(rows)
    make_totals(database, now - options.days * DAY, now)
    seconds = time.perf_counter() - begin
    if not database.is_file:  # PostgreSQL does so by itself after a while; SQLite never does
        with database.write() as connection:
            connection.execute(text("ANALYZE"))
    print(f"{database.dialect}: {count} rows in {seconds:.0f} s, {count / seconds:.0f} per second", file=sys.stderr)
    questions = list_questions(Reports(database), options, now)
    return {name: measure(database, question) for name, question in questions.items()}


def main(options: argparse.Namespace) -> int:
    chosen = {"sqlite": open_sqlite, "postgresql": open_postgresql}
    wanted = [name for name in chosen if getattr(options, name)] or list(chosen)
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for name in wanted:
        with chosen[name]() as database:
            found[name] = run(database, options)
    print(f"| milliseconds (CPU time) | {' | '.join(wanted)} |\n|---|{'---|' * len(wanted)}")
    for question in found[wanted[0]]:
        cells = [f"{took:.1f} ({used:.1f})" for took, used in (found[name][question] for name in wanted)]
        print(f"| {question} | {' | '.join(cells)} |")
    slow = [question for name in wanted for question, took in found[name].items() if took[0] > LIMIT_MILLISECONDS]
    if slow:
        print(f"SLOWER THAN {LIMIT_MILLISECONDS} ms: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure reports of a ledger with many requests.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--sqlite", action="store_true", help="only SQLite, unless --postgresql is given too")
    parser.add_argument("--postgresql", action="store_true")
    sys.exit(main(parser.parse_args()))
