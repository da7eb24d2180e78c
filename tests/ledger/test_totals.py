"""Rows and totals agree, whatever is written, in whatever order and however often; both databases."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from tests.ledger.rows import make_stored_row
from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import COUNTERS, OWNER_DAYS, TOTALS, USER_DAYS, usage
from tornado_gate.ledger.entries import collect_tags
from tornado_gate.ledger.made import counts_as_request
from tornado_gate.ledger.reports import Reports, plan_parts
from tornado_gate.ledger.rows import DAY, HOUR, UsageQuery, clean_text, find_first_id, find_moment
from tornado_gate.ledger.writing import COLUMNS, StoredRow, write_rows

COUNTED_BY = ("operation", "model", "status")
NEW_YEAR = 1_767_225_600  # 2026-01-01T00:00:00Z
GROUPS: tuple[tuple[str, ...], ...] = (
    (),
    ("key",),
    ("day", "model"),
    ("hour", "status"),
    ("user", "team"),
    ("user", "model"),
    ("provider", "operation"),
)


def make_rows(seed: int, count: int = 400) -> list[StoredRow]:
    """Rows of three days around a new year, in no order."""
    chosen = random.Random(seed)

    def draw() -> StoredRow:
        written = chosen.choice([None, 3])
        return make_stored_row(
            NEW_YEAR + chosen.uniform(-1.5 * DAY, 1.5 * DAY),
            key=chosen.choice(["key_a", "key_b"]),
            user=chosen.choice(["", "user_a"]),
            team=chosen.choice(["", "team_a"]),
            model=chosen.choice(["m", "ü/m", ""]),
            provider=chosen.choice(["p", "q"]),
            operation=chosen.choice(["chat", "images", "videos", "video_tasks", "models", "explain"]),
            status=chosen.choice([200, 404, 500]),
            outcome=chosen.choice(["complete", "failed", "aborted", "broken"]),
            input_tokens=chosen.choice([None, 0, 17]),
            cached_input_tokens=chosen.choice([None, 5]),
            cache_write_tokens=written,
            cache_write_1h_tokens=chosen.choice([None, 2]),
            output_tokens=chosen.choice([None, 11]),
            reasoning_tokens=chosen.choice([None, 4]),
            images=chosen.choice([0, 2]),
            seconds=chosen.choice([0.0, 1.5]),
            cost=chosen.choice([None, 0, 1234]),
            tags=chosen.choice(["[]", '["a"]', '["a","ß \\" 名"]']),
        )

    return [draw() for _ in range(count)]


def add_up(rows: list[StoredRow], query: UsageQuery) -> dict[tuple[str, ...], dict[str, Any]]:
    """What a report must say, computed from the rows themselves."""
    sums: dict[tuple[str, ...], dict[str, Any]] = defaultdict(lambda: dict.fromkeys(COUNTERS, 0))
    for row in rows:
        values = dict(zip(COLUMNS, row, strict=True))
        tags = json.loads(values["tags"])
        wanted = all(
            getattr(query, name) in ("", values[name]) for name in ("user", "team", "key", "model", "provider")
        )
        if not (
            query.start <= find_moment(values["id"]) < query.end and wanted and (not query.tag or query.tag in tags)
        ):
            continue
        for tag in tags if "tag" in query.group_by else [""]:
            group = tuple(describe_group(name, values, tag) for name in query.group_by)
            known = sums[group]
            counts = "operation" in query.group_by or counts_as_request(*(values[name] for name in COUNTED_BY))
            known["requests"] += counts
            known["errors"] += counts and values["outcome"] in ("failed", "broken", "refused")
            known["cost"] += values["cost"] or 0
            known["unpriced_requests"] += values["cost"] is None
            known["cache_write_tokens"] += values["cache_write_1h_tokens"] or 0
            for name in COUNTERS[2:-2]:
                known[name] += values[name] or 0
    return {group: known for group, known in sums.items() if any(known.values())}


def describe_group(name: str, values: dict[str, Any], tag: str) -> str:
    moment = datetime.fromtimestamp(find_moment(values["id"]), UTC)
    if name == "day":
        return f"{moment:%Y-%m-%d}"
    if name == "hour":
        return f"{moment:%Y-%m-%dT%H:00:00Z}"
    return tag if name == "tag" else str(values[name])


def read(database: Database, query: UsageQuery) -> dict[tuple[str, ...], dict[str, Any]]:
    return {
        tuple(row.group[name] for name in query.group_by): {name: getattr(row, name) for name in COUNTERS}
        for row in Reports(database).usage(query)
    }


def test_reports_are_the_sums_of_the_rows(database: Database) -> None:
    rows = make_rows(1)
    for start in range(0, len(rows), 90):
        assert write_rows(database, rows[start : start + 90], may_repeat=False) == len(rows[start : start + 90])
    chosen = random.Random(2)
    for group_by in GROUPS:
        for filters in ({}, {"key": "key_a"}, {"user": "user_a", "model": "ü/m"}, {"team": "team_a", "provider": "q"}):
            begin = NEW_YEAR + chosen.uniform(-2 * DAY, DAY)
            query = UsageQuery(start=begin, end=begin + chosen.choice([900.0, 2.5 * DAY]), group_by=group_by, **filters)
            assert read(database, query) == add_up(rows, query), query


def test_reports_of_tags_are_the_sums_of_the_rows_of_whole_hours(database: Database) -> None:
    rows = make_rows(3)
    write_rows(database, rows, may_repeat=False)
    for query in (
        UsageQuery(start=NEW_YEAR - 30 * HOUR, end=NEW_YEAR + 30 * HOUR, group_by=("tag",)),
        UsageQuery(start=NEW_YEAR - 30 * HOUR, end=NEW_YEAR + 30 * HOUR, group_by=("tag", "key", "day")),
        UsageQuery(start=NEW_YEAR - DAY, end=NEW_YEAR + DAY, group_by=("model",), tag='ß " 名'),
    ):
        assert read(database, query) == add_up(rows, query)


def test_rows_that_are_written_again_change_nothing(database: Database) -> None:
    rows = make_rows(4, 50)
    assert write_rows(database, rows[:30], may_repeat=True) == 30
    assert write_rows(database, [*rows, rows[0]], may_repeat=True) == 20
    assert write_rows(database, rows, may_repeat=True) == 0
    query = UsageQuery(start=0, end=NEW_YEAR + 9 * DAY, group_by=("key", "status"))
    assert read(database, query) == add_up(rows, query)


def test_all_totals_agree_with_each_other(database: Database) -> None:
    rows = make_rows(5)
    write_rows(database, rows, may_repeat=False)
    with database.read() as connection:
        tables = {**TOTALS, ("days", False, "users"): USER_DAYS}
        found = {key: connection.execute(select(table.c.requests)).scalars().all() for key, table in tables.items()}
        of_owners = sum(connection.execute(select(OWNER_DAYS.c.requests)).scalars())
    for tagged, count in ((False, 400), (True, None)):
        sums = {sum(counts) for key, counts in found.items() if key[1] == tagged}
        assert len(sums) == 1
        assert count is None or sums == {count}
    values = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    assert of_owners == sum(counts_as_request(*(row[name] for name in COUNTED_BY)) for row in values)


@pytest.mark.parametrize(
    ("operation", "model", "status", "counts"),
    [
        ("chat", "m", 200, True),
        ("chat", "m", 404, True),
        ("chat", "", 400, True),
        ("chat", "", 200, False),  # a stored response is read
        ("chat", "", 404, False),
        ("video_tasks", "v", 200, True),
        ("video_tasks", "v", 500, True),
        ("videos", "v", 200, False),  # started, polled or downloaded: its task counts
        ("videos", "v", 429, True),  # no task was started
        ("videos", "", 404, False),
        ("models", "", 200, False),
        ("explain", "m", 200, False),
        ("count_tokens", "m", 200, False),
    ],
)
def test_a_request_counts_if_it_made_something_or_failed_to(
    operation: str, model: str, status: int, counts: bool
) -> None:
    assert counts_as_request(operation, model, status) is counts


def test_a_day_ends_at_midnight_utc(database: Database) -> None:
    moments = (NEW_YEAR - 0.000001, NEW_YEAR, NEW_YEAR + DAY - 0.000001, NEW_YEAR + DAY)
    write_rows(database, [make_stored_row(moment) for moment in moments], may_repeat=False)
    query = UsageQuery(start=0, end=NEW_YEAR + 30 * DAY, group_by=("day",))
    counts = {row.group["day"]: row.requests for row in Reports(database).usage(query)}
    assert counts == {"2025-12-31": 1, "2026-01-01": 2, "2026-01-02": 1}


@pytest.mark.parametrize("hourly", [False, True])
def test_the_parts_of_a_report_cover_its_time_once(hourly: bool) -> None:
    chosen = random.Random(6)
    for _ in range(300):
        start = NEW_YEAR + chosen.choice(
            [chosen.uniform(0, 5 * DAY), chosen.randrange(5) * DAY, chosen.randrange(100) * HOUR]
        )
        end = start + chosen.choice([chosen.uniform(0, 4 * DAY), chosen.uniform(0, 2 * HOUR), DAY])
        parts = plan_parts(start, end, 0, NEW_YEAR + 90 * DAY, hourly=hourly)
        edges = [start, *(edge for part in parts for edge in (part.start, part.end)), end]
        assert edges[0::2] == edges[1::2] or start == end
        for part in parts:
            seconds = {"rows": 0.000001, "hours": HOUR, "days": DAY}[part.source]
            assert part.source == "rows" or part.start % seconds == part.end % seconds == 0
            assert part.source != "rows" or part.end - part.start <= HOUR
            assert not (hourly and part.source == "days")


def test_times_without_rows_are_reported_by_whole_hours(database: Database) -> None:
    write_rows(database, [make_stored_row(NEW_YEAR + 60), make_stored_row(NEW_YEAR + DAY)], may_repeat=False)
    with database.write() as connection:
        connection.execute(usage.delete().where(usage.c.id < find_first_id(NEW_YEAR + HOUR)))
    query = UsageQuery(start=NEW_YEAR + 90, end=NEW_YEAR + 2 * HOUR)
    assert [row.requests for row in Reports(database).usage(query)] == [1]


def test_a_cost_is_unknown_if_the_price_of_any_request_is(database: Database) -> None:
    known, unknown = make_stored_row(NEW_YEAR, cost=1_500_000_000), make_stored_row(NEW_YEAR, cost=None, key="key_b")
    write_rows(database, [known, unknown], may_repeat=False)
    query = UsageQuery(start=NEW_YEAR, end=NEW_YEAR + HOUR, group_by=("key",))
    assert [row.cost_usd for row in Reports(database).usage(query)] == [1.5, None]


def test_an_unknown_group_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match="'colour' is not one of key, user"):
        Reports(database).usage(UsageQuery(start=0, end=1, group_by=("colour",)))


def test_requests_are_listed_newest_first_page_by_page(database: Database) -> None:
    rows = [make_stored_row(NEW_YEAR + number, request_id=f"r{number}") for number in range(25)]
    write_rows(database, random.Random(7).sample(rows, 25), may_repeat=False)
    reports, seen, before = Reports(database), [], None
    while page := reports.requests(limit=10, before=before):
        seen += [row.request_id for row in page]
        before = page[-1].id
    assert seen == [f"r{number}" for number in reversed(range(25))]
    bounded = reports.requests(start=NEW_YEAR + 3, end=NEW_YEAR + 5)
    assert [row.request_id for row in bounded] == ["r4", "r3"]


def test_requests_are_filtered(database: Database) -> None:
    rows = make_rows(8, 120)
    write_rows(database, rows, may_repeat=False)
    reports = Reports(database)
    filters: tuple[tuple[str, dict[str, Any]], ...]
    filters = (
        ("user", {"user": "user_a"}),
        ("team", {"team": "team_a"}),
        ("key", {"key": "key_b"}),
        ("model", {"model": "ü/m"}),
    )
    for name, wanted in filters:
        found = {row.id for row in reports.requests(limit=1000, **wanted)}
        assert found == {row[0] for row in rows if row[COLUMNS.index(name)] == wanted[name]}
    failed = {row.id for row in reports.requests(limit=1000, only_errors=True)}
    assert failed == {row[0] for row in rows if row[COLUMNS.index("outcome")] in ("failed", "broken")}


def test_a_request_is_found_by_its_id_the_newest_if_it_was_used_twice(database: Database) -> None:
    write_rows(
        database, [make_stored_row(NEW_YEAR + n, request_id="r", status=200 + n) for n in range(3)], may_repeat=False
    )
    found = Reports(database).find_requests("r")[0]
    assert found.status == 202
    assert Reports(database).find_requests("' OR 1=1") == []


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\0b", "a�b"),
        ("x\ud800y", "x?y"),
        ("名" * 50, "名" * 33),
        ("\U0001f600" * 30, "\U0001f600" * 25),
        ("e\u0301", "e\u0301"),
    ],
)
def test_any_text_can_be_stored(database: Database, text: str, cleaned: str) -> None:
    stored = clean_text(text, 100)
    assert stored == cleaned
    write_rows(database, [make_stored_row(NEW_YEAR, model=stored, tags=json.dumps([stored]))], may_repeat=False)
    query = UsageQuery(start=NEW_YEAR, end=NEW_YEAR + HOUR, group_by=("model",), tag=stored)
    assert [row.group["model"] for row in Reports(database).usage(query)] == [cleaned]


def test_tags_are_bounded() -> None:
    header = "a, b ,,a,\u00e9\u0301," + "x" * 500 + "," + ",".join(f"t{n}" for n in range(50))
    tags = collect_tags(("of key", "b"), [header])
    assert tags[:4] == ["of key", "b", "a", "\u00e9\u0301"]
    assert tags[4] == "x" * 100
    assert len(tags) == 20
    sent = "größe,名前".encode().decode("latin-1")  # as a header in UTF-8 arrives
    assert collect_tags((), [sent]) == ["größe", "名前"]
