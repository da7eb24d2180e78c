"""The ledger of a process: nothing is lost or counted twice while the database goes away and comes back."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from tests.ledger.rows import CountedMetrics, make_stored_row
from tests.support import databases, entries
from tests.support.postgres import PostgresServer
from tornado_gate.config.model import LedgerConfig
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.usage_tables import TOTALS, usage
from tornado_gate.ledger import ledger as ledger_module
from tornado_gate.ledger.ledger import Ledger
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.retention import Retention
from tornado_gate.ledger.rows import DAY, UsageQuery, find_first_id
from tornado_gate.ledger.writing import write_rows
from tornado_gate.telemetry.entries import Entry
from tornado_gate.types import Caller, Charge, Meter, Progress, Target, Usage

dialect = databases.each_dialect

TARGET = Target(provider="p", plugin="fake", model="m", upstream_model="m-1")
CALLER = Caller(id="key_a", account="a", name="A", user="user_a", team="team_a", tags=("nightly",))


def make_entry(request_id: str = "r", **changes: Any) -> Entry:
    values: dict[str, Any] = {
        **{"request_id": request_id, "caller": CALLER, "target": TARGET, "model": "m", "operation": "chat"},
        **{"format": "plain", "outcome": "", "progress": Progress(model="m")},
        **{"meter": Meter(usage=Usage(input_tokens=3, output_tokens=4))},
    }
    return entries.make_entry(**{**values, **changes})


@pytest.fixture
def metrics() -> CountedMetrics:
    return CountedMetrics()


@pytest.fixture
def ledger(database: Database, metrics: CountedMetrics, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setattr(ledger_module, "RETRY_SECONDS", 0.0)
    made = Ledger(database, database.data_dir, LedgerConfig(), metrics)
    made.start()
    yield made
    asyncio.run(made.close())


@pytest.fixture
def outage(
    dialect: str, database: Database, request: pytest.FixtureRequest
) -> tuple[Callable[[], None], Callable[[], None]]:
    """(take the database away, bring it back)."""
    aside = database.data_dir.parent / "aside"
    if dialect == "sqlite":

        def take() -> None:
            database.close()
            aside.mkdir()
            for name in ("gate.db", "gate.db-wal", "gate.db-shm"):
                if (database.data_dir / name).exists():
                    shutil.move(database.data_dir / name, aside / name)

        def bring() -> None:
            for file in aside.iterdir():
                shutil.move(file, database.data_dir / file.name)

        return take, bring
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.stop, server.start


def list_requests(database: Database) -> list[str]:
    with database.read() as connection:
        return list(connection.execute(select(usage.c.request_id).order_by(usage.c.id)).scalars())


def count_total(database: Database) -> int:
    return sum(row.requests for row in Reports(database).usage(UsageQuery(start=0, end=time.time() + DAY)))


def test_requests_are_written(ledger: Ledger, database: Database, metrics: CountedMetrics) -> None:
    for number in range(1200):
        ledger.add(make_entry(f"r{number}"))
    assert ledger.flush()
    assert list_requests(database) == [f"r{number}" for number in range(1200)]
    assert count_total(database) == 1200
    assert metrics.rows == {"written": 1200}


def test_nothing_is_lost_while_the_database_is_away(
    ledger: Ledger, database: Database, metrics: CountedMetrics, outage: tuple[Callable[[], None], Callable[[], None]]
) -> None:
    take, bring = outage
    ledger.add(make_entry("r0"))
    assert ledger.flush()
    take()
    try:
        for number in range(1, 4):
            ledger.add(make_entry(f"r{number}"))
            assert ledger.flush()
        assert metrics.rows == {"written": 1, "spooled": 3}
        assert metrics.lag > 0
    finally:
        bring()
    assert ledger.flush()
    ledger.add(make_entry("r4"))
    assert ledger.flush()
    assert list_requests(database) == [f"r{number}" for number in range(5)]
    assert count_total(database) == 5
    assert metrics.rows == {"written": 5, "spooled": 3}
    assert metrics.lag == 0


def test_nothing_is_lost_while_the_disk_is_full_too(
    ledger: Ledger,
    database: Database,
    metrics: CountedMetrics,
    outage: tuple[Callable[[], None], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take, bring = outage

    def refuse(rows: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    take()
    with monkeypatch.context() as full:
        full.setattr(ledger._spool, "append", refuse)
        for number in range(3):
            ledger.add(make_entry(f"r{number}"))
            assert ledger.flush()
    bring()
    ledger.add(make_entry("r3"))
    assert ledger.flush()
    assert ledger.flush()  # the first one may have spooled its row before the database was looked at again
    assert sorted(list_requests(database)) == ["r0", "r1", "r2", "r3"]
    assert metrics.rows.get("dropped", 0) == 0


def list_segments(database: Database) -> list[Path]:
    return list((database.data_dir / "ledger-spool").glob("*.rows"))


@contextmanager
def lock_tables(database: Database, dialect: str, address: str) -> Iterator[None]:
    """Let every write of the database hang."""
    if dialect == "sqlite":
        connection = sqlite3.connect(database.data_dir / "gate.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()
        return
    with psycopg.connect(address) as other:
        other.execute("LOCK TABLE usage IN ACCESS EXCLUSIVE MODE")
        yield


def test_rows_are_on_the_disk_within_a_second_while_the_database_hangs(
    ledger: Ledger,
    database: Database,
    metrics: CountedMetrics,
    dialect: str,
    database_address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger.add(make_entry("r0"))
    assert ledger.flush()
    monkeypatch.setattr(ledger_module, "HANG_SECONDS", 0.45)
    with lock_tables(database, dialect, database_address):
        began = time.monotonic()
        for number in range(1, 4):
            ledger.add(make_entry(f"r{number}"))
            assert ledger.flush()
            assert metrics.rows["spooled"] == number
        assert not ledger.flush_to_database(10)
        assert time.monotonic() - began < 10
        assert metrics.lag > 0
        texts = [path.read_text("utf-8") for path in list_segments(database)]
        assert [sum(f'"r{number}"' in text for text in texts) for number in range(4)] == [0, 1, 1, 1]
    while metrics.lag:  # the write that hung ends first, and then the rows are read from the disk
        assert ledger.flush()
    ledger.add(make_entry("r4"))
    assert ledger.flush()
    assert list_requests(database) == [f"r{number}" for number in range(5)]
    assert count_total(database) == 5
    assert list_segments(database) == []


def test_a_slow_answer_is_reported_only_if_the_database_still_hangs_later(
    ledger: Ledger,
    database: Database,
    metrics: CountedMetrics,
    dialect: str,
    database_address: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def hang(request_id: str, retry_seconds: float) -> None:
        monkeypatch.setattr(ledger_module, "RETRY_SECONDS", retry_seconds)
        with monkeypatch.context() as patch, lock_tables(database, dialect, database_address):
            patch.setattr(ledger_module, "HANG_SECONDS", 0.05)
            ledger.add(make_entry(request_id))
            assert ledger.flush()
            assert ledger.flush()  # with a retry
        ledger._retry_at = 0.0
        while metrics.lag:
            assert ledger.flush()
            ledger._retry_at = 0.0
        assert request_id in list_requests(database)

    caplog.set_level(logging.WARNING, "tornado_gate.ledger")
    hang("r0", 3600.0)
    assert caplog.messages == []
    hang("r1", 0.0)
    assert [message.partition(";")[0] for message in caplog.messages] == [
        "the usage ledger cannot be written",
        "the usage ledger can be written again",
    ]


def test_a_ledger_ends_while_the_database_hangs(
    database: Database,
    metrics: CountedMetrics,
    dialect: str,
    database_address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_module, "ENDING_SECONDS", 0.45)
    ledger = Ledger(database, database.data_dir, LedgerConfig(), metrics)
    ledger.start()
    with lock_tables(database, dialect, database_address):
        ledger.add(make_entry("r0"))
        asyncio.run(ledger.close())
        assert metrics.rows == {"spooled": 1}
    other = Ledger(database, database.data_dir, LedgerConfig(), metrics)
    other.start()
    assert other.flush()
    while not list_requests(database):
        assert other.flush()
    asyncio.run(other.close())
    assert list_requests(database) == ["r0"]
    assert count_total(database) == 1


def test_an_end_without_a_database_keeps_the_rows_for_the_next_start(
    database: Database, metrics: CountedMetrics, outage: tuple[Callable[[], None], Callable[[], None]]
) -> None:
    take, bring = outage
    first = Ledger(database, database.data_dir, LedgerConfig(), metrics)
    first.start()
    take()
    try:
        first.add(make_entry("r0"))
        asyncio.run(first.close())
    finally:
        bring()
    second = Ledger(database, database.data_dir, LedgerConfig(), metrics)
    second.start()
    assert second.flush()
    asyncio.run(second.close())
    assert list_requests(database) == ["r0"]
    assert list((database.data_dir / "ledger-spool").iterdir()) == []


def test_a_batch_whose_commit_was_lost_counts_once(
    ledger: Ledger, database: Database, metrics: CountedMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has committed, but its confirmation did not arrive."""

    def write_and_fail(*given: Any, **named: Any) -> int:
        write_rows(*given, **named)
        monkeypatch.setattr(ledger_module, "write_rows", write_rows)
        raise DatabaseError("the connection was lost")

    monkeypatch.setattr(ledger_module, "write_rows", write_and_fail)
    ledger.add(make_entry("r0"))
    assert ledger.flush()
    assert ledger.flush()
    assert list_requests(database) == ["r0"]
    assert count_total(database) == 1
    assert metrics.rows == {"spooled": 1, "written": 0}


