"""Tests of the scripted upstream, on which other tests rely."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.support.process import Child, ChildFailed
from tests.support.upstream import Close, Hang, Raw, Reset, Upstream, Wait, answer, sse


@pytest.fixture(scope="module")
def started() -> Iterator[Upstream]:
    upstream = Upstream.start()
    yield upstream
    upstream.stop()


@pytest.fixture
def upstream(started: Upstream) -> Upstream:
    started.reset()
    return started


@pytest.fixture
def connection(upstream: Upstream) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(urlsplit(upstream.url).netloc, timeout=10)
    yield connection
    connection.close()


def test_request_is_recorded_as_it_came(upstream: Upstream, connection: http.client.HTTPConnection) -> None:
    upstream.script(answer("{}", status=201, headers={"x-told": "yes"}))
    connection.request("POST", "/v1/chat?x=1", b'{ "odd":  "spaces" }', {"X-Sent": "Some Value"})
    reply = connection.getresponse()
    assert (reply.status, reply.headers["x-told"], reply.read()) == (201, "yes", b"{}")
    (recorded,) = upstream.requests
    assert (recorded.method, recorded.path, recorded.body) == ("POST", "/v1/chat?x=1", b'{ "odd":  "spaces" }')
    assert recorded.headers["x-sent"] == "Some Value"
    assert not recorded.closed


def test_answers_are_played_in_order_by_path(upstream: Upstream, connection: http.client.HTTPConnection) -> None:
    upstream.script(answer("1", path="/a"), answer("2", path="/b", repeat=True), answer("3"))
    bodies = []
    for path in ("/b", "/b", "/a", "/c", "/d"):
        connection.request("GET", path)
        reply = connection.getresponse()
        bodies.append((reply.status, reply.read()[:1]))
    assert bodies == [(200, b"2"), (200, b"2"), (200, b"1"), (200, b"3"), (599, b"{")]


def test_answer_waits_until_told(upstream: Upstream, connection: http.client.HTTPConnection) -> None:
    upstream.script(answer(sse("first"), Wait("go"), sse({"second": 2})))
    connection.request("GET", "/")
    reply = connection.getresponse()
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.read1() == b"data: first\n\n"
    upstream.tell("go")
    assert reply.read() == b'data: {"second": 2}\n\n'


def test_client_that_leaves_is_noticed(upstream: Upstream, connection: http.client.HTTPConnection) -> None:
    upstream.script(answer(Hang()))
    connection.request("GET", "/")
    upstream.wait_for_requests(1)
    connection.close()
    upstream.wait_until_closed(0)


def test_connection_is_reset(upstream: Upstream, connection: http.client.HTTPConnection) -> None:
    upstream.script(answer(Reset()))
    connection.request("GET", "/")
    with pytest.raises(ConnectionResetError):
        connection.getresponse()


def test_connection_is_closed_in_the_middle(upstream: Upstream, connection: http.client.HTTPConnection) -> None:
    upstream.script(answer("half", Close(), headers={"content-length": "8"}))
    connection.request("GET", "/")
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()


def test_bytes_that_are_no_http_are_sent(upstream: Upstream, connection: http.client.HTTPConnection) -> None:
    upstream.script(answer(Raw("SMTP ready\r\n")))
    connection.request("GET", "/")
    with pytest.raises(http.client.BadStatusLine):
        connection.getresponse()


def test_child_that_ends_early_shows_its_output() -> None:
    child = Child(["sh", "-c", "echo the reason; exit 3"])
    with pytest.raises(ChildFailed, match=r"status 3:\nthe reason"):
        child.wait_for_line("never")


def test_child_that_says_nothing_is_ended() -> None:
    child = Child(["sh", "-c", "echo other; exec tail -f /dev/null"])
    with pytest.raises(ChildFailed, match=r"in 0\.2 s:\nother"):
        child.wait_for_line("never", seconds=0.2)
    assert child.process.returncode is not None
