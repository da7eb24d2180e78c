"""The role matrix, with real requests; and what reaches the administration API in disguise."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from tornado.httpclient import HTTPResponse

from tests.ledger.rows import make_stored_row
from tests.server.admin import roles
from tests.server.admin.conftest import LISTED, MEMBER, NARROW, ROOT
from tests.support.served import error_of
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import COMMAND
from tornado_gate.accounts.sessions import make_actor
from tornado_gate.ledger.writing import write_rows
from tornado_gate.server.admin.routes import ROUTES
from tornado_gate.server.services import Services

Ask = Callable[..., Any]
NO_ID = "none-0"
_SEGMENT = re.compile(r"\{\w+\}")


def make_keys(services: Services) -> dict[str, dict[str, str | None]]:
    """The headers of each caller."""
    store, accounts = KeyStore(services.database), services.accounts
    revoked, stored = store.create("revoked", role="administrator")
    store.revoke(stored.id)
    expired, _ = store.create("expired", role="administrator", expires=time.time() + 0.2)
    disabled_user = accounts.sign_up.create_administrator("disabled@example.org", COMMAND)
    former = accounts.sign_up.create_administrator("former@example.org", COMMAND)
    chief = accounts.sign_up.create_administrator("chief@example.org", COMMAND)
    disabled, _ = store.create("disabled", role="administrator", user=disabled_user.id)
    demoted, _ = store.create("demoted", role="administrator", user=former.id)
    made, _ = store.create("made", role="administrator", created_by=disabled_user.id)
    rotated, _ = store.rotate(store.create("rotated", role="administrator")[1].id, actor=make_actor(former))
    plain, _ = store.create("plain", user=chief.id)
    accounts.users.set_state(disabled_user.id, "disabled", COMMAND)
    accounts.users.set_role(former.id, "member", COMMAND)
    keys = {
        "unknown key": "tg-unknown",
        "revoked key": revoked,
        "expired key": expired,
        "key of a disabled administrator": disabled,
        "key that a disabled administrator made": made,
        "key that a former administrator rotated": rotated,
        "member": MEMBER,
        "member, `operations: [admin]`": LISTED,
        "administrator's key with role member": plain,
        "key of a former administrator": demoted,
        "administrator, `operations: [chat]`": NARROW,
        "administrator": ROOT,
    }
    headers: dict[str, dict[str, str | None]] = {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}
    headers["no key"] = {"Authorization": None}
    headers["two keys"] = {"Authorization": f"Bearer {ROOT}", "x-api-key": MEMBER}
    return headers


def make_limited_keys(services: Services) -> dict[str, str]:
    """The texts of administrators' keys, by what limits them."""
    store, accounts = KeyStore(services.database), services.accounts
    team = accounts.teams.create(accounts.organisations.create("Limits", COMMAND).id, "limited", COMMAND)
    fields: dict[str, dict[str, Any]] = {
        "limited to a team": {"team": team.id},
        "limited to models": {"models": ("m*",)},
        "limited to operations": {"operations": ("admin", "chat")},
        "limited to administration": {"operations": ("admin",)},
    }
    return {name: store.create(name, role="administrator", **limits)[0] for name, limits in fields.items()}


@pytest.mark.gen_test(timeout=60)
async def test_each_route_answers_limited_administrators_only_as_the_table_says(ask: Ask, services: Services) -> None:
    keys = await services.database.run(make_limited_keys, services)
    assert keys.keys() == roles.LIMITED.keys()
    for route in ROUTES:
        path = (
            route.whole_path.replace("{id}", NO_ID)
            .replace("{user}", NO_ID)
            .replace("{session}", NO_ID)
            .replace("{name}", NO_ID)
        )
        body = dict(route.example) if route.example else None
        for caller, limitations in roles.LIMITED.items():
            headers = {"Authorization": f"Bearer {keys[caller]}"}
            response = await ask(path, body, method=route.method, headers=headers)
            told = f"{route.method} {path} as {caller}: {response.code} {response.body!r}"
            if limitations <= route.limited:
                assert response.code in (200, 404) or error_of(response)["code"] == "outranks_maker", told
                assert b"so it may not do this" not in response.body, told
            else:
                assert (response.code, error_of(response)["code"]) == (403, "outranks_maker"), told
                assert b"so it may not do this" in response.body, told


