"""A request leaves nothing for the garbage collector, which looks seldom in a server."""

from __future__ import annotations

from collections import Counter

import pytest
from tornado.httpserver import HTTPServer
from tornado.tcpclient import TCPClient

from tests.support.garbage import find_garbage
from tests.support.gates import KEY
from tests.support.variants import vary
from tornado_gate.streams.timer_wheel import get_wheel

HEAD = f"POST /plain HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"


@pytest.mark.gen_test(timeout=60)  # the collector takes seconds in a process that has run many tests
@pytest.mark.parametrize("http_server", ["httptools"], indirect=True)  # Tornado's own front makes cycles of its own
@pytest.mark.parametrize(
    "body", vary(b'{"model":"m","ask":"hi","stream":true}', b'{"model":"m","ask":"hi"}', b'{"model":"?"}', b"{")
)
async def test_what_a_request_has_made_goes_when_it_is_answered(
    http_server: HTTPServer, http_port: int, body: bytes
) -> None:
    get_wheel()  # takes the place of the one of another test's loop, which is for the collector

    async def ask() -> None:
        for _ in range(5):
            stream = await TCPClient().connect("127.0.0.1", http_port)
            await stream.write(f"{HEAD}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            assert (await stream.read_until_close()).startswith(b"HTTP/1.1 ")

    assert await find_garbage(ask) == Counter()
