"""Fixtures of `tests` and `qa`; the modules of `tests.support` say what each can do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.aimock import Aimock
from tests.support.curl import find_path_with_curl
from tests.support.databases import (
    database,
    database_address,
    dialect,
    empty_address,
    migrated_file,
    migrated_postgres,
    postgres,
)
from tests.support.gates import KEY_STORES
from tests.support.gateway import Gateway
from tests.support.people import accounts, administrator, cheap_hashes
from tests.support.process import Child
from tests.support.served import app, ask, fake, gate, http_server, services
from tests.support.upstream import Upstream
from tornado_gate.ledger import default_prices, ledger

LOOPBACK = "127.0.0.1,localhost"

StartGateway = Callable[..., Gateway]

__all__ = ["app", "ask", "fake", "gate", "http_server", "services"]
__all__ += [
    "database",
    "database_address",
    "dialect",
    "empty_address",
    "migrated_file",
    "migrated_postgres",
    "postgres",
]
__all__ += ["accounts", "administrator", "cheap_hashes"]
__all__ += ["aimock", "close_key_stores", "environment_of_children", "one_price_table"]
__all__ += ["start_gateway", "upstream", "upstream_process"]


@pytest.fixture(scope="session", autouse=True)
def patient_ledger() -> Iterator[None]:
    """On a busy machine a write takes longer than a database may hang: then its rows would be on the disk for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "HANG_SECONDS", 30.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_price_table() -> Iterator[None]:
    """Services of a vendor extract its default prices in another process, which takes half a second: once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_prices, "extract_table", functools.cache(default_prices.extract_table))
        yield


@pytest.fixture(scope="session", autouse=True)
def environment_of_children() -> Iterator[None]:
    """What the tests start listens on this machine only, but the vendors' SDKs honour the proxy variables. Hundreds of
    gateways are started: without bytecode each compiles all modules, which takes longer than the rest of its start.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        environment.setenv("PATH", find_path_with_curl())
        environment.setenv("NO_PROXY", LOOPBACK)
        environment.setenv("no_proxy", LOOPBACK)
        yield


@pytest.fixture(autouse=True)
def close_key_stores() -> Iterator[None]:
    """Thousands of tests in one process would otherwise hold thousands of open files."""
    yield
    for store in tuple(KEY_STORES):
        store.close()
    KEY_STORES.clear()


@pytest.fixture(scope="session")
def aimock() -> Iterator[Aimock]:
    """The independent upstream."""
    started = Aimock.start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def upstream_process() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture
def upstream(upstream_process: Upstream) -> Upstream:
    """The scripted upstream, with nothing in its script and its records."""
    upstream_process.reset()
    return upstream_process


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[StartGateway]:
    """Start gateways: ``start_gateway(conf, *arguments, environment=…, installed=…)``. Those still running end with the test."""
    children: list[Child] = []

    def start(conf: str, *arguments: str, **rest: Any) -> Gateway:
        folder = tmp_path / f"gateway-{len(children)}"
        folder.mkdir()
        gateway = Gateway.start(conf, folder, *arguments, **rest)
        children.append(gateway.child)
        return gateway

    yield start
    for child in children:
        if child.process.poll() is None:
            child.stop()