@pytest.mark.gen_test(timeout=60)
async def test_each_route_answers_only_administrators(ask: Ask, services: Services) -> None:
    headers = await services.database.run(make_keys, services)
    assert headers.keys() == roles.CALLERS.keys()
    while time.time() < (KeyStore(services.database).list_page(search="expired")[0][0].expires or 0):
        await services.gate.keys.check()
    for route in ROUTES:
        path = (
            route.whole_path.replace("{id}", NO_ID)
            .replace("{user}", NO_ID)
            .replace("{session}", NO_ID)
            .replace("{name}", NO_ID)
        )
        body = dict(route.example) if route.example else None
        for caller, (status, code) in roles.CALLERS.items():
            response = await ask(path, body, method=route.method, headers=headers[caller])
            told = f"{route.method} {path} as {caller}: {response.code} {response.body!r}"
            if status:
                assert (response.code, error_of(response)["code"]) == (status, code), told
            else:
                assert response.code in (200, 400, 403, 404, 409), told
                assert response.code != 403 or error_of(response)["code"] == "outranks_maker", told


def test_the_page_of_roles_shows_this_table() -> None:
    page = roles.PAGE.read_text(encoding="utf-8")
    assert page == roles.replace_section(page), "run python -m tests.server.admin.roles"


@pytest.mark.gen_test
@pytest.mark.parametrize("path", ["", "/", "/unknown", "/keys/a/b", "/keys/%2e%2e", "/keys/..%2fusers", "/usage/x"])
async def test_unknown_routes_are_told_to_administrators_only(ask: Ask, path: str) -> None:
    whole = "/admin/v1" + path
    assert (await ask(whole, headers={"Authorization": None})).code == 401
    assert (await ask(whole, headers={"Authorization": f"Bearer {MEMBER}"})).code == 403
    response = await ask(whole, headers={"Authorization": f"Bearer {ROOT}"})
    assert (response.code, error_of(response)["code"]) == (404, "unknown_route")


@pytest.mark.gen_test
async def test_a_wrong_method_is_told_what_is_allowed(ask: Ask) -> None:
    headers = {"Authorization": f"Bearer {ROOT}"}
    response = await ask("/admin/v1/keys", b"", method="DELETE", headers=headers)
    assert (response.code, response.headers["Allow"]) == (405, "GET, HEAD, POST")
    assert (await ask("/admin/v1/keys/", headers=headers)).code == 200
    assert (await ask("/admin/v1/keys", method="HEAD", headers=headers)).code == 200
    hidden = await ask("/admin/v1/keys", b"", method="DELETE", headers={"Authorization": f"Bearer {MEMBER}"})
    assert (hidden.code, "Allow" in hidden.headers) == (403, False)


@pytest.mark.gen_test
async def test_every_usual_header_takes_the_key(ask: Ask) -> None:
    for headers in ({"x-api-key": ROOT}, {"x-goog-api-key": ROOT}):
        assert (await ask("/admin/v1/users", headers={"Authorization": None, **headers})).code == 200
    cookie = {"Authorization": None, "Cookie": f"gate_session={ROOT}; Authorization=Bearer {ROOT}"}
    assert (await ask("/admin/v1/users", headers=cookie)).code == 401


