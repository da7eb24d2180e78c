"""A gateway for connections whose messages are requests, and a client that sends exact messages.

A module that wants the fixtures says ``http = message_sockets.http`` and ``start = message_sockets.start``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.gateway import Gateway, run_command
from tests.support.stored_responses import answer_stream, events_of, response
from tests.support.upstream import Answer, Upstream, Wait
from tests.support.variants import vary

KEY = "test-key-of-message-sockets"
CONF = """
server: {{http: {http}}}
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  first: {{plugin: openai, base_url: "{url}/first", api_key: "scripted-key-0123456789", responses: true}}
models:
  local-chat: {{provider: local}}
  up: {{provider: first}}
realtime: {{sessions_per_account: 3, origins: ["https://app.example"]}}
limits: {{body_bytes: 300000, turns_bytes: {turns}}}
keys:
  - {{name: test, key: "{key}"}}
  - {{name: narrow, key: "narrow-{key}", operations: [embeddings]}}
"""
PATIENCE_SECONDS = 30.0
Start = Callable[..., Gateway]


@pytest.fixture(params=vary("httptools", "tornado"))
def http(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def start(tmp_path: Path, upstream: Upstream) -> Iterator[Start]:
    started: list[Gateway] = []

    def start(*arguments: str, http: str = "httptools", turns: int = 1_000_000) -> Gateway:
        conf = CONF.format(http=http, url=upstream.url, key=KEY, turns=turns)
        started.append(Gateway.start(conf, tmp_path, *arguments))
        return started[-1]

    yield start
    for gateway in started:
        gateway.stop()


@asynccontextmanager
async def session(gateway: Gateway, key: str = KEY, **rest: Any) -> AsyncIterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {key}", **rest.pop("headers", {})}
    url = f"{gateway.url.replace('http', 'ws', 1)}{rest.pop('path', '/v1/responses')}"
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        connect(url, additional_headers=headers, proxy=None, max_size=None, **rest) as client,
    ):
        yield client


async def create(client: ClientConnection, **fields: Any) -> None:
    await client.send(json.dumps({"type": "response.create", "model": "up", "input": "Hi", "store": False, **fields}))


async def receive(client: ClientConnection, kind: str) -> dict[str, Any]:
    """The next event of a type."""
    while True:
        event: dict[str, Any] = json.loads(await client.recv())
        if event["type"] == kind:
            return event


async def wait_until_asked(upstream: Upstream, count: int) -> list[Any]:
    return await asyncio.to_thread(upstream.wait_for_requests, count)


async def wait_for_end(client: ClientConnection) -> tuple[list[dict[str, Any]], int, str]:
    """The events until the gateway closes the connection, and the code and reason of the close frame."""
    events: list[dict[str, Any]] = []
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            events.append(json.loads(await client.recv()))
    assert caught.value.rcvd is not None
    return events, caught.value.rcvd.code, caught.value.rcvd.reason


def waiting(name: str, word: str) -> Answer:
    """A response that begins, and goes on at a word."""
    first, last = events_of(response(name, store=False))
    return answer_stream(first, Wait(word), last)


def plain(name: str) -> Answer:
    return answer_stream("".join(events_of(response(name, store=False))))


def keys(gateway: Gateway, *arguments: str) -> str:
    places = ["--conf", str(gateway.folder / "gate.yaml"), "--data-dir", str(gateway.folder / "var")]
    done = run_command("keys", arguments[0], *places, *arguments[1:])
    done.check_returncode()
    return done.stdout.strip()
