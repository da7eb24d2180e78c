"""Heads of requests as the fast front reads them: the start line, the headers by both their names, what was remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.httputil import HTTPHeaders, HTTPInputError

from tests.support.front import HOST, post, request
from tornado_gate.http.server.head import parse

tokens = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=8).filter(
    lambda name: name.lower() not in ("connection", "upgrade", "host", "te")
)
values = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters=[chr(127)]), max_size=20)


@given(st.lists(st.tuples(tokens, values), max_size=8))
def test_headers_are_what_tornado_makes_of_them(fields: list[tuple[str, str]]) -> None:
    lines = [f"{name}: {value}".encode("latin-1") for name, value in fields if not 128 <= ord((value or " ")[0]) < 160]
    head = request(b"GET / HTTP/1.1", HOST, *lines)
    ours = parse(head).headers
    theirs = HTTPHeaders.parse(head.decode("latin-1").partition("\r\n")[2])
    assert list(ours.get_all()) == list(theirs.get_all())
    assert ours == theirs
    assert str(ours.copy()) == str(theirs)
    assert ours.lowered == lowered(theirs)
    ours.add("Host", "y")
    ours["New"] = ours["Newer"] = "1"
    del ours["new"]
    assert ours.get_list("host") == ["x", "y"]
    assert ours["Host"] == "x,y"
    assert ours.lowered == lowered(ours)


def lowered(headers: HTTPHeaders) -> dict[str, str]:
    return {name.lower(): headers[name] for name in headers}


@pytest.mark.parametrize("last", [b"close", b"Close", b"x, close"], ids=ascii)
def test_a_header_that_comes_again_is_heeded_as_well(last: bytes) -> None:
    head = parse(request(b"GET / HTTP/1.1", HOST, b"Connection: keep-alive", b"X: 1", b"connection: " + last))
    assert not head.keep
    assert head.headers.lowered["connection"] == f"keep-alive,{last.decode()}"
    assert head.headers.lowered["x"] == "1"


@pytest.mark.parametrize(
    ("target", "known"), [(b"/v1/models", True), (b"/v1?key=secret", False), (b"/" + b"x" * 200, False)], ids=ascii
)
def test_a_request_line_is_remembered_unless_it_is_long_or_may_hold_a_key(target: bytes, known: bool) -> None:
    head = request(b"GET %b HTTP/1.1" % target)
    first, again = parse(head).start_line, parse(head).start_line
    assert first == again == ("GET", target.decode(), "HTTP/1.1")
    assert (first is again) is known


@pytest.mark.parametrize(("digits", "fits"), [(18, True), (19, False)])
def test_a_length_has_eighteen_digits_at_most(digits: int, fits: bool) -> None:
    head = post(b"Content-Length: 1" + b"0" * (digits - 1))
    if fits:
        assert parse(head).body == 10 ** (digits - 1)
    else:
        with pytest.raises(HTTPInputError, match="Content-Length"):
            parse(head)
