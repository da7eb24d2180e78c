"""What a request to an upstream may ask for: statuses that are answers, redirects, files. The same on both clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tornado.ioloop import IOLoop

from tests.support.raw import Peer, answer, serving
from tornado_gate import errors
from tornado_gate.http import upstream
from tornado_gate.http.fetch import Fetcher, FetchRules
from tornado_gate.testing import call_to
from tornado_gate.types import BufferedBody, Call, Timeouts, UpstreamRequest, UpstreamResponse, replace

SECRET = "Bearer key-of-the-operator"
KEYS = {"Authorization": SECRET}
VIDEO = ("video/",)
MP4 = b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + bytes(range(256)) * 4
FILM = answer(MP4, Content_Type="video/mp4")
MEGABYTE = 1024 * 1024


@pytest.fixture
def pool(io_loop: IOLoop) -> Iterator[upstream.Pool]:
    pool = upstream.Pool(Timeouts(connect=2))
    yield pool
    io_loop.run_sync(pool.close)


class Site:
    """A server with an answer for each path. `heads` are the requests that came; `url` is where they come."""

    def __init__(self, **answers: bytes) -> None:
        self.answers = {f"/{path}": said for path, said in answers.items()}
        self.heads: list[str] = []
        self.url = ""

    async def serve(self, peer: Peer) -> None:
        while True:
            head = (await peer.request()).decode("latin-1")
            self.heads.append(head)
            await peer.say(self.answers[head.split(" ")[1].partition("?")[0]])

    @property
    def elsewhere(self) -> str:
        """The same server by another host's name."""
        return self.url.replace("127.0.0.1", "localhost")

    @property
    def paths(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads]

    def has_key(self, number: int) -> bool:
        return SECRET in self.heads[number]


def redirect(to: str, status: str = "302 Found") -> bytes:
    return answer(b"moved", status, Location=to)


@asynccontextmanager
async def reaching(site: Site, pool: upstream.Pool, **rules: Any) -> AsyncIterator[Call]:
    """A call whose provider is at `site`, and whose fetcher may reach this machine."""
    fetcher = Fetcher(FetchRules(**{"allow_private": True, **rules}))
    async with serving(site.serve) as raw, AsyncExitStack() as closing:
        site.url = raw.url
        closing.push_async_callback(fetcher.close)
        call = call_to(pool=pool, closing=closing, fetcher=fetcher)
        yield replace(call, target=replace(call.target, base_url=f"{raw.url}/v1"))


async def get(call: Call, url: str, **fields: Any) -> tuple[UpstreamResponse, bytes]:
    response = await upstream.call_upstream(call, UpstreamRequest(method="GET", url=url, headers=KEYS, **fields))
    return response, await response.read()


# Accepted statuses


@pytest.mark.gen_test
@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 429, 503])
async def test_a_status_that_is_accepted_is_an_answer(pool: upstream.Pool, status: int) -> None:
    body = b"" if status == 304 else b'{"code": 7}'
    site = Site(a=answer(body, f"{status} X", X_Odd="y"))
    async with reaching(site, pool) as call:
        response, came = await get(call, f"{site.url}/a", accepted_statuses=range(300, 600))
    assert (response.status, response.headers["x-odd"], came) == (status, "y", body)
    assert response.provider == call.target.provider


@pytest.mark.gen_test
async def test_a_redirect_that_is_accepted_is_an_answer_and_not_followed(pool: upstream.Pool) -> None:
    site = Site(a=redirect("/b"), b=answer())
    async with reaching(site, pool) as call:
        response, _ = await get(call, f"{site.url}/a", accepted_statuses=(302,), redirects=3)
    assert (response.status, response.headers["location"], site.paths) == (302, "/b", ["/a"])


@pytest.mark.gen_test
async def test_any_other_status_is_an_error(pool: upstream.Pool) -> None:
    site = Site(a=answer(b"{}", "410 Gone"))
    async with reaching(site, pool) as call:
        with pytest.raises(errors.UpstreamRefused):
            await get(call, f"{site.url}/a", accepted_statuses=(404,))


@pytest.mark.gen_test
async def test_of_an_accepted_error_no_more_than_its_beginning_is_read(pool: upstream.Pool) -> None:
    site = Site(a=answer(bytes(MEGABYTE), "404 X"))
    async with reaching(site, pool) as call:
        response, came = await get(call, f"{site.url}/a", accepted_statuses=(404,))
    assert len(came) == upstream.ERROR_BODY_BYTES
    assert isinstance(response.chunks, BufferedBody)


# Redirects


