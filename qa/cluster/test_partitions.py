"""A node that loses an engine: what goes on, what is refused, how long it takes, and that nothing is lost when it is back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from qa.cluster.nodes import Cluster, ask, create_key, read_metric, send
from tests.support.upstream import Upstream, answer

ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "gpt-a",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }
)
VIDEO = {"model": "sora", "prompt": "a fox", "seconds": "4"}
REFUSED_SECONDS = 10.0
"""The longest wait for an error while an engine hangs."""
BACK_SECONDS = 60.0
CHATS = 20


@pytest.fixture
def vendor(upstream: Upstream) -> Upstream:
    """An upstream that answers every chat."""
    upstream.script(answer(ANSWER, path="/v1/chat/completions", repeat=True))
    return upstream


def isolate_for(cluster: Cluster, fault: str) -> None:
    """Give the node `a` a network of its own if packets shall be dropped in it."""
    if fault == "drop":
        cluster.isolate("a")


def measure(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    began = time.monotonic()
    result = function(*arguments)
    return result, time.monotonic() - began


def wait_until(is_true: Callable[[], bool], what: str) -> float:
    """Wait for something that another process does; return the seconds."""
    began = time.monotonic()
    while not is_true():
        assert time.monotonic() - began < BACK_SECONDS, what
        time.sleep(0.05)
    return time.monotonic() - began


def count_rows(address: str) -> tuple[int, int]:
    """Return the requests of callers in the ledger, and the different ones among them."""
    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT count(*), count(DISTINCT id) FROM usage WHERE operation = 'chat'").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


@pytest.mark.parametrize("fault", ["refuse", "stall", "drop"])
def test_a_node_without_postgresql_serves_known_keys_and_loses_no_usage(
    cluster: Cluster, vendor: Upstream, migrated_postgres: str, fault: str
) -> None:
    isolate_for(cluster, fault)
    a, b = cluster.start("a"), cluster.start("b")
    known, unknown = create_key(a, "known"), create_key(b, "unknown")
    assert ask(a, known) == 200
    cluster.cut("a", "postgres", fault)
    times = [measure(ask, a, known) for _ in range(CHATS)]
    assert [status for status, _ in times] == [200] * CHATS
    assert max(seconds for _, seconds in times) < 1.0
    status, seconds = measure(ask, a, unknown)
    assert (status, seconds < REFUSED_SECONDS) == (503, True), seconds
    response, seconds = measure(lambda: send(a, "POST", "/v1/videos", known, json=VIDEO))
    assert (response.status_code, response.json()["error"]["code"]) == (503, "task_database_unavailable")
    assert seconds < REFUSED_SECONDS
    assert [ask(b, key) for key in (known, unknown)] == [200, 200]
    cluster.cut("a", "postgres", "pass")
    wait_until(lambda: ask(a, unknown) == 200, "the node uses the database again")
    wait_until(lambda: count_rows(migrated_postgres)[0] >= CHATS + 4, "the rows arrive")
    rows, different = count_rows(migrated_postgres)
    assert rows == different


def test_a_node_that_is_killed_while_postgresql_hangs_loses_no_usage(
    cluster: Cluster, vendor: Upstream, migrated_postgres: str
) -> None:
    a = cluster.start("a")
    known = create_key(a, "known")
    assert ask(a, known) == 200
    wait_until(lambda: count_rows(migrated_postgres)[0] == 1, "the first row arrives")
    cluster.cut("a", "postgres", "stall")
    assert [ask(a, known) for _ in range(CHATS)] == [200] * CHATS
    spool = a.folder / "var" / "ledger-spool"
    wait_until(lambda: sum(path.stat().st_size for path in spool.glob("*")) > 0, "the rows are on the disk")
    ask(a, known)
    time.sleep(1.5)  # the stated time: rows of the last second may be lost
    a.child.kill()
    cluster.cut("a", "postgres", "pass")
    cluster.start("a")
    wait_until(lambda: count_rows(migrated_postgres)[0] >= CHATS + 2, "the rows arrive")
    assert count_rows(migrated_postgres) == (CHATS + 2, CHATS + 2)


@pytest.mark.parametrize("fault", ["refuse", "stall", "drop", "delay 0.3"])
def test_a_node_with_a_bad_valkey_answers_in_bounded_time(cluster: Cluster, vendor: Upstream, fault: str) -> None:
    isolate_for(cluster, fault)
    a = cluster.start("a")
    key = create_key(a, "limited", limits={"requests_per_minute": 1_000_000}, budget={"usd_per_day": 1000})
    assert ask(a, key) == 200
    cluster.cut("a", "valkey", fault)
    assert measure(ask, a, key)[1] < 5.0
    with ThreadPoolExecutor(50) as pool:
        times = list(pool.map(lambda _: measure(ask, a, key), range(300)))
    assert {status for status, _ in times} == {200}
    assert max(seconds for _, seconds in times) < 5.0, "no pile-up"
    if fault in ("refuse", "stall", "drop"):
        assert read_metric(a, "tornado_gate_limit_store_away") == 1.0
    cluster.cut("a", "valkey", "pass")
    wait_until(lambda: read_metric(a, "tornado_gate_limit_store_away") == 0.0, "Valkey is used again")
    wait_until(lambda: measure(ask, a, key)[1] < 0.5, "requests are fast again")


def test_a_bound_holds_over_a_node_that_comes_back_to_valkey(cluster: Cluster, vendor: Upstream) -> None:
    a, b = cluster.start("a"), cluster.start("b")
    key = create_key(a, "ten", limits={"requests_per_minute": 10})
    cluster.cut("a", "valkey", "refuse")
    alone = [ask(a, key) for _ in range(12)]
    assert alone.count(200) == 10, "a node that counts alone has the whole bound"
    cluster.cut("a", "valkey", "pass")
    wait_until(lambda: read_metric(a, "tornado_gate_limit_store_away") == 0.0, "Valkey is used again")
    assert sum(status == 200 for status in (ask(b, key) for _ in range(12))) <= 10
