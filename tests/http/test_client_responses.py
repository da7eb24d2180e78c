"""Answers: where each ends, what each holds, and which are no answers at all, however they are cut on their way."""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.raw import Peer, Script, answer, chunked, on_both_loops, once, serving, then_wait
from tornado_gate.http.client.connection import HEAD_BYTES, UNREAD_BYTES, ClientConnection
from tornado_gate.http.client.content_coding import PIECE_BYTES
from tornado_gate.http.client.faults import ConnectionBroken, HttpClientError, MalformedResponse
from tornado_gate.http.client.pool import HttpClient
from tornado_gate.http.client.request import Origin
from tornado_gate.http.client.response import HttpResponse

PLAIN = b"HTTP/1.1 200 OK\r\n"


async def send_scripted_request(script: Script, method: str = "POST") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of what a server says. Raises what the client raises."""
    async with serving(script) as raw:
        client = HttpClient(5)
        try:
            response = await client.request(method, raw.url, {}, b"" if method == "POST" else None)
            return response.status, response.headers, b"".join([piece async for piece in response])
        finally:
            await client.close()


WHOLE = {
    "a length": (answer(b"body"), 200, b"body"),
    "no body": (answer(b""), 200, b""),
    "chunks": (chunked(b"bo", b"dy"), 200, b"body"),
    "chunks with extensions": (chunked(end=b"4;a=b;c\r\nbody\r\n0;z\r\n\r\n"), 200, b"body"),
    "chunks with spaces": (chunked(end=b"4 \r\nbody\r\n0\r\n\r\n"), 200, b"body"),
    "a trailer": (chunked(b"body", end=b"0\r\nStatus: 500\r\nX-Sum: 1\r\n\r\n"), 200, b"body"),
    "100 before": (b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"body"), 200, b"body"),
    "103 before": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\nContent-Length: 9\r\n\r\n" + answer(b"body"), 200, b"body"),
    "many 1xx before": (b"HTTP/1.1 102 Processing\r\n\r\n" * 50 + answer(b"body"), 200, b"body"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "304 with the length of what it stands for": (answer(b"", "304 Not Modified", Content_Length="9"), 304, b""),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 4\r\n\r\nbody", 200, b"body"),
    "bare line feeds": (b"HTTP/1.1 200 OK\nContent-Length: 4\n\nbody", 200, b"body"),
    "HTTP/1.0": (b"HTTP/1.0 404 Not Found\r\nContent-Length: 4\r\n\r\nbody", 404, b"body"),
}


@on_both_loops
@pytest.mark.parametrize("dribbled", [False, True], ids=["at once", "byte by byte"])
@pytest.mark.parametrize(("said", "status", "body"), WHOLE.values(), ids=WHOLE)
async def test_an_answer_ends_where_it_says(said: bytes, status: int, body: bytes, dribbled: bool) -> None:
    pieces = [said[at : at + 1] for at in range(len(said))] if dribbled else [said]
    found = await send_scripted_request(then_wait(*pieces))
    assert (found[0], found[2]) == (status, body)
    assert "link" not in found[1]
    assert "x-sum" not in found[1]


@on_both_loops
async def test_without_a_length_the_body_ends_with_the_connection() -> None:
    assert (await send_scripted_request(once(PLAIN + b"\r\nbo", b"dy")))[2] == b"body"
    assert (await send_scripted_request(once(b"HTTP/1.0 200 OK\r\n\r\n")))[2] == b""


@on_both_loops
async def test_an_answer_to_head_has_no_body_whatever_its_length() -> None:
    status, headers, body = await send_scripted_request(then_wait(answer(b"", Content_Length="1000")), "HEAD")
    assert (status, headers["content-length"], body) == (200, "1000", b"")
    assert (await send_scripted_request(then_wait(chunked(end=b"")), "HEAD"))[2] == b""


@on_both_loops
async def test_headers_are_lower_case_and_repeated_ones_are_joined() -> None:
    said = PLAIN + "X-A: 1\r\nx-a:2 \r\nX-Empty:\r\nX-Name: ümlaut\r\nContent-Length: 0\r\n\r\n".encode()
    headers = (await send_scripted_request(once(said)))[1]
    assert headers == {"x-a": "1, 2", "x-empty": "", "x-name": "ümlaut", "content-length": "0"}


CUT = {
    "nothing": b"",
    "in the status line": b"HTTP/1.1 2",
    "in the head": PLAIN + b"Content-Le",
    "after the 100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "in the body": answer(b"half", Content_Length="8"),
    "before the body": answer(b"", Content_Length="8"),
    "in a chunk": chunked(b"half", end=b"8\r\nha"),
    "between chunks": chunked(b"half", end=b""),
    "before the end of the end": chunked(b"half", end=b"0\r\n"),
    "in a trailer": chunked(b"half", end=b"0\r\nX: y\r\n"),
    "in gzip": answer(gzip.compress(b"body" * 100)[:-9], Content_Encoding="gzip"),
    "in deflate": answer(zlib.compress(b"body" * 100)[:-1], Content_Encoding="deflate"),
}


@on_both_loops
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("said", CUT.values(), ids=CUT)
async def test_an_answer_that_is_cut_off_never_looks_whole(said: bytes, reset: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)
        if reset:
            peer.reset()

    with pytest.raises(HttpClientError):
        await send_scripted_request(script)


@on_both_loops
@pytest.mark.parametrize("name", ["content-length", "transfer-encoding"])
async def test_who_takes_a_header_away_does_not_make_a_cut_off_answer_whole(name: str) -> None:
    edited = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(b"half", Content_Length="8") if name == "content-length" else chunked(b"half", end=b""))
        await edited.wait()

    async with serving(script) as raw:
        client = HttpClient(5)
        response = await client.request("POST", raw.url, {}, b"")
        del response.headers[name]
        edited.set()
        with pytest.raises(ConnectionBroken):
            [piece async for piece in response]
        await client.close()


@on_both_loops
async def test_what_came_before_the_break_is_given_first() -> None:
    async with serving(once(chunked(b"one", end=b""))) as raw:
        client = HttpClient(5)
        response = await client.request("POST", raw.url, {}, b"")
        while response.fault is None:
            await response.wait_for_change()
        assert await anext(response) == b"one"
        with pytest.raises(ConnectionBroken):
            await anext(response)
        await client.close()


MALFORMED = {
    "100 and close": b"HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n" + answer(b"body"),
    "no HTTP": b"SSH-2.0-OpenSSH_9\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status below 100": b"HTTP/1.1 099 Odd\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "another version": b"HTTP/3.7 200 OK\r\n\r\n",
    "a change of protocol": b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "a bare 101": b"HTTP/1.1 101 Switching\r\n\r\n",
    "a length and chunks": PLAIN + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    "chunks and a length": PLAIN + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    "two lengths": PLAIN + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
    "a list of lengths": answer(b"body", Content_Length="4, 4"),
    "a negative length": answer(b"body", Content_Length="-4"),
    "a signed length": answer(b"body", Content_Length="+4"),
    "a length of letters": answer(b"body", Content_Length="four"),
    "a length beyond all bounds": answer(b"body", Content_Length="9" * 30),
    "another transfer coding": answer(b"body", Content_Length="", Transfer_Encoding="gzip"),
    "two transfer codings": answer(b"body", Content_Length="", Transfer_Encoding="gzip, chunked"),
    "a chunk size of letters": chunked(end=b"zz\r\nbody\r\n0\r\n\r\n"),
    "a negative chunk size": chunked(end=b"-4\r\nbody\r\n0\r\n\r\n"),
    "a chunk size beyond all bounds": chunked(end=b"f" * 20 + b"\r\nbody\r\n0\r\n\r\n"),
    "a chunk longer than it says": chunked(end=b"2\r\nbody\r\n0\r\n\r\n"),
    "a header without a colon": PLAIN + b"nonsense\r\n\r\n",
    "a space before the colon": PLAIN + b"Content-Length : 4\r\n\r\nbody",
    "NUL in a header": PLAIN + b"X: a\0b\r\nContent-Length: 4\r\n\r\nbody",
    "a carriage return in a header": PLAIN + b"X: a\rb\r\nContent-Length: 4\r\n\r\nbody",
    "a header that is too long": PLAIN + b"X: " + b"y" * HEAD_BYTES + b"\r\nContent-Length: 4\r\n\r\nbody",
    "too many headers": PLAIN + b"X: y\r\n" * (HEAD_BYTES // 6 + 1) + b"Content-Length: 4\r\n\r\nbody",
    "headers without an end": PLAIN + b"X: y\r\n" * HEAD_BYTES,
    "a reason without an end": PLAIN[:-2] + b"y" * 2 * HEAD_BYTES,
    "1xx without an end": b"HTTP/1.1 100 Continue\r\n\r\n" * 4000,
    "trailers without an end": chunked(b"body", end=b"0\r\n" + b"X: y\r\n" * HEAD_BYTES),
    "a chunk extension without an end": chunked(b"body", end=b"4;" + b"x" * 16 * HEAD_BYTES),
}


@on_both_loops
@pytest.mark.parametrize("said", MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_clear_answer_is_refused_and_its_connection_closed(said: bytes) -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(said)
        await peer.gone()
        closed.set()

    async with serving(script) as raw:
        client = HttpClient(5)
        with pytest.raises(MalformedResponse):
            _ = [piece async for piece in await client.request("POST", raw.url, {}, b"")]
        await closed.wait()
        await client.close()


@on_both_loops
async def test_a_head_may_be_as_long_as_the_limit() -> None:
    room = HEAD_BYTES - len("X") - 4 - len("Content-Length") - len("2") - 4 - 200
    assert (await send_scripted_request(once(answer(X="y" * room))))[2] == b"ok"


MISPACKED = {
    "no gzip in gzip": answer(b"body", Content_Encoding="gzip"),
    "no deflate in deflate": answer(b"\xff\xff\xff\xff", Content_Encoding="deflate"),
    "more behind deflate": answer(zlib.compress(b"body") + b"more", Content_Encoding="deflate"),
    "brotli, which nobody asked for": answer(b"body", Content_Encoding="br"),
}


@on_both_loops
@pytest.mark.parametrize("said", MISPACKED.values(), ids=MISPACKED)
async def test_a_body_that_is_not_packed_as_it_says_is_refused(said: bytes) -> None:
    with pytest.raises(MalformedResponse):
        await send_scripted_request(then_wait(said))


CODINGS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": lambda body: gzip.compress(body[:1000]) + gzip.compress(body[1000:]),
    "deflate": zlib.compress,
    " deflate ": lambda body: zlib.compress(body, wbits=-15),
}


@on_both_loops
@pytest.mark.parametrize("coding", CODINGS)
async def test_a_coding_that_was_not_asked_for_is_undone(coding: str) -> None:
    body = bytes(range(256)) * 40
    packed = CODINGS[coding](body)
    dribbled = answer(packed, Content_Encoding=coding)
    assert (await send_scripted_request(once(dribbled)))[2] == body
    assert (await send_scripted_request(once(*(dribbled[at : at + 50] for at in range(0, len(dribbled), 50)))))[
        2
    ] == body
    assert (await send_scripted_request(once(answer(b"", Content_Encoding=coding))))[2] == b""


@on_both_loops
async def test_a_coding_that_is_none_is_left_alone() -> None:
    assert (await send_scripted_request(once(answer(b"body", Content_Encoding="identity"))))[2] == b"body"
    assert (await send_scripted_request(once(answer(b"body", Content_Encoding="utf-8"))))[2] == b"body"


@on_both_loops
async def test_a_body_that_was_packed_hard_comes_in_pieces() -> None:
    body = b"".join(os.urandom(512) + bytes(15_000) for _ in range(1300))  # grows by a factor of about 29
    async with serving(then_wait(answer(gzip.compress(body), Content_Encoding="gzip"))) as raw:
        client = HttpClient(5)
        response = await client.request("POST", raw.url, {}, b"")
        sizes = [len(piece) async for piece in response]
        assert sum(sizes) == len(body)
        assert max(sizes) <= PIECE_BYTES
        await client.close()


class Wire:
    """Stands for a transport and for the client: a connection that is fed by hand."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.sent: list[bytes] = []
        self.aborted = False
        self.freed = 0
        self.read = True
        self.connection = ClientConnection(self, Origin("http", "h", 80), loop)
        self.connection.connection_made(self)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> None:
        """No TLS."""

    def pause_reading(self) -> None:
        self.read = False

    def resume_reading(self) -> None:
        self.read = True

    def on_connection_lost(self, connection: ClientConnection) -> None: ...

    def on_connection_idle(self, connection: ClientConnection) -> None:
        self.freed += 1


