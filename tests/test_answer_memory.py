"""Large answers hold their memory until their callers have read them, and it is bounded. With a real gateway."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import completion
from tests.support.upstream import Hang, Upstream, answer

MIB = 1024 * 1024
KEY = "test-key-of-large-answers"
CONF = """
plugins: {{openai: true}}
server: {{access_log: false}}
providers:
  up: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-upstream}}
models:
  up: {{provider: up}}
limits: {{answers_bytes: {most}}}
keys:
  - {{name: a, key: {key}-a}}
  - {{name: b, key: {key}-b}}
"""
BODY: dict[str, Any] = {"model": "up", "messages": [{"role": "user", "content": "hi"}]}
LARGE = completion("x" * (12 * MIB))


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY, most=50 * MIB)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("memory"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    return one_gateway


def send_request(gateway: Gateway, account: str, **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}-{account}"}
    url = f"{gateway.url}/v1/chat/completions"
    return httpx.post(url, json={**BODY, **more}, headers=headers, timeout=60, trust_env=False)


def begin(gateway: Gateway, account: str) -> socket.socket:
    """Send a request, and read no more of its answer than the beginning."""
    address = urlsplit(gateway.url)
    caller = socket.socket()
    caller.settimeout(60)
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    caller.connect((address.hostname, address.port))
    body = json.dumps(BODY)
    caller.sendall(
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer {KEY}-{account}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    assert caller.recv(12) == b"HTTP/1.1 200"
    return caller


def test_answers_that_are_not_read_count_until_their_callers_leave(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(LARGE, repeat=True))
    with ExitStack() as stack:
        for _ in range(2):  # an account alone may hold half
            stack.enter_context(begin(gateway, "a"))
        refused = send_request(gateway, "a")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert refused.headers["retry-after"] == "5"
        assert send_request(gateway, "b").status_code == 200
    while send_request(gateway, "a").status_code != 200:  # the gateway learns a moment later that they have left
        pass


@pytest.mark.gen_test(timeout=90)
async def test_the_beginnings_of_large_events_count_too(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer('data: {"id": "' + "x" * (12 * MIB), Hang(), repeat=True))
    async with httpx.AsyncClient(trust_env=False, timeout=40) as client:
        url, headers = f"{gateway.url}/v1/chat/completions", {"authorization": f"Bearer {KEY}-a"}
        asked = [
            asyncio.ensure_future(client.post(url, json={**BODY, "stream": True}, headers=headers)) for _ in range(3)
        ]
        refused = await next(asyncio.as_completed(asked))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert sum(task.done() for task in asked) == 1
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    upstream.reset()
    upstream.script(answer(LARGE, repeat=True))
    while (await asyncio.to_thread(send_request, gateway, "a")).status_code != 200:  # as above
        pass
