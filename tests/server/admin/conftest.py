"""The administration API on a real port, with keys of each role."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tornado.ioloop import IOLoop
from tornado.web import Application

from tests.support.gates import KEY_STORES, FakeProvider, make_config, make_host
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.config import model
from tornado_gate.config.model import KeyEntry, Secret
from tornado_gate.database.engine import Database
from tornado_gate.http.server.front import HttpServer
from tornado_gate.server import app as server_app
from tornado_gate.server.services import Services
from tornado_gate.telemetry.metrics import Metrics

ROOT = "root-key-0123456789"
MEMBER = "member-key-0123456789"
LISTED = "listed-key-0123456789"
NARROW = "narrow-root-0123456789"
LIMITED = "limited-root-0123456789"
KEYS = (
    KeyEntry(name="root", key=Secret(ROOT), account="root", role="administrator"),
    KeyEntry(name="member", key=Secret(MEMBER), account="member"),
    KeyEntry(name="listed", key=Secret(LISTED), account="listed", operations=("admin",)),
    KeyEntry(name="narrow", key=Secret(NARROW), account="narrow", role="administrator", operations=("chat",)),
    KeyEntry(
        name="limited", key=Secret(LIMITED), account="limited", role="administrator", operations=("admin", "chat"),
        requests_per_minute=2,
    ),
)  # fmt: skip


def make_admin_services(folder: Path, database: Database) -> Services:
    config = make_config(folder, keys=KEYS, server=model.ServerConfig(data_dir=folder, access_log=False))
    store = KeyStore(database)
    KEY_STORES.add(store)
    return server_app.make_services(config, make_host({"fake": FakeProvider()}), store, Metrics())


@pytest.fixture
def services(tmp_path: Path, migrated_file: Path, io_loop: IOLoop) -> Iterator[Services]:
    shutil.copyfile(migrated_file, tmp_path / migrated_file.name)
    services = make_admin_services(tmp_path, Database(tmp_path))
    io_loop.run_sync(services.start)
    yield services
    io_loop.run_sync(services.close)


@pytest.fixture
def app(services: Services) -> Application:
    return server_app.make_app(services)


@pytest.fixture
def http_server(io_loop: IOLoop, _unused_port: tuple[socket.socket, int], app: Application) -> Iterator[HttpServer]:
    """One HTTP server is enough: what differs between the two is below the handlers."""
    server = HttpServer(app)
    io_loop.run_sync(partial(server.listen, [_unused_port[0]]))
    yield server
    server.stop()
    io_loop.run_sync(server.close_all_connections, timeout=10)
