"""tornado-gate users: what it prints, what it refuses, and that the server knows of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.people import PASSWORD
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.audit import list_events
from tornado_gate.accounts.errors import SignInFailed
from tornado_gate.accounts.people import COMMAND
from tornado_gate.cli import cli
from tornado_gate.database.opening import open_database

EMAIL = "ann@example.org"


@pytest.fixture
def conf(tmp_path: Path, database_address: str) -> Path:
    """Conf with either database, and a data directory that does not exist."""
    file = tmp_path / "gate.yaml"
    database = f"database: '{database_address}'\n" if database_address else ""
    file.write_text(f"server: {{data_dir: '{tmp_path / 'var'}', public_url: 'https://gate.example'}}\n{database}")
    return file


def run(conf: Path, *arguments: str) -> Result:
    words = ["users", arguments[0], "--conf", str(conf), *arguments[1:]]
    return CliRunner().invoke(cli, words, prog_name="tornado-gate")


def open_accounts(conf: Path, database_address: str) -> Accounts:
    return Accounts(open_database(conf.parent / "var", database_address), session_seconds=60)


def test_an_administrator_is_created_by_command_and_sets_the_password(conf: Path, database_address: str) -> None:
    made = run(conf, "create-administrator", EMAIL, "--name", "Ann")
    assert made.exit_code == 0, made.output
    link = made.stdout.strip()
    assert link.startswith("https://gate.example/console/reset?token=")
    assert link not in made.stderr
    accounts = open_accounts(conf, database_address)
    assert accounts.setup.make_token() is None
    accounts.reset_links.use(link.partition("=")[2], PASSWORD)
    _, session = accounts.sign_in.with_password(EMAIL, PASSWORD, address="", agent="")
    assert (session.user.name, session.user.role) == ("Ann", "administrator")
    [row] = json.loads(run(conf, "list", "--json").stdout)
    assert (row["email"], row["role"], row["state"]) == (EMAIL, "administrator", "active")
    assert row["last_login"]
    assert {event.actor for event in list_events(accounts.database, action="user.create")} == {"command"}
    accounts.database.close()


def test_a_forgotten_password_is_reset_and_a_user_disabled_and_enabled(conf: Path, database_address: str) -> None:
    run(conf, "create-administrator", EMAIL)
    accounts = open_accounts(conf, database_address)
    bob = accounts.sign_up.create_administrator("bob@example.org", COMMAND)
    link = run(conf, "reset-link", "BOB@example.org").stdout.strip()
    accounts.reset_links.use(link.partition("=")[2], PASSWORD)
    assert "disabled" in run(conf, "disable", "bob@example.org").stderr
    assert accounts.users.get(bob.id).state == "disabled"
    refused = run(conf, "reset-link", "bob@example.org")
    assert refused.exit_code == 1
    assert "Enable it first" in refused.stderr
    assert run(conf, "enable", "bob@example.org").exit_code == 0
    assert accounts.sign_in.with_password("bob@example.org", PASSWORD, address="", agent="")
    with pytest.raises(SignInFailed):
        accounts.sign_in.with_password(EMAIL, PASSWORD, address="", agent="")
    table = run(conf, "list").stdout.splitlines()
    assert table[0].split() == ["EMAIL", "NAME", "ROLE", "STATE", "CREATED", "LAST", "LOGIN", "ID"]
    assert len(table) == 3
    assert len(run(conf, "list", "--search", "bob").stdout.splitlines()) == 2
    accounts.database.close()


def test_refusals_say_what_to_do(conf: Path) -> None:
    run(conf, "create-administrator", EMAIL)
    for arguments, words in [
        (("create-administrator", "Ann@Example.org"), "already an account"),
        (("disable", EMAIL), "last administrator"),
        (("disable", "nobody@example.org"), "users list"),
        (("reset-link", "nobody@example.org"), "no account for nobody@example.org"),
    ]:
        result = run(conf, *arguments)
        assert result.exit_code == 1
        assert words in result.stderr
    assert run(conf, "disable", "no e-mail").exit_code == 2


def test_without_a_database_nothing_is_created(tmp_path: Path) -> None:
    conf = tmp_path / "gate.yaml"
    conf.write_text(f"server: {{data_dir: '{tmp_path / 'var'}'}}\n")
    for arguments in (("list",), ("disable", EMAIL), ("enable", EMAIL), ("reset-link", EMAIL)):
        result = run(conf, *arguments)
        assert result.exit_code == 1
        assert "create-administrator" in result.stderr
        assert not (tmp_path / "var").exists()


@pytest.mark.parametrize("command", ["list", "create-administrator", "reset-link", "disable", "enable"])
def test_every_command_explains_itself(tmp_path: Path, command: str) -> None:
    result = run(tmp_path, command, "--help")
    assert result.exit_code == 0
    assert len(result.output) > 200
