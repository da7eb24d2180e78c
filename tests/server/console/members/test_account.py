"""The account page: name, password, sessions, teams."""

from __future__ import annotations

import re

import pytest

from tests.server.console.members.site import PASSWORD, Visit
from tornado_gate.accounts.people import Actor
from tornado_gate.server.services import Services

pytestmark = pytest.mark.gen_test(timeout=60)

COMMAND = Actor(id="command", name="command", role="administrator")


async def test_the_name_is_changed(visit: Visit) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    assert (await ada.post("/console/account/name", {"name": "Ada Lovelace"})).status == 303
    assert 'value="Ada Lovelace"' in (await ada.get("/console/account")).html
    page = await ada.post("/console/account/name", {"name": "x" * 300})
    assert page.status == 400
    assert 'id="name-error"' in page.html


async def test_changing_the_password_ends_the_other_sessions(visit: Visit) -> None:
    ada, elsewhere = visit(), visit("192.0.2.2")
    await ada.sign_up("ada@example.org")
    await elsewhere.sign_in("ada@example.org")
    for old, new, field in (("wrong one", "new password", "old"), (PASSWORD, "short", "new")):
        page = await ada.post("/console/account/password", {"old": old, "new": new})
        assert page.status == 400
        assert f'id="{field}-error"' in page.html
        assert new not in page.html
    assert (await elsewhere.get("/console/account")).status == 200
    page = await ada.post("/console/account/password", {"old": PASSWORD, "new": "new password"})
    assert page.status == 303
    assert (await ada.get("/console/account")).status == 200
    assert (await elsewhere.get("/console/account")).status == 302
    assert (await elsewhere.sign_in("ada@example.org")).status == 401
    assert (await elsewhere.sign_in("ada@example.org", "new password")).status == 303


async def test_sessions_are_listed_and_ended(visit: Visit) -> None:
    ada, phone, eve = visit(), visit("192.0.2.2"), visit("192.0.2.3")
    await ada.sign_up("ada@example.org")
    await phone.sign_in("ada@example.org")
    await eve.sign_up("eve@example.org")
    page = await ada.get("/console/account")
    assert page.text.count("Firefox 140 on Linux") == 2
    assert page.text.count("this session") == 1
    assert "192.0.2.2" in page.text
    assert "192.0.2.3" not in page.text
    other = page.find(r'action="/console/account/sessions/([^"]+)"')
    assert (await eve.post(f"/console/account/sessions/{other}")).status == 303
    assert (await phone.get("/console/account")).status == 200  # a stranger ends nobody's session
    await ada.post(f"/console/account/sessions/{other}")
    assert (await phone.get("/console/account")).status == 302
    await phone.sign_in("ada@example.org")
    await ada.post("/console/account/sessions")
    assert (await phone.get("/console/account")).status == 302
    assert "All other sessions have ended" in (await ada.get("/console/account")).text


async def test_teams_and_roles_are_shown(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    assert "You are in no team" in (await ada.get("/console/account")).text
    organisation = services.accounts.organisations.create("Works", COMMAND)
    team = services.accounts.teams.create(organisation.id, "Blue", COMMAND)
    services.accounts.members.set_role(team.id, services.accounts.users.list_page()[0][0].id, "administrator", COMMAND)
    page = await ada.get("/console/account")
    assert re.search(r"Blue\s+Works\s+administrator", page.text)
