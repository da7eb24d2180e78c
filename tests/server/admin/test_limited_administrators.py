"""An administrator's key that is limited administers only what is within its limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.ledger.rows import make_stored_row
from tests.server.admin.conftest import ROOT
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import COMMAND
from tornado_gate.ledger.writing import write_rows
from tornado_gate.server.services import Services
from tornado_gate.types.value import Value

Ask = Callable[..., Any]


class World(Value, frozen=True):
    """Ids of teams, users, keys and invitations by name, and the texts of keys."""

    ids: dict[str, str]
    texts: dict[str, str]


ROWS = (
    ("in-a", "a", "m1", "chat"), ("in-b", "b", "m1", "chat"), ("shared", "a", "m1", "chat"), ("shared", "b", "m2", "images"),
    ("of-none", "", "x1", "chat"), ("pictures", "a", "x1", "images"),
)  # fmt: skip
"""Requests a minute ago: id, team, model and operation. `to=30s` leaves out those of the tests themselves."""


def make_world(services: Services) -> World:
    accounts, store = services.accounts, KeyStore(services.database)
    organisation = accounts.organisations.create("Example", COMMAND)
    ids = {name: accounts.teams.create(organisation.id, name, COMMAND).id for name in ("a", "b")}
    for name, team in (("ann", "a"), ("bob", "b")):
        ids[name] = accounts.sign_up.create_administrator(f"{name}@example.org", COMMAND).id
        accounts.members.set_role(ids[team], ids[name], "member", COMMAND)
    for team in ("a", "b"):
        ids[f"invitation-{team}"] = accounts.invitations.create(COMMAND, team=ids[team])[1].id
    texts = {}
    keys: dict[str, dict[str, Any]] = {
        "key-a": {"team": ids["a"], "models": ("m1",), "operations": ("chat",)},
        "key-of-ann": {"team": ids["a"], "user": ids["ann"], "models": ("m1",), "operations": ("chat",)},
        "key-b": {"team": ids["b"], "models": ("m2",), "operations": ("images",)},
        "free": {},
        "other-model": {"models": ("x1",), "operations": ("chat", "images")},
        "of-team": {"role": "administrator", "team": ids["a"]},
        "of-models": {"role": "administrator", "models": ("m*",)},
        "of-operations": {"role": "administrator", "operations": ("admin", "chat")},
        "of-administration": {"role": "administrator", "operations": ("admin",)},
        "bounded": {"role": "administrator", "limits": {"requests_per_minute": 5}, "budget": {"usd_per_day": 1.0}},
    }
    for name, fields in keys.items():
        texts[name], key = store.create(name, **fields)
        ids[name] = key.id
    rows = [
        make_stored_row(time.time() - 60, request_id=id, team=ids.get(team, ""), model=model, operation=operation)
        for id, team, model, operation in ROWS
    ]
    write_rows(services.database, rows, may_repeat=False)
    return World(ids, texts)


@pytest.fixture
def world(services: Services) -> World:
    return make_world(services)


class Administrator:
    """Sends requests with the key of a name."""

    def __init__(self, ask: Ask, world: World, name: str) -> None:
        self._ask, self._world = ask, world
        self._headers = {"Authorization": f"Bearer {world.texts[name]}"}

    async def send(self, method: str, path: str, **body: Any) -> tuple[int, Any]:
        for name, identity in sorted(self._world.ids.items(), key=lambda item: -len(item[0])):
            path = path.replace(f"<{name}>", identity)
            body = {key: identity if value == f"<{name}>" else value for key, value in body.items()}
        response = await self._ask("/admin/v1" + path, body or None, method=method, headers=self._headers)
        answer = orjson.loads(response.body)
        return response.code, answer.get("error", {}).get("code") if response.code >= 400 else answer

    async def list(self, path: str, member: str) -> set[str]:
        status, answer = await self.send("GET", path)
        assert status == 200, answer
        return {row[member] for row in answer["data"]}

    async def check(self, *cases: tuple[str, str, dict[str, Any], tuple[int, str]]) -> None:
        """Send requests, of which each must have its status and code; "" for an answer."""
        wrong = []
        for method, path, body, expected in cases:
            status, answer = await self.send(method, path, **body)
            if (status, answer if status >= 400 else "") != expected:
                wrong.append((method, path, body, status, answer))
        assert not wrong


HIDDEN, DENIED, DONE = (404, "key_not_found"), (403, "outranks_maker"), (200, "")


@pytest.mark.gen_test(timeout=30)
async def test_a_key_of_a_team_administers_its_team_only(ask: Ask, world: World) -> None:
    admin = Administrator(ask, world, "of-team")
    assert await admin.list("/keys", "name") == {"key-a", "key-of-ann", "of-team"}
    assert await admin.list("/keys?team=<b>", "name") == set()
    assert await admin.list("/requests?to=30s", "request_id") == {"in-a", "shared", "pictures"}
    assert await admin.list("/requests?to=30s&team=<b>", "request_id") == set()
    assert await admin.list("/usage?from=1h&to=30s&group_by=team", "requests") == {3}
    assert await admin.list("/usage?from=1h&to=30s&group_by=team", "team") == {world.ids["a"]}
    assert await admin.list("/usage?from=1h&to=30s&team=<b>", "requests") == set()
    assert (await admin.send("GET", "/requests/shared"))[1]["model"] == "m1"
    assert await admin.list("/users", "email") == {"ann@example.org"}
    assert await admin.list("/users?search=bob", "email") == set()
    assert await admin.list("/teams", "name") == {"a"}
    assert await admin.list("/invitations", "team") == {world.ids["a"]}
    await admin.check(
        ("GET", "/keys/<key-a>", {}, DONE),
        *(
            (method, "/keys/<key-b>", body, HIDDEN)
            for method, body in (("GET", {}), ("PATCH", {"name": "x"}), ("DELETE", {}))
        ),
        ("POST", "/keys/<key-b>/rotate", {"overlap": 0}, HIDDEN),
        ("GET", "/keys/<free>", {}, HIDDEN),
        ("GET", "/requests/in-a", {}, DONE),
        ("GET", "/requests/in-b", {}, (404, "unknown_request")),
        ("POST", "/keys", {"name": "x"}, DENIED),
        ("POST", "/keys", {"name": "x", "team": "<b>"}, DENIED),
        ("POST", "/keys", {"name": "x", "team": "<a>", "user": "<ann>"}, DENIED),
        ("POST", "/keys", {"name": "x", "team": "<a>", "account": "<ann>"}, DENIED),
        ("POST", "/keys", {"name": "x", "team": "<a>"}, DONE),
        ("PATCH", "/keys/<key-a>", {"team": None}, DENIED),
        ("PATCH", "/keys/<key-a>", {"team": "<b>"}, DENIED),
        ("PATCH", "/keys/<key-a>", {"tags": ["x"]}, DONE),
        ("POST", "/keys/<key-of-ann>/rotate", {"overlap": 0}, DENIED),
        ("GET", "/users/<ann>", {}, DONE),
        ("GET", "/users/<bob>", {}, (404, "unknown_user")),
        ("GET", "/teams/<a>", {}, DONE),
        ("GET", "/teams/<b>", {}, (404, "unknown_team")),
        ("PATCH", "/teams/<a>", {"limits": {"requests_per_minute": 9}}, DENIED),
        ("GET", "/teams/<b>/members", {}, (404, "unknown_team")),
        ("PUT", "/teams/<b>/members/<ann>", {"role": "member"}, (404, "unknown_team")),
        ("DELETE", "/teams/<b>/members/<bob>", {}, (404, "unknown_team")),
        ("PUT", "/teams/<a>/members/<ann>", {"role": "administrator"}, DONE),
        ("POST", "/invitations", {"email": "x@example.org"}, DENIED),
        ("POST", "/invitations", {"email": "x@example.org", "team": "<b>"}, DENIED),
        ("POST", "/invitations", {"email": "x@example.org", "team": "<a>", "role": "administrator"}, DENIED),
        ("POST", "/invitations", {"email": "x@example.org", "team": "<a>"}, DONE),
        ("DELETE", "/invitations/<invitation-b>", {}, (404, "unknown_invitation")),
        ("DELETE", "/invitations/<invitation-a>", {}, DONE),
        ("PATCH", "/users/<ann>", {"role": "member"}, DENIED),
        ("POST", "/users/<ann>/reset-link", {}, DENIED),
    )


@pytest.mark.gen_test(timeout=30)
async def test_a_key_of_models_or_operations_administers_these_only(ask: Ask, world: World) -> None:
    admin = Administrator(ask, world, "of-models")
    assert await admin.list("/keys", "name") == {"key-a", "key-of-ann", "key-b", "of-models"}
    assert await admin.list("/requests?to=30s", "model") == {"m1", "m2"}
    assert await admin.list("/usage?from=1h&to=30s&group_by=model", "model") == {"m1", "m2"}
    assert await admin.list("/usage?from=1h&to=30s", "requests") == {4}
    await admin.check(
        ("GET", "/keys/<free>", {}, HIDDEN),
        ("DELETE", "/keys/<other-model>", {}, HIDDEN),
        ("GET", "/requests/pictures", {}, (404, "unknown_request")),
        ("POST", "/keys", {"name": "x", "models": ["*"]}, DENIED),
        ("POST", "/keys", {"name": "x", "models": ["m1"], "user": "<ann>"}, DENIED),
        ("POST", "/keys", {"name": "x", "models": ["m1"]}, DONE),
        ("PATCH", "/keys/<key-b>", {"models": []}, DENIED),
        ("POST", "/invitations", {"email": "x@example.org"}, DENIED),
    )
    admin = Administrator(ask, world, "of-operations")
    assert await admin.list("/keys", "name") == {"key-a", "key-of-ann", "of-operations", "of-administration"}
    assert await admin.list("/requests?to=30s", "request_id") == {"in-a", "in-b", "shared", "of-none"}
    assert await admin.list("/usage?from=1h&to=30s&group_by=operation", "operation") == {"chat"}
    await admin.check(
        ("GET", "/keys/<key-b>", {}, HIDDEN),
        ("GET", "/requests/pictures", {}, (404, "unknown_request")),
        ("POST", "/keys", {"name": "x"}, DENIED),
        ("POST", "/keys", {"name": "x", "operations": ["images"]}, DENIED),
        ("POST", "/keys", {"name": "x", "operations": ["chat"]}, DONE),
        ("GET", "/users", {}, DENIED),
    )


@pytest.mark.gen_test(timeout=30)
async def test_a_key_for_administration_alone_sees_everything_and_gives_nobody_rights(ask: Ask, world: World) -> None:
    admin = Administrator(ask, world, "of-administration")
    assert {"free", "key-a", "key-b"} <= await admin.list("/keys", "name")
    assert await admin.list("/usage?from=1h&to=30s", "requests") == {6}
    await admin.check(
        ("GET", "/users/<bob>", {}, DONE),
        ("GET", "/audit", {}, DONE),
        ("POST", "/keys", {"name": "x", "operations": ["chat"]}, DENIED),
        ("POST", "/keys", {"name": "x", "operations": ["admin"], "role": "administrator"}, DONE),
        ("POST", "/keys", {"name": "x", "operations": ["admin"], "user": "<ann>"}, DENIED),
        ("POST", "/keys/<key-a>/rotate", {"overlap": 0}, DENIED),
        ("POST", "/invitations", {"email": "x@example.org"}, DENIED),
        ("PATCH", "/users/<bob>", {"role": "administrator"}, DENIED),
        ("POST", "/users/<bob>/reset-link", {}, DENIED),
        ("PATCH", "/teams/<a>", {"limits": {"requests_per_minute": 9}}, DONE),
        ("DELETE", "/keys/<free>", {}, DONE),
    )


@pytest.mark.gen_test(timeout=30)
async def test_no_key_sets_a_bound_above_its_own(ask: Ask, world: World) -> None:
    admin = Administrator(ask, world, "bounded")
    until = {"until": "1h"}
    for path in ("/teams/<a>", "/users/<ann>"):
        await admin.check(
            ("PATCH", path, {"limits": {"requests_per_minute": 6}}, DENIED),
            ("PATCH", path, {"limits": {"requests_per_minute": None}}, DENIED),
            ("PATCH", path, {"budget": {"usd_per_day": 2}}, DENIED),
            ("PATCH", path, {"limits": {"requests_per_minute": 5}, "budget": {"usd_per_month": 100}}, DONE),
        )
    team = {"kind": "team", "subject": "<a>", "bound": "requests_per_minute", **until}
    await admin.check(
        ("POST", "/keys", {"name": "x", "limits": {"requests_per_minute": 6}}, DENIED),
        ("POST", "/limits/overrides", {**team, "value": 6}, DENIED),
        ("POST", "/limits/overrides", {**team, "factor": 1.5}, DENIED),
        ("POST", "/limits/overrides", {**team, "value": 4}, DONE),
        ("POST", "/limits/overrides", {**team, "factor": 0.5}, DONE),
        ("POST", "/limits/overrides", {**team, "bound": "tokens_per_minute", "value": 10**9}, DONE),
    )


@pytest.mark.gen_test(timeout=30)
async def test_the_key_of_a_team_with_models_sees_its_keys_and_the_requests_with_these_models(
    ask: Ask, world: World, services: Services
) -> None:
    services.accounts.teams.update(world.ids["a"], COMMAND, models=["m*"])
    await services.gate.keys.check()
    admin = Administrator(ask, world, "of-team")
    assert await admin.list("/keys", "name") == {"key-a", "key-of-ann", "of-team"}
    assert await admin.list("/requests?to=30s", "request_id") == {"in-a", "shared"}
    unlimited = {"Authorization": f"Bearer {ROOT}"}
    assert len(orjson.loads((await ask("/admin/v1/requests?to=30s", headers=unlimited)).body)["data"]) == len(ROWS)
