"""Fixtures of the console's tests: visitors of a gateway that trusts this machine as a proxy, so that they have own addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from tornado.httpclient import AsyncHTTPClient
from tornado.ioloop import IOLoop
from tornado.web import Application

from tests.server.console.members.site import Visit, Visitor
from tests.support.gates import FakeProvider, make_config, make_services
from tornado_gate.accounts import passwords
from tornado_gate.config.model import ConsoleConfig, ServerConfig
from tornado_gate.http.server.front import HttpServer
from tornado_gate.server.services import Services


@pytest.fixture
def http_server(io_loop: IOLoop, _unused_port: tuple[socket.socket, int], app: Application) -> Iterator[HttpServer]:
    """Only the fast HTTP server: pages are the same on both."""
    server = HttpServer(app)
    io_loop.run_sync(partial(server.listen, [_unused_port[0]]))
    yield server
    server.stop()
    io_loop.run_sync(server.close_all_connections, timeout=10)


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that cost a millisecond."""
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


@pytest.fixture
def console_config() -> ConsoleConfig:
    """Override it in a file of tests that needs other settings."""
    return ConsoleConfig(signup="open")


@pytest.fixture
def services(tmp_path: Path, fake: FakeProvider, io_loop: IOLoop, console_config: ConsoleConfig) -> Iterator[Services]:
    server = ServerConfig(
        data_dir=tmp_path, access_log=True, trusted_proxies=(ip_network("127.0.0.0/8"),), public_url=""
    )
    config = make_config(tmp_path, server=server, console=console_config)
    services = make_services(tmp_path, config, fake=fake)
    io_loop.run_sync(services.start)
    yield services
    io_loop.run_sync(services.close)


@pytest.fixture
def visit(http_client: AsyncHTTPClient, base_url: str, http_server: HttpServer, services: Services) -> Visit:
    """``visit("192.0.2.1")`` is a new visitor with that address."""

    def make(address: str = "192.0.2.1") -> Visitor:
        return Visitor(http_client, base_url, services, address)

    return make
