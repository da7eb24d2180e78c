"""Which requests a front takes, as RFC 9110 and 9112 require. What is refused gets one answer and ends the connection."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from tornado.httputil import HTTPHeaders

from tests.support.front import CHUNKED, FRONTS, HOST, OURS, Recorder, post, request, run, serving
from tests.support.variants import vary
from tornado_gate.http.server.head import _HEADER_NAMES

UPGRADE = (
    b"Upgrade: websocket",
    b"Connection: Upgrade",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: " + b"A" * 22 + b"==",
)
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
    "absolute target in HTTP/1.0": b"GET http://x/y HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "asterisk": request(b"OPTIONS * HTTP/1.1"),
    "as many headers as allowed": request(b"GET / HTTP/1.1", HOST, *(b"A%d: b" % number for number in range(199))),
    "an upgrade that is ignored": request(b"GET / HTTP/1.1", HOST, *UPGRADE),
    "an upgrade with a body": post(*UPGRADE, b"Content-Length: 5", body=b"hello"),
    "an upgrade with chunks": post(*UPGRADE, CHUNKED, body=b"5\r\nhello\r\n0\r\n\r\n"),
    "unknown expectation in HTTP/1.0": request(b"GET / HTTP/1.0", b"Connection: keep-alive", b"Expect: nothing"),
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
    "URL without Host": request(b"GET http://x/y HTTP/1.1", b"A: b"),
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
    "chunk extension without a name": post(CHUNKED, body=b"5;=b\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with a control": post(CHUNKED, body=b"5;a=\0\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with LF": post(CHUNKED, body=b"5;a=b\nc\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with LF in quotes": post(CHUNKED, body=b'5;a="b\nc"\r\nhello\r\n0\r\n\r\n'),
    "chunk extension that ends in LF": post(CHUNKED, body=b"5;a=b\nhello\r\n0\r\n\r\n     "),
    "chunk extension with an open quote": post(CHUNKED, body=b'5;a="b\r\nhello\r\n0\r\n\r\n'),
    "long chunk extension": post(CHUNKED, body=b"5;a=" + b"b" * 2000 + b"\r\nhello\r\n0\r\n\r\n"),
    "many chunk extensions": post(CHUNKED, body=(b"1;a=" + b"b" * 900 + b"\r\nx\r\n") * 30 + b"0\r\n\r\n"),
    "trailer without a name": post(CHUNKED, body=b"0\r\n: b\r\n\r\n"),
    "trailer with space before the colon": post(CHUNKED, body=b"0\r\nA : b\r\n\r\n"),
    "trailer with a control": post(CHUNKED, body=b"0\r\nA: \0\r\n\r\n"),
    "trailer that ends in LF": post(CHUNKED, body=b"0\r\nA: b\n\r\n\r\n"),
    "trailer with a length": post(CHUNKED, body=b"0\r\nContent-Length: 5\r\n\r\n"),
    "trailer, folded": post(CHUNKED, body=b"0\r\nA: b\r\n c\r\n\r\n"),
    "long trailer": post(CHUNKED, body=b"0\r\n" + (b"A: " + b"b" * 900 + b"\r\n") * 30 + b"\r\n"),
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
    "too many headers": request(b"GET / HTTP/1.1", HOST, *(b"A%d: b" % number for number in range(200))),
    "unknown expectation": post(b"Expect: nothing", b"Content-Length: 5", body=b"hello"),
    "asterisk with GET": request(b"GET * HTTP/1.1"),
    "URL of another scheme": request(b"GET ftp://x/y HTTP/1.1"),
    "URL with a user": request(b"GET http://a@x/y HTTP/1.1"),
    "URL with a fragment": request(b"GET http://x/y#z HTTP/1.1"),
    "HTTP/1.2": request(b"GET / HTTP/1.2"),
    "unknown method": request(b"FLY / HTTP/1.1"),
    "method in lower case": request(b"get / HTTP/1.1"),
    "method of RTSP": request(b"DESCRIBE / HTTP/1.1"),
    "authority as a target": request(b"GET x:80 HTTP/1.1"),
    "a word as a target": request(b"GET x HTTP/1.1"),
    "bytes above ASCII in the target": request(b"GET /\xe4 HTTP/1.1"),
    "size of seventeen digits": post(CHUNKED, body=b"00000000000000005\r\nhello\r\n0\r\n\r\n"),
}
"""What Tornado's front takes and ours does not; the table in `server.head` says the same."""
LOOSER = {
    "chunk extension": post(CHUNKED, body=b"5;a=b\r\nhello\r\n0\r\n\r\n"),
    "chunk extension without a value": post(CHUNKED, body=b"5;a\r\nhello\r\n0\r\n\r\n"),
    "chunk extensions with spaces": post(CHUNKED, body=b"5 ; a = b ;c\r\nhello\r\n0\r\n\r\n"),
    "chunk extension in quotes": post(CHUNKED, body=b'5;a="b;\\" c"\r\nhello\r\n0\r\n\r\n'),
    "chunk extension of the last chunk": post(CHUNKED, body=b"5\r\nhello\r\n0;a\r\n\r\n"),
    "trailer": post(CHUNKED, body=b"5\r\nhello\r\n0\r\nA: b\r\n\r\n"),
    "trailers": post(CHUNKED, body=b"5\r\nhello\r\n0\r\nA: b\r\nX-C:\r\n\r\n"),
}
"""What RFC 9112 7.1 requires and Tornado's front refuses. Each has the body "hello"."""
STATUSES = {
    "length above the limit": 413,
    "size above the limit": 413,
    "unknown expectation": 417,
    "unknown method": 501,
    "method in lower case": 501,
    "method of RTSP": 501,
    "too many headers": 431,
}
"""The statuses that are not 400."""

BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\n\r\n"
"""The answer of Tornado's front."""


def check_refusal(said: bytes, name: str, method: bytes = b"POST") -> None:
    """The one response of our front to a bad request: an error body, a length, and the end of the connection."""
    head, _, body = said.partition(b"\r\n\r\n")
    line, _, fields = head.decode("latin-1").partition("\r\n")
    status, headers = int(line.split(" ")[1]), HTTPHeaders.parse(fields)
    assert status == STATUSES.get(name, 400), said
    assert (headers["Connection"], headers["Content-Length"]) == ("close", str(len(body)))
    assert headers["Content-Type"] == "application/json"
    assert headers["Date"]
    assert set(orjson.loads(body)["error"]) == {"message", "type", "param", "code"}


def everything(front: str, data: bytes) -> tuple[Recorder, bytes]:
    """What the application met, and all that came back until the server closed; more is sent only to see whether it is read."""
    recorder = Recorder()

    async def main() -> bytes:
        async with serving(front, recorder) as running:
            client = await running.connect()
            await client.send(data)
            return await client.rest()

    return recorder, run(front, main())


@pytest.mark.parametrize("front", vary(*FRONTS))
@pytest.mark.parametrize("name", TAKEN)
def test_a_front_takes_a_good_request_and_the_next_one_behind_it(front: str, name: str) -> None:
    recorder, said = everything(front, TAKEN[name] + request(b"GET /last HTTP/1.1", HOST, b"Connection: close"))
    assert said.startswith(b"HTTP/1.1 200 OK\r\n")
    assert said.endswith(b"/last 0")
    assert len(recorder.seen) == 2


@pytest.mark.parametrize("front", vary(*FRONTS))
@pytest.mark.parametrize("name", REFUSED)
def test_a_front_refuses_a_bad_request_and_reads_nothing_behind_it(front: str, name: str) -> None:
    recorder, said = everything(front, REFUSED[name] + request(b"GET /smuggled HTTP/1.1"))
    assert recorder.seen == []
    if front != "tornado":
        check_refusal(said, name)
    else:  # it closes, instead, when the end of a line does not come where it must, or a line is too long
        assert said in (BAD_REQUEST, b"")


