"""Budgets and expiring keys in both databases."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.ledger.rows import make_stored_row
from tests.support.people import add_member
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import Actor
from tornado_gate.admission.bounds import list_bounds
from tornado_gate.alerts.accounts import find_budgets, find_expiring_keys
from tornado_gate.alerts.values import Alert
from tornado_gate.config.model import AccountsConfig, Config, KeyEntry, Secret, TeamEntry
from tornado_gate.database.engine import Database
from tornado_gate.ledger.writing import write_rows
from tornado_gate.types import Bound, Budget

DAY = 86_400.0
NOW = time.time() // DAY * DAY + DAY / 2


def list_plain_bounds(kind: str, subject: str, limits: None, budget: Budget, title: str) -> tuple[Bound, ...]:
    return list_bounds(kind, subject, limits, budget, title=title)


def look(database: Database, config: Config | None = None) -> dict[str, Alert]:
    """The alerts of budgets by their causes without the day."""
    found = find_budgets(database, config or Config(path=Path("gate.yaml")), list_plain_bounds, NOW, NOW - 60)
    return {":".join((*alert.cause.split(":")[1:-2], alert.cause.rpartition(":")[2])): alert for alert in found}


def use(database: Database, cost: float, **values: object) -> None:
    write_rows(
        database, [make_stored_row(NOW - 10, cost=round(cost * 1e9), output_tokens=100, **values)], may_repeat=False
    )


@pytest.mark.parametrize(
    ("cost", "levels"), [(7.9, []), (8.0, ["80"]), (9.99, ["80"]), (10.0, ["100"]), (12.0, ["100"])], ids=str
)
def test_a_budget_of_a_key_raises_at_80_and_at_100_percent(database: Database, cost: float, levels: list[str]) -> None:
    key = KeyStore(database).create("nightly", budget={"usd_per_day": 10})[1]
    use(database, cost, key=key.id)
    found = look(database)
    assert list(found) == [f"key:{key.id}:usd_per_day:{level}" for level in levels]
    for alert in found.values():
        assert "'nightly'" in alert.title
        assert f"{cost:.2f} USD of 10.00 USD (usd_per_day)" in alert.message


def test_teams_users_and_keys_of_conf_and_of_the_database(
    database: Database, accounts: Accounts, administrator: Actor
) -> None:
    team = accounts.teams.create(accounts.organisations.create("Science", administrator).id, "Physics", administrator)
    accounts.teams.update(team.id, administrator, budget={"tokens_per_month": 100})
    person = add_member(accounts, "ann@example.org")
    config = Config(
        path=None,
        keys=(KeyEntry(name="ci", key=Secret("k"), account="ci", budget=Budget(usd_per_month=1), team="research"),),
        teams={"research": TeamEntry(name="research", budget=Budget(usd_per_day=1.1))},
        accounts=AccountsConfig(default_budget=Budget(usd_per_day=0.5)),
    )
    use(database, 1.0, key="conf:ci", team="research")
    use(database, 1.0, key="key_of_ann", user=person.id, team=team.id)
    found = look(database, config)
    assert sorted(found) == [
        "key:conf:ci:usd_per_month:100",
        "team:research:usd_per_day:80",
        f"team:{team.id}:tokens_per_month:100",
        f"user:{person.id}:usd_per_day:100",
    ]
    assert "'ann@example.org'" in found[f"user:{person.id}:usd_per_day:100"].title
    assert "'Physics'" in found[f"team:{team.id}:tokens_per_month:100"].title


def test_a_budget_whose_rest_is_too_small_for_requests_is_used_up(database: Database) -> None:
    key = KeyStore(database).create("nightly", budget={"usd_per_day": 10})[1]
    use(database, 9.5, key=key.id)
    use(database, 0, key=key.id, outcome="refused", status=429, error_code="budget_exceeded")
    assert f"key:{key.id}:usd_per_day:100" in look(database)


def test_a_rotated_key_keeps_the_budget_and_is_named_once(database: Database) -> None:
    store = KeyStore(database)
    first = store.create("nightly", budget={"usd_per_day": 10})[1]
    store.rotate(first.id, overlap_seconds=3600)
    use(database, 9, key=first.id)
    assert list(look(database)) == [f"key:{first.id}:usd_per_day:80"]


EXPIRIES: Mapping[str, tuple[float, float, list[str]]] = {
    "in 8 days": (-30, 8, []),
    "in 6 days": (-30, 6, ["7"]),
    "in 12 hours": (-30, 0.5, ["1"]),
    "expired": (-30, -0.1, []),
    "made for 3 days": (-1, 2, []),
    "made for 3 days, the last one": (-2.5, 0.5, ["1"]),
    "made for 12 hours": (-0.1, 0.4, []),
}


def test_keys_that_expire_raise_7_days_and_1_day_before(database: Database) -> None:
    store, expected = KeyStore(database), list[str]()
    for name, (created, expires, days) in EXPIRIES.items():
        key = store.create(name, expires=time.time() + DAY)[1]
        _set_times(database, key.id, NOW + created * DAY, NOW + expires * DAY)
        expected += [f"{name} {level}" for level in days]
    revoked = store.create("revoked", expires=time.time() + DAY)[1]
    store.revoke(revoked.id)
    found = find_expiring_keys(database, NOW)
    assert sorted(f"{alert.title.split(chr(39))[1]} {alert.cause.rpartition(':')[2]}" for alert in found) == sorted(
        expected
    )


def _set_times(database: Database, key: str, created: float, expires: float) -> None:
    from sqlalchemy import update

    from tornado_gate.database.tables import keys

    with database.write() as connection:
        connection.execute(update(keys).where(keys.c.id == key).values(created=created, expires=expires))
