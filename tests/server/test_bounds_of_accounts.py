"""Bounds that accounts do not choose: those of a team hold for its members' keys, those of conf for users who have none."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.admin_console import AdminConsole, serve_console
from tests.support.gateway import Gateway, run_command
from tests.support.people import add_member, sign_up_first
from tornado_gate import config as conf
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.config.model import AccountsConfig
from tornado_gate.database.opening import open_database
from tornado_gate.types import Budget, Limits
from tornado_gate.types.value import replace

CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-chat: {provider: local}}
console: {signup: open}
"""
DEFAULTS = "accounts: {default_limits: {requests_per_minute: 2}, default_budget: {usd_per_month: 0.5}}\n"
ROOT, LIMITED = "the-key-of-root-0123456", "the-key-of-a-limited-root"
KEYS = f"""
keys:
  - {{name: root, key: {ROOT}, role: administrator, account: operators}}
  - {{name: limited, key: {LIMITED}, role: administrator, account: operators, models: [local-chat]}}
"""
WARNING = (
    "console.signup: everybody who reaches the gateway may make an account, whose keys have no limits and no budget"
)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("console")) as served:
        yield served


def make_key(console: AdminConsole, who: str, **form: str) -> tuple[int, str]:
    """Send the form for a key: the status, and the error of the form."""
    response = console.post("/console/keys", who, name="k", **form)
    found = re.search(r'<p class="notice error"[^>]*>([^<]*)<', response.body.decode())
    return response.code, found[1] if found else ""


def test_a_member_of_a_bounded_team_makes_keys_in_a_team_only(console: AdminConsole) -> None:
    accounts, team, other = console.services.accounts, console.team.id, console.other_team.id
    before = KeyStore(console.services.database).create("old", user=console.users["member"].id)[1]
    rows = [
        ({}, False, True),
        ({"models": ["local-*"]}, False, True),
        ({"budget": {"usd_per_day": 1}}, False, False),
        ({"budget": {}, "limits": {"requests_per_minute": 9}}, False, False),
        ({"personal_keys": True}, False, True),
        ({"personal_keys": False}, True, False),
        ({"personal_keys": None}, True, True),
        ({"personal_keys": None}, False, False),
    ]
    for change, by_conf, allowed in rows:
        accounts.teams.update(team, console.actor, **change)
        set_personal_keys(console, by_conf)
        for who in ("member", "lead"):
            status, fault = make_key(console, who)
            assert (status == 200, "Physics" in fault) == (allowed, not allowed), (change, by_conf, who, fault)
            assert make_key(console, who, team=team)[0] == 200, (change, by_conf, who)
            assert make_key(console, who, team=other)[0] == 400, "not a member"
        assert make_key(console, "administrator")[0] == 200
    console.services.accounts.members.set_role(other, console.users["member"].id, "member", console.actor)
    status, _ = make_key(console, "member", team=other)
    assert status == 200, "the bounds of the other team hold for it"
    moved = console.post(f"/console/keys/{before.id}", "member", name="renamed", team="", role="member")
    assert moved.code == 303, "a key that was made before stays as it is"
    [of_team] = [key for key in KeyStore(console.services.database).list() if key.team == other]
    out = console.post(f"/console/keys/{of_team.id}", "member", name="k", team="", role="member")
    assert out.code == 400, "a key is not moved out of its team"


def set_personal_keys(console: AdminConsole, allowed: bool) -> None:
    gate = console.services.gate
    gate.snapshot = replace(
        gate.snapshot, config=replace(gate.snapshot.config, accounts=AccountsConfig(personal_keys=allowed))
    )


def test_the_playground_is_in_the_bounded_team_of_its_visitor(console: AdminConsole) -> None:
    accounts, store = console.services.accounts, KeyStore(console.services.database)
    set_personal_keys(console, False)
    console.add_person("player")
    accounts.members.set_role(console.team.id, console.users["player"].id, "member", console.actor)
    for limits, allowed, team in (
        ({}, None, None),
        ({"requests_per_minute": 9}, None, console.team.id),
        ({}, True, None),
    ):
        accounts.teams.update(console.team.id, console.actor, limits=limits, personal_keys=allowed, budget={})
        answer = console.post("/console/playground/key", "player")
        assert answer.code == 200
        assert console.send("GET", "/console/playground", "player").code == 200
        found = store.list_page(user=console.users["player"].id, state="active", hidden=True)[0]
        assert [key.team for key in found] == [team]
        assert json.loads(answer.body)["key"].startswith(found[0].prefix)


def test_a_team_says_in_the_console_whether_personal_keys_are_allowed(console: AdminConsole) -> None:
    team = f"/console/teams/{console.team.id}"
    for text, value in (("yes", True), ("no", False), ("", None)):
        page = console.get(team)
        shown = re.search(r'name="shown" value="(\w+)"', page)
        assert shown is not None
        assert console.post(team, name="Physics", shown=shown[1], personal_keys=text).code == 303
        assert console.services.accounts.teams.get(console.team.id).personal_keys is value
        assert f'value="{text}" selected' in console.get(team)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF + DEFAULTS + KEYS, tmp_path_factory.mktemp("defaults"))
    accounts = Accounts(open_database(started.folder / "var"), session_seconds=3600)
    sign_up_first(accounts)
    accounts.database.close()
    yield started
    started.stop()


def send_request(gateway: Gateway, key: str) -> httpx.Response:
    body = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers)


def administrate(gateway: Gateway, method: str, path: str, body: object = None, *, key: str = ROOT) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.request(method, f"{gateway.url}/admin/v1{path}", json=body, headers=headers)


