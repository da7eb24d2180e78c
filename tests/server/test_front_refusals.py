"""Requests that the HTTP server refuses itself: the same headers, error body, metrics and access log as other errors."""

from __future__ import annotations

import logging
import re

import orjson
import pytest

from tests.server.test_refused_bodies import connect
from tests.support.front import Answer
from tests.support.gates import KEY
from tornado_gate.http.server.front import HttpServer
from tornado_gate.http.server.refusals import Limit
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.front_refusals import GateRefusals

ours = pytest.mark.parametrize("http_server", ["httptools"], indirect=True)
AUTHORIZATION = b"Authorization: Bearer " + KEY.encode() + b"\r\n"
POST = b"POST /plain HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nContent-Type: application/json\r\n" + AUTHORIZATION
REFUSED = {
    "no HTTP": (b"what?\r\n\r\n", 400, False),
    "no Host": (b"GET /plain/models HTTP/1.1\r\n\r\n", 400, False),
    "an empty Host": (b"GET /plain/models HTTP/1.1\r\nHost:\r\n\r\n", 400, False),
    "an empty Host without a route": (b"GET /nope HTTP/1.1\r\nHost: \r\n\r\n", 400, False),
    "an empty Host in HTTP/1.0": (b"GET /healthz HTTP/1.0\r\nHost:\r\n\r\n", 400, False),
    "two Hosts": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400, False),
    "an invalid Host": (b"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", 400, False),
    "an unknown method": (b"FOO /plain HTTP/1.1\r\nHost: x\r\n\r\n", 501, False),
    "too many headers": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431, False),
    "a large head": (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", 431, False),
    "an expectation": (b"POST /plain HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n", 417, False),
    "bad chunks of a request with a key": (POST + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", 400, True),
    "an endless body": (POST + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413, True),
}


@pytest.mark.gen_test(timeout=60)
@ours
@pytest.mark.parametrize("name", REFUSED)
async def test_a_refused_request_is_answered_counted_and_logged_once(
    base_url: str, http_server: HttpServer, gate: Gate, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    http_server.refusals = GateRefusals(gate)
    data, status, has_id = REFUSED[name]
    with caplog.at_level(logging.INFO, "tornado_gate.access"):
        client = await connect(base_url)
        await client.send(data)
        answer = await client.answer()
        assert await client.rest() == b""
    _check(answer, status)
    assert (answer.headers["X-Request-Id"] == "mine") == has_id
    lines = [record for record in caplog.records if record.name == "tornado_gate.access"]
    assert [line.__dict__["fields"]["status"] for line in lines] == [status]
    assert lines[0].__dict__["fields"]["request_id"] == answer.headers["X-Request-Id"]
    text = gate.metrics.render()[0].decode()
    assert re.search(rf'^tornado_gate_requests_total\{{[^}}]*status="{status}"\}} 1.0$', text, re.M)


def _check(answer: Answer, status: int) -> None:
    assert (answer.status, answer.headers["Connection"]) == (status, "close")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "private, no-store"
    error = orjson.loads(answer.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].endswith(".")


@pytest.mark.gen_test(timeout=60)
async def test_an_empty_host_is_refused_by_both_servers(base_url: str, http_server: object) -> None:
    for path in (b"/plain/models", b"/nope", b"/healthz"):
        client = await connect(base_url)
        await client.send(b"GET " + path + b" HTTP/1.1\r\nHost:\r\n" + AUTHORIZATION + b"\r\n")
        assert (await client.head()).status == 400, path
        await client.close()


@pytest.mark.gen_test(timeout=60)
async def test_the_server_as_a_whole_names_its_methods(base_url: str, http_server: object) -> None:
    client = await connect(base_url)
    await client.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await client.answer()
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Allow"] == "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
    await client.close()


@pytest.mark.gen_test(timeout=60)
async def test_a_flood_at_a_limit_is_counted_and_logged_once(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    refusals = GateRefusals(gate)
    for _ in range(1000):
        refusals.on_limit(Limit.ADDRESS, "192.0.2.1")
    refusals.on_limit(Limit.STALLED, "192.0.2.1")
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["connection closed"] * 2
    text = gate.metrics.render()[0].decode()
    assert 'tornado_gate_connection_limits_total{limit="connections_per_address"} 1000.0' in text
