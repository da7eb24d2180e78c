"""Which requests a front takes: the same as Tornado's own, or fewer. What is refused ends the connection."""

from __future__ import annotations

import pytest

from tests.support.front import CHUNKED, FRONTS, HOST, OURS, Recorder, post, request, run, serving

TAKEN = {
    "plain": request(),
    "1.0 without host": b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "an empty line before": b"\r\n" + request(),
    "length": post(b"Content-Length: 5", body=b"hello"),
    "length with spaces around": post(b"Content-Length:  5 \t", body=b"hello"),
    "length with zeros before": post(b"Content-Length: 005", body=b"hello"),
    "chunks": post(CHUNKED, body=b"5\r\nhello\r\n0\r\n\r\n"),
    "chunks by another name": post(
        b"transfer-encoding: CHUNKED", body=b"00005\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n"
    ),
    "no chunk": post(CHUNKED, body=b"0\r\n\r\n"),
    "absolute target": request(b"GET http://x/y HTTP/1.1"),
    "asterisk": request(b"OPTIONS * HTTP/1.1"),
    "repeated field": request(b"GET / HTTP/1.1", HOST, b"A: b", b"a: c", b"A:"),
    "bytes above ASCII in a value": request(b"GET / HTTP/1.1", HOST, b"A: \xe4\xff"),
    "signs in a target": request(b'GET /a%20b?c=d&e=[]{}|^`"<>\\ HTTP/1.1'),
    "a name of all signs": request(b"GET / HTTP/1.1", HOST, b"!#$%&'*+-.^_`|~09: v"),
    "tab in a value": request(b"GET / HTTP/1.1", HOST, b"A: b\tc"),
    "a body with GET": request(b"GET / HTTP/1.1", HOST, b"Content-Length: 2", body=b"ab"),
}
REFUSED = {
    "length and coding": post(b"Content-Length: 5", CHUNKED, body=b"0\r\n\r\n"),
    "coding and length": post(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n"),
    "two lengths": post(b"Content-Length: 5", b"Content-Length: 6", body=b"hello!"),
    "two lengths in one": post(b"Content-Length: 5, 6", body=b"hello!"),
    "length with plus": post(b"Content-Length: +5", body=b"hello"),
    "length with minus": post(b"Content-Length: -5", body=b"hello"),
    "length in hex": post(b"Content-Length: 0x5", body=b"hello"),
    "length with space within": post(b"Content-Length: 5 5", body=b"hello"),
    "length with underscore": post(b"Content-Length: 1_0", body=b"helloworld"),
    "length with point": post(b"Content-Length: 5.0", body=b"hello"),
    "length in other digits": post(b"Content-Length: \xb2", body=b"hello"),
    "no length": post(b"Content-Length:", body=b"hello"),
    "length beyond 64 bits": post(b"Content-Length: 18446744073709551621", body=b"hello"),
    "length of ten thousand digits": post(b"Content-Length: " + b"9" * 10000, body=b"hello"),
    "length above the limit": post(b"Content-Length: 1048577", body=b"hello"),
    "unknown coding": post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "coding with parameter": post(b"Transfer-Encoding: chunked;q=1", body=b"0\r\n\r\n"),
    "coding in quotes": post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "chunked, identity": post(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"),
    "gzip, chunked": post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "identity": post(b"Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    "two codings": post(CHUNKED, CHUNKED, body=b"0\r\n\r\n"),
    "two codings, one unknown": post(CHUNKED, b"Transfer-Encoding: cow", body=b"0\r\n\r\n"),
    "empty coding": post(b"Transfer-Encoding:", body=b"0\r\n\r\n"),
    "coding with a control": post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "coding, folded": post(b"Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n"),
    "folded field": request(b"GET / HTTP/1.1", HOST, b"A: b", b" c"),
    "folded by tab": request(b"GET / HTTP/1.1", HOST, b"A: b", b"\tc"),
    "folded first": request(b"GET / HTTP/1.1", b" Host: x"),
    "space before colon": request(b"GET / HTTP/1.1", HOST, b"A : b"),
    "space before the colon of a length": post(b"Content-Length : 5", body=b"hello"),
    "no colon": request(b"GET / HTTP/1.1", HOST, b"A"),
    "no name": request(b"GET / HTTP/1.1", HOST, b": b"),
    "name with bracket": request(b"GET / HTTP/1.1", HOST, b"A(: b"),
    "name above ASCII": request(b"GET / HTTP/1.1", HOST, b"\xe4: b"),
    "NUL in a value": request(b"GET / HTTP/1.1", HOST, b"A: b\0c"),
    "NUL in a name": request(b"GET / HTTP/1.1", HOST, b"A\0: b"),
    "control in a value": request(b"GET / HTTP/1.1", HOST, b"A: b\x01"),
    "DEL in a value": request(b"GET / HTTP/1.1", HOST, b"A: b\x7f"),
    "CR in a value": request(b"GET / HTTP/1.1", HOST, b"A: b\rc"),
    "CR twice": request(b"GET / HTTP/1.1", HOST, b"A: b\r"),
    "no host": request(b"GET / HTTP/1.1", b"A: b"),
    "two hosts": request(b"GET / HTTP/1.1", HOST, HOST),
    "two hosts in one": request(b"GET / HTTP/1.1", b"Host: x, y"),
    "host with a path": request(b"GET / HTTP/1.1", b"Host: x/y"),
    "host with a user": request(b"GET / HTTP/1.1", b"Host: a@x"),
    "no version": request(b"GET /"),
    "HTTP/2": request(b"GET / HTTP/2.0"),
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": request(b"GET / HTTP/0.9"),
    "HTTP/11": request(b"GET / HTTP/11"),
    "version in lower case": request(b"GET / http/1.1"),
    "two spaces": request(b"GET  / HTTP/1.1"),
    "tab for a space": request(b"GET\t/ HTTP/1.1"),
    "space at the end": request(b"GET / HTTP/1.1 "),
    "space before the method": request(b" GET / HTTP/1.1"),
    "space in the target": request(b"GET /a b HTTP/1.1"),
    "control in the target": request(b"GET /\x01 HTTP/1.1"),
    "no target": request(b"GET HTTP/1.1"),
    "method with bracket": request(b"GE(T / HTTP/1.1"),
    "method above ASCII": request(b"G\xcbT / HTTP/1.1"),
    "two empty lines before": b"\r\n\r\n" + request(),
    "chunk extension": post(CHUNKED, body=b"5;a=b\r\nhello\r\n0\r\n\r\n"),
    "empty chunk extension": post(CHUNKED, body=b"5;\r\nhello\r\n0\r\n\r\n"),
    "space after a size": post(CHUNKED, body=b"5 \r\nhello\r\n0\r\n\r\n"),
    "space before a size": post(CHUNKED, body=b" 5\r\nhello\r\n0\r\n\r\n"),
    "size with plus": post(CHUNKED, body=b"+5\r\nhello\r\n0\r\n\r\n"),
    "size with 0x": post(CHUNKED, body=b"0x5\r\nhello\r\n0\r\n\r\n"),
    "size with underscore": post(CHUNKED, body=b"1_0\r\n0123456789abcdef\r\n0\r\n\r\n"),
    "no size": post(CHUNKED, body=b"\r\nhello\r\n0\r\n\r\n"),
    "size of seventy digits": post(CHUNKED, body=b"0" * 69 + b"5\r\nhello\r\n0\r\n\r\n"),
    "size beyond 64 bits": post(CHUNKED, body=b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "size above the limit": post(CHUNKED, body=b"100001\r\nhello"),
    "chunk longer than its size": post(CHUNKED, body=b"5\r\nhello!\r\n0\r\n\r\n"),
    "chunk that ends in LF": post(CHUNKED, body=b"5\r\nhello\n0\r\n\r\n   "),
    "trailer": post(CHUNKED, body=b"0\r\nA: b\r\n\r\n"),
    "CR without LF at the end": post(CHUNKED, body=b"0\r\n\rX"),
}
STRICTER = {
    "the same length twice": post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello"),
    "the same length twice in one": post(b"Content-Length: 5, 5", body=b"hello"),
    "coding in HTTP/1.0": request(b"POST / HTTP/1.0", HOST, CHUNKED, body=b"0\r\n\r\n"),
    "LF without CR": b"GET / HTTP/1.1\nHost: x\n\n",
    "LF without CR within": b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n",
    "LF at the end of the head": b"GET / HTTP/1.1\r\nHost: x\r\n\n",
    "LF before": b"\n" + request(),
    "HTTP/1.2": request(b"GET / HTTP/1.2"),
    "unknown method": request(b"FLY / HTTP/1.1"),
    "method in lower case": request(b"get / HTTP/1.1"),
    "method of RTSP": request(b"DESCRIBE / HTTP/1.1"),
    "authority as a target": request(b"GET x:80 HTTP/1.1"),
    "a word as a target": request(b"GET x HTTP/1.1"),
    "bytes above ASCII in the target": request(b"GET /\xe4 HTTP/1.1"),
    "size of seventeen digits": post(CHUNKED, body=b"00000000000000005\r\nhello\r\n0\r\n\r\n"),
}
"""What Tornado's front takes and ours does not; the table in `server_head` says the same."""

BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\n\r\n"


def everything(front: str, data: bytes) -> tuple[Recorder, bytes]:
    """What the application met, and all that came back until the server closed; more is sent only to see whether it is read."""
    recorder = Recorder()

    async def main() -> bytes:
        async with serving(front, recorder) as running:
            client = await running.connect()
            await client.send(data)
            return await client.rest()

    return recorder, run(front, main())


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", TAKEN)
def test_a_front_takes_a_good_request_and_the_next_one_behind_it(front: str, name: str) -> None:
    recorder, said = everything(front, TAKEN[name] + request(b"GET /last HTTP/1.1", HOST, b"Connection: close"))
    assert said.startswith(b"HTTP/1.1 200 OK\r\n")
    assert said.endswith(b"/last 0")
    assert len(recorder.seen) == 2


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_front_refuses_a_bad_request_and_reads_nothing_behind_it(front: str, name: str) -> None:
    recorder, said = everything(front, REFUSED[name] + request(b"GET /smuggled HTTP/1.1"))
    assert recorder.seen == []
    # Tornado closes, instead, when the end of a line does not come where it must
    assert said == BAD_REQUEST or (front == "tornado" and said == b"" and "seventy" in name)


@pytest.mark.parametrize("front", OURS)
@pytest.mark.parametrize("name", STRICTER)
def test_the_fast_front_refuses_what_tornados_takes(front: str, name: str) -> None:
    recorder, said = everything(front, STRICTER[name] + request(b"GET /smuggled HTTP/1.1"))
    assert recorder.seen == []
    assert said == BAD_REQUEST


@pytest.mark.parametrize("name", STRICTER)
def test_tornados_front_takes_what_the_table_says(name: str) -> None:
    recorder, _ = everything("tornado", STRICTER[name] + request(b"GET /last HTTP/1.1", HOST, b"Connection: close"))
    assert recorder.seen


@pytest.mark.parametrize("front", FRONTS)
def test_headers_reach_the_application_alike(front: str) -> None:
    fields = (
        HOST,
        b"x-A-b: 1",
        b"X-a-B:  2 \t",
        b"x-a-b:",
        b"Cookie: \xe4=\xff",
        b"Content-Length: 0",
        b"Connection: close",
    )
    recorder, _ = everything(front, request(b"POST /a?b HTTP/1.1", *fields))
    (seen,) = recorder.seen
    assert seen.line == ("POST", "/a?b", "HTTP/1.1")
    assert seen.headers == (
        ("Host", "x"), ("X-A-B", "1"), ("X-A-B", "2"), ("X-A-B", ""), ("Cookie", "ä=ÿ"), ("Content-Length", "0"),
        ("Connection", "close"),
    )  # fmt: skip


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "without end"])
def test_a_head_that_is_too_large_is_refused(front: str, whole: bool) -> None:
    recorder = Recorder()

    async def main() -> bytes:
        async with serving(front, recorder, header_bytes=1000) as running:
            client = await running.connect()
            await client.send(request(b"GET / HTTP/1.1", HOST, b"A: " + b"b" * 1000)[: None if whole else -4])
            return await client.rest()

    said = run(front, main())
    assert recorder.seen == []
    assert said.startswith(b"" if front == "tornado" else b"HTTP/1.1 431 ")


@pytest.mark.parametrize("front", FRONTS)
def test_a_head_of_the_greatest_size_is_taken(front: str) -> None:
    head = request(b"GET / HTTP/1.1", HOST, b"Connection: close", b"A: ")
    filled = head[:-4] + b"b" * (1000 - len(head)) + b"\r\n\r\n"
    recorder = Recorder()

    async def main() -> bytes:
        async with serving(front, recorder, header_bytes=1000) as running:
            client = await running.connect()
            await client.send(filled)
            return await client.rest()

    assert run(front, main()).startswith(b"HTTP/1.1 200 OK")
