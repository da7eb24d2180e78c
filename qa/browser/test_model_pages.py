"""A model with targets, a fallback and limits, made and changed in a browser, without editing the file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Console, check_accessibility
from tests.support.gateway import Gateway

CONF = """\
plugins: {local: true}
providers:
  local: {plugin: local}
  other: {plugin: local}   # another account
models:
  # a comment that stays
  local-chat: {provider: local, display_name: Chat}
"""


@pytest.fixture(scope="module")
def console_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF, tmp_path_factory.mktemp("console"))
    yield gateway
    gateway.stop()


def read_conf(console: Console) -> str:
    return (console.gateway.folder / "gate.yaml").read_text(encoding="utf-8")


def fill_target(page: Page, number: int, provider: str, model: str = "", weight: str = "") -> None:
    target = page.get_by_role("group", name=f"Target {number}")
    target.get_by_label("Provider", exact=True).select_option(provider)
    target.get_by_label("Model at the provider").fill(model)
    target.get_by_label("Weight").fill(weight)


def open_entry(console: Console, name: str, link: str) -> Page:
    page = console.open_as_first(f"/console/models?search={name}")
    page.get_by_label(f"Actions for {name}").click()
    page.get_by_role("link", name=link, exact=True).click()
    return page


def test_a_model_with_two_targets_is_added_and_undone(console: Console) -> None:
    page = console.open_as_first("/console/models")
    page.get_by_role("link", name="Add model").click()
    page.get_by_label("Name", exact=True).fill("smart/chat")
    fill_target(page, 1, "local", "local-chat", "3")
    fill_target(page, 2, "other", "local-chat")
    page.get_by_label("Fallback").fill("local-chat")
    page.get_by_label("Strategy").select_option("latency")
    page.get_by_label("Requests per minute").fill("600")
    page.get_by_role("button", name="Show the change").click()
    expect(page.locator(".diff .add").first).to_be_visible()
    check_accessibility(page)
    assert read_conf(console) == CONF
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("smart/chat is saved")
    added = """\
  "smart/chat":
    targets: [{provider: local, model: local-chat, weight: 3}, {provider: other, model: local-chat}]
    fallback: [local-chat]
    strategy: latency
    limits: {requests_per_minute: 600}
"""
    assert read_conf(console) == CONF + added
    check_accessibility(page)
    page.get_by_role("link", name="Try it in the playground").click()
    expect(page.get_by_label("Model").first).to_have_value("smart/chat")
    page.get_by_label("Message").fill("say hello")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("Total time").first).to_be_visible()
    changed = open_entry(console, "smart/chat", "Change")
    expect(changed.get_by_role("group", name="Target 1").get_by_label("Weight")).to_have_value("3")
    changed.get_by_role("group", name="Target 2").get_by_label("Provider", exact=True).select_option("")
    changed.get_by_label("Requests per minute").fill("")
    changed.get_by_role("button", name="Save").click()
    one = '  "smart/chat":\n    fallback: [local-chat]\n    strategy: latency\n    provider: local\n    model: local-chat\n'
    assert read_conf(console) == CONF + one
    changed.get_by_role("button", name="Undo").click()
    expect(changed.get_by_role("status")).to_have_text("The change of the configuration is undone.")
    assert read_conf(console) == CONF + added
    removed = open_entry(console, "smart/chat", "Remove")
    removed.get_by_role("button", name="Apply").click()
    expect(removed.get_by_role("status")).to_have_text("smart/chat is removed from the configuration.")
    assert read_conf(console) == CONF


def test_faults_of_a_model_are_told_beside_the_fields(console: Console) -> None:
    page = console.open_as_first("/console/models/new", java_script_enabled=False)
    console.faults.expect("status of (400|409)")
    page.get_by_label("Name", exact=True).fill("faulty")
    page.get_by_label("Tokens per day").fill("many")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Choose a provider for one target at least.")).to_be_visible()
    expect(page.get_by_text("Enter a whole number, or nothing for no limit.")).to_be_visible()
    page.get_by_label("Tokens per day").fill("")
    fill_target(page, 1, "local", "local-chat")
    page.get_by_label("Fallback").fill("missing")
    page.get_by_role("button", name="Show the change").click()
    expect(page.locator(".faults")).to_contain_text("missing")
    page.get_by_label("Name", exact=True).fill("local-chat")
    page.get_by_label("Fallback").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("already")
    assert read_conf(console) == CONF


def test_a_change_keeps_what_the_form_does_not_show(console: Console) -> None:
    page = open_entry(console, "local-chat", "Change")
    page.get_by_label("Tokens per minute").fill("5000")
    page.get_by_role("button", name="Save").click()
    entry = "  local-chat: {provider: local, display_name: Chat, limits: {tokens_per_minute: 5000}}\n"
    assert entry in read_conf(console)
    assert "# a comment that stays" in read_conf(console)
    page.get_by_role("button", name="Undo").click()
    assert read_conf(console) == CONF
