"""The pages of requests and of alerts in a browser: filters by keyboard, live updates, files, a test of a receiver."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Console, check_accessibility
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer

CONF = """\
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  vendor: {{plugin: openai, base_url: "{url}/v1", api_key: vendor-key-0123456789}}
models: {{local-chat: {{provider: local}}, gpt-4o: {{provider: vendor}}}}
console: {{signup: open}}
alerts: {{sinks: {{ops: {{type: slack, url: "{url}/slack/T0-secret"}}}}}}
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def console_gateway(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF.format(url=upstream.url), tmp_path_factory.mktemp("console"))
    yield gateway
    gateway.stop()


def make_key(page: Page) -> str:
    page.goto("/console/keys")
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_role("button", name="Create key").click()
    return page.locator("#new-key").inner_text()


def send_chat(console: Console, key: str, model: str, **headers: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "user": "ann"}
    sent = {"authorization": f"Bearer {key}", **headers}
    return httpx.post(
        f"{console.url}/v1/chat/completions", json=body, headers=sent, timeout=60, trust_env=False
    ).status_code


def test_requests_are_searched_by_keyboard_and_followed_live(console: Console, upstream: Upstream) -> None:
    page = console.open_as_first()
    key = make_key(page)
    error = json.dumps({"error": {"message": "The moon is not a valid size.", "type": "t"}})
    upstream.script(answer(error, status=400))
    assert send_chat(console, key, "gpt-4o") == 400
    assert send_chat(console, key, "local-chat", **{"x-gate-tags": "batch"}) == 200
    page.goto("/console/requests?show=all&live=1")
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(2, timeout=20_000)
    expect(page.get_by_role("link", name="Stop live updates")).to_be_visible()
    check_accessibility(page)
    assert send_chat(console, key, "local-chat") == 200
    expect(rows).to_have_count(3, timeout=20_000)
    page.get_by_label("Search", exact=True).focus()
    page.keyboard.type("MOON")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("The moon is not a valid size.")
    page.get_by_label("Search", exact=True).fill("")
    page.get_by_text("More filters").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Tag").fill("batch")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("for ann")
    check_accessibility(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "requests.csv"
    text = download.value.path().read_text(encoding="utf-8")
    assert len(text.splitlines()) == 2
    rows.first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Request")
    check_accessibility(page)


def test_an_administrator_sends_a_test_of_the_alerts(console: Console, upstream: Upstream) -> None:
    page = console.open_as_first()
    page.goto("/console/alerts")
    check_accessibility(page)
    upstream.reset()
    upstream.script(answer("ok"), answer("no", status=404))
    page.get_by_label("Actions for ops").click()
    page.get_by_role("button", name="Send a test to ops").click()
    expect(page.get_by_role("status")).to_have_text("A test was sent to 'ops'.")
    page.get_by_label("Actions for ops").click()
    page.get_by_role("button", name="Send a test to ops").click()
    expect(page.get_by_role("status")).to_have_text(re.compile("did not reach 'ops': The receiver answered 404"))
    expect(page.locator("main")).not_to_contain_text("T0-secret")
    check_accessibility(page)
