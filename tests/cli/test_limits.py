"""`tornado-gate limits` and `users limit`."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from tornado_gate.cli import cli


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [*arguments, "--data-dir", str(folder / "var")])
    return result.exit_code, result.output


def test_a_limit_is_changed_for_a_time_listed_and_ended(tmp_path: Path) -> None:
    status, made = run(
        tmp_path, "limits", "override", "gateway", "-", "usd_per_day", "--value", "12.5", "--until", "2h"
    )
    assert status == 0, made
    status, other = run(
        tmp_path, "limits", "override", "key", "conf:k", "tokens_per_minute", "--factor", "2", "--until", "1d"
    )
    assert status == 0, other
    listed = json.loads(run(tmp_path, "limits", "list", "--json")[1])
    assert [(one["id"], one["subject"], one["bound"], one["change"]) for one in listed] == [
        (other.strip(), "key conf:k", "tokens_per_minute", "x 2"),
        (made.strip(), "gateway", "usd_per_day", "12.5"),
    ]
    assert run(tmp_path, "limits", "end", made.strip())[0] == 0
    assert made.strip() not in run(tmp_path, "limits", "list")[1]
    status, text = run(tmp_path, "limits", "end", made.strip())
    assert (status, "There is no temporary limit with this ID." in text) == (1, True)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    status, text = run(tmp_path, "limits", "override", "team", "t", "tokens_per_year", "--value", "1", "--until", "2h")
    assert (status, "A bound is one of requests_per_minute" in text) == (1, True)
    assert run(tmp_path, "limits", "override", "team", "t", "tokens_per_day", "--value", "1", "--until", "soon")[0] == 2
    for kind in ("key", "user", "team"):
        status, text = run(tmp_path, "limits", "override", kind, "t", "tokens_per_day", "--value", "1", "--until", "1h")
        assert (status, f"There is no {kind} with this id." in text) == (1, True)
    assert run(tmp_path, "limits", "list", "--json")[1].strip() == "[]"


def test_a_rotated_key_is_the_key_under_which_it_counts(tmp_path: Path) -> None:
    assert run(tmp_path, "keys", "create", "--name", "app")[0] == 0
    (first,) = json.loads(run(tmp_path, "keys", "list", "--json")[1])
    assert run(tmp_path, "keys", "rotate", first["id"], "--overlap", "1h")[0] == 0
    (second,) = (one for one in json.loads(run(tmp_path, "keys", "list", "--json")[1]) if one["id"] != first["id"])
    status, text = run(
        tmp_path, "limits", "override", "key", second["id"], "requests_per_minute", "--factor", "2", "--until", "1h"
    )
    assert status == 0, text
    assert json.loads(run(tmp_path, "limits", "list", "--json")[1])[0]["subject"] == f"key {first['id']}"


def test_the_keys_of_a_user_are_limited_together(tmp_path: Path) -> None:
    assert run(tmp_path, "users", "create-administrator", "ann@example.org")[0] == 0
    status, text = run(tmp_path, "users", "limit", "ann@example.org", "--limit", "requests=60/m", "--budget", "5/d")
    assert status == 0, text
    assert "requests_per_minute 60, usd_per_day 5" in text
    assert "usd_per_day 5" in run(tmp_path, "users", "limit", "ann@example.org", "--limit", "")[1]
