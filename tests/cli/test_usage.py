"""`tornado-gate usage`, on both databases."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.ledger.rows import make_stored_row
from tornado_gate.cli import cli
from tornado_gate.database.engine import Database
from tornado_gate.ledger.writing import write_rows

Run = Callable[..., Result]


@pytest.fixture
def run(database: Database, database_address: str, tmp_path: Path) -> Run:
    conf = tmp_path / "gate.yaml"
    conf.write_text(f'database: "{database_address}"\n', encoding="utf-8")

    def run(*words: str) -> Result:
        command = ["usage", *words, "--conf", str(conf), "--data-dir", str(database.data_dir)]
        return CliRunner().invoke(cli, command, prog_name="tornado-gate")

    return run


@pytest.fixture(autouse=True)
def rows(database: Database) -> None:
    now = time.time()
    counts = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7}
    write_rows(
        database,
        [
            make_stored_row(now - 60, model="m", cost=1_500_000_000, **counts),
            make_stored_row(now - 90, model="m", cost=250, outcome="failed", status=502),
            make_stored_row(now - 60, model="=cmd()", cost=None, **counts),
            make_stored_row(now - 40 * 86400, model="old", cost=0),
        ],
        may_repeat=False,
    )


def test_json_has_the_columns_of_the_admin_api(run: Run) -> None:
    data = json.loads(run("--group-by", "model", "--json").stdout)["data"]
    tokens = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7}
    assert data == [
        {
            "model": "=cmd()",
            "requests": 1,
            "errors": 0,
            **tokens,
            "cost_usd": None,
            "unpriced_requests": 1,
            "known_cost_usd": 0.0,
        },
        {
            "model": "m",
            "requests": 2,
            "errors": 1,
            **tokens,
            "cost_usd": 1.50000025,
            "unpriced_requests": 0,
            "known_cost_usd": 1.50000025,
        },
    ]


def test_a_table_is_the_default(run: Run) -> None:
    lines = run("--group-by", "model,status").stdout.splitlines()
    assert lines[0].split()[:4] == ["MODEL", "STATUS", "REQUESTS", "ERRORS"]
    assert [line.split()[0] for line in lines[1:]] == ["=cmd()", "m", "m"]
    assert "1.5" in lines[2].split()


def test_csv_is_safe_for_spreadsheets(run: Run) -> None:
    found = list(csv.DictReader(io.StringIO(run("--group-by", "model", "--csv").stdout)))
    assert [row["model"] for row in found] == ["'=cmd()", "m"]
    assert [row["cost_usd"] for row in found] == ["", "1.50000025"]


def test_a_status_selects_requests(run: Run) -> None:
    data = json.loads(run("--group-by", "model", "--status", "502", "--json").stdout)["data"]
    assert [(row["model"], row["requests"], row["errors"]) for row in data] == [("m", 1, 1)]


def test_the_time_can_be_a_duration_or_a_date(run: Run) -> None:
    assert "old" in run("--from", "50d", "--group-by", "model").stdout
    assert "old" not in run("--from", "1h", "--group-by", "model").stdout
    assert run("--to", "2020-01-01", "--from", "2019-12-31", "--json").stdout == '{\n  "data": []\n}\n'


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "soon"), "is neither a duration such as 7d or 12h nor a date"),
        (("--group-by", "colour"), "must be different names of key, user, team"),
        (("--group-by", "key,key"), "must be different names of key, user, team"),
        (("--from", "1d", "--to", "2d"), "the time of --from must be before that of --to"),
        (("--status", "99"), "100<=x<=599"),
        (("--from", "2027-13-45"), "is neither a duration such as 7d or 12h nor a date"),
    ],
)
def test_a_wrong_option_is_explained(run: Run, words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())
