"""The pages for members, as a person uses them: with a mouse, with a keyboard, on a phone, and without scripts."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import EMAIL, PASSWORD, Console, check_accessibility

PAGES = ("/console/", "/console/keys", "/console/usage", "/console/account", "/console/tasks")
CHAT = {"model": "local-chat", "messages": [{"role": "user", "content": "Say hello"}]}


def use(console: Console, key: str) -> int:
    """The status of a chat with a key."""
    request = urllib.request.Request(
        f"{console.url}/v1/chat/completions",
        json.dumps(CHAT).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as response:
            status: int = response.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


def count_overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    wider: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return max(0, wider)


@pytest.mark.representative
def test_from_the_first_visit_to_a_revoked_key(console: Console) -> None:
    page = console.new_page(permissions=["clipboard-read", "clipboard-write"])
    console.sign_up(page, "grace@example.org")
    page.get_by_role("link", name="API keys", exact=True).click()
    page.get_by_label("Name").fill("my laptop")
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#new-key").inner_text()
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("status").filter(has_text="Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == key
    assert use(console, key) == 200
    page.reload()
    assert key not in page.content()
    row = page.get_by_role("row").filter(has_text="my laptop")
    assert key[:10] in row.inner_text()
    row.get_by_label("Actions for my laptop").click()
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert use(console, key) == 200
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("The key my laptop is revoked.").wait_for()
    revoked = time.monotonic()
    assert use(console, key) == 401
    assert time.monotonic() - revoked < 1
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in", exact=True).wait_for()
    page.goto("/console/keys")
    assert "/console/login" in page.url


def test_a_long_name_fits_a_phone(console: Console) -> None:
    page = console.open_as_first()
    page.goto("/console/keys")
    page.get_by_label("Name").fill("x" * 100)
    page.get_by_role("button", name="Create key").click()
    check_accessibility(page)
    assert use(console, page.locator("#new-key").inner_text()) == 200
    page.set_viewport_size({"width": 360, "height": 740})
    for path in PAGES:
        page.goto(path)
        assert count_overflow(page) == 0, path
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Usage").click()
    assert page.url.endswith("/console/usage")


def test_sign_in_pages_are_accessible_and_keep_what_was_typed(console: Console) -> None:
    console.open_as_first()
    page = console.new_page(width=360, height=740)
    console.faults.expect("status of 401")
    page.goto("/console/login")
    check_accessibility(page)
    page.keyboard.type("ada@example.org")  # the first field has the focus
    page.keyboard.press("Tab")
    page.keyboard.type("not the password")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("Email").input_value() == "ada@example.org"
    assert page.get_by_label("Password").input_value() == ""
    check_accessibility(page)
    page.goto("/console/signup")
    check_accessibility(page)
    assert count_overflow(page) == 0


def test_a_key_is_made_and_revoked_without_scripts(console: Console) -> None:
    page = console.open_as_first(java_script_enabled=False)
    page.goto("/console/keys")
    page.get_by_label("Name").fill("without scripts")
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#new-key").inner_text()
    row = page.get_by_role("row").filter(has_text="without scripts")
    row.get_by_label("Actions for without scripts").click()
    row.get_by_role("button", name="Revoke").click()
    assert use(console, key) == 200
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("The key without scripts is revoked.").wait_for()
    assert use(console, key) == 401
    page.get_by_role("link", name="Home").click()
    page.get_by_role("link", name="Python: openai").click()
    assert "from openai import OpenAI" in page.locator("#snippet").inner_text()


def test_a_running_task_is_followed_to_its_end(console: Console) -> None:
    page = console.open_as_first()
    page.goto("/console/keys")
    page.get_by_label("Name").fill("videos")
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#new-key").inner_text()
    body = json.dumps({"model": "local-video", "prompt": "a cat", "seconds": 1, "size": "320x240"}).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{console.url}/v1/videos", body, headers)):
        page.goto("/console/tasks")
    link = page.get_by_role("link", name="Download")
    link.wait_for()  # no reload by the test
    assert page.get_by_role("row").filter(has_text="completed").count() == 1
    with page.expect_download() as download:
        link.click()
    assert download.value.path().read_bytes()[4:8] == b"ftyp"


def test_somebody_signs_in_again_after_changing_the_password(console: Console) -> None:
    page = console.new_page()
    console.sign_up(page, "joan@example.org")
    page.get_by_role("link", name="Account").click()
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password").fill("a longer password")
    page.get_by_role("button", name="Change password").click()
    page.get_by_text("Your password is changed.").wait_for()
    page.get_by_role("button", name="Sign out").click()
    console.sign_in(page, "JOAN@example.org", "a longer password")


def test_a_form_sent_after_the_end_of_the_session_keeps_its_texts(console: Console) -> None:
    page = console.open_as_first("/console/keys")
    page.get_by_label("Name", exact=True).fill("a long name that was typed")
    page.context.clear_cookies(name=re.compile("session"))
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("status")).to_have_text(
        "Your session has ended, so the form was not saved. Sign in, then send it again."
    )
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("API keys")
    expect(page.get_by_label("Name", exact=True)).to_have_value("a long name that was typed")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#new-key")).to_be_visible()
    page.goto("/console/keys")
    expect(page.get_by_label("Name", exact=True)).to_have_value("")
