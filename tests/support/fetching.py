"""Fetchers of addresses that clients and upstreams give, and what the tests of them share. The fixtures are in `tests/http`."""

from __future__ import annotations

from collections.abc import Awaitable
from ipaddress import ip_network
from typing import Any

import pytest

from tests.support.site import Names, Site
from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.http.fetch import FetchedFile, Fetcher, FetchRules, OpenedFile, RequestFetcher

LOOPBACK = ip_network("127.0.0.1/32")
"""Stands for the public internet in these tests."""
VIDEO = ("video/",)


def make_names() -> Names:
    """A resolver that knows a host of the public internet and one of a private network."""
    return Names({"site.test": [["127.0.0.1"]], "inside.test": [["10.1.2.3"]]})


def make_fetcher(resolve: Any, **rules: Any) -> Fetcher:
    """A fetcher that takes the loopback network for the public internet, under these rules."""
    return Fetcher(FetchRules(**{"allow_networks": (LOOPBACK,), **rules}), resolve=resolve)


def change_rules(fetcher: Fetcher, **rules: Any) -> Fetcher:
    """The same fetcher under other rules."""
    return make_fetcher(fetcher._resolve, **rules)


async def fetch_image(
    fetcher: Fetcher | RequestFetcher, site: Site, path: str = "/", host: str = "site.test"
) -> FetchedFile:
    return await fetcher.fetch(f"http://{host}:{site.port}{path}", kinds=["image/"], param="image_url")


async def expect_refusal(waited: Awaitable[FetchedFile]) -> InvalidField:
    """The error with which a fetch is refused: a 400 that names the client's field."""
    with pytest.raises(InvalidField) as caught:
        await waited
    assert (caught.value.status, caught.value.param) == (400, "image_url")
    return caught.value


async def expect_refusal_code(waited: Awaitable[FetchedFile]) -> str:
    return (await expect_refusal(waited)).code


def make_url(site: Site, path: str = "/", host: str = "site.test") -> str:
    return f"http://{host}:{site.port}{path}"


async def read_video(fetcher: Fetcher, url: str, **rest: Any) -> tuple[OpenedFile, bytes]:
    """An opened file and its content."""
    async with fetcher.open(url, **{"kinds": VIDEO, **rest}) as opened:
        return opened, b"".join([chunk async for chunk in opened.chunks()])


async def expect_failure(fetcher: Fetcher, url: str, **rest: Any) -> UpstreamError:
    """The error with which a file of an upstream cannot be read: a 502 after which another target may be tried."""
    with pytest.raises(UpstreamError) as caught:
        await read_video(fetcher, url, **rest)
    assert (caught.value.status, caught.value.retryable, caught.value.param) == (502, True, "")
    return caught.value
