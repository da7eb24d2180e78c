"""Signing up, in and out, by forms."""

from __future__ import annotations

import re

import pytest

from tests.server.console.members.site import PASSWORD, Page, Visit
from tornado_gate.accounts.audit import list_events
from tornado_gate.accounts.people import Actor
from tornado_gate.config.model import ConsoleConfig
from tornado_gate.server.services import Services

pytestmark = pytest.mark.gen_test(timeout=60)

COMMAND = Actor(id="command", name="command", role="administrator")


async def test_the_first_account_needs_the_token_that_the_server_printed(visit: Visit, services: Services) -> None:
    stranger = visit()
    page = await stranger.get("/console/login")
    assert (page.status, page.headers["Location"]) == (302, "/console/signup")
    page = await stranger.get("/console/signup")
    assert "The server printed it when it started" in page.text
    services.accounts.setup.make_token()
    page = await stranger.post("/console/signup", {"email": "a@x.org", "password": PASSWORD, "setup_token": "guessed"})
    assert page.status == 400
    assert "gate_session" not in stranger.cookies
    assert not services.accounts.users.has_any()


async def test_a_link_fills_the_set_up_token_in(visit: Visit, services: Services) -> None:
    page = await visit().get("/console/signup?token=abc%22%3E%3Cb%3E")
    assert 'value="abc&quot;&gt;&lt;b&gt;"' in page.html


async def test_sign_up_sign_out_and_sign_in(visit: Visit) -> None:
    ada = visit()
    page = await ada.sign_up("Ada@Example.org")
    assert page.headers["Location"] == "/console/"
    home = await ada.get("/console/")
    assert home.status == 200
    assert "Administration" in home.text  # the first account
    old = ada.cookies["gate_session"]
    page = await ada.post("/console/logout")
    assert (page.status, page.headers["Location"]) == (303, "/console/login")
    assert "gate_session" not in ada.cookies
    ada.cookies["gate_session"] = old
    assert (await ada.get("/console/keys")).headers["Location"] == "/console/login?next=/console/keys"
    assert (await ada.sign_in("ada@example.ORG")).status == 303
    assert (await ada.get("/console/keys")).status == 200


async def test_cookies_are_of_the_console_only_and_not_for_scripts(visit: Visit) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    for line in ada.set_cookies:
        assert re.search(r"(?i)httponly", line)
        assert re.search(r"(?i)path=/console(;|$)", line)
        assert re.search(r"(?i)samesite=lax", line)
    page = await ada.send("GET", "/console/", headers={"X-Forwarded-Proto": "https"})
    assert page.headers["Cache-Control"] == "private, no-store"


