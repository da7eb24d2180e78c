"""From the first start to an answer of a vendor's model, in a browser, without editing a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Console, check_accessibility
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer, sse

KEY = "sk-canary-of-the-browser-0123456789abcdef"
CONF = (Path(__file__).parents[2] / "conf" / "gate.yaml").read_text(encoding="utf-8")
"""The file as it is delivered: its entry `openai` is off, and needs a variable that is not set."""
LIST = '{"data": [{"id": "gpt-4o", "context_window": 128000}, {"id": "text-embedding-3-small"}]}'
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-4o"}
DELTAS = [{"role": "assistant", "content": "Good "}, {"content": "morning."}]
CHAT = sse(
    *({**CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in DELTAS),
    {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    "[DONE]",
)


@pytest.fixture(scope="module")
def vendor() -> Iterator[Upstream]:
    upstream = Upstream.start()
    yield upstream
    upstream.stop()


@pytest.fixture(scope="module")
def console_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF, tmp_path_factory.mktemp("console"))
    yield gateway
    gateway.stop()


def fill_form(page: Page, vendor: Upstream, name: str = "") -> None:
    page.get_by_label("Vendor").select_option(label="OpenAI")
    page.get_by_label("Base URL").fill(vendor.url)
    page.get_by_label("API key").fill(KEY)
    if name:
        page.get_by_label("Name", exact=True).fill(name)


def read_conf(console: Console) -> str:
    return (console.gateway.folder / "gate.yaml").read_text(encoding="utf-8")


def assert_hidden(folder: Path) -> None:
    """No file of the gateway has the key in clear."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [str(path) for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.representative
def test_from_the_first_page_to_an_answer_of_a_vendor(console: Console, vendor: Upstream) -> None:
    vendor.reset()
    vendor.script(answer(LIST, path="/v1/models"), answer(CHAT, path="/v1/chat/completions"))
    page = console.open_as_first()
    page.get_by_role("link", name="Providers").click()
    page.get_by_role("link", name="Add provider").click()
    check_accessibility(page)
    page.get_by_label("Vendor").select_option(label="OpenAI")
    expect(page.get_by_label("Name", exact=True)).to_have_value("openai")
    expect(page.get_by_label("Base URL")).to_have_value("https://api.openai.com/v1")
    fill_form(page, vendor)
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_role("status").first).to_have_text("The vendor answered and lists 2 models.")
    assert vendor.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in page.content()
    row = page.get_by_role("row").filter(has_text="gpt-4o")
    expect(row).to_contain_text("128,000")
    expect(row).to_contain_text("chat")
    expect(row).to_contain_text("tools, reads images")
    expect(row).to_contain_text("$2.50 in, $10.00 out")
    check_accessibility(page)
    page.get_by_label("gpt-4o", exact=True).check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("openai is saved")
    expect(page.get_by_role("status")).to_contain_text("this process uses it")
    assert KEY not in page.content()
    check_accessibility(page)
    page.goto("/console/models?search=gpt-4o")
    shown = page.get_by_role("row").filter(has_text="gpt-4o")
    expect(shown).to_contain_text("$2.50 in, $10.00 out per million tokens")
    expect(shown).to_contain_text("128 k")
    expect(shown).to_contain_text("tools, reads images")
    page.goto("/console/playground")
    page.get_by_label("Model").first.select_option("gpt-4o")
    page.get_by_label("Message").fill("hello")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Good morning.").first).to_be_visible()
    assert_hidden(console.gateway.folder)
    text = read_conf(console)
    assert (
        "  openai:                      # off while its plugin is off, and its models too\n    plugin: openai\n" in text
    )
    assert "  gpt-4o: {provider: openai}                     # upstream model: the same name\n" in text
    assert text.count("\n") == CONF.count("\n") + 2, "the preset and the vendor of the prices are new lines"
    page.goto("/console/audit")
    expect(page.get_by_text("added a provider").first).to_be_visible()
    assert KEY not in page.content()
    assert KEY not in console.gateway.logs


