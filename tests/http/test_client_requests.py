"""The head of a request: addresses, headers, and what is never put on the wire."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.raw import Peer, always, answer, serving
from tornado_gate.http.client.pool import HttpClient
from tornado_gate.http.client.request import parse_address, render_head, render_header_lines

ADDRESSES = {
    "http://h": ("http", "h", 80, "/", "h"),
    "https://h/": ("https", "h", 443, "/", "h"),
    "http://h:8080/v1/chat?alt=sse#part": ("http", "h", 8080, "/v1/chat?alt=sse", "h:8080"),
    "http://h:80?x=1": ("http", "h", 80, "/?x=1", "h"),
    "https://h:80/": ("https", "h", 80, "/", "h:80"),
    "HTTP://Host.Test/Path": ("http", "host.test", 80, "/Path", "host.test"),
    "http://[::1]:8080/x": ("http", "::1", 8080, "/x", "[::1]:8080"),
    "http://[2001:db8::1]/": ("http", "2001:db8::1", 80, "/", "[2001:db8::1]"),
    "http://user:secret@h/x": ("http", "h", 80, "/x", "h"),
    "http://ümlaut.test/ü?q=ü": ("http", "xn--mlaut-jva.test", 80, "/%C3%BC?q=%C3%BC", "xn--mlaut-jva.test"),
    "http://h/models/a%2Fb%3Ac:gen?k=a%20b": ("http", "h", 80, "/models/a%2Fb:c:gen?k=a%20b", "h"),
    "http://h//a//b": ("http", "h", 80, "//a//b", "h"),
}


@pytest.mark.parametrize(("url", "parts"), ADDRESSES.items(), ids=ADDRESSES)
def test_an_address_is_taken_apart(url: str, parts: tuple[str, str, int, str, str]) -> None:
    found = parse_address(url)
    assert (*found.origin, found.target, found.host) == parts


NO_ADDRESSES = [
    "",
    "h/x",
    "//h/x",
    "http://",
    "http:///x",
    "ftp://h/x",
    "ws://h/x",
    "http://h:99999/",
    "http://h:x/",
    "http://h/a b",
    " http://h/",
    "http://h/\r\nX: y",
    "http://h/\tx",
    "http://h/\0",
    "http://h/\x7f",
    "http://h\r\n/",
    "http://[::1/",
]


@pytest.mark.parametrize("url", NO_ADDRESSES, ids=ascii)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_address(url)


def made(headers: dict[str, str], length: int | None = 2, method: str = "POST") -> str:
    return render_head(method, parse_address("http://h/x"), headers, length).decode("latin-1")


def test_headers_go_out_as_they_are_and_the_length_is_ours() -> None:
    assert made({"X-Key": "a b", "content-length": "99", "x": "é"}) == (
        "POST /x HTTP/1.1\r\nHost: h\r\nX-Key: a b\r\nx: é\r\nContent-Length: 2\r\n\r\n"
    )
    assert made({"Content-Length": "99"}, None, "GET") == "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"


def test_another_host_may_be_named_once() -> None:
    assert made({"HOST": "other"}, None) == "POST /x HTTP/1.1\r\nHost: other\r\n\r\n"
    assert made({"Host": ""}, None) == "POST /x HTTP/1.1\r\nHost: \r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "secret\r\nEvil: 1"},
        {"X": "secret\n"},
        {"X": "secret\r"},
        {"X": "secret\0"},
        {"X": "secret\x1b"},
        {"X": "secret\u20ac"},
        {"Host": "secret\r\n"},
        {"Content-Length": "secret\r\n"},
        {"X: secret\r\nY": ""},
        {"": "secret"},
        {"secret name": ""},
        {"sécret": ""},
        {"X:": "secret"},
        {"Transfer-Encoding": "chunked"},
        {"transfer-encoding": "identity"},
    ],
    ids=ascii,
)
def test_a_header_that_could_be_something_else_is_refused_and_its_value_not_told(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        made(headers)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_head_from_memory_is_the_same_and_belongs_to_its_headers() -> None:
    remembered = lru_cache(render_header_lines)
    for headers in ({"X": "1"}, {"X": "2"}, {"x": "1"}, {"Host": "", "X": "1"}, {"Host": "other", "X": "1"}) * 2:
        for length in (None, 2):
            sent = render_head("POST", parse_address("http://h/x"), headers, length, remembered)
            assert sent.decode() == made(headers, length)
    assert remembered.cache_info().misses == 5
    for _ in range(2):
        with pytest.raises(ValueError, match="control"):
            render_head("POST", parse_address("http://h/x"), {"X": "1\n"}, None, remembered)


@pytest.mark.gen_test
async def test_each_request_has_its_own_headers_on_one_connection() -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        while True:
            seen.append((await peer.request()).split(b"Key: ")[1][:1])
            await peer.say(answer())

    async with serving(script) as raw:
        client = HttpClient(5)
        for key in "1221":
            async for _ in await client.request("POST", raw.url, {"Key": key}, b""):
                pass
        await client.close()
    assert seen == [b"1", b"2", b"2", b"1"]


@pytest.mark.parametrize("method", ["", "G T", "GET\r\n", "GET /evil HTTP/1.1\r\n", "GÉT"], ids=ascii)
def test_a_method_that_is_no_token_is_refused(method: str) -> None:
    with pytest.raises(ValueError, match="token"):
        made({}, method=method)


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=12), max_size=4))
def test_a_head_is_one_head_or_none(headers: dict[str, str]) -> None:
    try:
        sent = made(headers)
    except ValueError:
        return
    lines = sent.split("\r\n")
    ours = {"host", "content-length"}
    assert lines[-2:] == ["", ""]
    assert len(lines) == 1 + 2 + len([name for name in headers if name.lower() not in ours]) + 2
    assert "\n" not in "".join(lines)
    assert "\r" not in "".join(lines)


@pytest.mark.gen_test
async def test_what_cannot_be_sent_reaches_nobody() -> None:
    async with serving(always(answer())) as raw:
        client = HttpClient(5)
        with pytest.raises(ValueError, match="control"):
            await client.request("POST", raw.url, {"X": "a\r\nb"}, b"")
        await client.close()
        assert not raw.peers
