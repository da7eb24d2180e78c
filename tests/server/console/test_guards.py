"""What protects the console beside roles: tokens of forms, origins, and what is compressed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from tests.support.admin_console import TOKEN, AdminConsole, serve_console
from tornado_gate.database import tables
from tornado_gate.server.console.assets import FOLDER, get_asset_address

KEY = "/console/playground/key"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("guards")) as served:
        yield served


def count_keys(console: AdminConsole) -> int:
    with console.services.database.read() as connection:
        return connection.execute(select(func.count()).select_from(tables.keys)).scalar_one()


REFUSED = {
    "no token": {},
    "an empty token": {"X_Xsrftoken": ""},
    "another token": {"X_Xsrftoken": TOKEN[::-1]},
    "another site": {"X_Xsrftoken": TOKEN, "Sec_Fetch_Site": "cross-site"},
    "another subdomain": {"X_Xsrftoken": TOKEN, "Sec_Fetch_Site": "same-site"},
    "another origin": {"X_Xsrftoken": TOKEN, "Origin": "https://evil.example"},
    "a page without an origin": {"X_Xsrftoken": TOKEN, "Origin": "null"},
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_the_playgrounds_key_is_not_made_for_other_sites(console: AdminConsole, what: str) -> None:
    before = count_keys(console)
    response = console.send("POST", KEY, "member", None, Accept="application/json", **REFUSED[what])
    assert response.code == 403, what
    assert b"tg-" not in response.body
    assert count_keys(console) == before


def test_the_playgrounds_key_is_made_for_its_page_by_post_only(console: AdminConsole) -> None:
    own = {"Accept": "application/json", "X_Xsrftoken": TOKEN}
    assert console.send("GET", KEY, "member", None, **own).code == 405
    made = console.send("POST", KEY, "member", None, Origin=console.url, Sec_Fetch_Site="same-origin", **own)
    assert made.code == 200, made.body
    assert json.loads(made.body)["key"].startswith("tg-")
    assert made.headers["Cache-Control"] == "private, no-store"
    anonymous = console.send("POST", KEY, "anonymous", None, **own)
    assert (anonymous.code, b"tg-" in anonymous.body) == (302, False)


def test_files_are_compressed_and_pages_are_not(console: AdminConsole) -> None:
    """A page has a secret (its token, sometimes a key) beside text from its address, whose compressed length would tell it.

    The client of these tests accepts gzip always.
    """
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in (".css", ".js", ".svg"):
            file = console.send("GET", get_asset_address(path.name))
            assert file.headers["X-Consumed-Content-Encoding"] == "gzip", path
            assert file.headers["Vary"] == "Accept-Encoding"
            assert file.body == Path(path).read_bytes()
    for page in ("/console/", "/console/keys", "/console/usage?model=x", "/console/login"):
        response = console.send("GET", page)
        assert "X-Consumed-Content-Encoding" not in response.headers, page
        assert "Content-Encoding" not in response.headers, page


def test_administrators_of_a_team_find_its_page(console: AdminConsole) -> None:
    link = 'href="/console/teams"'
    assert {who for who in ("administrator", "lead", "member") if link in console.get("/console/", who)} == {
        "administrator", "lead",
    }  # fmt: skip
    page = console.get("/console/teams", "lead")
    assert '<a href="/console/teams" aria-current="page">' in page
    assert 'href="/console/users"' not in page
    console.services.accounts.members.set_role(console.team.id, console.users["lead"].id, "member", console.actor)
    assert link not in console.get("/console/", "lead")