def test_a_task_that_ends_twice_has_one_row(ledger: Ledger, database: Database) -> None:
    row_id = f"{find_first_id(time.time()):0<24}"  # of now: the thread deletes old rows when it starts, soon or late
    for _ in range(2):
        ledger.add(make_entry("video_1", row_id=row_id))
        assert ledger.flush()
    assert list_requests(database) == ["video_1"]
    assert count_total(database) == 1


def test_adding_never_waits_for_the_database(
    database: Database, metrics: CountedMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "MAX_ENTRIES", 5)
    blocked, release = threading.Event(), threading.Event()

    def block(*_: Any, **__: Any) -> int:
        blocked.set()
        release.wait(60)
        return 0

    monkeypatch.setattr(ledger_module, "write_rows", block)
    ledger = Ledger(database, database.data_dir, LedgerConfig(), metrics)
    ledger.start()
    ledger.add(make_entry("r0"))
    assert blocked.wait(60)
    for number in range(1, 20):
        ledger.add(make_entry(f"r{number}"))
    release.set()
    asyncio.run(ledger.close())
    assert metrics.rows["dropped"] == 14


def test_a_row_that_cannot_be_made_does_not_stop_the_others(
    ledger: Ledger, database: Database, metrics: CountedMetrics
) -> None:
    ledger.add(make_entry("bad", headers=object()))
    ledger.add(make_entry("r0"))
    assert ledger.flush()
    assert list_requests(database) == ["r0"]
    assert metrics.rows == {"dropped": 1, "written": 1}


