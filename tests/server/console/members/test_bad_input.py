"""Hostile texts in every field, forms from other sites, and requests that no form sends."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.server.console.members.site import PASSWORD, Page, Visit, Visitor
from tests.server.console.members.test_usage import add_rows, make_row
from tests.support.xss import CORPUS, find_markup, read_texts
from tests.tasks.test_store_contract import a_task
from tornado_gate.accounts.people import Actor
from tornado_gate.server.console.routes import list_pages
from tornado_gate.server.services import Services

pytestmark = pytest.mark.gen_test(timeout=60)

COMMAND = Actor(id="command", name="command", role="administrator")
MEMBER_PAGES = ("/console/", "/console/keys", "/console/usage", "/console/account", "/console/tasks?owner=all")


def check_page(page: Page, sent: str) -> None:
    """The page runs nothing, sets no header of the text's choice, and has computed no expression."""
    assert page.status in (200, 303, 302, 400, 401, 404, 409, 413, 429), (page.status, sent)
    assert find_markup(page.html) == [], sent
    assert "xss7" not in page.headers.get("Set-Cookie", "")
    assert "41897569" not in page.html, sent


def fits(text: str) -> bool:
    return len(text) <= 100 and text.isprintable() and bool(text.strip())


@pytest.mark.qa
async def test_hostile_texts_are_stored_and_shown_as_texts(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    shown = []
    for text in CORPUS:
        page = await ada.post("/console/keys", {"name": text, "tags": text if fits(text) and " " not in text else ""})
        check_page(page, text)
        if page.status == 200:
            shown.append(text.replace("\x00", " ").strip())
        check_page(await ada.post("/console/account/name", {"name": text}), text)
        check_page(await ada.get("/console/account"), text)
    assert len(shown) > 35
    assert {text for text in map(str.strip, CORPUS) if fits(text)} <= set(shown)
    pages = [await ada.get(f"/console/keys?page={number}") for number in (1, 2)]
    texts = "\n".join(read_texts(page.html) for page in pages)
    for text in shown:
        assert (text if len(text) <= 60 else text[:59]) in texts, text
    for page in pages:
        check_page(page, "")
    for identity in re.findall(r'scope="row" id="name-(key_\w+)"', pages[0].html)[:50]:
        for path in ("", "/revoke", "/rotate"):
            check_page(await ada.get(f"/console/keys/{identity}{path}"), "")


async def test_hostile_names_of_models_teams_users_and_browsers(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    user = services.accounts.users.list_page()[0][0].id
    texts = [text for text in CORPUS if "\x00" not in text and "\n" not in text]
    add_rows(
        services,
        *(make_row(n, user=user, model=text[:200], key=text[:90], provider=text[:90]) for n, text in enumerate(texts)),
    )
    for group in ("model", "key", "provider", "team", "user", "status"):
        page = await ada.get(f"/console/usage?group={group}")
        check_page(page, "")
        assert page.status == 200
    organisation = services.accounts.organisations.create("<b>'\"{{1337*31337}}", COMMAND)
    team = services.accounts.teams.create(organisation.id, "<img src=x onerror=xss7()>", COMMAND)
    services.accounts.members.set_role(team.id, user, "administrator", COMMAND)
    store = services.tasks.engine.store
    for text in texts[:12]:
        await store.create(a_task(account=text[:90], model=text[:90], error_message=text[:500]), None)
    for path in MEMBER_PAGES:
        page = await ada.get(path)
        check_page(page, "")
        assert page.status == 200, path
    for agent in ("<script>xss7()</script>", "'\"><svg onload=xss7()>", "A" * 3000):
        other = visit("192.0.2.8")
        await other.post("/console/login", {"email": "ada@example.org", "password": PASSWORD}, {"User-Agent": agent})
    page = await ada.get("/console/account")
    check_page(page, "")
    assert "A" * 61 not in page.text


QUERIES = (
    *(
        "keys?search=",
        "keys?page=",
        "keys?state=",
        "keys?owner=",
        "usage?model=",
        "usage?from=",
        "tasks?owner=",
        "tasks?after=",
    ),
    *("?sdk=", "?model="),
)


@pytest.mark.qa
async def test_hostile_texts_in_addresses_and_in_forms_of_strangers(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    stranger = visit("192.0.2.2")
    for number, text in enumerate(CORPUS):
        short = quote(text[:1500].encode("utf-8", "replace"))
        for index, path in enumerate(QUERIES):
            if number % 5 == index % 5 or number < 3:
                check_page(await ada.get(f"/console/{path}{short}"), text)
        stranger.address = f"192.0.2.{number + 10}"
        check_page(await stranger.sign_in(text), text)
        for index, path in enumerate(("login?next=", "signup?token=", "signup?invitation=", "reset?token=")):
            if number % 4 == index:
                check_page(await stranger.get(f"/console/{path}{short}"), text)
        check_page(await stranger.post("/console/reset", {"token": text, "password": text}), text)
    assert len(services.accounts.users.list_page()[0]) == 1


FOREIGN: dict[str, dict[str, Any]] = {
    "no token": {"token": False},
    "another's token": {"token": "2|00000000|00000000000000000000000000000000|1700000000"},
    "another origin": {"headers": {"Origin": "https://evil.example"}},
    "no origin": {"headers": {"Origin": "null"}},
    "cross-site": {"headers": {"Sec-Fetch-Site": "cross-site"}},
    "a sibling": {"headers": {"Sec-Fetch-Site": "same-site"}},
}


async def forge(visitor: Visitor, path: str, fields: dict[str, str], how: dict[str, Any]) -> Page:
    token = how.get("token", visitor.cookies["gate_xsrf"])
    data = {**fields, **({"_xsrf": token} if token else {})}
    return await visitor.send("POST", path, urlencode(data), how.get("headers"))


async def test_forms_of_other_sites_change_nothing(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    key = await ada.create_key("hers")
    identity = (await ada.get("/console/keys")).find(r'href="/console/keys/(key_[0-9a-f]+)"')
    forms = {
        "/console/keys": {"name": "theirs"},
        f"/console/keys/{identity}": {"name": "theirs"},
        f"/console/keys/{identity}/revoke": {"confirmed": "yes"},
        f"/console/keys/{identity}/rotate": {"overlap": "0"},
        "/console/account/name": {"name": "theirs"},
        "/console/account/password": {"old": PASSWORD, "new": "their password"},
        "/console/account/sessions": {},
        "/console/login": {"email": "ada@example.org", "password": PASSWORD},
        "/console/signup": {"email": "eve@example.org", "password": PASSWORD},
        "/console/logout": {},
    }
    for why, how in FOREIGN.items():
        for path, fields in forms.items():
            assert (await forge(ada, path, fields, how)).status == 403, (why, path)
    page = await ada.get("/console/keys")
    assert "hers" in page.text
    assert "theirs" not in page.text
    assert (await services.gate.callers.authenticate(key)).name == "hers"


async def test_every_page_needs_a_session_unless_it_says_otherwise(visit: Visit) -> None:
    await visit().sign_up("ada@example.org")
    stranger = visit("192.0.2.2")
    public = {"/console/language", "/console/login", "/console/logout", "/console/reset", "/console/signup"}
    for pattern, page_class in list_pages():
        path = re.sub(r"\((?:[^()]|\([^()]*\))*\)", "x1", pattern).replace("\\", "")
        if page_class.access == "public":
            assert pattern in public or "oidc" in pattern, pattern
            continue
        page = await stranger.get(path)
        assert page.status == 302, (pattern, path)
        assert page.headers["Location"].startswith("/console/login?next="), pattern
        assert (await stranger.post(path)).status in (302, 303, 405), pattern


async def test_requests_that_no_form_sends(visit: Visit) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    for method, path, allowed in (("PUT", "/console/keys", "GET, POST"), ("OPTIONS", "/console/", "GET")):
        page = await ada.send(method, path, "x=1" if method == "PUT" else None)
        assert (page.status, page.headers["Allow"]) == (405, allowed)
    assert (await ada.send("GET", "/console/keys?search=%ff%fe")).status == 400
    token = ada.cookies["gate_xsrf"]
    assert (await ada.send("POST", "/console/keys", f"_xsrf={quote(token)}&name=%ff")).status == 400
    page = await ada.send("POST", "/console/keys", "a=" + "x" * 100_000)
    assert page.status == 413
    ada.cookies["gate_flash"] = "not base64 at all"
    assert (await ada.get("/console/")).status == 200
    ada.cookies["gate_session"] = "'; DROP TABLE sessions; --"
    assert (await ada.get("/console/")).status == 302
    page = await visit().send("GET", "/console/login", headers={"Cookie": "gate_session=" + "x" * 5000})
    assert page.status == 200
