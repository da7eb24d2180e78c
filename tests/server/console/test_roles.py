"""Who may open which page of the console, and who may send its form. docs/reference/roles.md has the table.

A page without a line in the table fails, as does a line without a page.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tornado.httpclient import HTTPResponse

from tests.support.admin_console import AdminConsole, serve_console
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.routes import list_pages

ROOT = Path(__file__).parents[3]
PEOPLE = ("anonymous", "disabled", "member", "lead", "administrator")
"""`lead` administrates the team of the pages; `disabled` has the cookie of a session that has ended."""

EVERYBODY, SIGNED_IN, TEAM, GATEWAY = "everybody", "signed in", "team administrator", "administrator"
ALLOWED = {
    EVERYBODY: PEOPLE,
    SIGNED_IN: ("member", "lead", "administrator"),
    TEAM: ("lead", "administrator"),
    GATEWAY: ("administrator",),
    "-": (),
}

OPENED = {"/console/oidc/callback": (400,), "/console/configuration/undo/ID": (405,)}
"""Statuses of pages that are open to somebody but need what no test of access sends: the state of a sign-in, a form."""

TABLE = (ROOT / "docs/reference/roles.md").read_text(encoding="utf-8")
PAGES: dict[str, tuple[str, str]] = {
    path: (read, change)
    for path, read, change in re.findall(r"^\| `(/console\S*)` \| ([\w -]+?) \| ([\w -]+?) \|", TABLE, re.MULTILINE)
}
"""By path with ID for its arguments: who may open it, who may send its form."""


def describe(pattern: str) -> str:
    return re.sub(r"\([^)]*\)", "ID", pattern).replace("\\", "")


HANDLERS: dict[str, type[ConsoleHandler]] = {describe(pattern): handler for pattern, handler in list_pages()}


def is_sign_in(response: HTTPResponse) -> bool:
    return response.code == 302 and response.headers["Location"].startswith("/console/login?next=")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("console")) as served:
        yield served


@pytest.fixture(scope="module")
def addresses(console: AdminConsole) -> dict[str, str]:
    """By path of the table: an address that exists, where WHO is to be the id of a key or session of the visitor."""
    _, invitation = console.services.accounts.invitations.create(console.actor)
    console.add_request("req-1")
    member, team = console.users["member"].id, console.team.id
    ends = time.time() + 3600
    override = console.services.accounts.limit_overrides.create(
        "gateway", "", "requests_per_minute", console.actor, value=10, until=ends
    )
    arguments = {
        "/console/keys/": ["KEY"],
        "/console/account/sessions/": ["SESSION"],
        "/console/plugins/": ["local"],
        "/console/providers/entry/": ["local"],
        "/console/models/entry/": ["local-chat"],
        "/console/configuration/undo/": ["0" * 64],
        "/console/users/invitations/": [invitation.id],
        "/console/users/": [member],
        "/console/teams/organisations/": [console.organisation.id],
        "/console/teams/": [team, member],
        "/console/requests/": ["req-1"],
        "/console/limits/": [override.id],
    }
    found = {}
    for path in HANDLERS:
        given = next((values for start, values in arguments.items() if path.startswith(start)), [])
        found[path] = path
        for value in given:
            found[path] = found[path].replace("ID", value, 1)
        assert "ID" not in found[path], f"no argument is known for {path}"
    return found


@pytest.fixture(scope="module")
def keys(console: AdminConsole) -> dict[str, str]:
    """A key of each user."""
    store = KeyStore(console.services.database)
    return {name: store.create("k", account=user.id, user=user.id)[1].id for name, user in console.users.items()}


def test_every_page_stands_in_the_table_and_the_table_has_no_other() -> None:
    assert sorted(PAGES) == sorted(HANDLERS)
    assert all(read in ALLOWED and change in ALLOWED for read, change in PAGES.values())


@pytest.mark.parametrize("path", sorted(HANDLERS))
def test_only_those_in_the_table_open_a_page(
    path: str, console: AdminConsole, addresses: dict[str, str], keys: dict[str, str]
) -> None:
    read = PAGES[path][0]
    for who in PEOPLE:
        response = console.send("GET", addresses[path].replace("KEY", keys.get(who, "key_none")), who)
        is_login = is_sign_in(response)
        if who in ALLOWED[read]:
            assert response.code in OPENED.get(path, (200, 302, 303)), (who, response.code)
            assert not is_login, who
        elif read == "-":
            assert is_login or response.code == 405, (who, response.code)
        elif who in ("anonymous", "disabled"):
            assert is_login, (who, response.code)
        else:
            assert response.code in (403, 404), (who, response.code)


@pytest.mark.parametrize("path", sorted(HANDLERS))
def test_only_those_in_the_table_send_a_form(
    path: str, console: AdminConsole, addresses: dict[str, str], keys: dict[str, str]
) -> None:
    has_form = HANDLERS[path].post is not ConsoleHandler.post
    assert has_form == (PAGES[path][1] != "-")
    allowed = ALLOWED[PAGES[path][1]]
    for who in PEOPLE:
        if who in allowed:
            continue
        response = console.send("POST", addresses[path].replace("KEY", keys.get(who, "key_none")), who, {})
        assert is_sign_in(response) or response.code in (403, 404, 405), (who, response.code, response.headers)


@pytest.mark.parametrize("path", sorted(path for path in HANDLERS if PAGES.get(path, ("", "-"))[1] != "-"))
def test_a_form_without_its_token_or_from_another_site_is_refused(
    path: str, console: AdminConsole, addresses: dict[str, str]
) -> None:
    address = addresses[path]
    assert console.send("POST", address, form={"_xsrf": "ff" * 16}).code == 403
    assert console.send("POST", address, form={}, Origin="https://elsewhere.example").code == 403
    assert console.send("POST", address, form={}, Sec_Fetch_Site="cross-site").code == 403


def test_an_administrator_of_a_team_sees_no_other_team(console: AdminConsole) -> None:
    page = console.get("/console/teams", "lead")
    assert "Physics" in page
    assert "Biology" not in page
    other = f"/console/teams/{console.other_team.id}"
    assert console.send("GET", other, "lead").code == 404
    assert console.post(f"{other}/members", "lead", email="lead@example.org", role="administrator").code == 404
    assert console.services.accounts.members.list_of_team(console.other_team.id) == []
