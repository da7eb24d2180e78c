"""Downloads of finished videos: from the vendor's store, without the API key, without a redirect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from kling_calls import OURS, RUNNING, call_for, reaching

import tornado_gate_kling as plugin
from tests.support.upstream import Upstream, answer
from tornado_gate.errors import UpstreamError, UpstreamRefused
from tornado_gate.http.upstream_errors import file_error
from tornado_gate.types import UpstreamResponse, VideoDownload, replace

FILE = b"\x00\x00\x00\x18ftypmp42" + bytes(5000)


@dataclass
class Found:
    media_type: str = "video/mp4"
    length: int | None = len(FILE)
    fails: bool = False

    async def chunks(self) -> AsyncIterator[bytes]:
        yield FILE[:100]
        if self.fails:
            raise file_error("too_large")
        yield FILE[100:]


@dataclass
class Store:
    """A fetcher that records its requests, and whether it is still reading."""

    found: Found = field(default_factory=Found)
    error: UpstreamError | None = None
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    reading: bool = False

    @asynccontextmanager
    async def open(self, url: str, *, kinds: tuple[str, ...]) -> AsyncIterator[Found]:
        self.asked.append((url, kinds))
        if self.error:
            raise self.error
        self.reading = True
        yield self.found
        self.reading = False

    async def fetch(self, url: str, *, kinds: Any, param: str) -> Any:
        raise AssertionError("a video is not read into memory")


def wanted(*urls: str, index: int = 0) -> VideoDownload:
    return VideoDownload(model="asked", task_id=OURS, operation={**RUNNING, "urls": list(urls)}, index=index)


def stored(store: Store | None, request: VideoDownload) -> tuple[UpstreamResponse, bytes]:
    """Return the result of a download from another host."""

    async def run() -> tuple[UpstreamResponse, bytes]:
        call = replace(call_for(), fetcher=store)
        async with call.closing:
            incoming = await plugin.call_upstream(call, await plugin.translate_request(call, request))
            return incoming, await incoming.read()

    return asyncio.run(run())


def test_a_video_is_read_from_the_vendors_store_by_the_fetcher() -> None:
    store = Store()
    incoming, data = stored(store, wanted("https://cdn.example/a.mp4?sign=1", "https://cdn.example/b.mp4", index=1))
    assert data == FILE
    assert incoming.headers == {"content-type": "video/mp4", "content-length": str(len(FILE))}
    assert store.asked == [("https://cdn.example/b.mp4", ("video/",))]
    assert not store.reading


def test_a_length_that_nobody_said_is_not_told() -> None:
    incoming, _ = stored(Store(Found(length=None)), wanted("https://cdn.example/a"))
    assert "content-length" not in incoming.headers


def test_no_key_goes_to_another_host() -> None:
    outgoing = asyncio.run(plugin.translate_request(call_for(headers={"X-Team": "7"}), wanted("https://cdn.example/a")))
    assert (outgoing.method, dict(outgoing.headers)) == ("GET", {})


@pytest.mark.parametrize("url", ["http://cdn.example/a", "ftp://cdn.example/a", "file:///etc/passwd", "cdn.example/a"])
def test_an_address_that_is_not_https_is_refused(url: str) -> None:
    store = Store()
    with pytest.raises(UpstreamError):
        stored(store, wanted(url))
    assert store.asked == []


def test_a_video_that_cannot_be_fetched_is_the_upstreams_fault() -> None:
    refused = file_error("private_address", "This address is not one of the public internet.")
    with pytest.raises(UpstreamError) as caught:
        stored(Store(error=refused), wanted("https://cdn.example/a"))
    assert (caught.value.status, caught.value.code) == (502, "upstream_file_refused")


def test_a_video_that_breaks_off_is_the_upstreams_fault() -> None:
    with pytest.raises(UpstreamError) as caught:
        stored(Store(Found(fails=True)), wanted("https://cdn.example/a"))
    assert caught.value.code == "upstream_file_too_large"


def test_without_a_fetcher_there_is_no_way_to_the_store() -> None:
    with pytest.raises(UpstreamError):
        stored(None, wanted("https://cdn.example/a"))


@pytest.mark.parametrize("request_", [wanted(), wanted("https://cdn.example/a", index=1), wanted(index=-1)])
def test_a_video_that_was_not_given_is_the_upstreams_fault(request_: VideoDownload) -> None:
    with pytest.raises(UpstreamError) as caught:
        asyncio.run(plugin.translate_request(call_for(), request_))
    assert caught.value.code == "upstream_no_video"


def test_a_video_on_the_upstreams_own_host_comes_from_there_with_our_key(upstream: Upstream) -> None:
    upstream.script(answer(FILE, headers={"content-type": "video/mp4"}))

    async def run() -> bytes:
        async with reaching(upstream.url) as call:
            outgoing = await plugin.translate_request(call, wanted(f"{upstream.url}/files/a.mp4"))
            return await (await plugin.call_upstream(call, outgoing)).read()

    assert asyncio.run(run()) == FILE
    assert upstream.requests[0].path == "/files/a.mp4"
    assert upstream.requests[0].headers["authorization"].startswith("Bearer ")


def test_an_error_of_the_upstreams_own_host_is_not_handed_out_as_a_video(upstream: Upstream) -> None:
    upstream.script(answer('{"message": "expired"}', status=410))

    async def run() -> None:
        async with reaching(upstream.url) as call:
            outgoing = await plugin.translate_request(call, wanted(f"{upstream.url}/files/a.mp4"))
            await plugin.call_upstream(call, outgoing)

    with pytest.raises(UpstreamRefused):
        asyncio.run(run())