@pytest.mark.parametrize("front", vary(*OURS))
@pytest.mark.parametrize("name", STRICTER)
def test_the_fast_front_refuses_what_tornados_takes(front: str, name: str) -> None:
    recorder, said = everything(front, STRICTER[name] + request(b"GET /smuggled HTTP/1.1"))
    assert recorder.seen == []
    check_refusal(said, name)


@pytest.mark.parametrize("front", vary(*OURS))
@pytest.mark.parametrize("name", LOOSER)
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "byte by byte"])
def test_the_fast_front_ignores_extensions_and_trailers(front: str, name: str, cut: bool) -> None:
    data = LOOSER[name] + request(b"GET /last HTTP/1.1", HOST, b"Connection: close")
    recorder = Recorder()

    async def main() -> bytes:
        async with serving(front, recorder) as running:
            client = await running.connect()
            for at in range(len(data)) if cut else ():
                await client.send(data[at : at + 1])
                await asyncio.sleep(0)
            if not cut:
                await client.send(data)
            return await client.rest()

    said = run(front, main())
    assert [seen.body for seen in recorder.seen] == [b"hello", b""]
    assert said.endswith(b"/last 0")


@pytest.mark.parametrize("name", LOOSER)
def test_tornados_front_refuses_extensions_and_trailers(name: str) -> None:
    recorder, _ = everything("tornado", LOOSER[name] + request(b"GET /last HTTP/1.1"))
    assert recorder.seen == []


@pytest.mark.parametrize("name", STRICTER)
def test_tornados_front_takes_what_the_table_says(name: str) -> None:
    recorder, _ = everything("tornado", STRICTER[name] + request(b"GET /last HTTP/1.1", HOST, b"Connection: close"))
    assert recorder.seen


@pytest.mark.parametrize("front", vary(*FRONTS))
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


@pytest.mark.parametrize("front", vary(*FRONTS))
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


@pytest.mark.parametrize("front", vary(*FRONTS))
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


# What follows from a verdict


@pytest.mark.parametrize("front", vary(*OURS))
@pytest.mark.parametrize("name", {**REFUSED, **STRICTER})
def test_a_request_behind_an_ignored_upgrade_is_read_as_strictly_as_any(front: str, name: str) -> None:
    bad = {**REFUSED, **STRICTER}[name]
    recorder, said = everything(front, request(b"GET / HTTP/1.1", HOST, *UPGRADE) + bad)
    assert len(recorder.seen) == 1
    answered, _, refusal = said.partition(b"/ 0")
    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")
    check_refusal(refusal, name)


@pytest.mark.parametrize("front", vary(*OURS))
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_only_http_1_1_is_told_to_continue(front: str, version: bytes) -> None:
    fields = (HOST, b"Content-Length: 5", b"Connection: close", b"Expect: 100-continue")
    _, said = everything(front, request(b"POST / HTTP/" + version, *fields, body=b"hello"))
    assert said.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK" if version == b"1.1" else b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("front", vary(*OURS))
@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://y", "/"), (b"http://y/a?b", "/a?b"), (b"HTTPS://y:8080/a", "/a"), (b"http://y?b", "/?b"),
        (b"http://y//a", "//a"),
    ],
)  # fmt: skip
def test_the_host_of_a_url_replaces_the_header(front: str, target: bytes, path: str) -> None:
    recorder, _ = everything(front, request(b"GET " + target + b" HTTP/1.1", HOST, b"Connection: close"))
    (seen,) = recorder.seen
    assert seen.line == ("GET", path, "HTTP/1.1")
    assert dict(seen.headers)["Host"].startswith("y")


@pytest.mark.parametrize("front", vary(*OURS))
def test_many_headers_cost_no_more_than_counting_them(front: str) -> None:
    """They are refused before any of them is parsed or kept."""
    fields = (b"x-%d: 1" % number for number in range(5000))
    recorder, said = everything(front, request(b"GET / HTTP/1.1", HOST, *fields))
    assert recorder.seen == []
    check_refusal(said, "too many headers")
    assert not any(name.startswith(b"x-4") for name in _HEADER_NAMES)
