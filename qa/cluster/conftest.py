"""Fixtures of the cluster's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qa.cluster.nodes import Cluster
from tests.support.databases import empty
from tests.support.postgres import PostgresServer
from tests.support.upstream import Upstream
from tests.support.valkey import Valkey


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    server = Valkey()
    yield server
    server.kill()


@pytest.fixture
def cluster(
    postgres: PostgresServer, migrated_postgres: str, valkey: Valkey, upstream: Upstream, tmp_path: Path
) -> Iterator[Cluster]:
    """A cluster without nodes, whose database and Valkey are empty."""
    empty(migrated_postgres)
    valkey.command("FLUSHALL")
    made = Cluster(tmp_path, postgres, "tests", valkey, upstream)
    yield made
    made.close()
