"""Requests for lists, pages and administration, and requests that must be refused."""

from __future__ import annotations

from bench.soak.callers import BEARER, Callers
from bench.soak.formats import check_error
from bench.soak.records import Mismatch, Request
from bench.soak.site import ADMIN_KEY, KEY

SIGNED_IN = "a signed-in administrator"
PAGES: tuple[tuple[str, str, str], ...] = (
    ("/v1/models", "steady-o", KEY),
    ("/v1beta/models", "models/steady-g", KEY),
    ("/v1/models/steady-a", "steady-a", KEY),
    ("/admin/v1/models", "steady-o", ADMIN_KEY),
    ("/admin/v1/usage?group_by=model", "data", ADMIN_KEY),
    ("/admin/v1/requests?limit=20", "data", ADMIN_KEY),
    ("/admin/v1/keys", "data", ADMIN_KEY),
    ("/admin/v1/tasks", "data", ADMIN_KEY),
    ("/openapi.json", "openapi", ""),
    ("/console/login", "<form", ""),
    *(
        (f"/console{path}", "<main", SIGNED_IN)
        for path in ("", "/keys", "/usage", "/requests", "/models", "/tasks", "/limits")
    ),
    ("/docs", "<html", ""),
    ("/metrics", "tornado_gate_requests_total", ""),
    ("/healthz", "", ""),
)


async def read_page(callers: Callers, request: Request) -> None:
    """A list of models, a page of the console, or a route of administrators."""
    path, holds, key = callers.random.choice(PAGES)
    request.kind, request.recorded = f"page {path.partition('?')[0]}", False
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if key == SIGNED_IN:
        request.kind, headers = f"page {path}, signed in", {"Cookie": f"gate_session={callers.cookie}"}
    async with callers.send(request, "GET", path, **headers) as answer:
        request.status, text = answer.status, await answer.text()
        if answer.status != 200 or holds not in text:
            raise Mismatch(f"GET {path}: status {answer.status}: {text[:200]!r}")


BAD: tuple[tuple[str, int, dict[str, str], bytes], ...] = (
    ("half JSON", 400, BEARER, b'{"model": "steady-o", "messages": [{'),
    ("no object", 400, BEARER, b"[1, 2]"),
    ("unknown model", 404, BEARER, b'{"model": "nobody", "messages": [{"role": "user", "content": "x"}]}'),
    ("wrong type", 400, BEARER, b'{"model": "steady-o", "messages": "x"}'),
    ("invalid UTF-8", 400, BEARER, b'{"model": "steady-o", "messages": [{"role": "user", "content": "\xff"}]}'),
    ("deep JSON", 400, BEARER, b'{"model": "steady-o", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}"),
    ("no key", 401, {}, b'{"model": "steady-o"}'),
    ("wrong key", 401, {"Authorization": "Bearer nobody"}, b'{"model": "steady-o"}'),
)


async def send_bad(callers: Callers, request: Request) -> None:
    """A request that must be refused with a certain status, in the caller's format."""
    name, status, headers, body = callers.random.choice(BAD)
    way = callers.random.choice(("chat", "messages"))
    request.kind, request.recorded = f"bad: {name}", status != 401
    path = "/v1/chat/completions" if way == "chat" else "/v1/messages"
    head = {"anthropic-version": "2023-06-01", **headers}
    async with callers.send(request, "POST", path, body, **head) as answer:
        request.status, data = answer.status, await answer.read()
        if answer.status != status:
            raise Mismatch(f"{name}: status {answer.status} instead of {status}: {data[:200]!r}")
        check_error(way, answer.status, answer.headers.get("content-type", ""), data)