async def test_signing_in_gives_a_new_session_and_ends_the_old_one(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    planted = ada.cookies["gate_session"]
    assert (await ada.sign_in("ada@example.org")).status == 303
    assert ada.cookies["gate_session"] != planted
    assert services.accounts.sessions.find_session(planted) is None
    victim = visit()
    victim.cookies["gate_session"] = "known-to-the-attacker"
    await victim.sign_in("ada@example.org")
    assert victim.cookies["gate_session"] != "known-to-the-attacker"


def shape(page: Page) -> str:
    """A page without what differs between any two answers."""
    return re.sub(r"2\|[0-9a-f|]+|value=\"[^\"]*@[^\"]*\"", "", page.html)


async def test_an_unknown_email_and_a_wrong_password_have_the_same_answer(visit: Visit) -> None:
    await visit().sign_up("ada@example.org")
    answers = [
        await visit(f"192.0.2.{n}").sign_in(who, "wrong password")
        for n, who in enumerate(("ada@example.org", "b@x.org"))
    ]
    assert [page.status for page in answers] == [401, 401]
    assert not any("www-authenticate" in page.headers for page in answers)  # the browser would ask for a key
    assert shape(answers[0]) == shape(answers[1])
    assert "wrong password" not in answers[0].html
    assert 'value="ada@example.org"' in answers[0].html


async def test_sign_up_does_not_tell_whether_an_email_has_an_account(visit: Visit) -> None:
    await visit().sign_up("ada@example.org")
    page = await visit("192.0.2.9").post("/console/signup", {"email": "ada@example.org", "password": PASSWORD})
    assert page.status == 400
    assert "There is already" not in page.text


async def test_guessing_is_stopped_and_the_owner_still_signs_in(visit: Visit) -> None:
    await visit("192.0.2.1").sign_up("ada@example.org")
    attacker = visit("203.0.113.5")
    pages = [await attacker.sign_in("ada@example.org", f"guess number {number}") for number in range(8)]
    assert pages[0].status == 401
    assert pages[-1].status == 429
    assert int(pages[-1].headers["Retry-After"]) > 0
    assert re.search(r"Wait \d+ (second|minute)", pages[-1].text)
    assert (await attacker.sign_in("ada@example.org")).status == 429
    assert (await visit("192.0.2.77").sign_in("ada@example.org")).status == 303


async def test_visitors_whom_the_proxy_does_not_name_are_one_network_and_unknown(
    visit: Visit, services: Services
) -> None:
    """A text that cannot be read gives nobody a count of its own, nor the address of the proxy."""
    await visit("192.0.2.1").sign_up("ada@example.org")
    hidden = [visit(text) for text in ("unknown", "_hidden", "nonsense", "1.2.3", "_a", "_b", "_c", "_d")]
    pages = [await visitor.sign_in("ada@example.org", "a guess") for visitor in hidden]
    assert [page.status for page in pages][:5] == [401] * 5
    assert pages[-1].status == 429
    assert (await visit("127.0.0.1").sign_in("ada@example.org")).status == 303, (
        "the proxy's own address has its own count"
    )
    await visit("_hidden").sign_up("ben@example.org")
    events = await services.database.run(list_events, services.database)
    assert {event.address for event in events if event.actor_name == "ben@example.org"} == {"unknown"}
    assert {event.address for event in events if event.action == "user.sign_in_failed"} == {"unknown"}


NEXT = {
    "/console/usage?range=30d": "/console/usage?range=30d",
    "//evil.example/console/": "/console/",
    "https://evil.example/console/": "/console/",
    "/\\evil.example": "/console/",
    "/console/\\evil": "/console/",
    "/console/\r\nSet-Cookie: a=b": "/console/",
    "/healthz": "/console/",
    "javascript:alert(1)": "/console/",
    "": "/console/",
}


async def test_signing_in_leads_to_pages_of_the_console_only(visit: Visit) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    for wanted, location in NEXT.items():
        page = await ada.post("/console/login", {"email": "ada@example.org", "password": PASSWORD, "next": wanted})
        assert (page.status, page.headers["Location"]) == (303, location), wanted


async def test_a_short_password_is_explained_beside_its_field(visit: Visit, services: Services) -> None:
    token = services.accounts.setup.make_token()
    for password in ("1234567", ""):
        page = await visit().post("/console/signup", {"email": "a@x.org", "password": password, "setup_token": token})
        assert page.status == 400
        field = page.find(r'(<input id="password"[^>]*>)')
        assert 'aria-invalid="true"' in field
        assert "autofocus" in field
        described = re.search(r'aria-describedby="([^"]+)"', field)
        assert described is not None
        assert "password-error" in described[1].split()
        assert "8 characters" in page.find(r'id="password-error">([^<]+)<')
        assert 'value="a@x.org"' in page.html


async def test_passwords_have_the_autocomplete_of_managers(visit: Visit) -> None:
    page = await visit().get("/console/signup")
    assert re.search(r'name="email"[^>]* autocomplete="username"', page.html)
    assert re.search(r'name="password"[^>]* autocomplete="new-password"', page.html)
    await visit().sign_up("ada@example.org")
    assert re.search(
        r'name="password"[^>]* autocomplete="current-password"', (await visit().get("/console/login")).html
    )


async def test_a_reset_link_sets_a_password_once(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    user = services.accounts.users.list_page()[0][0]
    token = services.accounts.reset_links.create(user.id, COMMAND)
    visitor = visit("192.0.2.2")
    page = await visitor.get(f"/console/reset?token={token}")
    assert page.find(r'name="token" value="([^"]+)"') == token
    fields = {"token": token, "password": "another password"}
    page = await visitor.post("/console/reset", fields)
    assert (page.status, page.headers["Location"]) == (303, "/console/login")
    assert (await ada.get("/console/keys")).status == 302  # the sessions have ended
    assert (await visitor.post("/console/reset", fields)).status == 400
    assert (await visitor.sign_in("ada@example.org", "another password")).status == 303


class TestInvitations:
    @pytest.fixture
    def console_config(self) -> ConsoleConfig:
        return ConsoleConfig(signup="invite")

    async def test_a_stranger_is_told_to_ask_and_an_invited_person_signs_up(
        self, visit: Visit, services: Services
    ) -> None:
        await visit().sign_up("ada@example.org")
        stranger = visit("192.0.2.3")
        page = await stranger.get("/console/signup")
        assert "New accounts need an invitation" in page.text
        assert 'name="email"' not in page.html
        assert (await stranger.post("/console/signup", {"email": "b@x.org", "password": PASSWORD})).status == 400
        token, _ = services.accounts.invitations.create(COMMAND)
        page = await stranger.get(f"/console/signup?invitation={token}")
        assert "You are invited" in page.text
        fields = {"email": "b@x.org", "password": PASSWORD, "invitation": token}
        assert (await stranger.post("/console/signup", fields)).status == 303
        assert "Administration" not in (await stranger.get("/console/")).text
        page = await visit("192.0.2.4").get(f"/console/signup?invitation={token}")
        assert "cannot be used" in page.text

    async def test_an_invitation_fills_in_its_email_and_tells_another_one(
        self, visit: Visit, services: Services
    ) -> None:
        await visit().sign_up("ada@example.org")
        token, _ = services.accounts.invitations.create(COMMAND, email="Marie@example.org")
        guest = visit("192.0.2.9")
        page = await guest.get(f"/console/signup?invitation={token}")
        assert page.find(r'name="email"[^>]*value="([^"]*)"') == "marie@example.org"
        fields = {"email": "other@example.org", "password": PASSWORD, "invitation": token}
        page = await guest.post("/console/signup", fields)
        assert page.status == 400
        assert "This invitation is for another e-mail." in page.text
        page = await guest.post("/console/signup", {**fields, "email": "marie", "password": "short"})
        assert 'id="email-error"' in page.html
        assert 'id="password-error"' in page.html
        assert (await guest.post("/console/signup", {**fields, "email": "marie@example.org"})).status == 303


class TestClosed:
    @pytest.fixture
    def console_config(self) -> ConsoleConfig:
        return ConsoleConfig(signup="closed")

    async def test_a_closed_gateway_says_so(self, visit: Visit) -> None:
        await visit().sign_up("ada@example.org")
        stranger = visit("192.0.2.3")
        assert "takes no new accounts" in (await stranger.get("/console/signup")).text
        assert (await stranger.post("/console/signup", {"email": "b@x.org", "password": PASSWORD})).status == 400
