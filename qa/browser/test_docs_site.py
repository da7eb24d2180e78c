"""The documentation site in a browser: its search finds a page, and no request leaves the machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser

from tests.docs.site import build_site


@pytest.fixture
def site_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_reader_searches_and_no_other_host_is_asked(site_url: str, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{site_url}/index.html")
    page.keyboard.press("s")
    page.keyboard.type("stalled_reader_seconds", delay=5)
    page.locator(".md-search-result__link", has_text="Configuration").first.click()
    page.locator("h1", has_text="Configuration").wait_for()
    assert [url for url in requested if not url.startswith((site_url, "data:", "blob:"))] == []
