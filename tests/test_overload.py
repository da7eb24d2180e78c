"""A gateway with too much work: what it refuses, what it never refuses, and that one target that hangs delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import completion
from tests.support.upstream import Hang, Upstream, Wait, answer

KEY = "test-key-of-overload"
OPEN_REQUESTS = 399
ALONE = 200
"""What one account may have of them."""
CONF = """
plugins: {{openai: true}}
server: {{access_log: false}}
providers:
  hanging: {{plugin: openai, base_url: "{url}/hanging/v1", api_key: key-of-the-upstream}}
  limited:
    plugin: openai
    base_url: "{url}/limited/v1"
    api_key: key-of-the-upstream
    concurrency: {{most: 3, queue: 5, wait: 60s}}
  hurried:
    plugin: openai
    base_url: "{url}/hurried/v1"
    api_key: key-of-the-upstream
    concurrency: {{most: 1, queue: 5, wait: 0.05}}
  fast: {{plugin: openai, base_url: "{url}/fast/v1", api_key: key-of-the-upstream}}
models:
  hanging: {{provider: hanging}}
  limited: {{provider: limited}}
  secured: {{provider: limited, fallback: [fast]}}
  hurried: {{provider: hurried}}
  fast: {{provider: fast}}
circuits: {{failures: 2}}
limits: {{open_requests: {open_requests}, loop_lag_seconds: 0}}
keys:
  - {{name: a, key: {key}-a}}
  - {{name: b, key: {key}-b}}
  - {{name: root, key: {key}-root, role: administrator}}
