"""The page of API keys, its form, and what is done with one key."""

from __future__ import annotations

import asyncio
import time

import pytest
from sqlalchemy import insert

from tests.server.console.members.site import Visit, Visitor
from tests.support.served import CHAT, Ask
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import Actor
from tornado_gate.database import tables
from tornado_gate.server.services import Services

pytestmark = pytest.mark.gen_test(timeout=60)

COMMAND = Actor(id="command", name="command", role="administrator")


async def use(ask: Ask, key: str) -> int:
    status: int = (await ask("/plain", CHAT, headers={"Authorization": f"Bearer {key}"})).code
    return status


async def find_id(visitor: Visitor, name: str) -> str:
    return (await visitor.get(f"/console/keys?search={name}")).find(r'href="/console/keys/(key_[0-9a-f]+)"')


async def test_a_key_is_made_shown_once_used_and_revoked(visit: Visit, ask: Ask, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    assert "No key of yours yet" in (await ada.get("/console/keys")).text
    page = await ada.post("/console/keys", {"name": "my laptop"})
    assert page.headers["Cache-Control"] == "private, no-store"
    key = page.find(r'id="new-key">([^<]+)<')
    assert await use(ask, key) == 200
    page = await ada.get("/console/keys")
    assert key not in page.html
    assert key[:10] in page.text
    assert "my laptop" in page.text
    assert not any(key in value for value in ada.cookies.values())
    identity = await find_id(ada, "laptop")
    asked = await ada.post(f"/console/keys/{identity}/revoke")
    assert "This cannot be undone" in asked.text
    assert await use(ask, key) == 200
    page = await ada.post(f"/console/keys/{identity}/revoke", {"confirmed": "yes"})
    assert page.status == 303
    assert await use(ask, key) == 401
    page = await ada.get("/console/keys")
    assert "is revoked" in page.text
    assert "is revoked" not in (await ada.get("/console/keys")).text  # the message is shown once
    events = await services.database.run(KeyStore(services.database).get, identity)
    assert events.revoked is not None


async def test_an_administrator_without_keys_sees_that_the_printed_key_works(visit: Visit, services: Services) -> None:
    KeyStore(services.database).create("first")
    ada = visit()
    await ada.sign_up("ada@example.org")
    page = await ada.get("/console/keys")
    assert "No key of yours yet." in page.text
    assert "1 key of others or made by a command, such as the one printed at the first start, works" in page.text
    assert "first" in (await ada.get("/console/keys?owner=all")).text


async def test_every_fault_of_a_form_is_named(visit: Visit) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    page = await ada.post("/console/keys", {"name": " ", **{name: WRONG[name] for name in ("expires", "addresses")}})
    assert page.status == 400
    for field in ("name", "expires", "addresses"):
        assert f'id="{field}-error"' in page.html, field


async def test_all_fields_of_the_form_reach_the_key_and_come_back(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    fields = {
        "name": "ci", "expires": "30d", "models": "gpt-*\nm", "operations": ["chat", "images"],
        "addresses": "10.0.0.0/8, 192.0.2.7", "requests_per_minute": "60", "tokens_per_minute": "100,000",
        "concurrent_requests": "4", "usd_per_day": "2.50", "usd_per_month": "$40", "tokens_per_day": "1 000 000",
        "tokens_per_month": "", "tags": "nightly, ci", "role": "administrator",
    }  # fmt: skip
    await ada.create_key(**fields)
    key = KeyStore(services.database).get(await find_id(ada, "ci"))
    assert (key.models, key.operations, key.tags) == (("gpt-*", "m"), ("chat", "images"), ("nightly", "ci"))
    assert key.addresses == ("10.0.0.0/8", "192.0.2.7")
    assert key.limits == {"requests_per_minute": 60, "tokens_per_minute": 100_000, "concurrent_requests": 4}
    assert key.budget == {"usd_per_day": 2.5, "usd_per_month": 40.0, "tokens_per_day": 1_000_000}
    assert key.role == "administrator"
    assert key.expires is not None
    assert 29.9 < (key.expires - time.time()) / 86400 <= 30
    assert key.user == key.account == services.accounts.users.list_page()[0][0].id
    page = await ada.get(f"/console/keys/{key.id}")
    assert page.find(r'name="usd_per_day"[^>]*value="([^"]*)"') == "2.5"
    shown = page.find(r'name="expires"[^>]*value="([^"]*)"')
    changed = {**fields, "name": "ci 2", "expires": shown, "models": "", "tokens_per_month": "7"}
    assert (await ada.post(f"/console/keys/{key.id}", changed)).status == 303
    new = KeyStore(services.database).get(key.id)
    assert (new.name, new.models, new.budget["tokens_per_month"], new.expires) == ("ci 2", (), 7, key.expires)


WRONG = {
    "name": "   ", "expires": "yesterday", "models": "x" * 300, "operations": "Fly!", "addresses": "10.0.0.0/99",
    "requests_per_minute": "many", "concurrent_requests": "0", "usd_per_day": "-1", "usd_per_month": "nan",
    "tokens_per_day": "1.5",
}  # fmt: skip


async def test_a_fault_is_shown_beside_its_field_and_makes_no_key(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    for field, value in WRONG.items():
        page = await ada.post("/console/keys", {"name": "good name", field: value})
        assert page.status == 400, field
        assert f'id="{field}-error"' in page.html, field
        if field != "name":
            assert 'value="good name"' in page.html
            assert "<details open>" in page.html
    assert KeyStore(services.database).list() == ()


async def test_reloading_the_answer_makes_no_second_key(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    shown = (await ada.get("/console/keys")).find(r'name="shown" value="([^"]+)"')
    assert (await ada.post("/console/keys", {"name": "one", "shown": shown})).status == 200
    page = await ada.post("/console/keys", {"name": "one", "shown": shown})
    assert page.status == 400
    assert "has already created the key" in page.text
    assert len(KeyStore(services.database).list()) == 1
    again = page.find(r'name="shown" value="([^"]+)"')
    assert (await ada.post("/console/keys", {"name": "one", "shown": again})).status == 200


async def test_rotation_leaves_the_old_key_for_the_chosen_time(visit: Visit, ask: Ask) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    old = await ada.create_key("app")
    identity = await find_id(ada, "app")
    assert (await ada.get(f"/console/keys/{identity}/rotate")).status == 200
    assert (await ada.post(f"/console/keys/{identity}/rotate", {"overlap": "5"})).status == 400
    page = await ada.post(f"/console/keys/{identity}/rotate", {"overlap": "3600"})
    new = page.find(r'id="new-key">([^<]+)<')
    assert "is valid until" in page.text
    assert [await use(ask, key) for key in (old, new)] == [200, 200]
    assert (await ada.post(f"/console/keys/{identity}/rotate", {"overlap": "0"})).status == 409
    page = await ada.get(f"/console/keys/{identity}")
    successor = page.find(r'Replaced by</dt><dd><a href="/console/keys/(key_\w+)"')
    page = await ada.post(f"/console/keys/{successor}/rotate", {"overlap": "0"})
    assert "The old key is revoked" in page.text
    assert [await use(ask, key) for key in (old, new)] == [200, 401]


async def test_a_member_neither_sees_nor_changes_keys_of_others(visit: Visit, ask: Ask, services: Services) -> None:
    ada, bob = visit(), visit("192.0.2.2")
    await ada.sign_up("ada@example.org")
    key = await ada.create_key("hers")
    identity = await find_id(ada, "hers")
    await bob.sign_up("bob@example.org")
    page = await bob.get("/console/keys?owner=all")
    assert "hers" not in page.text
    for method, rest in (("GET", ""), ("POST", ""), ("GET", "/revoke"), ("POST", "/revoke"), ("POST", "/rotate")):
        path = f"/console/keys/{identity}{rest}"
        page = await (
            bob.get(path) if method == "GET" else bob.post(path, {"name": "mine", "confirmed": "yes", "overlap": "0"})
        )
        assert page.status == 404, path
        assert page.text == (await bob.get("/console/keys/key_000000000000")).text
    assert await use(ask, key) == 200
    page = await bob.post("/console/keys", {"name": "up", "role": "administrator"})
    assert page.status == 400
    assert "Only an administrator" in page.text
    await bob.create_key("his")
    assert "his" in (await ada.get("/console/keys?owner=all")).text
    assert "his" not in (await ada.get("/console/keys")).text


async def test_an_administrator_of_a_team_manages_its_keys(visit: Visit, services: Services) -> None:
    ada, bob, eve = visit(), visit("192.0.2.2"), visit("192.0.2.3")
    for visitor, email in ((ada, "ada@example.org"), (bob, "bob@example.org"), (eve, "eve@example.org")):
        await visitor.sign_up(email)
    users = {user.email: user.id for user in services.accounts.users.list_page()[0]}
    organisation = services.accounts.organisations.create("Works", COMMAND)
    team = services.accounts.teams.create(organisation.id, "Blue", COMMAND)
    services.accounts.members.set_role(team.id, users["bob@example.org"], "administrator", COMMAND)
    services.accounts.members.set_role(team.id, users["eve@example.org"], "member", COMMAND)
    await eve.create_key("of the team", team=team.id)
    await eve.create_key("private")
    page = await bob.get(f"/console/keys?owner={team.id}")
    assert "of the team" in page.text
    assert "private" not in page.text
    assert "eve@example.org" in page.text
    identity = page.find(r'href="/console/keys/(key_[0-9a-f]+)"')
    assert (await bob.post(f"/console/keys/{identity}/revoke", {"confirmed": "yes"})).status == 303
    assert (await bob.post("/console/keys", {"name": "x", "team": "team_other"})).status == 400


@pytest.mark.qa
async def test_ten_thousand_keys_are_paged_and_searched_quickly(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    await ada.create_key("the first")
    store = KeyStore(services.database)
    template = store.list()[0]
    row = {column.name: getattr(template, column.name) for column in tables.keys.columns}
    rows = [
        {
            **row,
            "id": f"key_{n:012x}",
            "name": f"key {n}",
            "digest": n.to_bytes(32, "big"),
            "created": 1e9 + n,
            "revoked": None if n % 2 else 1e9,
        }
        for n in range(10_000)
    ]
    with services.database.write() as connection:
        connection.execute(insert(tables.keys), rows)
    page = await ada.get("/console/keys?page=3")
    assert "101 to 150 of 10,001" in page.text
    assert page.find(r'href="([^"]+)" rel="next"') == "/console/keys?page=4"
    assert "key 9900" in page.text
    page = await ada.get("/console/keys?search=key+77&state=revoked")
    assert page.text.count("revoked") > 50
    assert "key 7700" in page.text
    assert "key 7701" not in page.text
    assert (await ada.get("/console/keys?page=999999999999&state=odd")).status == 200
    assert "No key matches" in (await ada.get("/console/keys?search=nothing-has-this")).text


async def test_a_revocation_is_in_force_elsewhere(visit: Visit, ask: Ask, services: Services) -> None:
    """The page tells its own process at once; here another process changes the database."""
    ada = visit()
    await ada.sign_up("ada@example.org")
    key = await ada.create_key("app")
    identity = await find_id(ada, "app")
    assert await use(ask, key) == 200
    changed = asyncio.Event()
    services.gate.keys.on_change.append(changed.set)
    await services.database.run(KeyStore(services.database).revoke, identity)
    await changed.wait()
    assert await use(ask, key) == 401