def test_a_saved_provider_is_undone(console: Console, vendor: Upstream) -> None:
    before = read_conf(console)
    vendor.reset()
    page = console.open_as_first("/console/providers/new", java_script_enabled=False)
    fill_form(page, vendor, "second")
    page.get_by_text("Models that are not in the list").click()
    page.get_by_label("More models").fill("one local-chat")
    page.get_by_role("button", name="Show the change").click()
    expect(page.locator(".diff .add").filter(has_text="second/local-chat")).to_have_count(1)
    assert read_conf(console) == before
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("second is saved")
    assert '  "second/local-chat": {provider: second, model: local-chat}\n' in read_conf(console)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_have_text("The change of the configuration is undone.")
    assert read_conf(console) == before


def test_a_refused_key_is_told_in_words_and_another_one_is_taken(console: Console, vendor: Upstream) -> None:
    vendor.reset()
    refusal = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}})
    vendor.script(answer(refusal, status=401), answer(LIST))
    page = console.open_as_first("/console/providers/new")
    fill_form(page, vendor, "third")
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_role("alert")).to_have_text(
        "The vendor refused the API key (status 401). Check the key and its account."
    )
    assert KEY not in page.content()
    page.get_by_label("API key").fill("sk-the-right-key-0123456789")
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_role("status").first).to_have_text("The vendor answered and lists 2 models.")
    assert vendor.requests[-1].headers["authorization"] == "Bearer sk-the-right-key-0123456789"
    assert_hidden(console.gateway.folder)


def test_a_file_that_changed_meanwhile_keeps_its_change(console: Console, vendor: Upstream) -> None:
    page = console.open_as_first("/console/providers/new")
    fill_form(page, vendor, "fourth")
    file = console.gateway.folder / "gate.yaml"
    text = read_conf(console) + "# a later comment\n"
    file.write_text(text, encoding="utf-8")
    console.faults.expect("409")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("has another version now")
    assert read_conf(console) == text
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("fourth is saved")
    assert "# a later comment" in read_conf(console)


def test_what_is_missing_is_told_beside_its_field(console: Console) -> None:
    page = console.open_as_first("/console/providers/new")
    page.get_by_label("Vendor").select_option(label="Azure OpenAI")
    console.faults.expect("400")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("separate address for each customer")).to_be_visible()
    expect(page.get_by_text("Paste the key of your account")).to_be_visible()
    check_accessibility(page)


def test_another_host_needs_the_key_again(console: Console, vendor: Upstream) -> None:
    vendor.reset()
    page = console.open_as_first("/console/providers/new")
    fill_form(page, vendor, "moved")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="All providers").click()
    page.get_by_label("Actions for moved").click()
    page.get_by_role("link", name="Test or change moved").click()
    page.get_by_label("Base URL").fill(vendor.url.replace("127.0.0.1", "localhost") + "/v1")
    console.faults.expect("400")
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_text("the stored keys could be sent to another address")).to_be_visible()
    assert vendor.requests == []
    check_accessibility(page)


def test_an_entry_gets_another_key_and_another_model(console: Console, vendor: Upstream) -> None:
    vendor.reset()
    page = console.open_as_first("/console/providers/new")
    fill_form(page, vendor, "fifth")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="All providers").click()
    page.get_by_label("Actions for fifth").click()
    page.get_by_role("link", name="Test or change fifth").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("fifth")
    vendor.script(answer(LIST), answer(LIST))
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_role("status").first).to_have_text("The vendor answered and lists 2 models.")
    assert vendor.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    page.get_by_label("API key").fill("sk-a-newer-key-0123456789")
    page.get_by_role("button", name="Test connection").click()
    expect(page.locator(".diff .add").filter(has_text="fifth-key-")).to_have_count(1)
    assert vendor.requests[-1].headers["authorization"] == "Bearer sk-a-newer-key-0123456789"
    check_accessibility(page)
    page.get_by_label("text-embedding-3-small", exact=True).check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("fifth is saved")
    assert "  text-embedding-3-small: {provider: fifth}\n" in read_conf(console)
    assert_hidden(console.gateway.folder)
