"""Bodies of requests: at the pace of who takes them, within limits, and refused so that the client sees it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.support.front import Answer, Running
from tests.support.front_stage import Stage, fronts, get, ours, play, post


@fronts
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_client_that_expects_100_is_told_to_go_on(front: str, framing: str) -> None:
    field = b"Content-Length: 5" if framing == "length" else b"Transfer-Encoding: chunked"

    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + field + b"\r\n\r\n")
        assert (await client.answer()).status == 100
        await client.send(b"hello" if framing == "length" else b"5\r\nhello\r\n0\r\n\r\n")
        return (await client.answer()).body

    assert play(front, scene) == b"hello"


@fronts
def test_a_refused_client_that_expects_100_gets_the_refusal_only(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(post(b"/stream?refuse=at%20once", b"", b"Expect: 100-continue\r\n").replace(b"h: 0", b"h: 9"))
        return await client.rest()

    said = play(front, scene)
    assert said.startswith(b"HTTP/1.1 401 ")
    assert said.endswith(b"\r\n\r\nno")


@fronts
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
def test_a_body_is_read_no_faster_than_the_handler_takes_it(front: str, chunked: bool) -> None:
    size = 8_000_000
    body = b"x" * size
    sent = b"".join(b"186a0\r\n%b\r\n" % body[:100_000] for _ in range(80)) + b"0\r\n\r\n" if chunked else body
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % size

    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        client.writer.transport.set_write_buffer_limits(0)
        head = b"POST /stream?slowly=1&limit=%d HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % (size, framing)
        sending = asyncio.ensure_future(client.send(head + sent))
        assert await stage.told.get() < 600_000
        for _ in range(200):
            await asyncio.sleep(0)
        assert stage.told.empty()
        assert not sending.done()
        stage.go.set()
        answer = await client.answer()
        await sending
        return answer.body

    assert play(front, scene) == str(size).encode()


@fronts
def test_ten_thousand_small_chunks_are_one_body(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        await client.send(head + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n" + get(b"/next"))
        assert (await client.answer()).body == b"x" * 10_000
        return (await client.answer()).body

    assert b'"/next"' in play(front, scene)


@fronts
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_body_above_the_handlers_limit_is_refused(front: str, framing: str) -> None:
    body = (
        b"Content-Length: 11\r\n\r\n"
        if framing == "length"
        else b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\nworld!"
    )

    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(b"POST /stream?limit=10 HTTP/1.1\r\nHost: x\r\n" + body)
        said = await client.rest()
        while await stage.told.get() != "left":
            pass
        return said

    status = b"400 Bad Request" if front == "tornado" else b"413 "
    assert play(front, scene).startswith(b"HTTP/1.1 " + status)


@fronts
def test_a_handler_that_answers_before_the_body_ends_the_connection(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(post(b"/stream?refuse=midway", b"0123456789")[:-5])
        said = await client.rest()
        assert [await stage.told.get(), await stage.told.get()] == [5, "left"]
        return said

    assert play(front, scene).endswith(b"\r\n\r\nenough")


@ours
@pytest.mark.parametrize("path", [b"/stream?refuse=at%20once", b"/stream?refuse=midway"], ids=["at once", "midway"])
def test_a_client_that_is_refused_while_it_sends_gets_to_see_the_answer(front: str, path: bytes) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        sending = asyncio.ensure_future(client.send(post(path, b"x" * 5_000_000, b"")))
        said = await client.rest()
        await sending
        return said

    assert play(front, scene, body_bytes=10_000_000).endswith((b"\r\n\r\nno", b"\r\n\r\nenough"))


@ours
def test_a_refusal_of_a_request_without_a_body_keeps_the_connection(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> list[Answer]:
        return await running.ask(get(b"/stream?refuse=at%20once"), get(b"/next"))

    assert [answer.status for answer in play(front, scene)] == [401, 200]


@fronts
def test_a_handler_that_fails_while_it_takes_a_body_ends_the_connection(
    front: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(post(b"/stream?fail=1", b"0123456789"))
        said = await client.rest()
        assert [await stage.told.get(), await stage.told.get()] == [10, "left"]
        return said

    with caplog.at_level(logging.ERROR):
        assert play(front, scene) == b""
    assert "ZeroDivisionError" in caplog.text