@pytest.mark.gen_test
async def test_the_parameter_key_is_a_filter_and_never_a_credential(
    ask: Ask, services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {"Authorization": f"Bearer {ROOT}"}
    rows = [make_stored_row(time.time() - 60, key=key, model="m") for key in ("key_a", "key_a", "key_b")]
    await services.database.run(write_rows, services.database, rows, may_repeat=False)
    for key, count in (("key_a", 2), ("key_b", 1), ("key_none", 0), (ROOT, 0), (MEMBER, 0)):
        usage = await ask(f"/admin/v1/usage?key={key}", headers=headers)
        requests = await ask(f"/admin/v1/requests?key={key}", headers=headers)
        assert (usage.code, requests.code) == (200, 200), key
        assert sum(row["requests"] for row in orjson.loads(usage.body)["data"]) == count, key
        assert len(orjson.loads(requests.body)["data"]) == count, key
    for query in (f"?key={ROOT}", f"?key={ROOT}&key={ROOT}"):
        for path in ("users", "usage", "requests", "no-such-route"):
            response = await ask(f"/admin/v1/{path}{query}", headers={"Authorization": None})
            assert (response.code, error_of(response)["code"]) == (401, "missing_api_key"), path
    refused = await ask(f"/admin/v1/users?key={ROOT}", headers=headers)
    assert (refused.code, error_of(refused)["param"]) == (400, "key")
    assert ROOT.encode() not in refused.body
    assert ROOT not in caplog.text
    assert MEMBER not in caplog.text


@pytest.mark.gen_test
async def test_requests_do_not_count_against_the_limit_of_the_key(ask: Ask) -> None:
    headers = {"Authorization": "Bearer limited-root-0123456789"}
    answers: list[HTTPResponse] = [await ask("/admin/v1/models", headers=headers) for _ in range(4)]
    assert [answer.code for answer in answers] == [200] * 4


TRICKS = [
    "//admin/v1/keys", "/admin//v1/keys", "/./admin/v1/keys", "/admin/./v1/keys", "/v1/../admin/v1/keys",
    "/admin/v1/../v1/keys", "/admin/v1/./keys", "/admin/v1/%2e%2e/v1/keys", "/%61dmin/v1/keys", "/admin%2fv1%2fkeys",
    "/ADMIN/v1/keys", "/admin/v1;x/keys", "/admin/v1/keys;.json", "/admin/v1/keys%00", "/admin/v1/keys%20",
    "/healthz/../admin/v1/keys", "/docs/../admin/v1/keys", "/console/../admin/v1/keys", "/admin/v1/keys/%2e",
    "/admin\\v1\\keys", "/admin/v1/keys#", "http://localhost/admin/v1/keys", "http://evil@localhost/admin/v1/keys",
    "*", "/admin/v1/keys?x=/healthz", "/admin/v1/keys/..", "/openapi.json/../admin/v1/keys",
]  # fmt: skip


@pytest.mark.gen_test
@pytest.mark.parametrize("host", ["localhost", "localhost:80/#@x", "a b", "", "admin", "127.0.0.1\\@x", "x" * 300])
async def test_no_spelling_of_path_or_host_passes_without_a_key(http_server: Any, base_url: str, host: str) -> None:
    port = int(base_url.rpartition(":")[2])
    for target in TRICKS:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nX-HTTP-Method-Override: GET\r\nX-Original-URL: /healthz\r\n"
        writer.write(f"{head}X-Forwarded-For: 127.0.0.1\r\nConnection: close\r\n\r\n".encode("latin-1"))
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        status = int(answer.split(b" ", 2)[1])
        assert status in (302, 400, 401, 404, 405), f"{target}: {answer[:200]!r}"
        assert b'"prefix"' not in answer


NONSENSE: list[Any] = [
    None, True, 0, -1, 1.5, 10**30, "", " ", "\0", "\ud800", "x" * 70, "<script>alert(1)</script>", "' OR 1=1 --",
    "{{7*7}}", "../../etc/passwd", "a\r\nSet-Cookie: x=1", [], [None], [[]], {}, {"a": {"b": []}}, ["\ud800"],
]  # fmt: skip


@pytest.mark.qa
@pytest.mark.gen_test(timeout=60)
async def test_odd_values_in_every_member_are_an_error_or_stored_as_they_are(ask: Ask, services: Services) -> None:
    headers = {"Authorization": f"Bearer {ROOT}"}
    user = await services.database.run(services.accounts.sign_up.create_administrator, "ada@example.org", COMMAND)
    for route in ROUTES:
        if route.body is None:
            continue
        path = route.whole_path.replace("{id}", user.id).replace("{user}", user.id)
        for member in route.body().fields:
            for value in NONSENSE:
                body = _encode({**(route.example or {}), member: value})
                response = await ask(path, body, method=route.method, headers=headers)
                told = f"{route.method} {path} {member}={value!r}: {response.code} {response.body!r}"
                assert response.code in (200, 400, 403, 404, 409), told
                assert response.headers["Content-Type"] == "application/json"
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                if response.code == 400 and b'"invalid_json"' not in response.body:
                    assert error_of(response)["param"].split(".")[0] in (member, ""), told


def _encode(body: Any) -> bytes:
    """JSON, with lone surrogates as escapes."""
    return json.dumps(body).encode()


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"name": "x", "nmae": 1}, "nmae", "unsupported_parameter"),
        ({"name": "x", "limits": {"requests": 1}}, "limits.requests", "unsupported_parameter"),
        ({"name": "x", "budget": {"usd_per_day": "5"}}, "budget.usd_per_day", "invalid_value"),
        ({"name": "x", "limits": {"requests_per_minute": True}}, "limits.requests_per_minute", "invalid_value"),
        ({}, "name", "missing_required_parameter"),
        ({"name": "x", "expires": "yesterday"}, "expires", "invalid_value"),
        ({"name": "x", "expires": 5}, "expires", "invalid_value"),
        ({"name": "x", "operations": ["nothing here"]}, "operations", "invalid_value"),
        ({"name": "x", "addresses": ["300.1.1.1"]}, "addresses", "invalid_value"),
        ({"name": "x", "models": ["a b"]}, "models", "invalid_value"),
        ({"name": "x", "user": "user_none"}, "", "unknown_user"),
        ([], "", "invalid_json"),
    ],
)
async def test_a_fault_of_a_body_names_its_member(ask: Ask, body: Any, param: str, code: str) -> None:
    response = await ask("/admin/v1/keys", body, method="POST", headers={"Authorization": f"Bearer {ROOT}"})
    assert response.code in (400, 404)
    assert (error_of(response)["param"], error_of(response)["code"]) == (param, code)


