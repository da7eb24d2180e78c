"""Nodes that start, stop and run with wrong clocks while others serve."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from qa.cluster.nodes import DRAIN_SECONDS, Cluster, ask, create_key, send, shift_clock
from qa.cluster.test_partitions import ANSWER, VIDEO
from qa.cluster.traffic import Traffic
from tests.support.postgres import PostgresServer
from tests.support.upstream import Upstream, answer

CLOCK_SECONDS = 120.0


@pytest.fixture
def vendor(upstream: Upstream) -> Upstream:
    upstream.script(answer(ANSWER, path="/v1/chat/completions", repeat=True))
    return upstream


def test_a_rolling_restart_fails_no_request(cluster: Cluster, vendor: Upstream) -> None:
    for name in ("a", "b", "c"):
        cluster.start(name, drain=DRAIN_SECONDS)
    key = create_key(cluster.nodes["a"])
    traffic = Traffic(cluster, lambda node: ask(node, key))
    for name in ("a", "b", "c"):
        cluster.nodes[name].stop()
        cluster.start(name, drain=DRAIN_SECONDS)
    statuses = traffic.stop()
    assert len(statuses) > 20
    assert set(statuses) == {200}


def test_a_killed_node_disturbs_no_other(cluster: Cluster, vendor: Upstream) -> None:
    a, b = cluster.start("a"), cluster.start("b")
    key = create_key(a)
    assert ask(b, key) == 200
    a.child.kill()
    assert [ask(b, key) for _ in range(10)] == [200] * 10


def test_nodes_that_start_together_migrate_an_empty_database_once(
    postgres: PostgresServer, vendor: Upstream, cluster: Cluster
) -> None:
    postgres.create("together")
    cluster.database = "together"
    try:
        with ThreadPoolExecutor(3) as pool:
            nodes = list(pool.map(cluster.start, ("a", "b", "c")))
        key = create_key(nodes[0])
        assert [ask(node, key) for node in nodes] == [200] * 3
    finally:
        for node in cluster.nodes.values():
            node.stop()
        postgres.drop("together")


def test_a_node_refuses_a_newer_schema_and_disturbs_no_other(
    migrated_postgres: str, vendor: Upstream, cluster: Cluster
) -> None:
    a = cluster.start("a")
    key = create_key(a)
    with psycopg.connect(migrated_postgres) as connection:
        newest = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    try:
        with pytest.raises(AssertionError) as refused:
            cluster.start("b")
        assert "newer" in str(refused.value)
        assert ask(a, key) == 200, "a node that runs is not disturbed"
    finally:
        with psycopg.connect(migrated_postgres) as connection:
            assert newest is not None
            connection.execute("UPDATE alembic_version SET version_num = %s", newest)


def test_clocks_two_minutes_apart_change_no_limit(cluster: Cluster, vendor: Upstream) -> None:
    a = cluster.start("a")
    b = cluster.start("b", environment=shift_clock(cluster.folder / "clock", CLOCK_SECONDS))
    key = create_key(a, "ten", limits={"requests_per_minute": 10})
    statuses = [ask((a, b)[number % 2], key) for number in range(20)]
    assert statuses.count(200) == 10
    task = send(a, "POST", "/v1/videos", key=create_key(a), json=VIDEO)
    assert task.status_code == 200, task.text
    free = create_key(b, "free")
    assert [ask(node, free) for node in (a, b)] == [200, 200]
