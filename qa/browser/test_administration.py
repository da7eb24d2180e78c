"""The administrators' pages in a browser: an invitation, a plugin switched by a reviewed change, a failed request explained."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import PASSWORD, Console, check_accessibility
from tests.support.gateway import Gateway

KEY = "a-key-of-the-configuration"
CONF = f"""\
plugins:
  local: true      # the demonstration
  redact: true
  openai: true
providers:
  local: {{plugin: local}}
  dead: {{plugin: openai, base_url: "http://127.0.0.1:9", api_key: sk-secret-of-the-provider}}
models:
  local-chat: {{provider: local}}
  dead-chat: {{provider: dead}}
keys:
  - {{name: ci, key: {KEY}}}
"""


@pytest.fixture(scope="module")
def console_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF, tmp_path_factory.mktemp("console"))
    yield gateway
    gateway.stop()


def go(page: Page, label: str) -> None:
    """Open a page by the navigation."""
    page.get_by_role("navigation", name="Console").get_by_role("link", name=label, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(label)


def test_somebody_is_invited_joins_a_team_and_is_disabled(console: Console) -> None:
    page = console.open_as_first()
    go(page, "Teams")
    page.get_by_label("Organisation name").fill("Science")
    page.get_by_role("button", name="Create organisation").click()
    page.get_by_label("Team name").fill("Physics")
    page.get_by_role("button", name="Create team").click()
    page.get_by_label("E-mail of the person").fill("marie@example.org")
    page.get_by_role("button", name="Create invitation").click()
    link = page.locator("#link").inner_text()
    guest = console.new_page()
    guest.goto(link)
    guest.get_by_label("Email").fill("marie@example.org")
    guest.get_by_label("Password", exact=True).fill(PASSWORD)
    guest.get_by_role("button", name="Sign up").click()
    guest.get_by_role("button", name="Sign out").wait_for()
    expect(guest.get_by_role("link", name="Users")).to_have_count(0)
    go(page, "Users")
    page.get_by_role("link", name="marie@example.org").click()
    expect(page.get_by_role("link", name="Science / Physics")).to_be_visible()
    page.get_by_label("State").select_option("disabled")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("marie@example.org is changed.")
    guest.goto("/console/keys")
    expect(guest.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    go(page, "Audit log")
    expect(page.get_by_text("enabled or disabled a user")).to_be_visible()


def test_a_plugin_is_switched_on_and_off_without_a_script(console: Console) -> None:
    page = console.open_as_first(java_script_enabled=False)
    file = console.gateway.folder / "gate.yaml"
    go(page, "Plugins")
    page.get_by_label("Actions for cascade").click()
    page.get_by_role("button", name="Switch on cascade").click()
    expect(page.locator(".diff .add").last).to_have_text("+  cascade: true")
    assert "sk-secret" not in page.content()
    assert file.read_text(encoding="utf-8") == CONF
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("cascade is switched on")
    switched = CONF.replace("  openai: true\n", "  openai: true\n  cascade: true\n")
    assert file.read_text(encoding="utf-8") == switched
    page.get_by_label("Actions for cascade").click()
    page.get_by_role("button", name="Switch off cascade").click()  # the table shows the new state at once
    page.get_by_role("button", name="Apply").click()
    assert file.read_text(encoding="utf-8") == switched.replace("cascade: true", "cascade: false")
    page.get_by_label("Actions for cascade").click()
    expect(page.get_by_role("button", name="Switch on cascade")).to_be_visible()


def test_switching_off_the_last_plugin_names_the_models_that_are_lost(console: Console) -> None:
    page = console.open_as_first("/console/plugins")
    page.get_by_label("Actions for local").click()
    page.get_by_role("button", name="Switch off local").click()
    expect(page.get_by_role("status")).to_have_text("1 model will no longer be available: local-chat.")
    check_accessibility(page)


def test_a_failed_request_is_explained(console: Console) -> None:
    body = json.dumps({"model": "dead-chat", "messages": [{"role": "user", "content": "hello"}]}).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "x-request-id": "req-of-this-test"}
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(f"{console.url}/v1/chat/completions", body, headers), timeout=30)
    page = console.open_as_first()
    go(page, "Requests")
    row = page.get_by_role("row").filter(has_text="dead-chat")
    while not row.count():  # rows are written in batches
        page.reload()
    expect(row).to_contain_text("The provider 'dead' could not be reached.")
    row.get_by_role("rowheader").get_by_role("link").click()
    page.get_by_role("link", name="Explain").click()
    expect(page.get_by_role("status")).to_have_text("Such a request would go to dead, model dead-chat.")
    check_accessibility(page)


def test_times_are_in_the_browsers_zone_and_in_utc_on_demand(console: Console) -> None:
    page = console.open_as_first("/console/audit", timezone_id="Asia/Tokyo")
    first = page.locator("main time").first
    shown = first.inner_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d GMT\+9", shown)
    button = page.get_by_role("button", name="Times in UTC")
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    in_utc = first.inner_text()
    assert re.fullmatch(r"[\d :-]+ UTC", in_utc)
    moments = [datetime.fromisoformat(text[:19]) for text in (shown, in_utc)]
    assert moments[0] - moments[1] == timedelta(hours=9)
    page.reload()
    expect(first).to_have_text(in_utc)
    check_accessibility(page)


def test_without_a_script_times_are_in_utc(console: Console) -> None:
    page = console.open_as_first("/console/audit", timezone_id="Asia/Tokyo", java_script_enabled=False)
    expect(page.locator("main time").first).to_have_text(re.compile(r"\d\d:\d\d:\d\d UTC$"))


def test_the_settings_of_a_plugin_are_changed(console: Console) -> None:
    page = console.open_as_first("/console/plugins")
    file = console.gateway.folder / "gate.yaml"
    before = file.read_text(encoding="utf-8")
    console.faults.expect("status of 400")
    page.get_by_label("Actions for redact").click()
    page.get_by_role("link", name="Settings of redact").click()
    settings = page.get_by_label("Settings", exact=True)
    settings.fill("markk: x")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("markk")
    settings.fill('mark: "[hidden]"')
    page.get_by_role("button", name="Show the change").click()
    expect(page.locator("pre.diff")).to_contain_text('+  redact: {on: true, mark: "[hidden]"}')
    check_accessibility(page)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("The settings of redact are changed.")
    assert '  redact: {on: true, mark: "[hidden]"}\n' in file.read_text(encoding="utf-8")
    go(page, "Audit log")
    expect(page.get_by_text("changed the settings of a plugin")).to_be_visible()
    page.goto("/console/audit")
    page.get_by_text("Change of the configuration").first.click()
    expect(page.locator(".diff .add").first).to_contain_text("mark")
    check_accessibility(page)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_have_text("The change of the configuration is undone.")
    assert file.read_text(encoding="utf-8") == before