@pytest.mark.gen_test
async def test_bodies_are_small_and_json(ask: Ask) -> None:
    headers = {"Authorization": f"Bearer {ROOT}"}
    large = await ask("/admin/v1/keys", {"name": "x" * 70_000}, method="POST", headers=headers)
    assert large.code == 413
    unseen = await ask("/admin/v1/keys", {"name": "x" * 70_000}, method="POST", headers={"Authorization": None})
    assert unseen.code == 401
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    assert (await ask("/admin/v1/keys", b"name=x", method="POST", headers=form)).code == 415
    assert (await ask("/admin/v1/keys", b'{"name": "x", "name": "y"}', method="POST", headers=headers)).code == 400


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("/usage?from=tomorrow", "from"), ("/usage?from=2026-01-02&to=2026-01-01", "from"), ("/usage?to=1e999", "to"),
        ("/usage?group_by=password", "group_by"), ("/usage?form=csv", "form"), ("/usage?format=xml", "format"),
        ("/usage?status=99", "status"),
        ("/keys?limit=0", "limit"), ("/keys?limit=1000", "limit"), ("/keys?limit=%D9%A5", "limit"),
        ("/keys?limit=5&limit=6", "limit"), ("/keys?after=-1", "after"), ("/keys?after=x", "after"),
        ("/keys?state=on", "state"), ("/keys?search=%ff", "search"), ("/keys?search=%00", "search"),
        ("/requests?after=%27", "after"), ("/requests?only_errors=maybe", "only_errors"), ("/audit?after=x", "after"),
        ("/tasks?after=video_x", "after"), ("/tasks?status=lost", "status"), (f"/keys?search={'x' * 501}", "search"),
    ],
)  # fmt: skip
async def test_a_fault_of_a_parameter_names_it(ask: Ask, query: str, param: str) -> None:
    response = await ask("/admin/v1" + query, headers={"Authorization": f"Bearer {ROOT}"})
    assert (response.code, error_of(response)["param"]) == (400, param), response.body


@pytest.mark.gen_test
async def test_texts_that_look_like_markup_or_formulas_come_back_as_they_are(ask: Ask, services: Services) -> None:
    headers = {"Authorization": f"Bearer {ROOT}"}
    name = "<img src=x onerror=alert('1')>=cmd()"
    made = await ask("/admin/v1/keys", {"name": name, "tags": ["=1+1", "<b>"]}, method="POST", headers=headers)
    key = orjson.loads(made.body)["key"]
    assert (key["name"], key["tags"]) == (name, ["=1+1", "<b>"])
    listed = await ask("/admin/v1/keys?search=" + key["id"], headers=headers)
    assert orjson.loads(listed.body)["data"][0]["name"] == name
    assert b"digest" not in listed.body
    assert orjson.loads(made.body)["text"].encode() not in listed.body


@pytest.mark.gen_test
async def test_a_key_never_makes_one_that_allows_more(ask: Ask, services: Services) -> None:
    store = KeyStore(services.database)
    text, _ = store.create(
        "bounded", role="administrator", operations=("admin", "chat"), models=("m*",), budget={"usd_per_day": 1.0},
    )  # fmt: skip
    headers = {"Authorization": f"Bearer {text}"}
    base = {"name": "x", "operations": ["chat"], "models": ["m1"], "budget": {"usd_per_day": 1}}
    assert (await ask("/admin/v1/keys", base, method="POST", headers=headers)).code == 200
    for change in (
        {"operations": []}, {"operations": ["embeddings"]}, {"models": ["*"]}, {"budget": {}},
        {"budget": {"usd_per_day": 2}},
    ):  # fmt: skip
        response = await ask("/admin/v1/keys", {**base, **change}, method="POST", headers=headers)
        assert (response.code, error_of(response)["code"]) == (403, "outranks_maker"), change