@pytest.mark.gen_test
@pytest.mark.parametrize("status", ["301 X", "302 X", "303 X", "307 X", "308 X"])
async def test_a_redirect_within_the_host_is_followed_with_the_key(pool: upstream.Pool, status: str) -> None:
    site = Site(a=redirect("/b?x=1", status), b=answer(b"here"))
    async with reaching(site, pool) as call:
        assert (await get(call, f"{site.url}/a", redirects=1))[1] == b"here"
    assert site.paths == ["/a", "/b?x=1"]
    assert [site.has_key(0), site.has_key(1)] == [True, True]


@pytest.mark.gen_test
async def test_without_a_wish_for_it_a_redirect_is_an_error(pool: upstream.Pool) -> None:
    site = Site(a=redirect("/b"))
    async with reaching(site, pool) as call:
        with pytest.raises(errors.UpstreamError, match="status 302"):
            await get(call, f"{site.url}/a")
    assert site.paths == ["/a"]


@pytest.mark.gen_test
async def test_a_post_is_never_redirected(pool: upstream.Pool) -> None:
    site = Site(a=redirect("/b"))
    async with reaching(site, pool) as call:
        with pytest.raises(errors.UpstreamError, match="status 302"):
            await upstream.call_upstream(call, UpstreamRequest(url=f"{site.url}/a", json={}, redirects=3))
    assert site.paths == ["/a"]


@pytest.mark.gen_test
async def test_redirects_have_an_end(pool: upstream.Pool) -> None:
    site = Site(a=redirect("/a"))
    async with reaching(site, pool) as call:
        with pytest.raises(errors.UpstreamError, match="there were too many"):
            await get(call, f"{site.url}/a", redirects=2)
    assert len(site.heads) == 3


@pytest.mark.gen_test
@pytest.mark.parametrize(
    "place", ["{elsewhere}/b", "//localhost:1/b", "http://[b", "http://127.0.0.1:1/b", "ftp://h/b"]
)
async def test_an_answer_that_is_no_file_is_not_sought_at_another_host(pool: upstream.Pool, place: str) -> None:
    site = Site(b=answer())
    async with reaching(site, pool) as call:
        site.answers["/a"] = redirect(place.format(elsewhere=site.elsewhere))
        with pytest.raises(errors.UpstreamError, match="redirects to"):
            await get(call, f"{site.url}/a", redirects=3)
    assert site.paths == ["/a"]


@pytest.mark.gen_test
async def test_an_address_that_an_upstream_gave_is_asked_for_as_it_was_quoted(pool: upstream.Pool) -> None:
    site = Site(a=redirect("/b%7E?sign=%2F%3D"))
    site.answers["/b%7E"] = answer()
    async with reaching(site, pool) as call:
        await get(call, f"{site.url}/a", redirects=1)
    assert site.paths == ["/a", "/b%7E?sign=%2F%3D"]


# Files


@pytest.mark.gen_test
async def test_a_file_at_the_providers_own_host_is_fetched_with_the_key(pool: upstream.Pool) -> None:
    site = Site(film=FILM)
    async with reaching(site, pool) as call:
        assert (await get(call, f"{site.url}/film", file_types=VIDEO))[1] == MP4
    assert site.has_key(0)


@pytest.mark.gen_test
async def test_the_key_does_not_travel_to_another_host(pool: upstream.Pool) -> None:
    site = Site(film=FILM)
    async with reaching(site, pool) as call:
        site.answers["/a"] = redirect(f"{site.elsewhere}/film?signed=1")
        response, came = await get(call, f"{site.url}/a", file_types=VIDEO, redirects=1)
    assert came == MP4
    assert response.headers == {"content-type": "video/mp4", "content-length": str(len(MP4))}
    assert site.paths == ["/a", "/film?signed=1"]
    assert [site.has_key(0), site.has_key(1)] == [True, False]


@pytest.mark.gen_test
async def test_a_file_that_lies_at_another_host_from_the_start_gets_no_key(pool: upstream.Pool) -> None:
    site = Site(film=FILM)
    async with reaching(site, pool) as call:
        assert (await get(call, f"{site.elsewhere}/film", file_types=VIDEO))[1] == MP4
    assert len(site.heads) == 1
    assert not site.has_key(0)


@pytest.mark.gen_test
async def test_another_host_is_asked_for_files_of_the_wanted_kind_only(pool: upstream.Pool) -> None:
    site = Site(film=answer(b'{"error": "expired"}', Content_Type="video/mp4"))
    async with reaching(site, pool) as call:
        with pytest.raises(errors.UpstreamError) as caught:
            await get(call, f"{site.elsewhere}/film", file_types=VIDEO)
    assert caught.value.code == "upstream_wrong_media_type"


@pytest.mark.gen_test
async def test_a_host_inside_the_gateways_network_is_not_asked(pool: upstream.Pool) -> None:
    site = Site()
    async with reaching(site, pool, allow_private=False) as call:
        site.answers["/a"] = redirect(f"{site.elsewhere}/inside")
        with pytest.raises(errors.UpstreamError) as caught:
            await get(call, f"{site.url}/a", file_types=VIDEO, redirects=1)
    assert caught.value.code == "upstream_file_refused"
    assert site.paths == ["/a"]


