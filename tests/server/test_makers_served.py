"""What a dismissed administrator made, at a real gateway of two processes: it is refused, says why, and is adopted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.admin_console import AdminConsole, serve_console
from tests.support.gateway import Gateway, run_command
from tests.support.people import ADDRESS, PASSWORD, sign_up_first
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.database.opening import open_database

ROOT = "root-key-of-the-makers"
CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {{local-chat: {{provider: local}}, local-realtime: {{provider: local}}}}
server: {{processes: 2}}
keys: [{{name: root, key: {ROOT}, role: administrator}}]
"""
CONNECTIONS = 12
"""How many new connections ask, so that both processes are among those that answer."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF, tmp_path_factory.mktemp("makers"))
    yield started
    started.stop()


def send_request(gateway: Gateway, method: str, path: str, body: Any = None, *, key: str = ROOT) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.request(method, gateway.url + path, json=body, headers=headers)


def administrate(gateway: Gateway, method: str, path: str, body: Any = None, *, key: str = ROOT) -> Any:
    response = send_request(gateway, method, "/admin/v1" + path, body, key=key)
    assert response.status_code == 200, (path, response.text)
    return response.json()


def list_answers(gateway: Gateway, key: str) -> set[int]:
    """The statuses of both processes for a key."""
    return {send_request(gateway, "GET", "/v1/models", key=key).status_code for _ in range(CONNECTIONS)}


def wait_for(read: Callable[[], Any], wanted: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while (found := read()) != wanted:
        assert time.monotonic() < end, (found, wanted)


def test_nothing_of_a_disabled_administrator_works_until_it_is_adopted(gateway: Gateway) -> None:
    var = gateway.folder / "var"
    accounts = Accounts(open_database(var), session_seconds=3600)
    sign_up_first(accounts)
    ann = accounts.sign_up.create_account("ann@example.org", PASSWORD, policy="open", address=ADDRESS, agent="test")[
        1
    ].user
    bob = accounts.sign_up.create_account("bob@example.org", PASSWORD, policy="open", address=ADDRESS, agent="test")[
        1
    ].user
    administrate(gateway, "PATCH", f"/users/{ann.id}", {"role": "administrator"})
    own, _ = KeyStore(accounts.database).create("own", user=ann.id, created_by=ann.id, role="administrator")
    accounts.database.close()

    service = administrate(gateway, "POST", "/keys", {"name": "service"}, key=own)
    text, path = service["text"], f"/keys/{service['key']['id']}"
    session = {"session": {"type": "realtime", "model": "local-realtime"}}
    secret = send_request(gateway, "POST", "/v1/realtime/client_secrets", session, key=text).json()["value"]
    invitation = administrate(gateway, "POST", "/invitations", {"role": "administrator"}, key=own)
    reset = administrate(gateway, "POST", f"/users/{bob.id}/reset-link", key=own)["link"]
    bound = {"kind": "gateway", "bound": "requests_per_minute", "value": 100000, "until": "1h"}
    administrate(gateway, "POST", "/limits/overrides", bound, key=own)
    assert list_answers(gateway, text) == {200}
    assert open_sessions(gateway, secret) == {101}

    administrate(gateway, "PATCH", f"/users/{ann.id}", {"state": "disabled"})
    wait_for(lambda: list_answers(gateway, text), {401})
    assert send_request(gateway, "POST", "/v1/realtime/client_secrets", session, key=text).status_code == 401
    wait_for(lambda: open_sessions(gateway, secret), {401})
    form = {"email": "ann2@example.org", "password": PASSWORD, "invitation": invitation["link"].partition("=")[2]}
    assert send_form(gateway, "/console/signup", form).status_code == 400
    form = {"token": reset.partition("=")[2], "password": PASSWORD}
    assert send_form(gateway, "/console/reset", form).status_code == 400
    shown = administrate(gateway, "GET", path)
    assert (shown["state"], shown["suspended"]) == ("active", "its maker is disabled")
    for kind in ("/invitations", "/limits/overrides"):
        assert [one["suspended"] for one in administrate(gateway, "GET", kind)["data"]] == ["its maker is disabled"]
    listed = json.loads(run_command("keys", "list", "--json", "--data-dir", str(var)).stdout)
    assert "suspended: its maker is disabled" in [one["state"] for one in listed]

    adopted = administrate(gateway, "POST", path + "/adopt")
    assert (adopted["suspended"], adopted["issued_by"]) == (None, "conf:root")
    wait_for(lambda: list_answers(gateway, text), {200})
    audit = administrate(gateway, "GET", "/audit?action=key.adopt")["data"]
    assert [one["object"] for one in audit] == [service["key"]["id"]]


def open_sessions(gateway: Gateway, secret: str) -> set[int]:
    """Open and close realtime sessions with a client secret, and return the statuses of both processes."""
    return {open_session(gateway, secret) for _ in range(CONNECTIONS)}


def open_session(gateway: Gateway, secret: str) -> int:
    address = gateway.url.replace("http", "ws", 1) + "/v1/realtime?model=local-realtime"
    try:
        with connect(address, additional_headers={"Authorization": f"Bearer {secret}"}) as session:
            return session.response.status_code
    except InvalidStatus as refused:
        return refused.response.status_code


def send_form(gateway: Gateway, path: str, form: dict[str, str]) -> httpx.Response:
    with httpx.Client(base_url=gateway.url) as client:
        client.get(path)
        return client.post(path, data={**form, "_xsrf": client.cookies["gate_xsrf"]}, headers={"Accept": "text/html"})


def test_a_key_is_adopted_by_command(gateway: Gateway) -> None:
    var = gateway.folder / "var"
    database = open_database(var)
    text, key = KeyStore(database).create("orphan", created_by="user_gone")
    database.close()
    wait_for(lambda: list_answers(gateway, text), {401})
    done = run_command("keys", "adopt", "orphan", "--data-dir", str(var))
    assert done.returncode == 0
    assert key.id in done.stderr
    wait_for(lambda: list_answers(gateway, text), {200})


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("console")) as served:
        yield served


def test_a_team_key_that_a_removed_administrator_rotated_is_taken_over_in_the_console(console: AdminConsole) -> None:
    accounts, lead = console.services.accounts, console.users["lead"]
    store = KeyStore(console.services.database)
    _, old = store.create("of the team", team=console.team.id)
    page = console.post(f"/console/keys/{old.id}/rotate", "lead", overlap="0").body.decode()
    text = page.partition('id="new-key">')[2].partition("<")[0]
    [key] = [key for key in store.list() if key.counted_as == old.id]
    assert store.find_key(digest_key(text)) is not None
    assert "Take over" not in console.get(f"/console/keys/{key.id}")
    accounts.members.remove(console.team.id, lead.id, console.actor)
    assert store.find_key(digest_key(text)) is None
    page = console.get(f"/console/keys/{key.id}")
    assert "This key is refused: its maker has no right to make such a key any more" in page
    assert "Take over" in page
    assert "its maker has no right to make such a key any more" in console.get("/console/keys?owner=all")
    assert console.post(f"/console/keys/{key.id}/adopt", "lead").code == 404
    assert store.find_key(digest_key(text)) is None
    assert console.post(f"/console/keys/{key.id}/adopt").code == 303
    assert store.find_key(digest_key(text)) is not None
    assert "has lost" not in console.get(f"/console/keys/{key.id}")
    accounts.members.set_role(console.team.id, lead.id, "administrator", console.actor)


def test_suspended_invitations_and_overrides_say_so_in_the_console(console: AdminConsole) -> None:
    accounts = console.services.accounts
    maker = console.add_person("maker")
    accounts.users.set_role(maker.id, "administrator", console.actor)
    assert console.post("/console/users/invitations", "maker", role="administrator", seconds="604800").code == 200
    accounts.limit_overrides.create(
        "gateway", "", "requests_per_minute", console.actor, value=9, until=time.time() + 600
    )
    form = {"kind": "gateway", "subject": "", "bound": "requests_per_minute", "value": "8", "until": "1h"}
    assert console.post("/console/limits", "maker", **form).code == 303
    accounts.users.set_role(maker.id, "member", console.actor)
    for path in ("/console/users/invitations", "/console/limits"):
        page = console.get(path)
        assert page.count("its maker has no right to make it any more") == 1, path


def test_a_member_adopts_neither_keys_of_others_nor_administrator_keys(console: AdminConsole, tmp_path: Path) -> None:
    store, member = KeyStore(console.services.database), console.users["member"]
    rows = {
        "of nobody": {},
        "of another": {"user": console.users["lead"].id},
        "of the team": {"team": console.team.id},
        "of an administrator": {"user": member.id, "role": "administrator"},
    }
    for name, fields in rows.items():
        _, key = store.create(name, created_by="user_gone", **fields)
        console.post(f"/console/keys/{key.id}/adopt", "member")
        assert store.get(key.id).issued_by is None, name
    _, key = store.create("own", created_by="user_gone", user=member.id)
    console.post(f"/console/keys/{key.id}/adopt", "member")
    assert store.get(key.id).issued_by == member.id
