"""The filters of requests and their pages, in both databases."""

from __future__ import annotations

import pytest

from tests.ledger.rows import make_stored_row
from tornado_gate.database.engine import Database
from tornado_gate.ledger import request_search
from tornado_gate.ledger.request_search import RequestQuery, search_requests
from tornado_gate.ledger.rows import RequestRow
from tornado_gate.ledger.writing import write_rows

START = 1_790_000_000.0
ROWS = {
    "plain": {},
    "refused": {
        "status": 400,
        "outcome": "refused",
        "error_code": "bad_value",
        "error_message": 'Ünknown "size": 5_x%',
    },
    "failed": {"status": 502, "outcome": "failed", "error_code": "upstream_error", "error_message": "It failed."},
    "tagged": {"tags": '["nightly","a\\"b"]', "end_user": "Ann Lee"},
    "other": {"tags": '["night"]', "end_user": "ann", "operation": "embeddings", "model": "Size-1"},
}
FOUND: list[tuple[dict[str, object], list[str]]] = [
    ({}, ["other", "tagged", "failed", "refused", "plain"]),
    ({"status": 502}, ["failed"]),
    ({"error_code": "bad_value"}, ["refused"]),
    ({"error_code": "bad"}, []),
    ({"operation": "embeddings"}, ["other"]),
    ({"tag": "night"}, ["other"]),
    ({"tag": 'a"b'}, ["tagged"]),
    ({"tag": "Nightly"}, []),
    ({"end_user": "ann"}, ["other"]),
    ({"end_user": "Ann Lee"}, ["tagged"]),
    ({"text": "SIZE"}, ["other", "refused"]),
    ({"text": '"size": 5_x%'}, ["refused"]),
    ({"text": "5_x_"}, []),
    ({"text": "%"}, ["refused"]),
    ({"text": "ann"}, ["other", "tagged"]),
    ({"text": "FAIL"}, ["failed"]),
    ({"text": "upstream_error"}, []),
    ({"text": "' OR 1=1 --"}, []),
    ({"text": "a\0nn\ud800"}, []),
    ({"text": "ann", "operation": "chat"}, ["tagged"]),
    ({"only_errors": True, "status": 400}, ["refused"]),
    ({"start": START + 3, "end": START + 4}, ["tagged"]),
]


@pytest.fixture
def filled(database: Database) -> Database:
    rows = [
        make_stored_row(START + number, request_id=name, **values) for number, (name, values) in enumerate(ROWS.items())
    ]
    write_rows(database, rows, may_repeat=False)
    return database


def test_each_filter_finds_its_rows_exactly(filled: Database) -> None:
    for filters, names in FOUND:
        found = [row.request_id for row in search_requests(filled, RequestQuery(**filters)).rows]  # type: ignore[arg-type]
        assert found == names, filters


def test_rows_that_are_newer_than_a_row(filled: Database) -> None:
    rows = search_requests(filled, RequestQuery()).rows
    newer = search_requests(filled, RequestQuery(after=rows[2].id)).rows
    assert [row.request_id for row in newer] == ["other", "tagged"]


def test_a_page_examines_a_bounded_number_of_rows_and_leads_to_the_next(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_search, "SCANNED_ROWS", 2)
    query, names, pages = RequestQuery(status=200, limit=1), list[str](), 0
    while True:
        page = search_requests(filled, query)
        names += [row.request_id for row in page.rows]
        pages += 1
        if not page.next:
            break
        query = RequestQuery(status=200, limit=1, before=page.next)
    assert names == ["other", "tagged", "plain"]
    assert pages <= 5


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ({"output_tokens": 100, "total_ms": 3000.0, "first_byte_ms": 1000.0}, 50.0),
        ({"output_tokens": 100, "total_ms": 2000.0, "first_byte_ms": 1999.0}, 50.0),
        ({"output_tokens": 100, "total_ms": 2000.0}, 50.0),
        ({"output_tokens": None, "total_ms": 2000.0}, None),
        ({"output_tokens": 5, "total_ms": 2000.0, "cached": True}, None),
        ({"output_tokens": 5, "total_ms": 0.0}, None),
    ],
)
def test_tokens_per_second_count_from_the_first_event_of_a_stream(
    values: dict[str, object], rate: float | None
) -> None:
    texts = dict.fromkeys(
        ("id", "request_id", "key", "key_name", "account", "user", "team", "model", "upstream_model", "provider", "plugin",
         "operation", "format", "error_code", "outcome"), "",
    )  # fmt: skip
    row = RequestRow(**texts, moment=0.0, status=200, **values)  # type: ignore[arg-type]
    assert row.tokens_per_second == rate