async def fed(said: list[bytes], *, ends: bool) -> tuple[int, dict[str, str], bytes, bool]:
    """What a connection makes of segments: status, headers, body, and whether it would be used again."""
    wire = Wire(asyncio.get_running_loop())
    task = asyncio.create_task(wire.connection.begin_request(b"head", b"body").wait_for_head())
    await asyncio.sleep(0)
    assert wire.sent == [b"headbody"]
    for segment in said:
        wire.connection.data_received(segment)
    if ends:
        wire.connection.eof_received()
    response: HttpResponse = await task
    body = b"".join([piece async for piece in response])
    return response.status, response.headers, body, bool(wire.freed) and not wire.aborted


@on_both_loops
async def test_a_connection_is_read_again_when_the_end_of_an_answer_came_past_the_pause() -> None:
    wire, size = Wire(asyncio.get_running_loop()), UNREAD_BYTES + 2
    task = asyncio.create_task(wire.connection.begin_request(b"head", b"body").wait_for_head())
    await asyncio.sleep(0)
    wire.connection.data_received(answer(b"x" * size)[:-1])
    assert not wire.read
    wire.connection.data_received(b"x")  # TLS may still hold some when reading is paused
    assert wire.read
    assert wire.freed == 1
    assert (await task).take_complete_body() == b"x" * size


