"""`tornado-gate database copy`: what the SQLite file of one machine has is in PostgreSQL, once, whenever the copy is killed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select, text, update

from tests.accounts.support import add_rows, add_team, add_user
from tests.ledger.rows import make_stored_row
from tests.support.people import PASSWORD
from tests.support.postgres import PostgresServer
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.audit import list_events, record
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import COMMAND
from tornado_gate.alerts.store import AlertStore
from tornado_gate.alerts.values import Alert, Words
from tornado_gate.cli import cli
from tornado_gate.config.model import LedgerConfig
from tornado_gate.database import table_copy, tables
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import migrate, open_database
from tornado_gate.database.usage_tables import ALL_TOTALS, usage
from tornado_gate.ledger.partitions import list_partitions
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import DAY, UsageQuery
from tornado_gate.ledger.writing import insert_rows, write_rows
from tornado_gate.server.control.database_copy import copy_database

FORK = multiprocessing.get_context("fork")
MANY = 100_000
_NUMBERS = itertools.count(1)


@dataclass
class Machine:
    """A machine whose conf names a PostgreSQL database, and whose data directory has an SQLite file."""

    folder: Path
    address: str

    @property
    def data_dir(self) -> Path:
        return self.folder / "var"

    def copy(self, *arguments: str) -> Result:
        conf = self.folder / "gate.yaml"
        conf.write_text(f"server: {{data_dir: '{self.data_dir}'}}\ndatabase: '{self.address}'\n")
        words = ["database", "copy", "--conf", str(conf), *arguments]
        return CliRunner().invoke(cli, words, prog_name="tornado-gate")

    def open_source(self) -> Database:
        return open_database(self.data_dir)

    def open_target(self) -> Database:
        """Open the database as a start of the gateway does."""
        return open_database(self.data_dir, self.address)


@pytest.fixture
def machine(postgres: PostgresServer, tmp_path: Path) -> Iterator[Machine]:
    name = f"copied_{next(_NUMBERS)}"
    yield Machine(tmp_path, postgres.create(name))
    postgres.drop(name)


def fill(machine: Machine, *, rows: int = 100) -> None:
    """Add people, keys, links, events and the usage of 80 days."""
    with closing(machine.open_source()) as source:
        accounts = Accounts(source, session_seconds=600)
        user = accounts.sign_up.create_administrator("ann@example.org", COMMAND, name="Ann")
        accounts.reset_links.use(accounts.reset_links.create(user.id, COMMAND), PASSWORD)
        accounts.sign_in.with_password("ann@example.org", PASSWORD, address="", agent="")
        add_team(source, "t", add_user(source, "bob"))
        KeyStore(source).create("of bob", user="user_bob", team="team_t")
        accounts.invitations.create(COMMAND, team="team_t")
        accounts.limit_overrides.create(
            "gateway", "", "requests_per_minute", COMMAND, value=5, factor=None, until=time.time() + 600
        )
        AlertStore(source).record(
            [Alert(cause="c", kind="budget", severity="warning", heading=Words("t"), explanation=Words("m"))], []
        )
        now = time.time()
        step = 80 * DAY / rows
        made = [
            make_stored_row(
                now - number * step - 60,
                key=f"key_{number % 7}",
                user="user_bob",
                input_tokens=number,
                cost=number * 3 if number % 5 else None,
                tags='["night"]' if number % 2 else "[]",
            )
            for number in range(rows)
        ]
        for begin in range(0, rows, 10_000):
            write_rows(source, made[begin : begin + 10_000], may_repeat=False)


def report(database: Database, *group_by: str) -> Any:
    now = time.time()
    return Reports(database).usage(UsageQuery(start=now - 100 * DAY, end=now, group_by=group_by))


def read_all(database: Database) -> dict[str, list[Any]]:
    """Return the rows of all tables that are copied, in order."""
    copied = (
        *(tables.organisations, tables.teams, tables.users, tables.team_members, tables.keys, tables.invitations),
        *(tables.reset_links, tables.sessions, tables.limit_overrides, tables.audit, *ALL_TOTALS, usage),
    )
    with database.read() as connection:
        return {
            table.name: sorted(tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key)))
            if table is usage
            else [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in copied
        }


def check_equal(machine: Machine) -> None:
    with closing(machine.open_source()) as source, closing(machine.open_target()) as target:
        ours, theirs = read_all(target), read_all(source)
        assert [name for name in ours if ours[name] != theirs[name]] == []
        assert report(target, "key", "tag") == report(source, "key", "tag")


def test_everything_of_the_file_is_in_the_database_and_is_copied_once(machine: Machine) -> None:
    fill(machine)
    done = machine.copy()
    assert done.exit_code == 0, done.output
    assert "numbers and sums are equal" in done.stderr
    check_equal(machine)
    with closing(machine.open_target()) as target:
        with target.read() as connection:
            months = [part.name for part in list_partitions(connection)]
            assert connection.execute(text("SELECT count(*) FROM usage_other")).scalar() == 0
        assert len(months) >= 3
        accounts = Accounts(target, session_seconds=600)
        _, session = accounts.sign_in.with_password("ann@example.org", PASSWORD, address="", agent="")
        assert session.user.name == "Ann"
        assert len(accounts.sessions.list_open(session.user.id)) == 2, "the session of before is open"
        with target.write() as connection:
            record(connection, COMMAND, "key.create", "later")
        assert list_events(target)[0].object == "later"
        assert [alert.title for alert in AlertStore(target).list_recent(5)] == ["t"]
    again = machine.copy()
    assert (again.exit_code, "Nothing is left to copy" in again.stderr) == (0, True), again.output


def kill_at(machine: Machine, when: Callable[[str, int], bool], *, before_commit: bool = False) -> None:
    """Copy in another process, which is killed when a table has so many rows."""

    def die(name: str, _total: int, read: int) -> None:
        if when(name, read):
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        if before_commit:
            write = table_copy.TableCopy._write_rows
            staged = itertools.count(1)

            def write_and_die(copy: Any, connection: Any, rows: Any) -> int:
                written = write(copy, connection, rows)
                name = copy._rule.table.name
                die(name, 0, next(staged) * table_copy.BATCH if name == "usage" else 0)
                return written

            table_copy.TableCopy._write_rows = write_and_die  # type: ignore[method-assign]
        with (
            closing(Database(machine.data_dir)) as source,
            closing(Database(machine.data_dir, machine.address)) as target,
        ):
            migrate(target)
            copy_database(source, target, LedgerConfig(), lambda *_: None if before_commit else die(*_), adds=False)

    process = FORK.Process(target=run)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def test_a_copy_that_is_killed_is_continued_without_a_doubled_row(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_copy, "BATCH", 40)
    fill(machine)
    kill_at(machine, lambda name, _: name == "audit")
    kill_at(machine, lambda name, read: name == "usage_key_hours" and read >= 40)
    kill_at(machine, lambda name, read: name == "usage" and read >= 80, before_commit=True)
    assert "is not done" in refuse_after_change(machine)
    done = machine.copy()
    assert done.exit_code == 0, done.output
    check_equal(machine)


def refuse_after_change(machine: Machine) -> str:
    """Return the message for a file that has one more row; the row is removed again."""
    row = make_stored_row(time.time())
    with closing(machine.open_source()) as source, source.write() as connection:
        insert_rows(connection, [row])
    refused = machine.copy()
    with closing(machine.open_source()) as source, source.write() as connection:
        connection.execute(usage.delete().where(usage.c.id == row[0]))
    assert refused.exit_code == 1
    return refused.stderr


@pytest.mark.qa
def test_a_hundred_thousand_rows_are_copied_though_the_copy_is_killed_twice(machine: Machine) -> None:
    fill(machine, rows=MANY)
    kill_at(machine, lambda name, read: name == "usage" and read >= MANY // 3)
    kill_at(machine, lambda name, read: name == "usage" and read >= MANY // 3, before_commit=True)
    done = machine.copy()
    assert done.exit_code == 0, done.output
    check_equal(machine)


def test_a_gateway_that_serves_with_the_database_already_gets_its_history(machine: Machine) -> None:
    fill(machine)
    with closing(machine.open_source()) as source:
        before, events = report(source), list_events(source)
    with closing(machine.open_target()) as target:
        write_rows(target, [make_stored_row(time.time() - 5, key="key_1", input_tokens=7)], may_repeat=False)
        with target.write() as connection:
            record(connection, COMMAND, "key.create", "after the change")
            changed = update(tables.users).where(tables.users.c.id == "user_bob").values(password_changed=time.time())
            connection.execute(changed)
        done = machine.copy()
        assert done.exit_code == 0, done.output
        after = report(target)
        assert after[0].requests == before[0].requests + 1
        assert after[0].input_tokens == before[0].input_tokens + 7
        assert [event.object for event in list_events(target)][:1] == ["after the change"]
        assert list_events(target)[1:] == events
        with target.write() as connection:
            record(connection, COMMAND, "key.create", "newest")
        assert list_events(target)[0].object == "newest"
        rows = read_all(target)
    assert (len(rows["invitations"]), rows["sessions"], rows["limit_overrides"]) == (1, [], [])


@pytest.mark.qa
def test_invitations_of_an_account_that_has_a_new_password_since_are_not_copied(machine: Machine) -> None:
    fill(machine)
    with closing(machine.open_source()) as source:
        add_rows(source, tables.invitations, *(make_invitation(maker) for maker in ("user_bob", "command", "key_gone")))
    with closing(machine.open_target()) as target:
        with target.write() as connection:
            connection.execute(update(tables.users).values(password_changed=time.time()))
        assert machine.copy().exit_code == 0
        assert {row[5] for row in read_all(target)["invitations"]} == {"command"}


def make_invitation(maker: str) -> dict[str, Any]:
    made = {"id": f"inv_{maker}", "digest": maker.encode().ljust(32), "role": "member", "created_by": maker}
    return {**made, "created": time.time(), "expires": time.time() + 600}


@pytest.mark.qa
def test_several_copies_at_once_copy_each_row_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_copy, "BATCH", 10)
    fill(machine)

    def copy(_: int) -> list[str]:
        with (
            closing(Database(machine.data_dir)) as source,
            closing(Database(machine.data_dir, machine.address)) as target,
        ):
            migrate(target)
            return copy_database(source, target, LedgerConfig(), lambda *_: None, adds=False).differences

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(copy, range(3))) == [[], [], []]
    check_equal(machine)


def test_a_database_with_other_data_is_refused_unless_it_is_added(machine: Machine) -> None:
    fill(machine)
    other = Machine(machine.folder / "other", machine.address)
    other.folder.mkdir()
    with closing(other.open_target()) as target:
        add_user(target, "root", role="administrator")
        write_rows(target, [make_stored_row(time.time() - 9, input_tokens=5)], may_repeat=False)
        before = read_all(target)
        refused = machine.copy()
        assert refused.exit_code == 1
        assert (
            "has data, but no account or key of the file (rows: users 1, usage 1, usage_owner_days 1)" in refused.stderr
        )
        assert read_all(target) == before
        done = machine.copy("--add")
        assert done.exit_code == 0, done.output
        assert report(target)[0].requests == 101


@pytest.mark.qa
def test_rows_that_are_older_than_conf_keeps_them_are_left_out(machine: Machine) -> None:
    now = time.time()
    with closing(machine.open_source()) as source:
        write_rows(source, [make_stored_row(now - days * DAY) for days in (1, 2000, -3000)], may_repeat=False)
    done = machine.copy()
    assert done.exit_code == 0, done.output
    with closing(machine.open_target()) as target:
        assert len(read_all(target)["usage"]) == 2
        assert len(read_all(target)["usage_owner_days"]) == 2
        with target.read() as connection:
            assert connection.execute(text("SELECT count(*) FROM usage_other")).scalar() == 1, "of a wrong clock"


def test_what_cannot_be_copied_is_refused_with_what_to_do(machine: Machine) -> None:
    missing = machine.copy()
    assert "does not exist. Name the data directory of the gateway with --data-dir" in missing.stderr
    fill(machine)
    with closing(machine.open_source()) as source, source.read() as connection:
        connection.execute(select(usage))
        assert "is in use. Stop the gateway that uses it, then copy." in machine.copy().stderr
    assert machine.copy().exit_code == 0
    assert "a gateway has used it since. Totals cannot be added twice" in refuse_after_change(machine)
    with closing(machine.open_source()) as source, source.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999_later'"))
    newer = machine.copy()
    assert (newer.exit_code, "was created by a newer tornado-gate" in newer.stderr) == (1, True), newer.output
    (machine.folder / "gate.yaml").write_text("server: {}\n")
    words = ["database", "copy", "--conf", str(machine.folder / "gate.yaml")]
    assert "the configuration has no `database`" in CliRunner().invoke(cli, words).stderr


@pytest.mark.qa
def test_a_difference_between_file_and_database_is_an_error(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(machine)
    write = table_copy.TableCopy._write_rows
    monkeypatch.setattr(
        table_copy.TableCopy, "_write_rows", lambda copy, connection, rows: write(copy, connection, rows[1:])
    )
    done = machine.copy()
    assert done.exit_code == 1
    assert "usage: rows should be 100, but are 99" in done.stderr
    assert "Copy to a new database." in done.stderr
