"""Fixtures for HTTP tests: a Gate with a fake provider on a real port, and a client for it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import Application

from tests.support.gates import KEY, FakeProvider, make_config, make_services
from tests.support.variants import vary
from tornado_gate.config import model
from tornado_gate.config.model import KeyEntry, LimitsConfig, Secret
from tornado_gate.http.server.front import HttpServer
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.app import make_app
from tornado_gate.server.services import Services

BODY_LIMIT = 10_000
NARROW = KeyEntry(name="narrow", key=Secret("narrow-key-0123"), account="n", operations=("embeddings",))
LIMITED = KeyEntry(name="limited", key=Secret("limited-key-0123"), account="l", requests_per_minute=1)


@pytest.fixture
def fake() -> FakeProvider:
    return FakeProvider()


@pytest.fixture
def services(tmp_path: Path, fake: FakeProvider, io_loop: IOLoop) -> Iterator[Services]:
    base = make_config(tmp_path, limits=LimitsConfig(body_bytes=BODY_LIMIT))
    config = make_config(
        tmp_path,
        limits=LimitsConfig(body_bytes=BODY_LIMIT),
        keys=(*base.keys, NARROW, LIMITED),
        server=model.ServerConfig(data_dir=tmp_path, access_log=True, keep_alive_seconds=0.02),
    )
    services = make_services(tmp_path, config, fake=fake)
    io_loop.run_sync(services.start)
    yield services
    io_loop.run_sync(services.close)


@pytest.fixture
def gate(services: Services) -> Gate:
    return services.gate


@pytest.fixture
def app(services: Services) -> Application:
    return make_app(services)


@pytest.fixture(params=vary("httptools", "tornado"))
def http_server(
    request: pytest.FixtureRequest, io_loop: IOLoop, _unused_port: tuple[socket.socket, int], app: Application
) -> Iterator[HttpServer | HTTPServer]:
    """Replaces pytest-tornado's fixture: every HTTP test runs with both HTTP servers."""
    listening, _ = _unused_port
    server: HttpServer | HTTPServer
    if request.param == "tornado":
        server = HTTPServer(app)
        server.add_socket(listening)
    else:
        server = HttpServer(app)
        io_loop.run_sync(partial(server.listen, [listening]))
    yield server
    server.stop()
    io_loop.run_sync(server.close_all_connections, timeout=10)


Ask = Callable[..., Any]


@pytest.fixture
def ask(http_client: AsyncHTTPClient, base_url: str, http_server: HTTPServer) -> Ask:
    """``await ask("/plain", {…}, method=…, headers=…)`` returns the response; a status from 400 on does not raise."""

    async def send(path: str, body: Any = None, **rest: Any) -> HTTPResponse:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **rest.pop("headers", {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        content = body if isinstance(body, (bytes, type(None))) else orjson.dumps(body)
        method = rest.pop("method", "GET" if body is None else "POST")
        return await http_client.fetch(
            base_url + path, method=method, body=content, headers=headers, raise_error=False,
            allow_nonstandard_methods=True, **rest,
        )  # fmt: skip

    return send


def error_of(response: HTTPResponse) -> dict[str, str]:
    error: dict[str, str] = orjson.loads(response.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert all(isinstance(value, str) for value in error.values())
    return error


CHAT = {"model": "m", "ask": "hi"}
