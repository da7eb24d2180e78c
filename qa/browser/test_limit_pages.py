"""Limits that administrators set in the console, of users and for a time: each is tried by requests."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import EMAIL, Console, check_accessibility

SECONDS = 20.0
"""The limit of a wait that has failed."""


def send_request(console: Console, key: str) -> httpx.Response:
    """A request that counts for the limits of the key and of its user."""
    body = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(
        f"{console.url}/v1/chat/completions", json=body, headers=headers, timeout=SECONDS, trust_env=False
    )


def ask_until(console: Console, key: str, holds: Callable[[httpx.Response], bool]) -> httpx.Response:
    """Ask until an answer is such a one: what an administrator changes is in force within a second."""
    ends = time.monotonic() + SECONDS
    while not holds(answer := send_request(console, key)):
        assert time.monotonic() < ends, answer.text
    return answer


def make_key(page: Page, name: str) -> str:
    page.goto("/console/keys")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create key").click()
    return page.locator("#new-key").inner_text()


def open_user(page: Page) -> str:
    """Open the page of the first user. Returns its id."""
    page.goto("/console/users")
    page.get_by_role("link", name=EMAIL).click()
    expect(page.get_by_role("heading", name="Budget and limits of all keys of the user")).to_be_visible()
    return page.url.rpartition("/")[2]


def check_refusal(answer: httpx.Response, limit: int, subject: str) -> None:
    """The 429 says which limit, what is used of it, and when there is room again."""
    assert answer.status_code == 429, answer.text
    error = json.loads(answer.text)["error"]
    assert error["code"] == "rate_limited"
    assert f"may use {limit} requests per minute" in error["message"]
    used = re.search(r"; (\d+) are used", error["message"])
    assert used
    assert int(used[1]) >= limit, "a limit may be set below what was used in the minute"
    assert subject in error["message"].lower()
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert f"Retry after {answer.headers['retry-after']} s" in error["message"]
    assert answer.headers["x-ratelimit-limit-requests"] == str(limit)
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"


def fill_override(page: Page, **fields: str) -> None:
    """Send the form for a temporary limit. Keys: `kind`, `subject`, `bound`, `value`, `factor`, `until`."""
    page.goto("/console/limits")
    labels = {"subject": "Id or name", "value": "New value", "factor": "Or multiply by", "until": "Until"}
    for name, text in fields.items():
        if name in labels:
            page.get_by_label(labels[name]).fill(text)
        else:
            page.get_by_label({"kind": "Of", "bound": "Limit"}[name], exact=True).select_option(text)
    page.get_by_role("button", name="Change limit").click()


def test_a_limit_of_a_user_is_in_force_for_all_of_the_users_keys_until_it_is_lifted(console: Console) -> None:
    page = console.open_as_first()
    first, second = make_key(page, "one"), make_key(page, "two")
    open_user(page)
    page.get_by_role("textbox", name="Requests per minute").fill("2")
    page.get_by_role("button", name="Set limits").click()
    expect(page.get_by_role("status")).to_have_text(f"The limits of {EMAIL} are changed.")
    expect(page.get_by_role("textbox", name="Requests per minute")).to_have_value("2")
    check_accessibility(page)
    ask_until(console, first, lambda answer: answer.headers.get("x-ratelimit-limit-requests") == "2")
    ask_until(console, second, lambda answer: answer.status_code == 429)
    for key in (first, second):
        check_refusal(send_request(console, key), 2, "user")
    page.get_by_role("textbox", name="Requests per minute").fill("")
    page.get_by_role("button", name="Set limits").click()
    expect(page.get_by_role("status")).to_have_text(f"The limits of {EMAIL} are changed.")
    ask_until(console, first, lambda answer: answer.status_code == 200)
    page.goto("/console/audit")
    expect(page.get_by_text("limits").first).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_temporary_limit_is_in_force_until_it_is_ended(console: Console, scripts: bool) -> None:
    page = console.open_as_first(java_script_enabled=scripts)
    key = make_key(page, f"overridden {scripts}")
    user = open_user(page)
    fill_override(page, kind="user", subject=user, bound="requests_per_minute", value="1", until="1h")
    expect(page.get_by_role("status")).to_have_text("The limit is changed, in all processes within a second.")
    row = page.get_by_role("row").filter(has_text=user)
    expect(row).to_contain_text("requests per minute")
    expect(row).to_contain_text(EMAIL)
    if scripts:
        check_accessibility(page)
    check_refusal(ask_until(console, key, lambda answer: answer.status_code == 429), 1, "user")
    row.get_by_label("Actions for").click()
    row.get_by_role("button", name="End").click()
    expect(page.get_by_role("status")).to_have_text("The temporary limit has ended.")
    expect(page.get_by_text("No temporary limit.")).to_be_visible()
    ask_until(console, key, lambda answer: answer.status_code == 200)


def test_a_temporary_limit_multiplies_the_usual_one(console: Console) -> None:
    page = console.open_as_first()
    key = make_key(page, "multiplied")
    user = open_user(page)
    page.get_by_role("textbox", name="Requests per minute").fill("1000")
    page.get_by_role("button", name="Set limits").click()
    fill_override(page, kind="user", subject=user, bound="requests_per_minute", factor="2", until="1h")
    row = page.get_by_role("row").filter(has_text=user)
    expect(row).to_contain_text("times 2")
    ask_until(console, key, lambda answer: answer.headers.get("x-ratelimit-limit-requests") == "2000")
    row.get_by_label("Actions for").click()
    row.get_by_role("button", name="End").click()
    ask_until(console, key, lambda answer: answer.headers.get("x-ratelimit-limit-requests") == "1000")
    open_user(page)
    page.get_by_role("textbox", name="Requests per minute").fill("")
    page.get_by_role("button", name="Set limits").click()
    expect(page.get_by_role("status")).to_be_visible()


def test_a_temporary_limit_ends_by_itself(console: Console) -> None:
    page = console.open_as_first()
    key = make_key(page, "for a moment")
    user = open_user(page)
    fill_override(page, kind="user", subject=user, bound="requests_per_minute", value="1", until="5s")
    check_refusal(ask_until(console, key, lambda answer: answer.status_code == 429), 1, "user")
    ask_until(console, key, lambda answer: answer.status_code == 200)
    page.goto("/console/limits")
    expect(page.get_by_text("No temporary limit.")).to_be_visible()


WRONG = [
    ({"until": "yesterday"}, "Until", "neither a duration"),
    ({"until": "2020-01-01"}, "Until", "not in the future"),
    ({"value": "many"}, "New value", "Enter a number"),
    ({"value": "-1"}, "New value", "number from 1"),
    ({"value": "0"}, "New value", "number from 1"),
    ({"value": "nan"}, "New value", "must be a number"),
    ({"value": "1", "factor": "2"}, "Or multiply by", "not both"),
    ({"value": ""}, "New value", "value or a factor"),
    ({"value": "", "factor": "-2"}, "Or multiply by", "number from 0"),
    ({"subject": ""}, "Id or name", "Name the user"),
    ({"kind": "gateway", "subject": "x"}, "Id or name", "has no name"),
]


def test_a_wrong_temporary_limit_is_explained_at_its_field_and_nothing_is_lost(console: Console) -> None:
    page = console.open_as_first()
    console.faults.expect("status of 400")
    usual = {"kind": "user", "subject": "user_x", "bound": "tokens_per_minute", "value": "5", "until": "1h"}
    for change, label, message in WRONG:
        given = usual | change
        fill_override(page, **given)
        field = page.get_by_label(label)
        expect(field, f"{change}").to_have_attribute("aria-invalid", "true")
        expect(page.get_by_text(message).first, f"{change}").to_be_visible()
        for name, text in {
            "Id or name": given["subject"],
            "New value": given["value"],
            "Until": given["until"],
        }.items():
            expect(page.get_by_label(name)).to_have_value(text)
    check_accessibility(page)
    page.goto("/console/limits")
    expect(page.get_by_text("No temporary limit.")).to_be_visible()


@pytest.mark.parametrize(
    ("label", "text"),
    [("Requests per minute", "many"), ("Requests per minute", "-1"), ("US dollars per day", "a lot")],
)
def test_a_wrong_limit_of_a_user_is_explained_at_its_field(console: Console, label: str, text: str) -> None:
    page = console.open_as_first()
    open_user(page)
    console.faults.expect("status of 400")
    page.get_by_role("textbox", name=label).fill(text)
    page.get_by_role("button", name="Set limits").click()
    expect(page.get_by_role("textbox", name=label)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("textbox", name=label)).to_have_value(text)
    check_accessibility(page)
    open_user(page)
    expect(page.get_by_role("textbox", name=label)).to_have_value("")
