"""Any requests, cut anywhere, damaged anyhow: read as Tornado reads them, or refused; never left hanging."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.front import CHUNKED, HOST, OURS, Client, Recorder, Running, request, run, serving

bodies = st.binary(max_size=40)
pieces = st.lists(st.binary(min_size=1, max_size=20), max_size=4)


@st.composite
def good_requests(draw: st.DrawFn) -> bytes:
    """A request that every front takes."""
    fields = [HOST, *draw(st.lists(st.sampled_from([b"A: b", b"a:c", b"X-Y:  z ", b"Via: nothing"]), max_size=3))]
    kind = draw(st.sampled_from(["bare", "length", "chunks"]))
    path = draw(st.sampled_from([b"/", b"/a?b=c", b"/%20"]))
    if kind == "bare":
        return request(draw(st.sampled_from([b"GET ", b"DELETE "])) + path + b" HTTP/1.1", *fields)
    if kind == "length":
        body = draw(bodies)
        return request(b"POST " + path + b" HTTP/1.1", *fields, b"Content-Length: %d" % len(body), body=body)
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in draw(pieces)) + b"0\r\n\r\n"
    return request(b"PUT " + path + b" HTTP/1.1", *fields, CHUNKED, body=body)


async def tell(running: Running, parts: list[bytes], *, eof: bool = False) -> bytes:
    """Each part in a segment of its own; everything that comes back."""
    client: Client = await running.connect()
    for part in parts:
        await client.send(part)
        await asyncio.sleep(0)
    if eof:
        client.writer.write_eof()
    said = await client.rest()
    await client.close()
    return said


@settings(max_examples=60, deadline=None)
@given(
    st.lists(good_requests(), min_size=1, max_size=5),
    st.lists(st.integers(0, 600), max_size=8),
    st.sampled_from(OURS),
    st.booleans(),
)
def test_requests_in_any_segments_get_the_same_answers(
    requests: list[bytes], cuts: list[int], front: str, later: bool
) -> None:
    whole = b"".join(requests) + request(b"GET /last HTTP/1.1", HOST, b"Connection: close")
    at = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    parts = [whole[first:end] for first, end in pairwise(at)]
    recorder = Recorder(later)

    async def main() -> tuple[bytes, bytes]:
        async with serving(front, recorder) as running:
            return await tell(running, [whole]), await tell(running, parts)

    uncut, cut = run(front, main())
    assert cut == uncut
    assert uncut.count(b"HTTP/1.1 200 OK") == len(requests) + 1
    assert recorder.seen[: len(requests) + 1] == recorder.seen[len(requests) + 1 :]


DAMAGE = [
    *(b"", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"0", b"1", b"a", b"\xff"),
    *(b"chunked", b"HTTP/1.0", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"),
    b"Upgrade: websocket\r\nConnection: upgrade\r\n",
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Good requests with some bytes changed, lost or doubled."""
    data = bytearray(b"".join(draw(st.lists(good_requests(), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        new = draw(st.sampled_from(DAMAGE))
        data[at : at + draw(st.integers(0, 4))] = new
    return bytes(data)


@settings(max_examples=250, deadline=None)
@given(damaged(), st.sampled_from(OURS))
def test_damaged_requests_are_never_read_otherwise_than_by_tornado(data: bytes, front: str) -> None:
    theirs, ours = Recorder(), Recorder()

    async def main() -> bytes:
        async with serving("tornado", theirs) as running:
            await tell(running, [data], eof=True)
        async with serving(front, ours) as running:
            return await tell(running, [data], eof=True)

    said = run(front, main())
    assert ours.seen == theirs.seen[: len(ours.seen)]
    assert said.count(b"HTTP/1.1 200 OK") == len(ours.seen)
