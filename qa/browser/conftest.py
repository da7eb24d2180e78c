"""Fixtures of browser tests: one browser and one gateway for each file, a new visitor for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from qa.browser.site import NO_SIGN_IN, fill_console, find_examples
from tests.support.browser import WAIT_MILLISECONDS, Console, run_browser
from tests.support.gateway import Gateway

CONF = """\
server: {public_url: ""}
plugins: {local: true, cascade: true}
providers:
  local: {plugin: local}
  talker: {plugin: cascade, chat: local-chat, speech: local-tts}
  slow: {plugin: local, pace_seconds: 0.05}
models:
  local-chat: {provider: local}
  slow-chat: {provider: slow}
  "<b>'&amp;model": {provider: local}
  local-embed: {provider: local}
  local-moderation: {provider: local}
  local-image-1: {provider: local, image_family: one}
  local-image-2: {provider: local, image_family: two}
  local-image-3: {provider: local, image_family: three}
  local-image-edit: {provider: local}
  local-tts: {provider: local}
  local-video: {provider: local}
  local-realtime: {provider: local}
  local-talker: {provider: talker}
defaults: {images: local-image-1, images_three: local-image-3}
console: {signup: open}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=WAIT_MILLISECONDS)
    with run_browser() as started:
        yield started


@pytest.fixture(scope="module")
def console_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with the local models. A file of tests that needs another configuration has a fixture of this name."""
    folder: Path = tmp_path_factory.mktemp("console")
    gateway = Gateway.start(CONF, folder)
    yield gateway
    gateway.stop()


@pytest.fixture
def console(console_gateway: Gateway, browser: Browser) -> Iterator[Console]:
    """The console; faults on its pages fail the test."""
    opened = Console(console_gateway, browser)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def examples(console_gateway: Gateway, browser: Browser) -> dict[str, str]:
    """All pages with something on each: a path for each pattern. Made once for each file of tests."""
    console = Console(console_gateway, browser)
    page = console.open_as_first()
    fill_console(console, page)
    console.faults.expect(NO_SIGN_IN)
    found = find_examples(page)
    console.close()
    return found
