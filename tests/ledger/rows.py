"""Rows of the ledger for tests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tornado_gate.ledger.rows import make_row_id
from tornado_gate.ledger.writing import COLUMNS, StoredRow

VALUES: dict[str, Any] = {
    **dict.fromkeys(COLUMNS),
    **dict.fromkeys(("key_name", "account", "user", "team", "error_code", "end_user"), ""),
    **{"request_id": "req_1", "key": "key_a", "model": "m", "upstream_model": "m-1", "provider": "p", "plugin": "fake"},
    **{"operation": "chat", "format": "plain", "status": 200, "outcome": "complete", "images": 0, "seconds": 0.0},
    **{"characters": 0, "estimated": False, "total_ms": 2.5, "attempts": 1, "tags": "[]", "attribution": "{}"},
}


def make_stored_row(moment: float, **changes: Any) -> StoredRow:
    """A row of a request that ended at `moment`; `changes` are values of its columns."""
    microseconds = round(moment * 1e6)
    values = {**VALUES, "id": make_row_id(microseconds), "moment": microseconds / 1e6, **changes}
    return tuple(values[name] for name in COLUMNS)


class CountedMetrics:
    """Counts what a ledger reports."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.unpriced: Counter[tuple[str, str]] = Counter()
        self.lag = 0.0

    def count_ledger_rows(self, result: str, number: int) -> None:
        self.rows[result] += number

    def count_unpriced(self, model: str, provider: str) -> None:
        self.unpriced[model, provider] += 1

    def set_ledger_lag(self, seconds: float) -> None:
        self.lag = seconds
