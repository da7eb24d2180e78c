"""What a front does for Tornado's handlers: the fast one and Tornado's own, side by side."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.front import Answer, Running
from tests.support.front_stage import Stage, all_fronts, get, ours, play, post


@all_fronts
def test_a_connection_is_kept_and_requests_sent_ahead_are_answered_in_order(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> list[Answer]:
        return await running.ask(get(b"/a"), post(b"/b", b"hello"), get(b"/c"), post(b"/", b""), get(b"/d"))

    answers = play(front, scene)
    assert [answer.status for answer in answers] == [200] * 5
    assert [b'"/a"' in answers[0].body, answers[1].body, b'"/c"' in answers[2].body] == [True, b"hello", True]
    assert b'"ip": "127.0.0.1"' in answers[0].body
    assert b'"protocol": "http"' in answers[0].body
    assert all("Connection" not in answer.headers for answer in answers)


@all_fronts
def test_one_request_is_handled_at_a_time(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/slow") + get(b"/slow"))
        assert await stage.told.get() == "begun"
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.told.empty()
        stage.go.set()
        assert [(await client.answer()).body for _ in range(2)] == [b"slow", b"slow"]
        await client.close()

    play(front, scene)


@ours
def test_what_a_client_sends_ahead_is_not_read_without_bound(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/slow"))
        await stage.told.get()
        flood = asyncio.ensure_future(client.send(get(b"/a") * 400_000))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not flood.done()
        stage.go.set()
        assert (await client.answer()).body == b"slow"
        assert (await client.answer()).status == 200
        flood.cancel()
        client.reset()

    play(front, scene)


@all_fronts
@pytest.mark.parametrize(
    ("version", "fields", "kept"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: Close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
    ],
    ids=["1.1", "1.1 close", "1.1 Close", "1.0", "1.0 keep-alive"],
)
def test_a_connection_is_kept_as_version_and_client_say(front: str, version: bytes, fields: bytes, kept: bool) -> None:
    async def scene(running: Running, stage: Stage) -> tuple[Answer, bytes]:
        client = await running.connect()
        await client.send(b"GET / HTTP/%b\r\nHost: x\r\n%b\r\n" % (version, fields))
        answer = await client.answer()
        if kept:
            await client.send(get(b"/", b"Connection: close\r\n"))
        return answer, await client.rest()

    answer, rest = play(front, scene)
    assert bool(rest) is kept
    said = answer.headers.get("Connection", "").lower()
    assert said == ({b"1.0": "keep-alive", b"1.1": ""}[version] if kept else {b"1.0": "", b"1.1": "close"}[version])


@ours
def test_one_of_several_connection_options_may_be_close(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(get(b"/", b"Connection: TE, close\r\n"))
        return await client.rest()

    assert b"Connection: close\r\n" in play(front, scene)


@ours
def test_an_answer_that_says_close_closes(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(get(b"/saysclose") + get(b"/never"))
        return await client.rest()

    assert play(front, scene).endswith(b"\r\n\r\nbye")


@all_fronts
def test_head_and_bodiless_answers_have_no_body(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> list[Answer]:
        client = await running.connect()
        await client.send(
            b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n" + get(b"/empty?status=204") + get(b"/empty?status=304")
        )
        answers = [await client.answer(to_head=True) for _ in range(3)]
        await client.send(get(b"/y"))
        return [*answers, await client.answer()]

    head, no_content, not_modified, last = play(front, scene)
    assert int(head.headers["Content-Length"]) > 0
    assert (no_content.status, not_modified.status) == (204, 304)
    for answer in (no_content, not_modified):
        assert "Transfer-Encoding" not in answer.headers
        assert "Content-Length" not in answer.headers
    assert b'"/y"' in last.body


@all_fronts
def test_a_stream_is_chunked_and_each_piece_goes_out_at_once(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> list[bytes]:
        client = await running.connect()
        await client.send(get(b"/pieces"))
        head = await client.head()
        assert head.headers["Transfer-Encoding"] == "chunked"
        chunks = client.chunks()
        got = [await anext(chunks)]
        stage.go.set()
        return got + [chunk async for chunk in chunks]

    assert play(front, scene) == [b"one", b"two"]


@ours
def test_a_stream_to_an_old_client_ends_with_its_connection(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        stage.go.set()
        client = await running.connect()
        await client.send(b"GET /pieces HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        return await client.rest()

    said = play(front, scene)
    assert said.endswith(b"\r\n\r\nonetwo")
    assert b"Keep-Alive" not in said


@all_fronts
def test_a_header_with_an_end_of_line_ends_no_line(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> list[Answer]:
        return await running.ask(get(b"/split"))

    (answer,) = play(front, scene)
    if front == "tornado":
        assert answer.body == b"refused"
    else:
        assert answer.headers["X-A"] == "b??X-Evil: 1"
    assert "X-Evil" not in answer.headers


@all_fronts
@pytest.mark.parametrize("says", [b"3", b"5"])
def test_an_answer_of_another_length_than_it_says_ends_its_connection(
    front: str, says: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(get(b"/wrong?says=" + says) + get(b"/next"))
        return await client.rest()

    assert b"/next" not in play(front, scene)
    assert "HTTPOutputError" in caplog.text


@all_fronts
def test_half_an_answer_does_not_look_whole(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(get(b"/halfway"))
        return await client.rest()

    assert b"0\r\n\r\n" not in play(front, scene)