"""
HANGS = [answer(Hang(), path=f"/{name}", repeat=True) for name in ("hanging", "limited", "hurried")]
WORKS = answer(completion("hello"), path="/fast", repeat=True)


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY, open_requests=OPEN_REQUESTS)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("overload"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    upstream.script(*HANGS, WORKS)
    return one_gateway


class Callers:
    """Requests of many callers at a time; those that were started are cancelled at the end."""

    def __init__(self, gateway: Gateway, client: httpx.AsyncClient) -> None:
        self.url = gateway.url
        self.client = client
        self.started: list[asyncio.Task[httpx.Response]] = []

    async def ask(self, model: str, account: str = "a") -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        headers = {"authorization": f"Bearer {KEY}-{account}"}
        return await self.client.post(f"{self.url}/v1/chat/completions", json=body, headers=headers)

    def start(self, model: str, times: int, account: str = "a") -> list[asyncio.Task[httpx.Response]]:
        found = [asyncio.ensure_future(self.ask(model, account)) for _ in range(times)]
        self.started += found
        return found

    async def get(self, path: str, **rest: Any) -> httpx.Response:
        return await self.client.get(self.url + path, **rest)

    async def metric(self, name: str) -> float:
        text = (await self.get("/metrics")).text
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


@asynccontextmanager
async def callers_of(gateway: Gateway) -> AsyncIterator[Callers]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:
        callers = Callers(gateway, client)
        try:
            yield callers
        finally:
            for task in callers.started:
                task.cancel()
            await asyncio.gather(*callers.started, return_exceptions=True)


async def wait_for_metric(callers: Callers, name: str, value: float) -> None:
    """Wait until a gauge has a value: gauges are written four times a second."""
    async with asyncio.timeout(30):
        while await callers.metric(name) != value:  # noqa: ASYNC110  another process counts
            await asyncio.sleep(0.05)


@pytest.mark.gen_test(timeout=60)
async def test_a_target_that_hangs_delays_no_other_and_one_account_does_not_get_all_places(
    gateway: Gateway, upstream: Upstream
) -> None:
    async with callers_of(gateway) as callers:
        before = await callers.metric('tornado_gate_shed_requests_total{reason="open_requests"}')
        hanging = callers.start("hanging", ALONE + 20)
        ended = asyncio.as_completed(hanging)
        refused = [await next(ended) for _ in range(20)]
        await asyncio.to_thread(upstream.wait_for_requests, ALONE)
        assert {(one.status_code, one.json()["error"]["code"], one.headers["retry-after"]) for one in refused} == {
            (503, "overloaded", "2")
        }
        after = await callers.metric('tornado_gate_shed_requests_total{reason="open_requests"}')
        assert after - before == len(refused) == 20
        await wait_for_metric(callers, "tornado_gate_open_requests", ALONE)
        assert [(await callers.ask("fast", "b")).status_code for _ in range(20)] == [200] * 20
        for path in ("/healthz", "/readyz", "/metrics", "/", "/console/signup", "/openapi.json"):
            assert (await callers.get(path)).status_code == 200, path
        for path in ("/admin/v1/models", "/v1/models"):
            found = await callers.get(path, headers={"authorization": f"Bearer {KEY}-root"})
            assert found.status_code == 200, path
    async with callers_of(gateway) as callers:  # all places are free again
        await wait_for_metric(callers, "tornado_gate_open_requests", 0)
        assert (await callers.ask("fast")).status_code == 200


@pytest.mark.gen_test(timeout=60)
async def test_requests_beyond_the_places_of_a_target_wait_and_then_take_a_fallback(
    gateway: Gateway, upstream: Upstream
) -> None:
    async with callers_of(gateway) as callers:
        series = 'tornado_gate_target_requests{provider="limited",state='
        callers.start("limited", 3)
        await wait_for_metric(callers, series + '"running"}', 3)
        waiting = callers.start("limited", 3)  # an account's share of a queue of five
        await wait_for_metric(callers, series + '"waiting"}', 3)
        refused = await callers.ask("limited")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "target_busy")
        assert refused.headers["retry-after"] == "60"
        assert "3" in refused.json()["error"]["message"]
        assert (await callers.ask("secured")).headers["x-gate-provider"] == "fast"
        callers.start("limited", 1, "b")
        await wait_for_metric(callers, series + '"waiting"}', 4)
        assert not any(task.done() for task in waiting)
        assert len(upstream.requests) == 4  # those that wait hold nothing of the upstream; one went to `fast`
        callers.started[0].cancel()
        await wait_for_metric(callers, series + '"waiting"}', 3)
        assert len(await asyncio.to_thread(upstream.wait_for_requests, 5)) == 5
    async with callers_of(gateway) as callers:
        await wait_for_metric(callers, series + '"running"}', 0)
        await wait_for_metric(callers, series + '"waiting"}', 0)


@pytest.mark.gen_test(timeout=90)
async def test_the_places_of_a_target_are_those_of_all_processes(
    upstream_process: Upstream, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.script(answer(Wait("go"), completion("hello"), path="/limited", repeat=True))
    conf = CONF.format(url=upstream_process.url, key=KEY, open_requests=OPEN_REQUESTS).replace("queue: 5", "queue: 40")
    gateway = Gateway.start(conf, tmp_path, "--processes", "3")
    try:
        async with callers_of(gateway) as callers:
            series = 'tornado_gate_target_requests{provider="limited",state='
            asked = callers.start("limited", 18)  # each on a connection of its own, so all processes have some
            await wait_for_metric(callers, series + '"waiting"}', 15)
            await wait_for_metric(callers, series + '"running"}', 3)
            assert len(await asyncio.to_thread(upstream.wait_for_requests, 3)) == 3
            upstream.tell("go")
            assert [one.status_code for one in await asyncio.gather(*asked)] == [200] * 18
            await wait_for_metric(callers, series + '"running"}', 0)
    finally:
        gateway.stop()


@pytest.mark.gen_test(timeout=60)
async def test_a_busy_target_is_no_failed_target(gateway: Gateway, upstream: Upstream) -> None:
    """More refusals than open a circuit; then the target answers as soon as a place is free."""
    async with callers_of(gateway) as callers:
        callers.start("hurried", 1)
        await asyncio.to_thread(upstream.wait_for_requests, 1)
        refused = [await callers.ask("hurried", account) for account in "abab"]
        assert {one.json()["error"]["code"] for one in refused} == {"target_busy"}
        assert await callers.metric('tornado_gate_open_circuits{model="hurried",provider="hurried"}') == 0
    await asyncio.to_thread(upstream.wait_until_closed)
    upstream.reset()
    upstream.script(answer(completion("hello"), path="/hurried"))
    async with callers_of(gateway) as callers:
        assert (await callers.ask("hurried")).status_code == 200
