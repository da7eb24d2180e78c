"""Times of requests, from a bounded sample of the ledger."""

from __future__ import annotations

import pytest

from tests.ledger.rows import make_stored_row
from tornado_gate.database.engine import Database
from tornado_gate.ledger import latencies
from tornado_gate.ledger.latencies import Percentiles, find_percentiles, read_times
from tornado_gate.ledger.rows import HOUR, UsageQuery
from tornado_gate.ledger.writing import write_rows

START = 1_800_000_000 // HOUR * HOUR


def test_percentiles_are_values_of_the_sample() -> None:
    assert find_percentiles([]) is None
    assert find_percentiles([7.0]) == Percentiles(7.0, 7.0)
    assert find_percentiles([float(value) for value in range(101)]) == Percentiles(50.0, 95.0)


def test_times_are_by_model_and_bar_and_only_of_complete_requests(database: Database) -> None:
    rows = [
        make_stored_row(START + 10, model="a", first_byte_ms=100.0, total_ms=900.0),
        make_stored_row(START + 20, model="a", first_byte_ms=None, total_ms=1100.0),
        make_stored_row(START + HOUR + 10, model="a", first_byte_ms=50.0, total_ms=60.0, user="user_1"),
        make_stored_row(START + 30, model="b", outcome="failed", status=502, total_ms=1.0),
        make_stored_row(START + 3 * HOUR, model="later", total_ms=1.0),
    ]
    write_rows(database, rows, may_repeat=False)
    query = UsageQuery(start=START, end=START + 2 * HOUR)
    (times,) = read_times(database, query, HOUR)
    assert (times.model, times.requests) == ("a", 3)
    assert times.first == [Percentiles(100.0, 100.0), Percentiles(50.0, 50.0)]
    assert times.total == [Percentiles(900.0, 1100.0), Percentiles(60.0, 60.0)]
    (own,) = read_times(database, UsageQuery(start=START, end=START + 2 * HOUR, user="user_1"), HOUR)
    assert own.total == [None, Percentiles(60.0, 60.0)]


def test_a_report_reads_a_bounded_number_of_rows(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latencies, "MAX_ROWS", 240)
    rows = [make_stored_row(START + number, model="a", total_ms=1.0) for number in range(1000)]
    write_rows(database, rows, may_repeat=False)
    (times,) = read_times(database, UsageQuery(start=START, end=START + HOUR), HOUR)
    assert 30 <= times.requests <= 240
