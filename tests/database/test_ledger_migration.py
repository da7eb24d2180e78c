"""Requests that an earlier version has recorded are kept when the tables of the ledger change; both databases."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import text

from tornado_gate.database import opening
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import UsageQuery, make_row_id

NEW_YEAR = 1_767_225_600  # 2026-01-01T00:00:00Z
OLD_ROW = {
    **{"id": make_row_id(NEW_YEAR * 10**6 + 5), "moment": NEW_YEAR + 5e-6, "request_id": "r", "key": "key_a"},
    **{"key_name": 'A "1"', "account": "a", "user": "user_a", "team": "", "model": "m"},
    **{"upstream_model": "m-1", "provider": "p", "plugin": "fake"},
    **{"operation": "chat", "format": "plain", "status": 200, "error_code": "x", "outcome": "broken", "input_tokens": 3},
    **{"cached_input_tokens": None, "output_tokens": 4, "audio_input_tokens": 1, "images": 0, "seconds": 0.0, "characters": 0},
    **{"estimated": True, "first_byte_ms": None, "total_ms": 2.5, "attempts": 2, "cost": 7, "tags": '["t"]', "end_user": "é"},
    **{"attribution": '{"agent":"curl"}', "body": None},
}  # fmt: skip
TOTAL = {
    **{"bucket": NEW_YEAR, "key": "key_a", "user": "user_a", "team": "", "provider": "p", "operation": "chat", "status": 200},
    **dict.fromkeys(("errors", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens", "images", "seconds"), 0),
    **{"unpriced_requests": 0, "input_tokens": 3, "output_tokens": 4, "requests": 1, "cost": 7},
}  # fmt: skip


def make_old_database(folder: Path, address: str) -> None:
    """The tables of the migration before, with a request and its totals by day of two models."""
    database = Database(folder, address)
    database.make_file()
    config = Config()
    config.set_main_option("script_location", str(opening.FOLDER))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0002_usage")
        for table, values in (
            ("usage", OLD_ROW),
            ("usage_key_days", {**TOTAL, "model": "m"}),
            ("usage_key_days", {**TOTAL, "model": "n"}),
        ):
            names = ", ".join(f'"{name}"' for name in values)
            connection.execute(
                text(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{n}' for n in values)})"), values
            )
    database.close()


def test_recorded_requests_are_kept(tmp_path: Path, empty_address: str) -> None:
    make_old_database(tmp_path / "var", empty_address)
    database = open_database(tmp_path / "var", empty_address)
    reports = Reports(database)
    [row] = reports.find_requests("r")
    for name, value in OLD_ROW.items():
        if name not in ("tags", "attribution"):
            assert getattr(row, name) == value, name
    assert (row.tags, row.attribution) == (("t",), {"agent": "curl"})
    day = UsageQuery(start=NEW_YEAR, end=NEW_YEAR + 86400, group_by=("key", "user"))
    assert [(one.group["key"], one.requests, one.cost) for one in reports.usage(day)] == [("key_a", 2, 14)]
    day = UsageQuery(start=NEW_YEAR, end=NEW_YEAR + 86400, group_by=("user", "model"))
    assert [(one.group["model"], one.requests) for one in reports.usage(day)] == [("m", 1), ("n", 1)]
    database.close()
