"""The client's connections: kept, shared, replaced, given up. Whatever could bring somebody else's answer is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.support.raw import Peer, always, answer, chunked, on_both_loops, once, serving, then_wait
from tornado_gate.http.client import pool as pool_module
from tornado_gate.http.client import response as response_module
from tornado_gate.http.client.faults import (
    ConnectError,
    ConnectionBroken,
    ConnectTimeout,
    HttpClientError,
    MalformedResponse,
)
from tornado_gate.http.client.pool import HttpClient
from tornado_gate.http.client.request import Origin


@asynccontextmanager
async def opened(connect_seconds: float = 5) -> AsyncIterator[HttpClient]:
    """A client that has closed everything when it is left."""
    client = HttpClient(connect_seconds)
    try:
        yield client
    finally:
        await client.close()


async def body_of(client: HttpClient, url: str, method: str = "POST", body: bytes | None = b"{}") -> bytes:
    response = await client.request(method, url, {}, body)
    return b"".join([piece async for piece in response])


@on_both_loops
async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with serving(always(answer(b"body"))) as raw, opened() as client:
        assert [await body_of(client, raw.url) for _ in range(5)] == [b"body"] * 5
        assert len(raw.peers) == 1


@on_both_loops
async def test_the_connection_that_was_used_last_is_used_first() -> None:
    asked: list[int] = []

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            asked.append(peer.number)
            await peer.say(answer())

    async with serving(script) as raw, opened() as client:
        await asyncio.gather(*(body_of(client, raw.url) for _ in range(3)))
        asked.clear()
        for _ in range(4):
            await body_of(client, raw.url)
        assert len(set(asked)) == 1


@on_both_loops
async def test_a_thousand_requests_at_once_get_each_its_own_answer() -> None:
    async def script(peer: Peer) -> None:
        while True:
            head, _, body = (await peer.request()).partition(b"\r\n\r\n")
            await peer.say(chunked(head.split()[1], body))

    async def ask(client: HttpClient, url: str, number: int) -> None:
        assert await body_of(client, f"{url}/{number}", body=b"%d" % number) == b"/%d%d" % (number, number)

    async with serving(script) as raw, opened(20) as client:
        for _ in range(2):
            await asyncio.gather(*(ask(client, raw.url, number) for number in range(500)))
        assert len(raw.peers) <= 500


@on_both_loops
async def test_an_answer_that_has_come_whole_gives_its_connection_back_before_it_is_read() -> None:
    async with serving(always(answer(b"x" * 1000))) as raw, opened() as client:
        unread = await client.request("POST", raw.url, {}, b"")
        while not unread.ended:
            await unread.wait_for_change()
        assert await body_of(client, raw.url) == b"x" * 1000
        assert b"".join([piece async for piece in unread]) == b"x" * 1000
        unread.close()
        assert len(raw.peers) == 1


SPOILED = {
    "it says so": answer(Connection="close"),
    "HTTP/1.0": answer().replace(b"1.1", b"1.0"),
    "another answer behind": answer() * 2,
    "a beginning behind": answer() + b"H",
    "garbage behind": answer() + b"garbage",
    "a byte behind chunks": chunked(b"ok") + b"0",
    "a body for a 204": answer(b"", status="204 No Content", Content_Length="5"),
}


@on_both_loops
@pytest.mark.parametrize("said", SPOILED.values(), ids=SPOILED)
async def test_a_connection_that_may_hold_something_else_is_not_used_again(said: bytes) -> None:
    async with serving(then_wait(said)) as raw, opened() as client:
        bodies = [await body_of(client, raw.url) for _ in range(2)]
        assert bodies in ([b"ok"] * 2, [b""] * 2)
        assert len(raw.peers) == 2


@on_both_loops
async def test_http_1_0_keeps_a_connection_that_both_sides_want_to_keep() -> None:
    async with serving(always(answer(Connection="keep-alive").replace(b"1.1", b"1.0"))) as raw, opened() as client:
        assert [await body_of(client, raw.url) for _ in range(2)] == [b"ok"] * 2
        assert len(raw.peers) == 1


@on_both_loops
async def test_blank_lines_between_answers_are_nothing() -> None:
    async with serving(always(b"\r\n" + answer() + b"\r\n")) as raw, opened() as client:
        assert [await body_of(client, raw.url) for _ in range(3)] == [b"ok"] * 3


@on_both_loops
@pytest.mark.parametrize(
    "late", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"], ids=["its end", "an answer"]
)
async def test_an_idle_connection_on_which_something_comes_is_dropped_at_once(late: bytes) -> None:
    dropped = asyncio.Event()
    speak = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(b"%d" % peer.number))
        if peer.number == 0:
            await speak.wait()
            await peer.say(late)
            if not late:
                peer.writer.write_eof()
            await peer.gone()
            dropped.set()
        else:
            await peer.gone()

    async with serving(script) as raw, opened() as client:
        assert await body_of(client, raw.url) == b"0"
        speak.set()
        await dropped.wait()
        assert await body_of(client, raw.url) == b"1"


@on_both_loops
async def test_a_connection_that_nobody_uses_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.05)
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer())
        await peer.gone()
        left.set()

    async with serving(script) as raw, opened() as own:
        await body_of(own, raw.url)
        await left.wait()
        assert await body_of(own, raw.url) == b"ok"
        assert len(raw.peers) == 2


@on_both_loops
async def test_a_new_connection_that_ends_is_not_replaced() -> None:
    async with serving(once(b"")) as raw, opened() as client:
        with pytest.raises(ConnectionBroken):
            await body_of(client, raw.url)
        assert len(raw.peers) == 1


@on_both_loops
async def test_the_second_try_takes_no_kept_connection() -> None:
    both = asyncio.Barrier(2)

    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number < 2:
            await both.wait()
        await peer.say(answer(b"%d" % peer.number))
        await peer.request()
        peer.hang_up()

    async with serving(script) as raw, opened() as client:
        await asyncio.gather(body_of(client, raw.url), body_of(client, raw.url))
        assert await body_of(client, raw.url, "PUT") == b"2"


@on_both_loops
@pytest.mark.parametrize("said", [b"", answer(b"half", Content_Length="99")], ids=["the head", "the body"])
async def test_cancelling_whoever_waits_closes_the_connection(said: bytes) -> None:
    asked, half, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.say(said)
        await peer.gone()
        left.set()

    async def ask(client: HttpClient, url: str) -> None:
        response = await client.request("POST", url, {}, b"{}")
        assert await anext(response) == b"half"
        half.set()
        await anext(response)

    async with serving(script) as raw, opened() as client:
        task = asyncio.create_task(ask(client, raw.url))
        await (half if said else asked).wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left.wait()
        assert not client._open
        assert not any(client._idle.values())


@on_both_loops
async def test_cancelling_while_a_connection_is_made_leaves_none() -> None:
    async with serving(always(answer())) as raw, opened() as client:
        for turns in range(12):
            task = asyncio.create_task(body_of(client, raw.url))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@on_both_loops
async def test_closing_an_answer_half_way_closes_its_connection_and_never_looks_like_its_end() -> None:
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(chunked(b"one", end=b""))
        await peer.gone()
        left.set()

    async with serving(script) as raw, opened() as client:
        response = await client.request("POST", raw.url, {}, b"")
        assert await anext(response) == b"one"
        await response.aclose()
        await left.wait()
        with pytest.raises(ConnectionBroken):
            await anext(response)


@on_both_loops
async def test_a_reader_who_has_enough_keeps_the_connection_if_the_end_comes_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, is_idle = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(chunked(b"last event", end=b""))
        await go_on.wait()
        await peer.say(b"0\r\n\r\n")
        await peer.request()
        await peer.say(answer(b"second"))

    async with serving(script) as raw, opened() as client:
        response = await client.request("POST", raw.url, {}, b"{}")
        assert await anext(response) == b"last event"
        await response.release()
        response.close()  # as the end of the request does
        keep = client.on_connection_idle
        monkeypatch.setattr(client, "on_connection_idle", lambda connection: (keep(connection), is_idle.set()))
        go_on.set()
        await is_idle.wait()
        assert await body_of(client, raw.url) == b"second"
        assert len(raw.peers) == 1


@on_both_loops
async def test_a_connection_whose_response_does_not_end_is_closed_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(response_module, "RELEASE_SECONDS", 0.01)
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(chunked(b"last event", end=b""))
        await peer.gone()
        closed.set()

    async with serving(script) as raw, opened() as client:
        response = await client.request("POST", raw.url, {}, b"{}")
        assert await anext(response) == b"last event"
        await response.release()
        await closed.wait()


@on_both_loops
async def test_closing_the_client_ends_what_is_open_and_keeps_nothing_after() -> None:
    async with serving(then_wait(chunked(b"one", end=b""))) as raw:
        client = HttpClient(5)
        response = await client.request("POST", raw.url, {}, b"")
        assert await anext(response) == b"one"
        await client.close()
        assert not client._open
        with pytest.raises(ConnectionBroken):
            await anext(response)


@on_both_loops
async def test_a_connection_that_is_made_while_the_client_closes_is_closed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving, closed = asyncio.Event(), asyncio.Event()
    async with serving(always(answer())) as raw:
        client = HttpClient(5)
        find = client._resolve_origin

        async def resolved(origin: Origin) -> object:
            resolving.set()
            await closed.wait()
            return await find(origin)

        monkeypatch.setattr(client, "_resolve_origin", resolved)
        task = asyncio.create_task(body_of(client, raw.url))
        await resolving.wait()
        await client.close()
        closed.set()
        with pytest.raises(ConnectionBroken):
            await task


@on_both_loops
async def test_an_upstream_that_is_not_there_is_not_connected() -> None:
    async with serving(always(answer())) as raw:
        url = raw.url
    async with opened() as client:
        with pytest.raises(ConnectError) as caught:
            await body_of(client, url)
        assert not isinstance(caught.value, ConnectTimeout)
        with pytest.raises(ConnectError):
            await body_of(client, f"http://{'x' * 70}.invalid/")


@on_both_loops
async def test_the_time_for_connecting_includes_looking_up_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(HttpClient, "_resolve_origin", never)
    async with opened(0.01) as client:
        with pytest.raises(ConnectTimeout):
            await body_of(client, "http://name.test/")


@on_both_loops
async def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(always(answer())) as nobody:
        closed = nobody.url
    async with serving(always(answer(b"there"))) as raw, opened() as client:
        kinds = (2, 1, 6, "")
        ports = [int(url.rpartition(":")[2]) for url in (closed, raw.url)]

        async def resolved(*_: object) -> list[object]:
            return [(*kinds, ("127.0.0.1", port)) for port in ports]

        monkeypatch.setattr(HttpClient, "_resolve_origin", resolved)
        assert await body_of(client, "http://name.test/") == b"there"


@on_both_loops
async def test_names_and_ipv6_numbers_lead_where_they_say() -> None:
    heads: list[bytes] = []

    async def script(peer: Peer) -> None:
        while True:
            heads.append(await peer.request())
            await peer.say(answer())

    async with serving(script, host="::1") as six, serving(script) as four, opened() as client:
        await body_of(client, six.url)
        await body_of(client, four.url.replace("127.0.0.1", "localhost"))
        ports = [url.rpartition(":")[2] for url in (six.url, four.url)]
        assert f"Host: [::1]:{ports[0]}\r\n".encode() in heads[0]
        assert f"Host: localhost:{ports[1]}\r\n".encode() in heads[1]


@on_both_loops
async def test_faults_of_every_kind_leave_no_connection_behind() -> None:
    for said in (b"", b"nonsense\r\n\r\n", answer(b"half", Content_Length="9"), chunked(b"x", end=b"zz\r\n")):
        async with serving(once(said)) as raw, opened() as client:
            with pytest.raises(HttpClientError) as caught:
                await body_of(client, raw.url)
            assert isinstance(caught.value, (ConnectionBroken, MalformedResponse))
            assert not any(client._idle.values())
