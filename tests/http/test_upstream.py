"""The default call upstream, against a real server: what comes down, what becomes an error, what is never told."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest
from tornado.ioloop import IOLoop
from tornado.netutil import bind_sockets

from tests.support.raw import Peer, once, serving, then_wait
from tornado_gate import errors
from tornado_gate.http import upstream
from tornado_gate.http.client.faults import ConnectTimeout
from tornado_gate.testing import FakeUpstream, call_to
from tornado_gate.types import Call, Timeouts, UpstreamRequest, UpstreamResponse, replace

POST = {"model": "m", "ümlaut": 1}


@pytest.fixture
def pool(io_loop: IOLoop) -> Iterator[upstream.Pool]:
    pool = upstream.Pool(Timeouts(connect=1))
    yield pool
    io_loop.run_sync(pool.close)


def call_for(url: str, pool: upstream.Pool, closing: AsyncExitStack) -> Call:
    call = call_to(pool=pool, closing=closing)
    return replace(call, target=replace(call.target, base_url=url))


async def send(fake: FakeUpstream, pool: upstream.Pool, **fields: Any) -> tuple[UpstreamResponse, bytes]:
    async with fake.serving(), AsyncExitStack() as closing:
        outgoing = UpstreamRequest(**{"url": fake.url + "/path", "json": POST, **fields})
        response = await upstream.call_upstream(call_for(fake.url, pool, closing), outgoing)
        return response, await response.read()


@pytest.mark.gen_test
async def test_json_goes_up_and_bytes_come_down(pool: upstream.Pool) -> None:
    fake = FakeUpstream(chunks=(b"one", b"two"), headers={"Content-Type": "text/plain", "X-Odd": "y"})
    response, body = await send(fake, pool, headers={"Authorization": "Bearer k"})
    assert body == b"onetwo"
    assert response.headers["x-odd"] == "y"
    (request,) = fake.requests
    assert orjson.loads(request.body) == POST
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Authorization"] == "Bearer k"
    assert "User-Agent" not in request.headers


@pytest.mark.gen_test
async def test_a_body_of_bytes_goes_up_as_it_is(pool: upstream.Pool) -> None:
    fake = FakeUpstream()
    await send(fake, pool, json=None, body=b'{"a" : 1e5}')
    assert fake.requests[0].body == b'{"a" : 1e5}'


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("status", "body", "kind", "shown", "message"),
    [
        (400, {"error": {"message": "too long", "param": "n", "code": "bad"}}, errors.UpstreamRefused, 400, "too long"),
        (404, {"error": "no such model"}, errors.UpstreamRefused, 404, "no such model"),
        (422, {"detail": [{"loc": ["body"]}]}, errors.UpstreamRefused, 422, "loc"),
        (409, b"<html>", errors.UpstreamRefused, 409, "refused the request with status 409"),
        (401, {"error": {"message": "bad key sk-1"}}, errors.UpstreamKeyRefused, 502, "gateway's own credentials"),
        (403, {"error": {"message": "no access"}}, errors.UpstreamKeyRefused, 502, "gateway's own credentials"),
        (
            400,
            {"error": {"details": [{"reason": "API_KEY_INVALID"}]}},
            errors.UpstreamKeyRefused,
            502,
            "Tell an administrator",
        ),
        (429, {"error": {"code": "insufficient_quota"}}, errors.UpstreamKeyRefused, 502, "Tell an administrator"),
        (429, {"error": {"message": "slow"}}, errors.UpstreamRateLimited, 429, "slow"),
        (500, {"error": {"message": "stack"}}, errors.UpstreamError, 502, "failed with status 500"),
        (503, b"", errors.UpstreamOverloaded, 503, "overloaded"),
        (529, b"", errors.UpstreamOverloaded, 503, "overloaded"),
        (504, b"", errors.UpstreamTimeout, 504, "reported a timeout"),
        (302, b"", errors.UpstreamError, 502, "failed with status 302"),
    ],
)
async def test_a_status_becomes_its_error(
    pool: upstream.Pool, status: int, body: Any, kind: type[errors.GateError], shown: int, message: str
) -> None:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    fake = FakeUpstream(status=status, chunks=(raw,), headers={"Retry-After": "9", "Location": "http://x.test/"})
    with pytest.raises(kind) as caught:
        await send(fake, pool)
    assert (type(caught.value), caught.value.status) == (kind, shown)
    assert message in caught.value.message
    assert "sk-1" not in caught.value.message
    if status == 429:
        assert caught.value.headers == ({"Retry-After": "9"} if shown == 429 else {})


@pytest.mark.gen_test
async def test_a_key_goes_to_its_configured_host_only(pool: upstream.Pool) -> None:
    fake = FakeUpstream()
    with pytest.raises(errors.ContractError):
        await send(fake, pool, url="http://elsewhere.test/path")
    assert not fake.requests


@pytest.mark.gen_test
async def test_an_upstream_that_is_not_there_is_502(pool: upstream.Pool) -> None:
    (free,) = bind_sockets(0, "127.0.0.1")
    url = f"http://127.0.0.1:{free.getsockname()[1]}"
    free.close()
    async with AsyncExitStack() as closing:
        with pytest.raises(errors.UpstreamError) as caught:
            await upstream.call_upstream(call_for(url, pool, closing), UpstreamRequest(url=url, json={}))
    assert (caught.value.status, caught.value.code) == (502, "upstream_unreachable")
    assert "127.0.0.1" not in caught.value.message


class BrokenUpstream:
    """Says `bytes_said` on each connection and then hangs up."""

    def __init__(self, *bytes_said: bytes) -> None:
        self.bytes_said = list(bytes_said)
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        said = self.bytes_said[min(self.connections, len(self.bytes_said)) - 1]
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()
        writer.close()


async def talk_to(broken: BrokenUpstream, pool: upstream.Pool, times: int = 1) -> bytes:
    server = await asyncio.start_server(broken.serve, "127.0.0.1", 0, family=socket.AF_INET)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    body = b""
    async with server:
        for _ in range(times):
            async with AsyncExitStack() as closing:
                outgoing = UpstreamRequest(url=url, json={})
                response = await upstream.call_upstream(call_for(url, pool, closing), outgoing)
                body = await response.read()
    return body


@pytest.mark.gen_test
async def test_an_answer_that_breaks_off_is_an_error_and_not_an_end(pool: upstream.Pool) -> None:
    broken = BrokenUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
    with pytest.raises(errors.UpstreamError, match="closed the connection"):
        await talk_to(broken, pool)


@pytest.mark.gen_test
async def test_an_upstream_that_hangs_up_on_a_new_connection_is_not_asked_twice(pool: upstream.Pool) -> None:
    broken = BrokenUpstream(b"")
    with pytest.raises(errors.UpstreamError):
        await talk_to(broken, pool)
    assert broken.connections == 1


@pytest.mark.gen_test
async def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(pool: upstream.Pool) -> None:
    kept = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"
    broken = BrokenUpstream(kept, kept)
    assert await talk_to(broken, pool, times=2) == b"ok"


@pytest.mark.gen_test
async def test_leaving_in_the_middle_closes_the_connection(pool: upstream.Pool) -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
        while await reader.read(1000):
            pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, family=socket.AF_INET)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        async with AsyncExitStack() as closing:
            response = await upstream.call_upstream(call_for(url, pool, closing), UpstreamRequest(url=url, json={}))
            assert await anext(response.chunks) == b"ok"
        await closed.wait()


HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "Accept": "*/*"}


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, HEADERS),
        ({"json": None, "body": b"x"}, {**HEADERS, "Content-Type": "application/octet-stream", "Content-Length": "1"}),
        ({"headers": {"content-type": "a/b", "ACCEPT": "c/d"}}, {**HEADERS, "Content-Type": "a/b", "Accept": "c/d"}),
        ({"headers": {"accept-encoding": "gzip", "X-Odd": "y"}}, {**HEADERS, "Accept-Encoding": "gzip", "X-Odd": "y"}),
    ],
    ids=["of JSON", "of bytes", "given in another case", "others"],
)
async def test_each_request_has_its_headers_once(
    pool: upstream.Pool, fields: dict[str, Any], sent: dict[str, str]
) -> None:
    fake = FakeUpstream()
    await send(fake, pool, **fields)
    found = fake.requests[0].headers
    assert {name: found.get_list(name) for name in sent} == {name: [value] for name, value in sent.items()}
    assert set(found) == {*sent, "Host", "Content-Length"}


@pytest.mark.gen_test
async def test_a_get_has_neither_body_nor_length(pool: upstream.Pool) -> None:
    fake = FakeUpstream()
    await send(fake, pool, method="GET", json=None)
    assert set(fake.requests[0].headers) == {"Host", "Accept-Encoding", "Accept"}


@pytest.mark.gen_test
async def test_a_body_in_pieces_goes_up_with_its_length(pool: upstream.Pool) -> None:
    class Pieces:
        length = 6

        async def chunks(self) -> AsyncIterator[bytes]:
            yield b"one"
            yield b"two"

    fake = FakeUpstream()
    await send(fake, pool, json=None, body=Pieces())
    assert fake.requests[0].body == b"onetwo"
    assert fake.requests[0].headers["Content-Length"] == "6"


@pytest.mark.gen_test
async def test_headers_that_come_twice_are_joined(pool: upstream.Pool) -> None:
    said = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n"
    async with serving(once(said)) as raw, AsyncExitStack() as closing:
        response = await upstream.call_upstream(call_for(raw.url, pool, closing), UpstreamRequest(url=raw.url, json={}))
        assert response.headers["x-a"] == "1, 2"


@pytest.mark.gen_test
@pytest.mark.parametrize("headers", [{"X": "a\r\nb"}, {"X\r\nY": "a"}, {"X": "\0"}], ids=ascii)
async def test_a_header_that_cannot_be_sent_is_502_and_its_value_not_logged(
    pool: upstream.Pool, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeUpstream()
    with pytest.raises(errors.UpstreamError, match="could not be sent") as caught:
        await send(fake, pool, headers={**headers, "Authorization": "Bearer k-e-y\n"})
    assert (caught.value.status, caught.value.code) == (502, "upstream_error")
    assert "k-e-y" not in caplog.text
    assert not fake.requests


@pytest.mark.gen_test
async def test_an_upstream_that_does_not_accept_in_time_is_504(
    pool: upstream.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(*_: object, **__: object) -> None:
        raise ConnectTimeout("late")

    monkeypatch.setattr(type(pool.client()), "request", late)
    with pytest.raises(errors.UpstreamTimeout, match="did not accept a connection within") as caught:
        await send(FakeUpstream(), pool)
    assert (caught.value.status, caught.value.code) == (504, "upstream_timeout")


@pytest.mark.gen_test
async def test_the_words_of_an_error_are_read_to_their_end_and_its_connection_is_kept(pool: upstream.Pool) -> None:
    body = orjson.dumps({"error": {"message": "too long", "padding": "x" * 2000}})
    said = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(said[:100], said[100:1000], said[1000:])

    async with serving(script) as raw:
        for _ in range(2):
            async with AsyncExitStack() as closing:
                with pytest.raises(errors.UpstreamRefused, match="too long"):
                    await upstream.call_upstream(
                        call_for(raw.url, pool, closing), UpstreamRequest(url=raw.url, json={})
                    )
        assert len(raw.peers) == 1


@pytest.mark.gen_test
async def test_an_error_whose_words_do_not_come_is_still_that_error(
    pool: upstream.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "ERROR_BODY_SECONDS", 0.05)
    said = b'HTTP/1.1 429 Slow\r\nContent-Length: 99\r\nRetry-After: 7\r\n\r\n{"error'
    async with serving(then_wait(said)) as raw, AsyncExitStack() as closing:
        with pytest.raises(errors.UpstreamRateLimited) as caught:
            await upstream.call_upstream(call_for(raw.url, pool, closing), UpstreamRequest(url=raw.url, json={}))
    assert caught.value.headers == {"Retry-After": "7"}


HERE = "https://api.test:8443/v1"


@pytest.mark.parametrize(
    "url",
    [
        HERE,
        f"{HERE}/chat",
        "https://api.test:8443",
        "https://api.test:8443?x",
        "https://api.test:8443#x",
        "wss://api.test:8443/v1",
        "HTTPS://api.test:8443/v1",
    ],
)
def test_a_request_may_go_anywhere_on_its_host(url: str) -> None:
    call = call_to()
    upstream.check_host(replace(call, target=replace(call.target, base_url=HERE)), UpstreamRequest(url=url))


@pytest.mark.parametrize(
    "url",
    [
        "http://api.test:8443/v1",
        "https://api.test/v1",
        "https://api.test:84430/v1",
        "https://api.test:8443.evil.test/",
        "https://api.test:8443@evil.test/",
        "https://api.test:8443\\@evil.test/",
        "https://u@api.test:8443/",
        "ws://api.test:8443/",
        "https://evil.test/https://api.test:8443/v1",
        "//api.test:8443/v1",
        "https:api.test:8443/v1",
        "",
    ],
)
def test_a_request_may_go_to_no_other_host(url: str) -> None:
    call = call_to()
    with pytest.raises(errors.ContractError):
        upstream.check_host(replace(call, target=replace(call.target, base_url=HERE)), UpstreamRequest(url=url))


def test_requests_are_sent_without_aiohttp_unless_it_is_asked_for() -> None:
    code = """
import asyncio, sys
from tests.http.test_upstream import FakeUpstream, Timeouts, send, upstream
async def main():
    pool = upstream.Pool(Timeouts())
    await send(FakeUpstream(), pool)
    await pool.close()
asyncio.run(main())
sys.exit("aiohttp" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
