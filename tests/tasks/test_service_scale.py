"""Many stored tasks, and many who ask about one of them: neither costs the gateway's start, nor the upstream anything."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.support.fixtures import StartGateway
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream
from tests.support.videos import Client, Job
from tests.tasks import test_store_scale as store_scale

MANY = 20_000
CLIENTS = 200
POLL_SECONDS = 0.2
ASKING_SECONDS = 2.0
KEY = "test-key-of-acme"
# Names as in the records that `store_scale` makes.
CONF = """
plugins: {{openai: true}}
providers: {{studio: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-upstream}}}}
models: {{film: {{provider: studio, model: film-1}}}}
videos: {{poll_seconds: {poll}}}
keys: [{{name: test, key: {key}, account: acme}}]
"""


def conf(upstream: Upstream) -> str:
    return CONF.format(url=upstream.url, poll=POLL_SECONDS, key=KEY)


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ids of so many tasks below `tmp_path`, oldest first, of which the first has not ended."""
    monkeypatch.setattr(store_scale, "ACTIVE_EACH", MANY)
    _, ids = store_scale.filled(tmp_path / "var" / "tasks", MANY)
    yield ids
    shutil.rmtree(tmp_path / "var")


@pytest.mark.qa
def test_a_gateway_with_many_stored_tasks_starts_at_once_and_finds_each(
    stored: list[str], tmp_path: Path, upstream: Upstream
) -> None:
    job = Job()
    job.succeeds(upstream)
    began = time.perf_counter()
    gateway = Gateway.start(conf(upstream), tmp_path)
    took = time.perf_counter() - began
    client = Client(gateway.url, KEY)
    try:
        assert client.completed(stored[0])["progress"] == 100, "what had not ended goes on"
        for task in (stored[2], stored[MANY // 2], stored[-1]):
            assert client.shown(task)["status"] == "completed"
        page = client.ask("GET", "/v1/videos", params={"limit": 3}).json()
        assert [one["id"] for one in page["data"]] == stored[:-4:-1]
        job.succeeds(upstream)  # the new task starts at once
        assert client.shown(client.create(model="film"))["status"] in ("queued", "pending", "completed")
    finally:
        client.http.close()
        gateway.stop()
    print(f"start among {MANY} tasks: {took:.2f} s")
    assert took < 5


async def many_ask(url: str, task: str) -> tuple[Counter[int], float]:
    """What so many clients are answered who all ask, again and again, for a while; and for how long they did."""
    answers: Counter[int] = Counter()
    began = time.monotonic()
    connector = aiohttp.TCPConnector(limit=CLIENTS)
    headers = {"authorization": f"Bearer {KEY}"}

    async def one(session: aiohttp.ClientSession) -> None:
        while time.monotonic() - began < ASKING_SECONDS:
            async with session.get(f"{url}/v1/videos/{task}") as response:
                await response.read()
                answers[response.status] += 1

    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        await asyncio.gather(*(one(session) for _ in range(CLIENTS)))
    return answers, time.monotonic() - began


@pytest.mark.qa
def test_however_many_ask_the_upstream_is_asked_at_its_own_pace(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    client = Client(start_gateway(conf(upstream)).url, KEY)
    job = Job()
    job.lasts(upstream)
    task = client.create(model="film")
    client.waits_for(task, "pending")
    before = len(upstream.requests)
    answers, seconds = asyncio.run(many_ask(client.url, task))
    asked = upstream.requests[before:]
    client.delete(task)
    client.http.close()
    assert set(answers) == {200}
    assert answers.total() >= 2 * CLIENTS
    assert {(request.method, request.path) for request in asked} == {("GET", f"/v1/videos/{job.id}")}
    print(f"{answers.total()} polls of {CLIENTS} clients in {seconds:.1f} s: the upstream was asked {len(asked)} times")
    assert len(asked) <= seconds / POLL_SECONDS + 1
