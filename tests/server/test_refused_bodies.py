"""Bodies that nothing may read: no byte of one is kept before the caller's key is known, on any path."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import orjson
import pytest
from tornado.httputil import HTTPHeaders

from tests.support.front import Answer, Client
from tests.support.gates import KEY
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.app import EXPLAIN_PATH, PUBLIC_HANDLERS
from tornado_gate.server.services import Services

LARGE = b"Content-Length: 99614720"
CHUNKED = b"Transfer-Encoding: chunked"
FORM = b"Content-Type: application/x-www-form-urlencoded"
JSON = b"Content-Type: application/json"


async def connect(base_url: str) -> Client:
    host, _, port = base_url.removeprefix("http://").partition(":")
    return Client(*await asyncio.open_connection(host, int(port)))


async def ask_raw(base_url: str, line: bytes, *fields: bytes, body: bytes = b"") -> Answer:
    """The answer to a request of which only this much is sent: an answer means that the server waits for no body."""
    client = await connect(base_url)
    await client.send(b"\r\n".join((line + b" HTTP/1.1", b"Host: localhost", *fields)) + b"\r\n\r\n" + body)
    answer = await client.answer(to_head=line.startswith(b"HEAD"))
    client.writer.write_eof()
    assert await client.rest() == b""
    await client.close()
    return answer


def list_unauthenticated(gate: Gate, services: Services) -> Iterable[tuple[str, str, int]]:
    """(method, path, status) of every kind of request without a key that has a body which is never sent."""
    for path in PUBLIC_HANDLERS:
        yield from (("GET", path, 413), ("HEAD", path, 413), ("POST", path, 405))
    for store in (services.media, services.tasks.files):
        yield from (("GET", store.address + "x", 413), ("HEAD", store.address + "x", 413), ("POST", store.address, 405))
    yield from (("POST", "/nope", 404), ("GET", "//", 404), ("OPTIONS", "*", 413), ("POST", EXPLAIN_PATH, 401))
    for served in gate.snapshot.routes:
        path = served.route.path.replace("{model}", "m")
        yield served.route.method, path, 413 if served.route.socket else 401
        yield "PATCH", path, 405


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("length", [LARGE, CHUNKED, b"Content-Length: 1"])
@pytest.mark.parametrize("kind", [FORM, JSON])
async def test_a_body_is_refused_at_once_on_every_path_that_needs_no_key_or_got_none(
    base_url: str, http_server: object, gate: Gate, services: Services, length: bytes, kind: bytes
) -> None:
    for method, path, status in list_unauthenticated(gate, services):
        if length == b"Content-Length: 1" and status == 401:
            continue
        answer = await ask_raw(base_url, f"{method} {path}".encode(), length, kind)
        assert answer.status == status, (method, path)
        assert answer.headers["Connection"] == "close", (method, path)
        assert answer.headers["X-Request-Id"]
        if method != "HEAD":
            assert set(orjson.loads(answer.body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("path", [*PUBLIC_HANDLERS, "/plain/models"])
async def test_head_is_answered_as_get_without_the_body(base_url: str, http_server: object, path: str) -> None:
    authorization = b"Authorization: Bearer " + KEY.encode()
    got = await ask_raw(base_url, b"GET " + path.encode(), authorization, b"Connection: close")
    head = await ask_raw(base_url, b"HEAD " + path.encode(), authorization, b"Connection: close")
    assert (head.status, head.body) == (got.status, b"") == (200, b"")
    assert _comparable(head.headers) == _comparable(got.headers)


def _comparable(headers: HTTPHeaders) -> dict[str, str]:
    varying = {"Date", "X-Request-Id", "Request-Id"}
    return {name: value for name, value in headers.items() if name not in varying}
