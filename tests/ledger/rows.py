"""Rows of the ledger for tests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tornado_gate.ledger.details import render_details
from tornado_gate.ledger.rows import make_row_id
from tornado_gate.ledger.writing import COLUMNS, StoredRow

VALUES: dict[str, Any] = {
    **dict.fromkeys(COLUMNS),
    **{
        "request_id": "req_1",
        "key": "key_a",
        "user": "",
        "team": "",
        "model": "m",
        "provider": "p",
        "operation": "chat",
    },
    **{"status": 200, "outcome": "complete", "images": 0, "seconds": 0.0, "tags": "[]"},
}
DETAILS: dict[str, Any] = {"upstream_model": "m-1", "plugin": "fake", "format": "plain", "total_ms": 2.5, "attempts": 1}


def make_stored_row(moment: float, **changes: Any) -> StoredRow:
    """A row of a request that ended at `moment`; `changes` are values of its columns and of its details."""
    microseconds = round(moment * 1e6)
    details = render_details({**DETAILS, **changes})
    values = {**VALUES, "id": make_row_id(microseconds), "details": details, **changes}
    return tuple(values[name] for name in COLUMNS)


class CountedMetrics:
    """Counts what a ledger reports."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.unpriced: Counter[tuple[str, str]] = Counter()
        self.lag = 0.0

    def count_rows(self, result: str, number: int) -> None:
        self.rows[result] += number

    def count_unpriced(self, model: str, provider: str, number: int) -> None:
        self.unpriced[model, provider] += number

    def set_lag(self, seconds: float) -> None:
        self.lag = seconds
