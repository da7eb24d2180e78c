"""Bodies on their way past the parser, and what a client remembers: neither may ever bring one request's bytes to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http.test_client_responses import Wire, fed
from tests.support.raw import Peer, always, answer, chunked, on_both_loops, once, serving, then_wait
from tornado_gate.http.client.connection import HEAD_BYTES, MIN_BYTES_PAST_PARSER, UNREAD_BYTES
from tornado_gate.http.client.faults import ConnectionBroken, MalformedResponse
from tornado_gate.http.client.pool import HttpClient

LARGE = bytes(range(256)) * (3 * MIN_BYTES_PAST_PARSER // 256)


@asynccontextmanager
async def opened() -> AsyncIterator[HttpClient]:
    client = HttpClient(5)
    try:
        yield client
    finally:
        await client.close()


async def body_of(client: HttpClient, url: str) -> bytes:
    return b"".join([piece async for piece in await client.request("POST", url, {}, b"{}")])


@on_both_loops
async def test_a_large_body_of_known_length_is_whole_and_its_connection_kept() -> None:
    async with serving(always(answer(LARGE))) as raw, opened() as client:
        assert [await body_of(client, raw.url) == LARGE for _ in range(3)] == [True] * 3
        assert len(raw.peers) == 1


@on_both_loops
async def test_a_length_with_more_noughts_than_python_reads_is_a_length() -> None:
    async with serving(always(answer(LARGE, Content_Length="0" * 5000 + str(len(LARGE))))) as raw, opened() as client:
        assert [await body_of(client, raw.url) == LARGE for _ in range(2)] == [True] * 2
        assert len(raw.peers) == 1


@on_both_loops
async def test_large_and_small_answers_take_turns_on_one_connection() -> None:
    bodies = [LARGE, b"small", LARGE[:-1], b"", LARGE]

    async def script(peer: Peer) -> None:
        for body in bodies:
            await peer.request()
            await peer.say(answer(body))
        await peer.gone()

    async with serving(script) as raw, opened() as client:
        assert [await body_of(client, raw.url) for _ in bodies] == bodies
        assert len(raw.peers) == 1


@settings(max_examples=100, deadline=None)
@given(
    length=st.integers(min_value=MIN_BYTES_PAST_PARSER - 50, max_value=len(LARGE)),
    cuts=st.lists(st.integers(min_value=1, max_value=len(LARGE) + 100), max_size=8),
)
def test_a_large_answer_means_the_same_wherever_it_is_cut(length: int, cuts: list[int]) -> None:
    said = answer(LARGE[:length])
    at = sorted({0, 60, *(cut for cut in cuts if cut < len(said)), len(said)})
    status, _, body, kept = asyncio.run(fed([said[start:end] for start, end in pairwise(at)], ends=False))
    assert (status, body, kept) == (200, LARGE[:length], True)


BEHIND = {
    "nothing": (b"", True),
    "blank lines": (b"\r\n\r\n", True),
    "an answer": (answer(b"evil"), False),
    "the beginning of one": (b"H", False),
    "garbage": (b"\0garbage", False),
}


@on_both_loops
@pytest.mark.parametrize("apart", [False, True], ids=["its last bytes", "its last byte alone"])
@pytest.mark.parametrize(("behind", "kept"), BEHIND.values(), ids=BEHIND)
async def test_what_comes_behind_a_large_body_is_nobodys(behind: bytes, kept: bool, apart: bool) -> None:
    said = answer(LARGE)
    cut = len(said) - 1 if apart else 200
    found = await fed(
        [said[:200], said[200:cut], said[cut:] + behind] if apart else [said[:200], said[200:] + behind], ends=False
    )
    assert (found[2], found[3]) == (LARGE, kept)


FIRST_OF_TWO = {"a length": answer(b"first"), "chunks": chunked(b"fi", b"rst"), "large": answer(LARGE)}


@on_both_loops
@pytest.mark.parametrize("second", [answer(b"evil"), chunked(b"ev", b"il")], ids=["a length", "chunks"])
@pytest.mark.parametrize("first", FIRST_OF_TWO.values(), ids=FIRST_OF_TWO)
async def test_the_body_of_an_answer_nobody_asked_for_reaches_nobody(first: bytes, second: bytes) -> None:
    async with serving(then_wait(first + second)) as raw, opened() as client:
        bodies = [await body_of(client, raw.url) for _ in range(2)]
        assert bodies in ([b"first"] * 2, [LARGE] * 2)
        assert len(raw.peers) == 2


@on_both_loops
async def test_a_body_behind_the_answer_to_head_reaches_nobody() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(answer(b"evil"))
        await peer.gone()

    async with serving(script) as raw, opened() as client:
        for _ in range(2):
            response = await client.request("HEAD", raw.url, {})
            assert [piece async for piece in response] == []
        assert len(raw.peers) == 2


@on_both_loops
async def test_a_large_body_that_is_cut_off_never_looks_whole() -> None:
    async with serving(once(answer(LARGE)[:-1])) as raw, opened() as client:
        response = await client.request("POST", raw.url, {}, b"{}")
        got = b""
        with pytest.raises(ConnectionBroken):
            async for piece in response:
                got += piece
        assert got == LARGE[:-1]


@on_both_loops
async def test_who_changes_the_headers_of_an_answer_does_not_change_where_it_ends() -> None:
    wire = Wire(asyncio.get_running_loop())
    said = answer(LARGE)
    task = asyncio.create_task(wire.connection.begin_request(b"head", b"body").wait_for_head())
    await asyncio.sleep(0)
    wire.connection.data_received(said[: -len(LARGE)])
    response = await task
    response.headers["content-length"] = str(MIN_BYTES_PAST_PARSER * 2)
    wire.connection.data_received(LARGE[:1000])
    wire.connection.data_received(LARGE[1000:])
    assert b"".join([piece async for piece in response]) == LARGE
    assert (wire.freed, wire.aborted) == (1, False)


@on_both_loops
async def test_chunks_that_came_before_a_fault_are_given_first() -> None:
    wire = Wire(asyncio.get_running_loop())
    task = asyncio.create_task(wire.connection.begin_request(b"head", b"body").wait_for_head())
    await asyncio.sleep(0)
    wire.connection.data_received(chunked(b"one", b"two", end=b"zz\r\n"))
    response = await task
    assert await anext(response) == b"onetwo"
    with pytest.raises(MalformedResponse):
        await anext(response)


@on_both_loops
@pytest.mark.parametrize("coding", ["a length", "chunks"])
async def test_the_upstream_waits_each_time_that_the_reader_is_behind(coding: str) -> None:
    wire, piece = Wire(asyncio.get_running_loop()), b"x" * (UNREAD_BYTES + 1)
    in_chunks = coding == "chunks"
    head = chunked(end=b"") if in_chunks else answer(b"", Content_Length=str(9 * len(piece)))
    segment = b"%x\r\n%b\r\n" % (len(piece), piece) if in_chunks else piece
    task = asyncio.create_task(wire.connection.begin_request(b"head", b"body").wait_for_head())
    await asyncio.sleep(0)
    wire.connection.data_received(head)
    response = await task
    for _ in range(3):
        wire.connection.data_received(segment)
        assert not wire.read
        assert await anext(response) == piece
        assert wire.read


@on_both_loops
async def test_a_head_is_measured_over_all_that_it_comes_in() -> None:
    lines = b"HTTP/1.1 200 OK\r\n" + b"X: %b\r\n" % (b"y" * (HEAD_BYTES * 2 // 5)) * 3
    said = lines + b"Content-Length: 4\r\n\r\nbody"
    at = lines.rfind(b"X: ")
    with pytest.raises(MalformedResponse):
        await fed([said[:at], said[at:]], ends=False)


@on_both_loops
async def test_more_names_of_headers_than_are_remembered_are_all_told_apart() -> None:
    names = [f"X-Name-{number}" for number in range(1500)] + ["X-" + "Long" * 50]
    said = answer(b"", Content_Length="0", **{name.replace("-", "_"): name for name in names})
    async with serving(always(said)) as raw, opened() as client:
        for _ in range(2):
            response = await client.request("POST", raw.url, {}, b"")
            assert [response.headers[name.lower()] for name in names] == names


USUAL = (("Content-Type", "application/json"), ("Accept", "*/*"))
SENT = [
    ("POST", "/a", {"Key": "1"}, b"{}", USUAL),
    ("POST", "/b", {"Key": "1"}, b"{}", USUAL),
    ("POST", "/a", {"Key": "2"}, b"{}", USUAL),
    ("POST", "/a", {"Key": "1"}, b"{}", ()),
    ("POST", "/a", {"key": "1"}, b"longer", USUAL),
    ("PUT", "/a", {"Key": "1"}, b"", USUAL),
    ("POST", "/a", {"Key": "1"}, None, USUAL),
    ("GET", "/a", {"Key": "1"}, None, USUAL[1:]),
    ("POST", "/a", {"Key": "1", "content-TYPE": "text/plain", "ACCEPT": ""}, b"{}", USUAL),
]


@on_both_loops
async def test_every_request_says_its_own_and_what_is_usual_only_where_it_says_nothing() -> None:
    heads: list[tuple[bytes, dict[str, str]]] = []

    async def script(peer: Peer) -> None:
        while True:
            line, *lines = (await peer.request()).partition(b"\r\n\r\n")[0].split(b"\r\n")
            heads.append((line, dict(each.decode().lower().split(": ", 1) for each in lines)))
            await peer.say(answer())

    async with serving(script) as raw:
        client = HttpClient(5)
        for _ in range(2):
            for method, path, headers, body, usual in SENT:
                response = await client.request(method, raw.url + path, headers, body, usual)
                assert b"".join([piece async for piece in response]) == b"ok"
        await client.close()
    for (line, seen), (method, path, headers, body, usual) in zip(heads, SENT * 2, strict=True):
        assert line == f"{method} {path} HTTP/1.1".encode()
        given = {name.lower(): value for name, value in headers.items()}
        expected = {name.lower(): value for name, value in usual} | given
        assert {name: seen.get(name) for name in expected} == expected
        assert seen.get("content-length") == (None if method == "GET" else str(len(body or b"")))
