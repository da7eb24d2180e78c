"""Two gateways with one PostgreSQL database, as on two machines: each has its own data directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.databases import empty
from tests.support.gateway import Gateway

ROOT = "key-of-the-administrator-of-all-nodes"
CONF = f"""
database: {{address}}
plugins: {{{{local: true}}}}
providers:
  local: {{{{plugin: local}}}}
models:
  local-chat: {{{{provider: local}}}}
keys:
  - {{{{name: root, key: {ROOT}, role: administrator}}}}
"""

Start = Callable[..., Gateway]


@pytest.fixture
def shared_address(migrated_postgres: str) -> str:
    """The address of the nodes' database, with empty tables."""
    empty(migrated_postgres)
    return migrated_postgres


@pytest.fixture
def start(tmp_path: Path, shared_address: str) -> Iterator[Start]:
    """Start the node of this name, again in its folder, and wait until others see it, unless the database is away."""
    started: list[Gateway] = []

    def begin(
        name: str,
        *arguments: str,
        conf: str = CONF,
        environment: Mapping[str, str] | None = None,
        is_away: bool = False,
    ) -> Gateway:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        node = Gateway.start(conf.format(address=shared_address), folder, *arguments, environment=environment)
        started.append(node)
        if "{address}" in conf and not is_away:
            node.wait_for_log("announced itself")
        return node

    yield begin
    for gateway in started:
        gateway.child.kill()
