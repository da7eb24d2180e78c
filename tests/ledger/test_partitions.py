"""Partitions by month of a ledger in PostgreSQL: made ahead, dropped when old, and no row without a place."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import event, text

from tests.ledger.rows import make_stored_row
from tests.support.postgres import PostgresServer
from tests.support.variants import vary
from tornado_gate.config.model import LedgerConfig
from tornado_gate.database.clock import read_clock
from tornado_gate.database.engine import Database, DatabaseError, is_lock_timeout
from tornado_gate.database.opening import open_database
from tornado_gate.database.usage_tables import OTHER_ROWS
from tornado_gate.ledger import partitions
from tornado_gate.ledger.partitions import drop_month, list_partitions, make_months
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.retention import Retention
from tornado_gate.ledger.rows import DAY, UsageQuery, find_first_id
from tornado_gate.ledger.writing import write_rows

_NUMBERS = itertools.count(1)


def find_moment_of(year: int, month: int, day: int = 1) -> float:
    return datetime(year, month, day, tzinfo=UTC).timestamp()


NOW = find_moment_of(2025, 11, 28)
MONTHS = ["usage_2025_11", "usage_2025_12", "usage_2026_01", "usage_2026_02"]


@pytest.fixture
def ledger(postgres: PostgresServer, tmp_path: Path) -> Iterator[Database]:
    """A new database: its partitions differ from those of other tests."""
    name = f"partitions_{next(_NUMBERS)}"
    database = open_database(tmp_path / "var", postgres.create(name))
    yield database
    database.close()
    postgres.drop(name)


def write(database: Database, *moments: float, may_repeat: bool = False) -> None:
    assert write_rows(database, [make_stored_row(moment) for moment in moments], may_repeat=may_repeat) == len(moments)


def count_rows(database: Database) -> dict[str, int]:
    """The number of rows by partition."""
    with database.read() as connection:
        rows = connection.execute(text("SELECT tableoid::regclass::text, count(*) FROM usage GROUP BY 1"))
        return {str(name): int(number) for name, number in rows}


def list_names(database: Database) -> list[str]:
    with database.read() as connection:
        return [part.name for part in list_partitions(connection)]


def delete_old(database: Database, rules: LedgerConfig, now: float) -> None:
    while not Retention(database).delete(rules, now):
        pass


# Months


@pytest.mark.qa
def test_months_are_made_ahead_and_get_their_rows(ledger: Database) -> None:
    assert make_months(ledger, NOW) == MONTHS
    assert make_months(ledger, NOW) == []
    write(ledger, NOW, find_moment_of(2025, 12), find_moment_of(2026, 1) - 0.001, find_moment_of(2026, 2, 9))
    assert count_rows(ledger) == {"usage_2025_11": 1, "usage_2025_12": 2, "usage_2026_02": 1}
    assert make_months(ledger, NOW + 4 * DAY) == ["usage_2026_03"]


def test_a_row_of_a_missing_month_is_kept_and_moved_when_the_month_is_made(ledger: Database) -> None:
    write(ledger, NOW, NOW + 40 * DAY)
    write(ledger, NOW, may_repeat=True)
    assert count_rows(ledger) == {OTHER_ROWS: 3}
    make_months(ledger, NOW)
    assert count_rows(ledger) == {"usage_2025_11": 2, "usage_2026_01": 1}
    assert len(Reports(ledger).requests()) == 3


@pytest.mark.qa
def test_rows_of_wrong_clocks_are_kept_and_disturb_no_month(ledger: Database) -> None:
    make_months(ledger, NOW)
    write(ledger, 5.0, find_moment_of(2050, 3), NOW)
    assert count_rows(ledger) == {OTHER_ROWS: 2, "usage_2025_11": 1}
    assert make_months(ledger, find_moment_of(2026, 3)) == [
        "usage_2026_03",
        "usage_2026_04",
        "usage_2026_05",
        "usage_2026_06",
    ]
    delete_old(ledger, LedgerConfig(keep_days=90), NOW)
    assert count_rows(ledger) == {OTHER_ROWS: 1, "usage_2025_11": 1}


@pytest.mark.qa
def test_a_month_that_cannot_be_made_stops_no_write(ledger: Database, caplog: pytest.LogCaptureFixture) -> None:
    with ledger.read() as connection:
        now = read_clock(connection)
    month = datetime.fromtimestamp(now, UTC).strftime("usage_%Y_%m")
    with ledger.write() as connection:
        connection.execute(text(f"CREATE TABLE {month} (occupied int)"))
    retention = Retention(ledger)
    with caplog.at_level(logging.WARNING):
        retention.run_if_due(LedgerConfig())
    assert f'relation "{month}" already exists' in caplog.text
    assert f"their rows go to the table {OTHER_ROWS}" in caplog.text
    write(ledger, now)
    assert count_rows(ledger) == {OTHER_ROWS: 1}


def test_several_nodes_make_and_drop_months_at_once(ledger: Database) -> None:
    barrier = threading.Barrier(3)

    def change(number: int) -> list[str]:
        barrier.wait(60)
        made = make_months(ledger, NOW)
        write(ledger, NOW + number, find_moment_of(2026, 1, number + 1))
        return made

    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(change, range(3)))
    make_months(ledger, NOW)
    assert max(map(len, made)) <= 4
    assert list_names(ledger) == MONTHS
    assert count_rows(ledger) == {"usage_2025_11": 3, "usage_2026_01": 3}
    with ThreadPoolExecutor(3) as threads:
        dropped = list(threads.map(lambda _: drop_month(ledger, find_first_id(find_moment_of(2025, 12))), range(3)))
    assert sorted(dropped) == ["", "", "usage_2025_11"]


@pytest.mark.qa
def test_a_table_attached_by_hand_without_an_end_is_never_dropped(ledger: Database) -> None:
    with ledger.write() as connection:
        connection.execute(text("CREATE TABLE usage_later PARTITION OF usage FOR VALUES FROM ('0001') TO (MAXVALUE)"))
    assert make_months(ledger, NOW) == []
    assert drop_month(ledger, find_first_id(NOW)) == ""
    assert list_names(ledger) == ["usage_later"]


# Retention


def test_old_months_are_dropped_and_rows_of_the_month_that_is_partly_old_are_deleted(ledger: Database) -> None:
    make_months(ledger, NOW)
    december, january = find_moment_of(2025, 12), find_moment_of(2026, 1)
    write(ledger, NOW, december, december + 20 * DAY, january)
    delete_old(ledger, LedgerConfig(keep_days=30), december + 40 * DAY)
    assert list_names(ledger) == MONTHS[1:]
    assert count_rows(ledger) == {"usage_2025_12": 1, "usage_2026_01": 1}


@pytest.mark.qa
def test_whole_months_are_kept_until_their_last_row_is_old(ledger: Database) -> None:
    make_months(ledger, NOW)
    rules = LedgerConfig(keep_days=30, whole_months=True)
    december, january = find_moment_of(2025, 12), find_moment_of(2026, 1)
    write(ledger, 5.0, NOW, december, december + 20 * DAY, january)
    delete_old(ledger, rules, january + 30 * DAY - 1)
    assert count_rows(ledger) == {"usage_2025_12": 2, "usage_2026_01": 1}
    delete_old(ledger, rules, january + 30 * DAY)
    assert count_rows(ledger) == {"usage_2026_01": 1}


@pytest.mark.qa
def test_a_month_in_use_delays_writers_shortly_and_is_dropped_later(
    ledger: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_months(ledger, NOW - 365 * DAY)
    write(ledger, NOW - 365 * DAY)
    retention = Retention(ledger)
    with ledger.read() as connection:
        connection.execute(text("SELECT count(*) FROM usage"))  # a report that has not ended
        with pytest.raises(DatabaseError) as caught:
            drop_month(ledger, find_first_id(NOW))
        assert is_lock_timeout(caught.value)
        with caplog.at_level(logging.INFO):
            retention.run_if_due(LedgerConfig())
        assert "in use by another session, will retry" in caplog.text
        write(ledger, NOW)
    retention._due = 0.0
    retention.run_if_due(LedgerConfig())
    assert "usage_2024_11" not in list_names(ledger)


# Which partitions a query reads


@pytest.fixture
def plans(ledger: Database) -> Iterator[list[str]]:
    """The plans of all queries of rows from now on."""
    found: list[str] = []

    def explain(connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.startswith(("SELECT", "DELETE")) and "FROM usage" in statement and "pg_inherits" not in statement:
            lines = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars()
            found.append("\n".join(map(str, lines)))

    make_months(ledger, NOW)
    write(ledger, *(NOW + number * DAY for number in range(90)))
    engine: sqlalchemy.Engine = ledger._engine
    event.listen(engine, "before_cursor_execute", explain)
    yield found
    event.remove(engine, "before_cursor_execute", explain)


def find_read(plan: str) -> set[str]:
    return {name for name in (*MONTHS, OTHER_ROWS) if f" {name}" in plan}


@pytest.mark.parametrize(
    "filters", vary({"status": 200}, {}, {"key": "key_a"}, {"only_errors": True}, {"team": "t", "text": "x"})
)
def test_a_page_of_requests_reads_the_months_of_its_time_only(
    ledger: Database, plans: list[str], filters: dict[str, Any]
) -> None:
    december = find_moment_of(2025, 12)
    Reports(ledger).requests(start=december, end=december + DAY, **filters)
    assert plans
    assert [find_read(plan) for plan in plans] == [{"usage_2025_12"}] * len(plans)


@pytest.mark.qa
def test_the_newest_requests_are_read_from_indexes(ledger: Database, plans: list[str]) -> None:
    with ledger.write() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar()
        connection.execute(text(f"ALTER DATABASE {name} SET enable_seqscan = off"))  # which is cheaper for few rows
    ledger.close()
    Reports(ledger).requests(limit=50)
    [plan] = plans
    assert "->  Merge Append" in plan
    assert plan.count("Index Scan Backward using") == len(MONTHS) + 1
    assert "->  Sort" not in plan


@pytest.mark.qa
def test_a_report_by_end_user_reads_the_months_of_its_time_only(ledger: Database, plans: list[str]) -> None:
    start = find_moment_of(2026, 1)
    rows = Reports(ledger).usage(UsageQuery(start=start, end=start + 10 * DAY, group_by=("end_user",)))
    assert [row.requests for row in rows] == [10]
    assert find_read(plans[-1]) == {"usage_2026_01"}


@pytest.mark.qa
def test_a_slice_of_old_rows_is_searched_in_old_months_only(ledger: Database, plans: list[str]) -> None:
    delete_old(ledger, LedgerConfig(keep_days=30), find_moment_of(2026, 1) + 10 * DAY)
    deletes = [plan for plan in plans if plan.startswith("Delete")]
    assert deletes
    assert all(find_read(plan) == {"usage_2025_12", OTHER_ROWS} for plan in deletes)


@pytest.mark.qa
def test_a_process_makes_the_months_when_it_starts(ledger: Database) -> None:
    with ledger.read() as connection:
        now = read_clock(connection)
    Retention(ledger).run_if_due(LedgerConfig())
    assert len(list_names(ledger)) == partitions.MONTHS_AHEAD + 1
    write(ledger, now)
    assert OTHER_ROWS not in count_rows(ledger)
