"""When a request is sent a second time: only if the upstream cannot have processed it twice with an effect."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.raw import Peer, always, answer, on_both_loops, serving
from tornado_gate.http.client.faults import ConnectionBroken
from tornado_gate.http.client.head import parse_idle_seconds
from tornado_gate.http.client.pool import HttpClient


@asynccontextmanager
async def open_client() -> AsyncIterator[HttpClient]:
    """A client that has closed everything when it is left."""
    client = HttpClient(5)
    try:
        yield client
    finally:
        await client.close()


async def send_request(client: HttpClient, url: str, method: str = "POST", body: bytes = b"{}") -> bytes:
    response = await client.request(method, url, {}, body)
    return b"".join([piece async for piece in response])


def ends_at_the_second_request(end: Callable[[Peer], None]) -> tuple[list[bytes], Callable]:
    """A script: the first connection answers one request, reads all of the second one and then ends."""
    requests: list[bytes] = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(answer(b"%d" % peer.number))
        if peer.number == 0:
            requests.append(await peer.request())
            end(peer)
        else:
            await peer.gone()

    return requests, script


ENDS = pytest.mark.parametrize("end", [Peer.hang_up, Peer.reset], ids=["closed", "reset"])


@on_both_loops
@ENDS
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_request_with_an_effect_that_was_sent_completely_is_not_sent_again(
    end: Callable[[Peer], None], method: str
) -> None:
    requests, script = ends_at_the_second_request(end)
    async with serving(script) as raw, open_client() as client:
        assert await send_request(client, raw.url, method) == b"0"
        with pytest.raises(ConnectionBroken) as caught:
            await send_request(client, raw.url, method, b"second")
        assert not caught.value.unsent
        assert len(requests) == 2
        assert len(raw.peers) == 1


@on_both_loops
@ENDS
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_an_idempotent_request_is_sent_again(end: Callable[[Peer], None], method: str) -> None:
    requests, script = ends_at_the_second_request(end)
    async with serving(script) as raw, open_client() as client:
        assert await send_request(client, raw.url, method) == b"0"
        assert await send_request(client, raw.url, method, b"second") == b"1"
        assert requests[1] == requests[2]
        assert requests[2].endswith(b"second")


@on_both_loops
async def test_a_request_that_was_not_sent_completely_is_sent_again() -> None:
    """The upstream closes a kept connection at the head of a body that is larger than the buffers of the system."""
    large = b"x" * 32 * 1024 * 1024

    async def script(peer: Peer) -> None:
        await (peer.request() if peer.number else peer.head())
        await peer.say(answer(b"%d" % peer.number))
        if peer.number == 0:
            await peer.head()
            peer.reset()
        else:
            await peer.gone()

    async with serving(script) as raw, open_client() as client:
        assert await send_request(client, raw.url, body=b"") == b"0"
        assert await send_request(client, raw.url, body=large) == b"1"


@on_both_loops
async def test_a_sent_byte_of_the_answer_ends_every_repetition() -> None:
    def begin_answer(peer: Peer) -> None:
        peer.writer.write(b"H")

    _, script = ends_at_the_second_request(begin_answer)
    async with serving(script) as raw, open_client() as client:
        await send_request(client, raw.url, "GET")
        with pytest.raises(ConnectionBroken):
            await send_request(client, raw.url, "GET")
        assert len(raw.peers) == 1


@on_both_loops
async def test_a_connection_that_the_upstream_closed_while_idle_is_not_used_for_a_post() -> None:
    """The end has arrived, but the event loop has not polled since: the request must go to a new connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def serve_one() -> socket.socket:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(answer(b"ok"))
            return connection

        async with open_client() as client:
            for _ in range(3):
                asked, connection = await asyncio.gather(send_request(client, url), asyncio.to_thread(serve_one))
                assert asked == b"ok"
                connection.close()  # and the next request follows without a turn of the event loop


@on_both_loops
async def test_a_connection_is_not_reused_after_the_time_that_the_upstream_announced() -> None:
    async with serving(always(answer(Keep_Alive="timeout=1, max=100"))) as raw, open_client() as client:
        for _ in range(2):
            assert await send_request(client, raw.url) == b"ok"
        assert len(raw.peers) == 2


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("timeout=5", 4), ("max=100, Timeout = 10", 9), ("timeout=600", 30), ("timeout=0", 0), ("max=5", 30), ("", 30)],
)
def test_the_time_that_an_upstream_keeps_idle_connections(value: str, seconds: float) -> None:
    assert parse_idle_seconds(value) == seconds
