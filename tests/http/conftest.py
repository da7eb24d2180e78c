"""A server of any bytes, and a fetcher that reaches it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tornado.ioloop import IOLoop

from tests.support.fetching import make_fetcher, make_names
from tests.support.site import Names, Site
from tornado_gate.http.fetch import Fetcher


@pytest.fixture
def site(io_loop: IOLoop) -> Iterator[Site]:
    site = Site()
    io_loop.run_sync(site.start)
    yield site
    io_loop.run_sync(site.stop)


@pytest.fixture
def names() -> Names:
    return make_names()


@pytest.fixture
def fetcher(names: Names) -> Fetcher:
    return make_fetcher(names)