BODIES = st.lists(st.binary(min_size=1, max_size=300), max_size=6)
CUTS = st.lists(st.integers(min_value=0, max_value=3000), max_size=12)


@settings(max_examples=300, deadline=None)
@given(pieces=BODIES, cuts=CUTS, kind=st.sampled_from(["length", "chunks", "trailer", "close", "gzip", "1xx"]))
def test_an_answer_means_the_same_wherever_it_is_cut(pieces: list[bytes], cuts: list[int], kind: str) -> None:
    body = b"".join(pieces)
    said = {
        "length": answer(body, X_A="b"),
        "chunks": chunked(*pieces, X_A="b"),
        "trailer": chunked(*pieces, end=b"0\r\nX-T: 1\r\n\r\n", X_A="b"),
        "close": answer(body, Content_Length="", X_A="b"),
        "gzip": answer(gzip.compress(body), Content_Encoding="gzip", X_A="b"),
        "1xx": b"HTTP/1.1 103 Early Hints\r\nX-A: c\r\n\r\n" + answer(body, X_A="b"),
    }[kind]
    at = sorted({0, *(cut for cut in cuts if cut < len(said)), len(said)})
    segments = [said[start:end] for start, end in pairwise(at)]
    status, headers, found, kept = asyncio.run(fed(segments, ends=kind == "close"))
    assert (status, headers["x-a"], found) == (200, "b", body)
    assert kept is (kind != "close")


@settings(max_examples=200, deadline=None)
@given(pieces=BODIES, cut=st.integers(min_value=0), kind=st.sampled_from(["length", "chunks"]))
def test_no_beginning_of_an_answer_is_an_answer(pieces: list[bytes], cut: int, kind: str) -> None:
    said = answer(b"".join(pieces)) if kind == "length" else chunked(*pieces)
    with pytest.raises(HttpClientError):
        asyncio.run(fed([said[: cut % len(said)]] if cut % len(said) else [], ends=True))
