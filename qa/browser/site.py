"""All pages of the console, with something on each: found by their routes, and by the links of pages."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Page
from tornado.web import RequestHandler

from tests.support.browser import EMAIL, PASSWORD, Console
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.people import Actor
from tornado_gate.database.opening import open_database
from tornado_gate.server.console.routes import list_pages

WAIT_SECONDS = 30.0
TEAM_MEMBER = "grace@example.org"


PUBLIC = ("/console/signup", "/console/login", "/console/reset")
"""Pages for visitors without a session."""
CALLBACK = "/console/oidc/callback"
NO_SIGN_IN = "status of 400"
"""CALLBACK is the page to which an identity provider leads: without a sign-in that was begun it is an error."""


def list_patterns() -> list[str]:
    """The patterns of the paths of pages: what answers GET, and no file."""
    unimplemented = RequestHandler._unimplemented_method
    pages = list_pages()
    return [
        pattern for pattern, page in pages if page.get is not unimplemented and not pattern.endswith((".csv", ".jsonl"))
    ]


def is_at(page: Page, path: str) -> bool:
    """Whether a page is where it was sent to, and was not sent on: the address of a form leads to the form's page."""
    return urlsplit(page.url).path.rstrip("/") == path


def fill_console(console: Console, page: Page) -> None:
    """Requests, one of them failed, a video, keys, a team with a member, an invitation, a
    temporary limit. `page`: one of the first account."""
    database = open_database(console.gateway.folder / "var", "")
    accounts = Accounts(database, session_seconds=3600)
    users, _ = accounts.users.list_page()
    first = Actor(id=users[0].id, name=EMAIL, role="administrator")
    member = accounts.sign_up.create_account(TEAM_MEMBER, PASSWORD, policy="open", address="192.0.2.1", agent="test")[
        1
    ].user
    team = accounts.teams.create(accounts.organisations.create("Example", first).id, "Research", first)
    accounts.members.set_role(team.id, member.id, "member", first)
    accounts.invitations.create(first, email="joan@example.org")
    ends = time.time() + 3600
    accounts.limit_overrides.create("team", team.id, "requests_per_minute", first, factor=2, until=ends)
    accounts.sign_in.with_password(EMAIL, PASSWORD, address="192.0.2.1", agent="another browser")
    database.close()
    key = create_key(page, "nightly report")
    with httpx.Client(base_url=console.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
        for text in ("say hello", "What is 2+2?", "Who are you?"):
            chat = {"model": "local-chat", "messages": [{"role": "user", "content": text}]}
            client.post("/v1/chat/completions", json=chat).raise_for_status()
        client.post("/v1/chat/completions", json={"model": "local-chat", "messages": []})
        video = {"model": "local-video", "prompt": "a boat at sea", "seconds": "1", "size": "320x240"}
        client.post("/v1/videos", json=video).raise_for_status()
    wait_for_link(page, "/console/requests", r"/console/requests/req_\w+")


def create_key(page: Page, name: str) -> str:
    """Create a key by the page's form; returns its text."""
    page.goto("/console/keys")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Create key").click()
    found = re.search(r"tg-[\w-]{40,}", page.inner_text("main"))
    assert found is not None, page.inner_text("main")
    return found[0]


def wait_for_link(page: Page, path: str, pattern: str) -> None:
    """Load a page until it has a link: what happened is on pages a moment later."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not any(re.search(pattern, link) for link in read_links(page, path)):
        assert time.monotonic() < deadline, f"{path} has no link like {pattern}"


def read_links(page: Page, path: str) -> list[str]:
    """Go to a page; returns the paths of its links and forms."""
    page.goto(path)
    links: list[str] = page.locator("main :is(a, form, button[formaction])").evaluate_all(
        "all => all.map((one) => new URL(one.href ?? one.getAttribute('formaction') ?? one.action, location).pathname)"
    )
    return links


def find_examples(page: Page) -> dict[str, str]:
    """A path for each pattern. Patterns with parts that vary get the first link that fits, on pages found before."""
    patterns = list_patterns()
    found = {pattern: pattern for pattern in patterns if not re.search(r"[(\\]", pattern)}
    visited: set[str] = set()
    while waiting := sorted(set(found.values()) - visited):
        for path in waiting:
            visited.add(path)
            for pattern, link in _match(patterns, read_links(page, path)):
                found.setdefault(pattern, link)
    return found


def _match(patterns: list[str], links: list[str]) -> Iterator[tuple[str, str]]:
    for link in links:
        for pattern in patterns:
            if re.fullmatch(pattern, link):
                yield pattern, link
