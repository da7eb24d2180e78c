"""Concurrent requests of a key: what is counted, what is refused, and that every end frees a place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tornado.netutil import bind_sockets

from tests.support.gates import ANSWER, KEY, FakeProvider, make_config, make_services
from tornado_gate import types
from tornado_gate.config.model import KeyEntry, Secret
from tornado_gate.errors import RateLimited, Unavailable
from tornado_gate.gateway.concurrency import ConcurrentRequests
from tornado_gate.http.server.front import HttpServer
from tornado_gate.server.app import make_app
from tornado_gate.server.services import Services
from tornado_gate.types import Caller, Limits

BODY = {"model": "m", "ask": "Hi"}


def make_caller(identity: str, most: int | None) -> Caller:
    return Caller(id=identity, account=identity, concurrent_requests=most)


def test_a_key_has_as_many_as_it_may_and_the_error_says_so() -> None:
    requests, caller = ConcurrentRequests(), make_caller("a", 2)
    requests.enter(caller)
    requests.enter(caller)
    with pytest.raises(RateLimited, match="may have 2 concurrent requests; 2 are open") as caught:
        requests.enter(caller)
    assert (caught.value.code, caught.value.retry_after) == ("too_many_concurrent", 1)
    requests.enter(make_caller("b", 1))
    requests.leave(caller)
    requests.enter(caller)
    assert requests.count("a") == 2


def test_a_lower_limit_holds_for_requests_that_are_open_already() -> None:
    requests = ConcurrentRequests()
    for _ in range(3):
        requests.enter(make_caller("a", 3))
    with pytest.raises(RateLimited, match="may have 1 concurrent requests; 3 are open"):
        requests.enter(make_caller("a", 1))


def test_the_keys_of_a_team_share_its_limit() -> None:
    requests, limits = ConcurrentRequests(), Limits(concurrent_requests=2)
    one, other = (Caller(id=name, account=name, team="t", team_limits=limits) for name in "ab")
    both = Caller(id="c", account="c", team="t", team_limits=limits, concurrent_requests=1)
    requests.enter(one)
    requests.enter(both)
    with pytest.raises(RateLimited, match="The team of this API key may have 2 concurrent requests; 2 are open"):
        requests.enter(other)
    with pytest.raises(RateLimited, match="This API key may have 1 concurrent requests; 1 are open"):
        requests.enter(both)
    requests.leave(both)
    requests.enter(other)
    requests.leave(one)
    requests.leave(other)
    assert not requests._open


def test_a_key_without_open_requests_is_forgotten() -> None:
    requests, caller = ConcurrentRequests(), make_caller("a", 2)
    requests.enter(caller)
    requests.leave(caller)
    assert not requests._open


class Gatekeeper:
    """A provider's script that reports each request that begins, and answers when told."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.go_on = asyncio.Event()

    async def __call__(self, _provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        self.begun.put_nowait(call.id)
        await self.go_on.wait()
        for event in ANSWER:
            yield event


@asynccontextmanager
async def serving(tmp_path: Path, fake: FakeProvider) -> AsyncIterator[tuple[Services, httpx.AsyncClient]]:
    key = KeyEntry(name="test", key=Secret(KEY), account="test", concurrent_requests=2, requests_per_minute=5)
    services = make_services(tmp_path, make_config(tmp_path, keys=(key,)), fake=fake)
    await services.start()
    server = HttpServer(make_app(services))
    sockets = bind_sockets(0, "127.0.0.1")
    await server.listen(sockets)
    try:
        async with (
            asyncio.timeout(30),
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{sockets[0].getsockname()[1]}",
                headers={"authorization": f"Bearer {KEY}"},
                trust_env=False,
            ) as client,
        ):
            yield services, client
    finally:
        server.stop()
        await server.close_all_connections()
        await services.close()


def post(client: httpx.AsyncClient, **body: Any) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(client.post("/plain", json={**BODY, **body}))


async def until_free(services: Services) -> None:
    while services.gate.concurrency._open:  # noqa: ASYNC110  a state of the gateway that has no event
        await asyncio.sleep(0.005)


def test_open_requests_are_counted_until_they_end_and_lists_are_not(tmp_path: Path) -> None:
    async def main() -> None:
        script = Gatekeeper()
        async with serving(tmp_path, FakeProvider(script=script)) as (services, client):
            running = [post(client), post(client, stream=True)]
            for _ in running:
                await script.begun.get()
            refused = await post(client)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "too_many_concurrent"
            assert refused.headers["retry-after"] == "1"
            assert (await client.get("/plain/models")).status_code == 200
            script.go_on.set()
            assert [(await task).status_code for task in running] == [200, 200]
            await until_free(services)
            assert (await post(client)).status_code == 200
            await until_free(services)

    asyncio.run(main())


@pytest.mark.parametrize("ending", ["caller leaves", "upstream fails", "body is refused", "rate limit"])
def test_every_end_frees_the_place(tmp_path: Path, ending: str) -> None:
    async def main() -> None:
        script = Gatekeeper()
        fake = FakeProvider(script=script, raises=Unavailable("down") if ending == "upstream fails" else None)
        async with serving(tmp_path, fake) as (services, client):
            if ending == "caller leaves":
                task = post(client)
                await script.begun.get()
                assert services.gate.concurrency._open
                task.cancel()
            elif ending == "body is refused":
                answer = await client.post("/plain", content=b"{")
                assert answer.status_code == 400
            elif ending == "rate limit":
                script.go_on.set()
                statuses = [(await post(client)).status_code for _ in range(6)]
                assert statuses == [200] * 5 + [429]
            else:
                assert (await post(client)).status_code == 503
            await until_free(services)

    asyncio.run(main())


def test_a_rotated_key_and_its_successor_count_together(tmp_path: Path) -> None:
    async def main() -> None:
        script = Gatekeeper()
        async with serving(tmp_path, FakeProvider(script=script)) as (services, client):
            store = services.gate.keys._store
            old_text, old = store.create("a", limits={"concurrent_requests": 1})
            new_text, _ = store.rotate(old.id, overlap_seconds=60)
            client.headers["authorization"] = f"Bearer {old_text}"
            running = post(client)
            await script.begun.get()
            client.headers["authorization"] = f"Bearer {new_text}"
            assert (await post(client)).status_code == 429
            script.go_on.set()
            assert (await running).status_code == 200
            await until_free(services)

    asyncio.run(main())
