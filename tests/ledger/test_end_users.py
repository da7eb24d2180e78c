"""Reports by end user, whom callers name: read from rows, in both databases."""

from __future__ import annotations

import pytest

from tests.ledger.rows import make_stored_row
from tornado_gate.database.engine import Database
from tornado_gate.ledger import reports as module
from tornado_gate.ledger.reports import Reports, split_rows
from tornado_gate.ledger.rows import DAY, HOUR, UsageQuery
from tornado_gate.ledger.writing import write_rows

START = 1_790_000_000 // DAY * DAY
ROWS = [
    (START + 10.5, "ann", 3, 1_000_000_000, "[]"),
    (START + HOUR + 1, "ann", 5, None, '["nightly"]'),
    (START + DAY + 1, "bob", 7, 2_000_000_000, '["nightly","x"]'),
    (START + DAY + 2, "", 11, 0, "[]"),
]


@pytest.fixture
def reports(database: Database) -> Reports:
    rows = [
        make_stored_row(moment, end_user=user, output_tokens=tokens, cost=cost, tags=tags)
        for moment, user, tokens, cost, tags in ROWS
    ]
    write_rows(database, rows, may_repeat=False)
    return Reports(database)


def sum_tokens(
    reports: Reports, *groups: str, start: float = START, end: float = START + 3 * DAY, **filters: object
) -> dict[str, int]:
    query = UsageQuery(start=start, end=end, group_by=groups, **filters)  # type: ignore[arg-type]
    return {" ".join(row.group.values()): row.output_tokens for row in reports.usage(query)}


def test_sums_by_end_user_alone_and_with_other_groups(reports: Reports) -> None:
    assert sum_tokens(reports, "end_user") == {"ann": 8, "bob": 7, "": 11}
    assert sum_tokens(reports, "end_user", "model") == {"ann m": 8, "bob m": 7, " m": 11}
    days = sum_tokens(reports, "day", "end_user")
    assert days == {"2026-09-21 ann": 8, "2026-09-22 bob": 7, "2026-09-22 ": 11}
    hours = sum_tokens(reports, "hour", "end_user", end=START + DAY)
    assert hours == {"2026-09-21T00:00:00Z ann": 3, "2026-09-21T01:00:00Z ann": 5}


def test_filters_by_end_user_and_tag(reports: Reports) -> None:
    assert sum_tokens(reports, "model", end_user="ann") == {"m": 8}
    assert sum_tokens(reports, "end_user", end_users=("bob", "")) == {"bob": 7, "": 11}
    assert sum_tokens(reports, "end_user", tag="nightly") == {"ann": 5, "bob": 7}
    assert sum_tokens(reports, "end_user", user="nobody") == {}


def test_the_bounds_of_time_are_exact(reports: Reports) -> None:
    assert sum_tokens(reports, "end_user", start=START + 10.5, end=START + HOUR + 1) == {"ann": 3}
    assert sum_tokens(reports, "end_user", start=START + 10.6, end=START + HOUR + 1.1) == {"ann": 5}


def test_the_known_cost_is_there_beside_requests_without_a_price(reports: Reports) -> None:
    (ann,) = reports.usage(UsageQuery(start=START, end=START + DAY, group_by=("end_user",)))
    assert (ann.cost_usd, ann.known_cost_usd, ann.unpriced_requests) == (None, 1.0, 1)


def test_what_cannot_be_reported_is_said(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="'end_user' and 'tag' cannot be combined"):
        sum_tokens(reports, "end_user", "tag")
    monkeypatch.setattr(module, "MOST_END_USERS", 2)
    with pytest.raises(ValueError, match="more than 2 end users"):
        sum_tokens(reports, "end_user")


def test_a_report_of_too_many_rows_is_refused_before_it_reads_them(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    with pytest.raises(ValueError, match="here 4, and at most 3 are possible; narrow the report by time, or to a key"):
        sum_tokens(reports, "end_user", status=200)
    assert sum_tokens(reports, "end_user", model="other") == {}
    assert sum_tokens(reports, "end_user", end=START + DAY) == {"ann": 8}
    assert sum_tokens(reports, "end_user", start=START + 3 * DAY, end=START + 4 * DAY) == {}


def test_rows_are_split_at_the_borders_of_periods() -> None:
    parts = [(part.start, part.end) for part in split_rows(HOUR - 1, 2 * HOUR + 1, HOUR)]
    assert parts == [(HOUR - 1, HOUR), (HOUR, 2 * HOUR), (2 * HOUR, 2 * HOUR + 1)]
    assert [(part.start, part.end) for part in split_rows(0, HOUR, HOUR)] == [(0, HOUR)]
    assert split_rows(5, 5, 0) == split_rows(6, 5, HOUR) == []