@pytest.mark.gen_test
async def test_without_a_fetcher_no_other_host_is_asked(pool: upstream.Pool) -> None:
    site = Site(film=FILM)
    async with reaching(site, pool) as call:
        with pytest.raises(errors.UpstreamError, match="another host"):
            await get(replace(call, fetcher=None), f"{site.elsewhere}/film", file_types=VIDEO)
    assert site.heads == []


@pytest.mark.gen_test
@pytest.mark.parametrize("host", ["own", "another"])
async def test_a_file_larger_than_any_body_is_never_held(pool: upstream.Pool, host: str) -> None:
    size, sent = 48 * MEGABYTE, 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        peer.writer.write(answer(b"", Content_Type="video/mp4", Content_Length=str(size)) + MP4)
        sent = len(MP4)
        while sent < size:
            piece = bytes(min(MEGABYTE, size - sent))
            peer.writer.write(piece)
            await peer.writer.drain()
            sent += len(piece)
        await peer.gone()

    site = Site()
    site.serve = script  # type: ignore[method-assign]
    received, ahead = 0, 0
    async with reaching(site, pool) as call:
        url = f"{site.url if host == 'own' else site.elsewhere}/film"
        outgoing = UpstreamRequest(method="GET", url=url, headers=KEYS, file_types=VIDEO)
        async for chunk in (await upstream.call_upstream(call, outgoing)).chunks:
            for _ in range(5):  # time in which an upstream that nobody holds back would go on
                await asyncio.sleep(0)
            received += len(chunk)
            ahead = max(ahead, sent - received)
        await call.closing.aclose()
    assert received == size
    assert ahead < 24 * MEGABYTE  # what lies in the buffers of both kernels, and a little here


@pytest.mark.gen_test
async def test_a_file_that_breaks_off_never_looks_whole(pool: upstream.Pool) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(b"", Content_Type="video/mp4", Content_Length="9999") + MP4)

    site = Site()
    site.serve = script  # type: ignore[method-assign]
    async with reaching(site, pool) as call:
        with pytest.raises(errors.UpstreamLost) as caught:
            await get(call, f"{site.url}/film", file_types=VIDEO)
    assert caught.value.code == "upstream_lost"


# The pool


@pytest.mark.gen_test
async def test_a_closed_pool_opens_no_new_connections(pool: upstream.Pool) -> None:
    site = Site(a=answer())
    async with reaching(site, pool) as call:
        await pool.close()
        with pytest.raises(errors.UpstreamUnreachable):
            await get(call, f"{site.url}/a")
    assert site.heads == []


# Answers


def incoming(body: bytes, content_type: str = "", provider: str = "acme") -> UpstreamResponse:
    headers = {"content-type": content_type} if content_type else {}
    return UpstreamResponse(chunks=BufferedBody(body), headers=headers, provider=provider)


@pytest.mark.gen_test
async def test_an_answer_is_read_as_json_or_as_an_object() -> None:
    assert await incoming(b"[1]").read_json() == [1]
    assert await incoming(b'{"a": 1}').read_object() == {"a": 1}


@pytest.mark.gen_test
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a": 1', b"NaN", b"\xff"])
async def test_what_is_not_json_is_the_upstreams_fault(body: bytes) -> None:
    with pytest.raises(errors.UpstreamError, match="The provider 'acme' sent a response that is not valid JSON"):
        await incoming(body).read_json()
    with pytest.raises(errors.UpstreamError, match="The upstream sent a response that is not valid JSON"):
        await incoming(body, provider="").read_object()


@pytest.mark.gen_test
async def test_what_is_no_object_is_the_upstreams_fault() -> None:
    with pytest.raises(errors.UpstreamError, match="The provider 'acme' sent a response that is not a JSON object"):
        await incoming(b"[1]").read_object()


@pytest.mark.parametrize(
    ("header", "media_type", "streams", "otherwise"),
    [
        ("text/event-stream", "text/event-stream", True, True),
        ("Text/Event-Stream; charset=utf-8", "text/event-stream", True, True),
        ("application/json", "application/json", False, False),
        (" Application/JSON ;charset=utf-8", "application/json", False, False),
        ("text/plain", "text/plain", False, True),
        ("", "", False, True),
    ],
)
def test_an_answer_says_what_it_is(header: str, media_type: str, streams: bool, otherwise: bool) -> None:
    answered = incoming(b"", header)
    assert answered.media_type == media_type
    assert (answered.is_event_stream(), answered.is_event_stream(otherwise=True)) == (streams, otherwise)