def test_absurd_counts_of_an_upstream_are_bounded(ledger: Ledger, database: Database) -> None:
    absurd = Usage(input_tokens=10**40, output_tokens=10**19, cache_read_tokens=10**30, extra={"seconds": 1e300})
    ledger.add(make_entry("r0", meter=Meter(usage=absurd)))
    assert ledger.flush()
    found = Reports(database).find_requests("r0")[0]
    assert (found.input_tokens, found.output_tokens, found.cached_input_tokens, found.seconds) == (
        10**12,
        10**12,
        10**12,
        1e9,
    )


def test_the_body_of_a_request_is_not_kept(ledger: Ledger) -> None:
    meter = Meter(usage=Usage(input_tokens=1, output_tokens=1), finish_reason="stop", produced_frames=3)
    charge = Charge(estimate_prompt=lambda: 1)
    ledger.add(make_entry("r0", meter=meter, charge=charge))
    assert charge.estimate_prompt is None


def test_an_aborted_stream_costs_an_estimate(ledger: Ledger, database: Database) -> None:
    meter = Meter(produced_frames=5, produced_bytes=400, frame_bytes=40)
    sent, charge = Progress(is_sent=True), Charge(estimate_prompt=lambda: 11)
    ledger.add(make_entry("r0", meter=meter, progress=sent, charge=charge, outcome="aborted"))
    assert ledger.flush()
    found = Reports(database).find_requests("r0")[0]
    assert (found.input_tokens, found.output_tokens, found.estimated, found.outcome) == (11, 50, True, "aborted")


def test_two_processes_write_at_once(database: Database, dialect: str, metrics: CountedMetrics) -> None:
    ledgers = [Ledger(database, database.data_dir, LedgerConfig(), metrics) for _ in range(2)]
    for number, ledger in enumerate(ledgers):
        ledger.start()
        for entry in range(600):
            ledger.add(make_entry(f"r{number}-{entry}", status=200 + entry % 7, model=f"m{entry % 5}"))
    for ledger in ledgers:
        asyncio.run(ledger.close())
    assert len(list_requests(database)) == count_total(database) == 1200


def test_whole_months_are_kept_until_their_last_row_is_old(database: Database) -> None:
    december, january = (datetime(year, month, 1, tzinfo=UTC).timestamp() for year, month in ((2025, 12), (2026, 1)))
    write_rows(database, [make_stored_row(moment) for moment in (december - 1, december, january)], may_repeat=False)
    rules, retention = LedgerConfig(keep_days=10, whole_months=True), Retention(database)
    for now, kept in ((january + 10 * DAY - 1, 2), (january + 10 * DAY, 1)):
        while not retention.delete(rules, now):
            pass
        assert len(list_requests(database)) == kept


def test_old_rows_are_deleted_in_slices_and_totals_later(database: Database) -> None:
    now = time.time()
    ages = [0.0] * 3 + [40.0 * DAY] * 2500 + [400.0 * DAY] * 2
    write_rows(database, [make_stored_row(now - age) for age in ages], may_repeat=False)
    rules, retention = LedgerConfig(keep_days=30, keep_totals_days=365), Retention(database)
    while not retention.delete(rules, now):
        pass
    assert len(list_requests(database)) == 3
    assert count_total(database) == 2503
    with database.read() as connection:
        for table in TOTALS.values():
            assert connection.execute(select(table).where(table.c.bucket < now - 365 * DAY)).first() is None
