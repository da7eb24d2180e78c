"""`tornado-gate keys`, on both databases: creation with all bounds, revocation by name, rotation, lists."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from tests.accounts.support import add_team, add_user
from tornado_gate.accounts.bound_texts import BUDGET_EXAMPLE, LIMIT_EXAMPLE, parse_budget, parse_limits
from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.cli import cli
from tornado_gate.database import tables
from tornado_gate.database.engine import Database

DAY = 86_400
CONF = """
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {{local-chat: {{provider: local}}}}
keys: [{{name: by-file, key: file-key-0123456789, tags: [a], budget: {{usd_per_day: 5}}}}]
database: "{address}"
"""
Run = Callable[..., Result]


@pytest.fixture
def run(database: Database, database_address: str, tmp_path: Path) -> Run:
    """Runs a command with a configuration for the database of the test."""
    conf = tmp_path / "gate.yaml"
    conf.write_text(CONF.format(address=database_address), encoding="utf-8")

    def run(*words: str) -> Result:
        command = ["keys", *words, "--conf", str(conf), "--data-dir", str(database.data_dir)]
        return CliRunner().invoke(cli, command, prog_name="tornado-gate")

    return run


def rows(run: Run) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(run("list", "--json").stdout)}


def test_a_key_gets_all_that_the_options_say(run: Run, database: Database) -> None:
    ann = add_user(database, "ann")
    add_team(database, "research", ann)
    made = run(
        *("create", "--name", "nightly", "--user", "Ann@Example.com", "--team", "research", "--expires", "2h"),
        *("--models", "local-*", "--operations", "chat", "--addresses", "10.1.0.0/16,192.0.2.7/32", "--tags", "a,b"),
        *("--limit", "requests=60/m,tokens=100k/m", "--concurrent-requests", "10"),
        *("--budget", "5/d", "--budget", "tokens=1M/d", "--budget-usd-per-month", "100.5"),
    )
    assert made.exit_code == 0, made.output
    found = KeyStore(database).find_key(digest_key(made.stdout.strip()))
    assert found is not None
    assert (found.user, found.team, found.account, found.role) == (ann.id, "team_research", ann.id, "member")
    assert (found.models, found.operations, found.tags) == (("local-*",), ("chat",), ("a", "b"))
    assert found.addresses == ("10.1.0.0/16", "192.0.2.7")
    assert found.limits == {"requests_per_minute": 60, "tokens_per_minute": 100_000, "concurrent_requests": 10}
    assert found.budget == {"usd_per_day": 5.0, "usd_per_month": 100.5, "tokens_per_day": 1_000_000}
    assert found.expires == pytest.approx(time.time() + 7200, abs=60)
    row = rows(run)["nightly"]
    assert (row["owner"], row["team"], row["last_used"], row["created_by"]) == (
        *("ann@example.com", "research"),
        *("", "command"),
    )
    assert row["limits"]["concurrent_requests"] == 10
    with database.read() as connection:
        events = list(connection.execute(select(tables.audit)))
    assert [(event.action, event.actor, event.object) for event in events] == [("key.create", "command", found.id)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--user", "nobody@example.com"], "No user has the e-mail 'nobody@example.com'"),
        (["--user", "a\x00b"], "No user has the e-mail"),
        (["--team", "other"], "There is no team with the ID or name 'other'"),
        (["--user", "ann@example.com", "--role", "administrator"], "is no administrator"),
        (["--user", "ann@example.com", "--team", "t"], "is not a member of the team 't'"),
    ],
)
def test_an_owner_that_a_key_cannot_have_is_refused(
    run: Run, database: Database, options: list[str], words: str
) -> None:
    add_user(database, "ann")
    add_team(database, "t")
    result = run("create", "--name", "x", *options)
    assert result.exit_code == 1
    assert words in result.stderr
    assert KeyStore(database).list() == ()


def test_a_name_revokes_one_key_and_not_one_of_two(run: Run, database: Database) -> None:
    store = KeyStore(database)
    text, made = store.create("nightly")
    result = run("revoke", "nightly")
    assert result.exit_code == 0
    assert made.id in result.stdout
    assert store.find_key(digest_key(text)) is None
    twins = [store.create("twin")[1] for _ in range(2)]
    result = run("revoke", "twin")
    assert result.exit_code == 1
    assert all(twin.id in result.stderr for twin in twins)
    assert run("revoke", twins[0].id).exit_code == 0
    assert run("revoke", "twin").exit_code == 0
    result = run("revoke", "twin")
    assert result.exit_code == 1
    assert "There is no key with the ID or name 'twin' that is not revoked" in result.stderr
    assert "defined in the configuration" in run("revoke", "conf:by-file").stderr


def test_a_rotated_key_is_printed_and_the_old_one_works_for_the_overlap(run: Run, database: Database) -> None:
    store = KeyStore(database)
    old_text, old = store.create("nightly", models=["local-*"])
    result = run("rotate", "nightly", "--overlap", "1h")
    assert result.exit_code == 0, result.output
    new = store.find_key(digest_key(result.stdout.strip()))
    assert new is not None
    assert new.models == ("local-*",)
    assert f"{new.id} replaces {old.id}" in result.stderr
    assert store.find_key(digest_key(old_text)) is not None
    assert rows(run)["nightly"]["name"] == "nightly"
    assert run("rotate", "nightly").exit_code == 1, "two keys have the name now"
    result = run("rotate", new.id)
    assert result.exit_code == 0
    assert "which is revoked" in result.stderr
    assert store.find_key(new.digest) is None
    assert run("rotate", old.id).exit_code == 1, "its successor is to be rotated"
    assert "is not a duration" in run("rotate", new.id, "--overlap", "soon").stderr


def test_a_list_shows_owner_last_use_and_expiry(run: Run, database: Database) -> None:
    store = KeyStore(database)
    ann = add_user(database, "ann")
    _, made = store.create("mine", user=ann.id, expires=time.time() + DAY)
    store.touch({made.id: 1_700_000_000.0})
    store.create("fresh")
    result = run("list")
    heading, *lines = result.stdout.splitlines()
    assert " ".join(heading.split()) == "ID NAME OWNER KEY MODELS OPERATIONS CREATED LAST USED EXPIRES STATE"
    mine, fresh, by_file = lines
    assert "ann@example.com" in mine
    assert "2023-11-14 22:13" in mine
    assert time.strftime("%Y-%m-%d", time.gmtime(time.time() + DAY)) in mine
    assert "never" in fresh
    assert by_file.startswith("conf:by-file")
    assert rows(run)["by-file"]["budget"] == {"usd_per_day": 5.0}


# How limits and budgets are written


def test_the_examples_are_understood() -> None:
    limits = {"requests_per_minute": 60, "tokens_per_minute": 100_000, "concurrent_requests": 10}
    assert parse_limits(LIMIT_EXAMPLE) == limits
    assert parse_limits(" requests = 60 / min , tokens=100k/minute, concurrent=10 ") == limits
    assert parse_budget(BUDGET_EXAMPLE) == {"usd_per_day": 5.0, "usd_per_month": 100.0, "tokens_per_day": 1_000_000}
    assert parse_budget("$2.50/day,usd=1k/month,tokens=2M/mo") == {
        "usd_per_day": 2.5,
        "usd_per_month": 1000.0,
        "tokens_per_month": 2_000_000,
    }


@given(st.one_of(st.text(max_size=40), st.from_regex(r"(tokens=|requests=|concurrent=|usd=)?[0-9.kM]{1,9}/(m|d|mo)?")))
def test_any_text_is_a_bound_or_an_error_for_people(text: str) -> None:
    for parse in (parse_limits, parse_budget):
        try:
            found = parse(text)
        except AccountError as error:
            assert error.message.isprintable()
        except ValueError as error:
            assert str(error).isprintable()
        else:
            assert found
            assert all(value >= 0 for value in found.values())