def add_user_with_key(gateway: Gateway, name: str) -> tuple[str, str, str]:
    """The id of a new user, and two keys."""
    accounts = Accounts(open_database(gateway.folder / "var"), session_seconds=3600)
    user, store = add_member(accounts, f"{name}@example.org"), KeyStore(accounts.database)
    texts = [store.create(name, user=user.id, created_by=user.id)[0] for name in ("one", "two")]
    accounts.database.close()
    return user.id, texts[0], texts[1]


def test_users_without_bounds_have_those_of_conf_together_for_all_their_keys(gateway: Gateway) -> None:
    user, one, two = add_user_with_key(gateway, "ann")
    assert [send_request(gateway, key).status_code for key in (one, two, one, two)] == [200, 200, 429, 429]
    _, other, _ = add_user_with_key(gateway, "bob")
    assert send_request(gateway, other).status_code == 200, "each user has bounds of their own"
    assert send_request(gateway, ROOT).status_code == 200
    assert administrate(gateway, "PATCH", f"/users/{user}", {"limits": {"requests_per_minute": 50}}).status_code == 200
    end = time.monotonic() + 60
    while send_request(gateway, two).status_code != 200:
        assert time.monotonic() < end


def test_a_user_with_other_bounds_still_has_the_budget_of_conf(tmp_path: Path) -> None:
    gateway = Gateway.start(CONF + "accounts: {default_budget: {tokens_per_day: 1}}\n", tmp_path)
    accounts = Accounts(open_database(gateway.folder / "var"), session_seconds=3600)
    administrator = sign_up_first(accounts)[1].user
    store = KeyStore(accounts.database)
    key, _ = store.create("k", user=administrator.id, limits={"requests_per_minute": 50}, created_by=administrator.id)
    accounts.database.close()
    answer = send_request(gateway, key)
    assert (answer.status_code, "token" in answer.text) == (429, True), answer.text
    gateway.stop()


@pytest.mark.qa
def test_open_sign_up_without_bounds_is_a_warning_at_check_and_start(tmp_path: Path) -> None:
    for defaults, warned in (
        ("", True),
        ("accounts: {personal_keys: true}\n", True),
        (DEFAULTS, False),
        ("accounts: {default_budget: {tokens_per_day: 5}}\n", False),
        ("accounts: {default_limits: {concurrent_requests: 5}}\n", False),
    ):
        (tmp_path / "gate.yaml").write_text(CONF + defaults, encoding="utf-8")
        done = run_command("check", "--conf", str(tmp_path / "gate.yaml"))
        assert (done.returncode, WARNING in done.stdout) == (0, warned), (defaults, done.stdout, done.stderr)
    for change in ("signup: invite", "enabled: false, signup: open"):
        (tmp_path / "gate.yaml").write_text(CONF.replace("signup: open", change), encoding="utf-8")
        assert WARNING not in run_command("check", "--conf", str(tmp_path / "gate.yaml")).stdout, change
    gateway = Gateway.start(CONF, tmp_path)
    assert "everybody who reaches the gateway may make an account" in gateway.stop()


def test_conf_has_the_vocabulary_of_users_and_teams(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    text = "{default_limits: {requests_per_minute: 2, usd_per_day: 1}, default_budget: {usd_per_month: 5}, personal_keys: true}"
    file.write_text(f"{CONF}accounts: {text}\n", encoding="utf-8")
    found = conf.load(file, {}).accounts
    assert (found.default_limits, found.personal_keys) == (Limits(requests_per_minute=2), True)
    assert found.default_budget == Budget(usd_per_day=1, usd_per_month=5)


@pytest.mark.parametrize(
    "defaults", ["{default_limits: {request: 1}}", "{default_budget: {usd_per_day: -1}}", "{x: 1}"]
)
def test_wrong_bounds_of_accounts_are_faults(tmp_path: Path, defaults: str) -> None:
    (tmp_path / "gate.yaml").write_text(f"{CONF}accounts: {defaults}\n", encoding="utf-8")
    done = run_command("check", "--conf", str(tmp_path / "gate.yaml"))
    assert done.returncode != 0
    assert "accounts." in done.stdout + done.stderr


def test_a_key_for_the_account_of_another_is_made_by_an_unrestricted_administrator_only(gateway: Gateway) -> None:
    user, _, _ = add_user_with_key(gateway, "victim")
    rows = [
        (LIMITED, {"account": user}, "account"),
        (LIMITED, {"user": user}, "user"),
        (LIMITED, {"account": "operators", "user": user}, "user"),
        (LIMITED, {"account": "operators"}, None),
        (LIMITED, {}, None),
        (ROOT, {"account": user}, None),
        (ROOT, {"user": user}, None),
    ]
    for key, fields, fault in rows:
        answer = administrate(gateway, "POST", "/keys", {"name": "k", "models": ["local-chat"], **fields}, key=key)
        found = answer.json().get("error", {})
        assert (answer.status_code, found.get("param")) == ((403, fault) if fault else (200, None)), (
            fields,
            answer.text,
        )
    made = administrate(gateway, "POST", "/keys", {"name": "k", "models": ["local-chat"], "account": user}).json()[
        "key"
    ]
    [event] = administrate(gateway, "GET", "/audit?action=key.create&limit=1").json()["data"]
    assert (event["object"], event["detail"]["account"], event["actor"]) == (made["id"], user, "conf:root")
    rotated = administrate(gateway, "POST", f"/keys/{made['id']}/rotate", {}, key=LIMITED)
    assert (rotated.status_code, rotated.json()["error"]["code"]) == (403, "outranks_maker")
    assert administrate(gateway, "POST", f"/keys/{made['id']}/rotate", {}).status_code == 200
