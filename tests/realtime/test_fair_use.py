"""Realtime sessions of real processes that are no longer allowed, or whose callers send and never read."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway import Gateway, run_command

CONF = """
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {{local-realtime: {{provider: local}}}}
realtime: {{messages_per_second: 1000000}}
keys: {keys}
"""
KEY = "test-key-of-realtime"
KEYS = f"[{{name: test, key: {KEY}}}]"
SDK = "OpenAI/Python 3.52.0"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    started: list[Gateway] = []

    def start(*arguments: str) -> Gateway:
        started.append(Gateway.start(CONF.format(keys=KEYS), tmp_path, *arguments))
        return started[-1]

    yield start
    for gateway in started:
        gateway.stop()


@asynccontextmanager
async def session(gateway: Gateway, key: str, **rest: Any) -> AsyncIterator[ClientConnection]:
    url = f"{gateway.url.replace('http', 'ws')}/v1/realtime?model=local-realtime"
    headers = {"Authorization": f"Bearer {key}"}
    async with connect(url, additional_headers=headers, user_agent_header=SDK, proxy=None, **rest) as client:
        assert json.loads(await client.recv())["type"] == "session.created"
        yield client


def keys(gateway: Gateway, *arguments: str) -> str:
    places = ["--conf", str(gateway.folder / "gate.yaml"), "--data-dir", str(gateway.folder / "var")]
    done = run_command("keys", arguments[0], *places, *arguments[1:])
    done.check_returncode()
    return done.stdout.strip()


def make_secret(gateway: Gateway, key: str) -> httpx.Response:
    body = {"session": {"type": "realtime", "model": "local-realtime"}}
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(f"{gateway.url}/v1/realtime/client_secrets", json=body, headers=headers, trust_env=False)


async def closed(client: ClientConnection) -> tuple[dict[str, Any], int, str]:
    """The last event of a session that the gateway closes, and the code and reason of the close frame."""
    last: dict[str, Any] = {}
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            last = json.loads(await client.recv())
    assert caught.value.rcvd is not None
    return last, caught.value.rcvd.code, caught.value.rcvd.reason


@pytest.mark.qa
def test_revoking_a_key_ends_its_sessions_and_client_secrets_in_every_process(start: Callable[..., Gateway]) -> None:
    gateway = start("--processes", "2")
    key = keys(gateway, "create", "--name", "ann")
    secret = make_secret(gateway, key).json()["value"]

    async def main() -> None:
        async with asyncio.timeout(30), AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(session(gateway, one)) for one in [key] * 6 + [secret] * 2
            ]  # over both processes, as the kernel distributes connections
            other = await stack.enter_async_context(session(gateway, KEY))
            listed = json.loads(await asyncio.to_thread(keys, gateway, "list", "--json"))
            (revoked,) = [row["id"] for row in listed if row["name"] == "ann"]
            await asyncio.to_thread(keys, gateway, "revoke", revoked)
            for client in clients:
                event, code, reason = await closed(client)
                assert (event["type"], event["error"]["code"]) == ("error", "invalid_api_key")
                assert (code, reason) == (1008, "The API key of this session was revoked or has expired.")
            await other.send(json.dumps({"type": "input_audio_buffer.clear"}))
            assert json.loads(await other.recv())["type"] == "input_audio_buffer.cleared"

    asyncio.run(main())
    assert make_secret(gateway, key).status_code == 401
    url = f"{gateway.url}/v1/realtime?model=local-realtime"
    headers = {
        "authorization": f"Bearer {secret}", "upgrade": "websocket", "connection": "Upgrade",
        "sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }  # fmt: skip
    assert httpx.get(url, headers=headers, trust_env=False).status_code == 401


def test_a_key_that_is_removed_from_conf_ends_its_sessions(start: Callable[..., Gateway]) -> None:
    gateway = start()

    async def main() -> None:
        async with asyncio.timeout(30), session(gateway, KEY) as client:
            conf = CONF.format(keys="[{name: another, key: another-test-key}]")
            (gateway.folder / "gate.yaml").write_text(conf, encoding="utf-8")
            os.kill(gateway.child.process.pid, signal.SIGHUP)
            assert (await closed(client))[1] == 1008

    asyncio.run(main())


MEGABYTE = 1024 * 1024


@pytest.mark.qa
def test_a_caller_who_sends_bad_messages_and_never_reads_is_not_read_any_more(
    start: Callable[..., Gateway],
) -> None:
    gateway, sent = start(), 0

    async def main() -> None:
        nonlocal sent
        async with session(gateway, KEY, max_queue=1, write_limit=1024, ping_interval=None) as client:

            async def pour() -> None:
                nonlocal sent
                while sent * 600 < 48 * MEGABYTE:
                    await client.send("{" * 600)
                    sent += 1

            pouring = asyncio.ensure_future(pour())
            before = 0
            while not pouring.done():  # until nothing is accepted any more
                await asyncio.wait([pouring], timeout=2)
                if sent == before:
                    break
                before = sent
            assert not pouring.done(), f"{sent} error events are in the gateway's memory"
            pouring.cancel()
            await asyncio.wait([pouring])
            for _ in range(1000):  # it goes on when the caller reads
                assert json.loads(await client.recv())["type"] == "error"
            client.transport.abort()  # the close frame would wait for the gateway, which waits for this caller to read

    asyncio.run(main())


async def count_sessions(gateway: Gateway, clients: AsyncExitStack, path: str, attempts: int) -> int:
    """Open sessions one after the other; returns how many were accepted. They stay open until `clients` is closed."""
    accepted = 0
    headers = {"Authorization": f"Bearer {KEY}"}
    for _ in range(attempts):
        url = gateway.url.replace("http", "ws") + path
        try:
            await clients.enter_async_context(connect(url, additional_headers=headers, proxy=None))
        except InvalidStatus as refused:
            assert refused.response.status_code == 429
            assert json.loads(refused.response.body or b"{}")["error"]["code"] == "too_many_sessions"
        else:
            accepted += 1
    return accepted


def test_the_limit_of_sessions_counts_those_of_all_processes(start: Callable[..., Gateway]) -> None:
    gateway = start("--processes", "2")

    async def run() -> None:
        async with AsyncExitStack() as clients:
            assert await count_sessions(gateway, clients, "/v1/realtime?model=local-realtime", 12) == 12
            assert await count_sessions(gateway, clients, "/v1/responses", 20) == 8
        async with AsyncExitStack() as clients:  # closed sessions are free again
            while not await count_sessions(gateway, clients, "/v1/responses", 1):
                pass

    asyncio.run(run())
