"""The administration API: every route with its example, on both databases; answers follow /openapi.json."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from tornado.httpclient import HTTPResponse
from tornado.ioloop import IOLoop

from tests.server.admin.conftest import ROOT, make_admin_services
from tests.support.served import error_of
from tests.tasks.test_store_contract import a_task
from tornado_gate.accounts.people import COMMAND
from tornado_gate.database.engine import Database
from tornado_gate.server.admin import configuration_routes, tape_routes
from tornado_gate.server.admin.routes import ROUTES
from tornado_gate.server.openapi.document import build_document
from tornado_gate.server.services import Services

Ask = Callable[..., Any]


@pytest.fixture
def services(tmp_path: Path, database: Database, io_loop: IOLoop) -> Iterator[Services]:
    """On both databases."""
    services = make_admin_services(tmp_path, database)
    io_loop.run_sync(services.start)
    yield services
    io_loop.run_sync(services.close)


class Client:
    """Sends requests of an administrator, and checks each answer against the description."""

    def __init__(self, ask: Ask, services: Services) -> None:
        self._ask = ask
        self._document = build_document(services.gate.snapshot)
        self.called: set[tuple[str, str]] = set()

    async def __call__(self, method: str, path: str, body: Any = None, *, route: str = "", query: str = "") -> Any:
        response = await self.send(method, path + query, body)
        assert response.code == 200, response.body
        template = "/admin/v1" + (route or path)
        self.called.add((method, route or path))
        schema = self._document["paths"][template][method.lower()]["responses"]["200"]["content"]["application/json"]
        answer = orjson.loads(response.body)
        whole = {**schema["schema"], "components": self._document["components"]}
        errors = [f"{list(one.path)}: {one.message}" for one in Draft202012Validator(whole).iter_errors(answer)]
        assert not errors, f"{method} {path}: {errors}"
        return answer

    async def send(self, method: str, path: str, body: Any = None, **rest: Any) -> HTTPResponse:
        headers = {"Authorization": f"Bearer {ROOT}", **rest.pop("headers", {})}
        response = await self._ask("/admin/v1" + path, body, method=method, headers=headers, **rest)
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        return response


@pytest.fixture
def admin(ask: Ask, services: Services) -> Client:
    return Client(ask, services)


def example_of(method: str, path: str) -> Any:
    return next(dict(one.example or {}) for one in ROUTES if (one.method, one.path) == (method, path))


@pytest.mark.gen_test(timeout=60)
async def test_every_route_works(admin: Client, services: Services, ask: Ask) -> None:
    user = await services.database.run(services.accounts.sign_up.create_administrator, "ada@example.org", COMMAND)
    other = await services.database.run(services.accounts.sign_up.create_administrator, "bob@example.org", COMMAND)
    team = await walk_through_teams(admin, user.id)
    await walk_through_keys(admin, user.id, team)
    await walk_through_users(admin, other.id)
    await walk_through_limits(admin, other.id)
    await walk_through_state(admin, services)
    await ask("/plain", {"model": "nothing", "ask": "hi"}, headers={"Authorization": f"Bearer {ROOT}"})
    await asyncio.to_thread(services.gate.ledger.flush)
    await walk_through_usage(admin)
    tested_elsewhere = (*configuration_routes.ROUTES, *tape_routes.ROUTES)
    others = {(route.method, route.path) for route in tested_elsewhere}
    assert {(route.method, route.path) for route in ROUTES} - admin.called == others


async def walk_through_teams(admin: Client, user: str) -> str:
    made = await admin("POST", "/organisations", example_of("POST", "/organisations"))
    one = f"/organisations/{made['id']}"
    renamed = await admin("PATCH", one, {"name": "Renamed"}, route="/organisations/{id}")
    assert (await admin("GET", "/organisations"))["data"] == [renamed]
    body = {**example_of("POST", "/teams"), "organisation": made["id"]}
    team = await admin("POST", "/teams", body)
    path = f"/teams/{team['id']}"
    changed = await admin("PATCH", path, {"models": ["m*"], "budget": {"usd_per_day": 1}}, route="/teams/{id}")
    assert changed["models"] == ["m*"]
    assert changed["budget"] == {"usd_per_day": 1}
    assert await admin("GET", path, route="/teams/{id}") == changed
    assert (await admin("GET", "/teams", query=f"?organisation={made['id']}"))["total"] == 1
    assert (await admin("GET", "/teams", query="?organisation=none"))["data"] == []
    await admin("PUT", f"{path}/members/{user}", {"role": "administrator"}, route="/teams/{id}/members/{user}")
    members = await admin("GET", f"{path}/members", route="/teams/{id}/members")
    assert [(one["user"]["id"], one["role"]) for one in members["data"]] == [(user, "administrator")]
    await admin("DELETE", f"{path}/members/{user}", route="/teams/{id}/members/{user}")
    gone = await admin("POST", "/teams", {"organisation": made["id"], "name": "gone"})
    await admin("DELETE", f"/teams/{gone['id']}", route="/teams/{id}")
    empty = await admin("POST", "/organisations", {"name": "empty"})
    await admin("DELETE", f"/organisations/{empty['id']}", route="/organisations/{id}")
    refused = await admin.send("DELETE", one)
    assert (refused.code, error_of(refused)["code"]) == (409, "organisation_not_empty")
    return str(team["id"])


async def walk_through_limits(admin: Client, user: str) -> None:
    made = await admin("POST", "/limits/overrides", example_of("POST", "/limits/overrides"))
    assert (made["kind"], made["value"], made["created_by"]) == ("gateway", 60000, "conf:root")
    assert (await admin("GET", "/limits/overrides"))["data"] == [made]
    await admin("DELETE", f"/limits/overrides/{made['id']}", route="/limits/overrides/{id}")
    assert (await admin("GET", "/limits/overrides"))["data"] == []


async def walk_through_keys(admin: Client, user: str, team: str) -> None:
    made = await admin("POST", "/keys", {**example_of("POST", "/keys"), "user": user, "team": team})
    key = made["key"]
    assert made["text"].startswith(key["prefix"])
    assert (key["user"], key["team"], key["account"], key["created_by"]) == (user, team, user, "conf:root")
    assert key["models"] == ["local-*"]
    path = f"/keys/{key['id']}"
    changed = await admin("PATCH", path, example_of("PATCH", "/keys/{id}"), route="/keys/{id}")
    assert changed["tags"] == ["reviewed"]
    assert await admin("GET", path, route="/keys/{id}") == changed
    new = await admin("POST", f"{path}/rotate", {"overlap": "1h"}, route="/keys/{id}/rotate")
    assert new["text"] != made["text"]
    assert (await admin("GET", path, route="/keys/{id}"))["replaced_by"] == new["key"]["id"]
    adopted = await admin("POST", f"/keys/{new['key']['id']}/adopt", route="/keys/{id}/adopt")
    assert (adopted["suspended"], adopted["issued_by"]) == (None, "conf:root")
    revoked = await admin("DELETE", f"/keys/{new['key']['id']}", route="/keys/{id}")
    assert revoked["state"] == "revoked"
    again = await admin.send("DELETE", f"/keys/{new['key']['id']}")
    assert (again.code, error_of(again)["code"]) == (409, "key_revoked")
    first = await admin("GET", "/keys", query="?limit=1")
    assert (first["total"], len(first["data"])) == (2, 1)
    rest = await admin("GET", "/keys", query=f"?limit=1&after={first['next']}")
    assert {first["data"][0]["id"], rest["data"][0]["id"]} == {key["id"], new["key"]["id"]}
    assert rest["next"] is None
    assert (await admin("GET", "/keys", query="?state=revoked"))["total"] == 1
    assert (await admin("GET", "/keys", query=f"?user={user}&team={team}&search=NIGHT"))["total"] == 2


async def walk_through_users(admin: Client, user: str) -> None:
    path = f"/users/{user}"
    change = {"role": "member", "name": "Bob", "limits": {"requests_per_minute": 5}, "budget": {"usd_per_day": 2}}
    changed = await admin("PATCH", path, change, route="/users/{id}")
    assert (changed["limits"], changed["budget"]) == (change["limits"], change["budget"])
    assert (changed["role"], changed["name"]) == ("member", "Bob")
    assert await admin("GET", path, route="/users/{id}") == changed
    assert (await admin("GET", "/users", query="?search=bob&limit=1"))["data"] == [changed]
    made = await admin("POST", f"{path}/reset-link", route="/users/{id}/reset-link")
    assert "/console/reset?token=" in made["link"]
    assert (await admin("GET", f"{path}/sessions", route="/users/{id}/sessions"))["data"] == []
    await admin("DELETE", f"{path}/sessions", route="/users/{id}/sessions")
    unknown = await admin.send("DELETE", f"{path}/sessions/none")
    assert (unknown.code, error_of(unknown)["code"]) == (404, "unknown_session")
    admin.called.add(("DELETE", "/users/{id}/sessions/{session}"))
    invited = await admin("POST", "/invitations", example_of("POST", "/invitations"))
    assert "/console/signup?invitation=" in invited["link"]
    assert [one["id"] for one in (await admin("GET", "/invitations"))["data"]] == [invited["invitation"]["id"]]
    await admin("DELETE", f"/invitations/{invited['invitation']['id']}", route="/invitations/{id}")
    await admin("DELETE", path, route="/users/{id}")
    last = (await admin("GET", "/users"))["data"]
    refused = await admin.send("DELETE", f"/users/{last[0]['id']}")
    assert refused.code == 409
    events = await admin("GET", "/audit", query="?limit=3")
    assert [one["action"] for one in events["data"]] == ["user.delete", "invitation.revoke", "invitation.create"]
    assert {one["actor"] for one in events["data"]} == {"conf:root"}
    older = await admin("GET", "/audit", query=f"?limit=200&after={events['next']}&action=key.")
    assert {one["action"] for one in older["data"]} == {
        "key.create",
        "key.change",
        "key.rotate",
        "key.adopt",
        "key.revoke",
    }


async def walk_through_state(admin: Client, services: Services) -> None:
    assert (await admin("GET", "/models"))["data"][0]["name"] == "m"
    assert (await admin("GET", "/providers"))["data"][0]["origin"] == ""
    assert (await admin("GET", "/providers/fake", route="/providers/{id}"))["plugin"] == "fake"
    assert {one["name"] for one in (await admin("GET", "/plugins"))["data"]} == {"fake", "plain"}
    alerts = await admin("GET", "/alerts")
    assert (alerts["data"], alerts["total"]) == ([], 0)
    assert await admin("GET", "/nodes") == {"data": [], "next": None, "total": 0}
    store = services.tasks.engine.store
    tasks = [await store.create(a_task(provider="fake", account=name), None) for name in ("a", "b")]
    page = await admin("GET", "/tasks", query="?limit=1")
    assert page["next"] == tasks[1].id
    assert [one["id"] for one in (await admin("GET", "/tasks", query="?account=a"))["data"]] == [tasks[0].id]
    assert (await admin("GET", f"/tasks/{tasks[0].id}", route="/tasks/{id}"))["account"] == "a"
    await admin("POST", f"/tasks/{tasks[0].id}/cancel", route="/tasks/{id}/cancel")
    await admin("DELETE", f"/tasks/{tasks[1].id}", route="/tasks/{id}")
    gone = await admin.send("GET", f"/tasks/{tasks[1].id}")
    assert (gone.code, error_of(gone)["code"]) == (404, "task_not_found")
    assert (await admin("GET", "/audit", query="?action=task."))["data"][0]["object"] == tasks[1].id


async def walk_through_usage(admin: Client) -> None:
    groups = await admin("GET", "/usage", query="?from=1h&group_by=key,model,operation")
    row = next(one for one in groups["data"] if one["model"] == "nothing")
    assert (row["key"], row["operation"], row["requests"], row["errors"]) == ("conf:root", "chat", 1, 1)
    refused = await admin("GET", "/usage", query="?from=1h&group_by=status&status=404")
    assert [one["status"] for one in refused["data"]] == ["404"]
    text = await admin.send("GET", "/usage?group_by=model,operation&format=csv")
    assert text.headers["Content-Type"].startswith("text/csv")
    assert text.body.splitlines()[0].startswith(b"model,operation,requests,errors,input_tokens")
    failed = await admin("GET", "/requests", query="?only_errors=true&limit=200")
    newest = failed["data"][0]
    assert (newest["model"], newest["status"], newest["error_code"]) == ("nothing", 404, "model_not_found")
    found = await admin("GET", f"/requests/{newest['request_id']}", route="/requests/{id}")
    assert found == newest
    page = await admin("GET", "/requests", query="?limit=2")
    rest = await admin("GET", "/requests", query=f"?limit=1&after={page['next']}")
    assert rest["data"][0]["id"] < page["data"][-1]["id"]
