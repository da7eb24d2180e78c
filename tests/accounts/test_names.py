"""Names of keys, users and teams by their ids, on both databases."""

from __future__ import annotations

from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.names import find_names
from tornado_gate.accounts.people import Actor
from tornado_gate.database.engine import Database

COMMAND = Actor(id="command", name="command", role="administrator")


def test_names_are_found_for_what_exists(database: Database) -> None:
    accounts = Accounts(database, session_seconds=60)
    user = accounts.sign_up.create_administrator("Ada@example.org", COMMAND)
    team = accounts.teams.create(accounts.organisations.create("Works", COMMAND).id, "Blue", COMMAND)
    _, key = KeyStore(database).create("laptop", user=user.id)
    ids = ["", "x'; --", *(f"key_{number}" for number in range(1200))]
    assert find_names(database, "key", [key.id, *ids]) == {key.id: "laptop"}
    assert find_names(database, "user", [user.id, key.id]) == {user.id: "Ada@example.org"}
    assert find_names(database, "team", [team.id]) == {team.id: "Blue"}
    assert find_names(database, "model", ["m"]) == {}
    assert find_names(database, "key", []) == {}
