"""Nodes of an earlier version and of today with one database: the schema is migrated while the earlier ones serve.

The earlier version is real code of this project, from git.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from qa.cluster.nodes import DRAIN_SECONDS, Cluster, ask, create_key, send
from qa.cluster.old_version import make_environment, write_old_version
from qa.cluster.test_partitions import ANSWER, VIDEO, count_rows, wait_until
from qa.cluster.traffic import Traffic
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.process import ChildFailed
from tests.support.upstream import Upstream, answer
from tests.tasks.test_service_kill import MP4, begins, downloads, polls, state
from tornado_gate.database.opening import list_revisions

CHAT_ANSWER = answer(ANSWER, path="/v1/chat/completions", repeat=True)
REQUESTS = 40
"""At each stage of the upgrade, at least."""
FAULTS = ("Traceback", '"level":"error"', '"level": "error"', " ERROR ")


@pytest.fixture
def old_database(cluster: Cluster, postgres: PostgresServer) -> Iterator[str]:
    """The address of an empty database without tables."""
    cluster.database = "upgraded"
    yield postgres.create(cluster.database)
    for node in cluster.nodes.values():
        if node.child.process.poll() is None:
            node.child.kill()
    postgres.drop(cluster.database)


def read_schema(address: str) -> str:
    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert row is not None
    return str(row[0])


def replace_node(cluster: Cluster, name: str) -> None:
    """Stop a node of the earlier version, and start one of today in its folder."""
    output = cluster.nodes[name].stop()
    assert not [fault for fault in FAULTS if fault in output], output
    cluster.start(name, drain=DRAIN_SECONDS)


@pytest.mark.history
@pytest.mark.parametrize("steps", [1, 2])
def test_an_upgrade_under_load_fails_no_request_and_loses_nothing(
    cluster: Cluster, old_database: str, upstream: Upstream, tmp_path: Path, steps: int
) -> None:
    revision = write_old_version(tmp_path / "old", steps)
    environment = make_environment(tmp_path / "old")
    upstream.script(begins(), polls(state("in_progress", progress=30), repeat=True), CHAT_ANSWER)
    a, _ = (cluster.start(name, drain=DRAIN_SECONDS, environment=environment) for name in ("a", "b"))
    assert read_schema(old_database) == revision, "the nodes run the earlier code"
    key = create_key(a, limits={"requests_per_minute": 1_000_000}, budget={"usd_per_day": 1000})
    task = send(a, "POST", "/v1/videos", key, json=VIDEO).json()["id"]

    sent: list[int] = []

    def chat(node: Gateway) -> int:
        sent.append(status := ask(node, key))
        return status

    def poll(node: Gateway) -> int:
        return send(node, "GET", f"/v1/videos/{task}", key).status_code

    traffic = Traffic(cluster, chat, poll)
    traffic.wait_for_more(REQUESTS)
    cluster.start("c", drain=DRAIN_SECONDS)
    assert read_schema(old_database) == list_revisions()[-1]
    traffic.wait_for_more(REQUESTS)
    with pytest.raises(ChildFailed, match="newer tornado-gate"):
        cluster.start("late", drain=DRAIN_SECONDS, environment=environment)
    later = create_key(a, "made after the migration")
    assert [ask(node, later) for node in cluster.nodes.values()] == [200] * 3
    for name in ("a", "b"):
        replace_node(cluster, name)
        traffic.wait_for_more(REQUESTS)
    statuses = traffic.stop()
    assert set(statuses) == {200}, [status for status in statuses if status != 200]
    upstream.reset()
    upstream.script(downloads(MP4), polls(state("completed"), repeat=True))
    video = send(cluster.nodes["c"], "GET", f"/v1/videos/{task}", key, params={"wait": 30}).json()
    assert video["status"] == "completed", video
    wait_until(lambda: count_rows(old_database)[0] >= len(sent) + 3, "the rows arrive")
    assert count_rows(old_database) == (len(sent) + 3, len(sent) + 3)
