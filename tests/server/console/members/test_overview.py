"""Home: figures of today and yesterday, what needs attention, and the bars of budgets and limits."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from tests.ledger.rows import make_stored_row
from tests.server.console.members.site import Visit
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import Actor
from tornado_gate.admission.bounds import list_bounds
from tornado_gate.alerts import present
from tornado_gate.alerts.accounts import Share, describe_budgets, describe_expiries
from tornado_gate.alerts.health import find_open_circuits, find_refused_keys
from tornado_gate.alerts.values import Alert
from tornado_gate.database.tables import keys
from tornado_gate.ledger.rows import DAY
from tornado_gate.ledger.spending import find_period
from tornado_gate.ledger.spool import FOLDER, measure_spool
from tornado_gate.ledger.writing import write_rows
from tornado_gate.server.console.overview import format_change, read_figures
from tornado_gate.server.services import Services
from tornado_gate.types import Budget, Target

pytestmark = pytest.mark.gen_test(timeout=60)

COMMAND = Actor(id="command", name="command", role="administrator")


def add_rows(services: Services, *rows: Any) -> None:
    write_rows(services.database, rows, may_repeat=False)


def find_ids(services: Services) -> dict[str, str]:
    return {user.email.partition("@")[0]: user.id for user in services.accounts.users.list_page()[0]}


async def test_figures_compare_the_same_hours(services: Services) -> None:
    noon = time.time() // DAY * DAY - 3 * DAY + DAY / 2 + 1800
    row = {"input_tokens": 10, "output_tokens": 5, "cost": 1_000_000_000, "first_byte_ms": 200.0}
    add_rows(
        services,
        make_stored_row(noon - 60, **row, user="u"),
        make_stored_row(noon - 7200, **row),
        make_stored_row(noon - 61, **row, outcome="failed", status=502),
        make_stored_row(noon - DAY - 7200, **{**row, "first_byte_ms": 100.0}),
        make_stored_row(noon - DAY + 7200, **row),  # later than now, a day ago
    )
    figures = {figure.label: figure for figure in read_figures(services.database, "", noon)}
    assert (figures["Requests"].value, figures["Requests"].before, figures["Requests"].change) == ("3", "1", "+200%")
    assert (figures["Cost"].value, figures["Cost"].before) == ("$3.00", "$1.00")
    assert (figures["Errors"].value, figures["Errors"].change) == ("1", "")
    assert figures["Tokens"].value == "45"
    assert (figures["First token, median"].value, figures["First token, median"].before) == ("200 ms", "100 ms")
    assert read_figures(services.database, "u", noon)[0].value == "1"


def test_a_change_that_rounds_to_nothing_has_no_direction() -> None:
    assert [format_change(part) for part in (0.004, -0.004, 0.12, -0.031, 12)] == [
        "±0%",
        "±0%",
        "+12%",
        "−3%",
        "+1,200%",
    ]


async def test_home_shows_a_member_own_figures_and_an_administrator_all(visit: Visit, services: Services) -> None:
    ada, bob = visit(), visit("192.0.2.2")
    await ada.sign_up("ada@example.org")
    await bob.sign_up("bob@example.org")
    ids = find_ids(services)
    now = time.time()
    add_rows(services, make_stored_row(now, user=ids["ada"]), make_stored_row(now, user=ids["bob"]))
    figure = r'Requests</span>\s*<span class="figure">(\d+)<'
    assert (await ada.get("/console/")).find(figure) == "2"
    page = await bob.get("/console/")
    assert page.find(figure) == "1"
    assert "Your requests of today" in page.text


async def test_budgets_and_ends_of_keys_need_attention(visit: Visit, services: Services) -> None:
    ada, bob = visit(), visit("192.0.2.2")
    await ada.sign_up("ada@example.org")
    await bob.sign_up("bob@example.org")
    ids, store, now = find_ids(services), KeyStore(services.database), time.time()
    _, full = store.create("nearly full", user=ids["bob"], budget={"usd_per_month": 10})
    _, ending = store.create("ends soon", user=ids["bob"], expires=now + DAY)
    with services.database.write() as connection:
        of_a_month = update(keys).where(keys.c.id == ending.id).values(created=now - 29 * DAY)
        connection.execute(of_a_month)
    store.create("made for a day", user=ids["bob"], expires=now + DAY)
    store.create("ends later", user=ids["bob"], expires=now + 30 * DAY)
    team = services.accounts.teams.create(services.accounts.organisations.create("Ltd", COMMAND).id, "physics", COMMAND)
    services.accounts.teams.update(team.id, COMMAND, budget={"usd_per_day": 100})
    add_rows(services, make_stored_row(now, key=full.usage_id, user=ids["bob"], team=team.id, cost=9_000_000_000))
    for visitor in (ada, bob):
        text = (await visitor.get("/console/")).text
        assert "The budget of the key 'nearly full' is used to 90 %" in text
        assert "9.00 USD of 10.00 USD (usd_per_month) are used. It begins again on" in text
        assert "The API key 'ends soon' expires within 1 day" in text
        assert "'ends later'" not in text
        assert "'made for a day'" not in text
        assert "'physics'" not in text
    page = await bob.get(f"/console/keys/{full.id}")
    assert "$9.00 / $10.00" in page.text
    assert re.search(r'<meter [^>]*value="0.9"', page.html)
    page = await ada.get(f"/console/teams/{team.id}")
    assert "$9.00 / $100.00" in page.text
    services.accounts.limit_overrides.create("team", team.id, "usd_per_day", COMMAND, value=10, until=now + 600)
    await services.gate.keys.check()
    page = await ada.get("/console/limits")
    assert "physics" in page.find(r'<div class="bars">(.*?)</div>')


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_home_has_the_words_of_alerts(
    visit: Visit, services: Services, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    """In English the same words as in a message; in Chinese others."""
    ada = visit()
    await ada.sign_up("ada@example.org")
    await ada.get(f"/console/language?to={language}")
    reported = list(list_all_alerts())
    monkeypatch.setattr(present, "find_process_alerts", lambda gate, faults: reported)
    text = (await ada.get("/console/")).text
    for alert in reported:
        is_english = alert.title in text and alert.message in text
        assert is_english == (language == "en"), alert.title


def list_all_alerts() -> Sequence[Alert]:
    """An alert of each kind, except a rejected configuration, which every page shows."""
    bounds = [
        bound for kind in ("key", "user", "team") for bound in list_bounds(kind, "x", None, Budget(usd_per_day=1))
    ]
    shares = [Share(bound=bound, used=used) for bound in bounds for used in (900_000_000, 10**9)]
    now = time.time()
    stored = [SimpleNamespace(id="k", name="n", created=0, expires=now + days * DAY) for days in (0.5, 6)]
    return [*describe_budgets(shares, find_period(now)), *describe_expiries(stored, now)]


async def test_used_budgets_lead_to_where_they_are_changed(visit: Visit, services: Services) -> None:
    """An administrator to the team and the user; a member, who can change neither, to the usage; one of conf as well."""
    ada, bob = visit(), visit("192.0.2.2")
    await ada.sign_up("ada@example.org")
    await bob.sign_up("bob@example.org")
    ids, teams = find_ids(services), services.accounts.teams
    team = teams.create(services.accounts.organisations.create("Ltd", COMMAND).id, "physics", COMMAND)
    services.accounts.members.set_role(team.id, ids["bob"], "member", COMMAND)
    teams.update(team.id, COMMAND, budget={"usd_per_day": 1})
    services.accounts.users.set_bounds(ids["bob"], COMMAND, budget={"usd_per_day": 1})
    add_rows(services, make_stored_row(time.time(), user=ids["bob"], team=team.id, cost=2_000_000_000))
    assert await read_links(ada, "is used up") == {f"/console/users/{ids['bob']}", f"/console/teams/{team.id}"}
    assert await read_links(bob, "is used up") == {"/console/usage"}
    services.accounts.members.set_role(team.id, ids["bob"], "administrator", COMMAND)
    assert await read_links(bob, "is used up") == {"/console/usage", f"/console/teams/{team.id}"}


async def read_links(visitor: Any, text: str) -> set[str]:
    """The addresses of the items of Home with this text."""
    page = await visitor.get("/console/")
    return {link for link, words in re.findall(r'<a href="([^"]+)">([^<]+)</a><br>', page.html) if text in words}


async def test_the_spool_is_measured(services: Services) -> None:
    folder = services.gate.snapshot.config.server.data_dir
    assert measure_spool(folder) == 0
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    (folder / FOLDER / "1-a-1.rows").write_bytes(b"x" * 100)
    assert measure_spool(folder) == 100


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("upstream_timeout", "circuit", "The circuit of 'm' at the provider 'vendor' is open"),
        ("upstream_authentication", "provider_key", "The key of the provider 'vendor' is refused"),
    ],
)
async def test_home_shows_the_faults_of_targets_that_alerts_report(
    visit: Visit, services: Services, code: str, kind: str, text: str
) -> None:
    ada, health = visit(), services.gate.health
    await ada.sign_up("ada@example.org")
    circuit = health.circuits.find_or_create(
        Target(provider="vendor", plugin="local", model="m", upstream_model="the-model"), "acc"
    )
    assert circuit is not None
    for _ in range(5):
        circuit.record_failure("acc", health.circuits.clock(), services.gate.snapshot.config.circuits, code)

    for path in ("/console/", "/console/alerts"):
        page = await ada.get(path)
        assert text in page.text, path
        assert 'href="/console/providers#provider-vendor"' in page.html, path
    assert [alert.kind for alert in (*find_open_circuits(health), *find_refused_keys(health))] == [kind]
