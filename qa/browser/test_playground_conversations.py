"""The chat of the playground: Markdown, keys, cost, a second model beside the first, and conversations that the browser keeps."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Console, check_accessibility

MARKDOWN = """# Plan

Use **bold** and `code`.

- one
- [two](https://example.org/a)

```
x < 1
```
[bad](javascript:alert(1)) <img src=x onerror=alert(1)>"""


@pytest.fixture
def page(console: Console) -> Page:
    opened = console.open_as_first("/console/playground")
    opened.get_by_role("tab", name="Chat").wait_for()
    return opened


def send(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("textbox", name="Message").press("Enter")
    expect(page.get_by_role("article", name="Answer").last).to_be_visible()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()


def test_markdown_becomes_elements_and_foreign_markup_stays_text(page: Page) -> None:
    page.evaluate(
        """async (text) => {
          const { renderMarkdown } = await import("/console/static/playground_markdown.js");
          document.getElementById("chat-log").replaceChildren(...renderMarkdown(text));
        }""",
        MARKDOWN,
    )
    answer = page.locator("#chat-log")
    expect(answer.locator(".heading")).to_have_text("Plan")
    expect(answer.locator("strong")).to_have_text("bold")
    expect(answer.locator("p code")).to_have_text("code")
    expect(answer.locator("li")).to_have_text(["one", "two"])
    expect(answer.locator("pre")).to_contain_text("x < 1")
    assert answer.locator("a").evaluate_all("all => all.map((one) => one.href)") == ["https://example.org/a"]
    expect(answer).to_contain_text("[bad](javascript:alert(1)) <img src=x onerror=alert(1)>")
    assert answer.locator("img, script").count() == 0
    check_accessibility(page)


def test_an_answer_is_rendered_when_it_is_complete(page: Page) -> None:
    send(page, "say **very** `good` <b>")
    answer = page.get_by_role("article", name="Answer").locator(".answer")
    expect(answer).to_have_text("very good <b>")
    expect(answer.locator("strong")).to_have_text("very")


def test_a_long_answer_is_rendered_in_linear_time(page: Page) -> None:
    milliseconds = page.evaluate(
        """async () => {
          const { renderMarkdown } = await import("/console/static/playground_markdown.js");
          const started = performance.now();
          for (const part of ["`", "**", "[a](", "[", "- ", "# ", "1. ", "```\\n"]) renderMarkdown(part.repeat(50000));
          return performance.now() - started;
        }"""
    )
    assert milliseconds < 5000


def test_shift_and_enter_begin_a_line_and_a_sign_of_work_is_shown(page: Page) -> None:
    page.get_by_role("combobox", name="Model").select_option("slow-chat")
    message = page.get_by_role("textbox", name="Message")
    message.fill("say one")
    message.press("Shift+Enter")
    message.press_sequentially("two")
    assert message.input_value() == "say one\ntwo"
    page.route("**/v1/chat/completions", lambda route: page.wait_for_timeout(300) or route.continue_())
    message.press("Enter")
    expect(page.get_by_role("progressbar", name="Work").first).to_be_visible()
    expect(page.get_by_role("article", name="Answer").locator(".answer")).to_have_text("one")
    expect(page.get_by_role("progressbar", name="Work")).to_have_count(0)


def test_the_cost_of_a_stream_is_shown(page: Page) -> None:
    send(page, "say apples")
    cost = page.locator("#panel-chat .report dt", has_text="Cost (USD)")
    expect(cost).to_be_visible()
    token = page.locator("body").get_attribute("data-xsrf") or ""
    answer = page.request.post("/console/playground/cost", form={"id": "req_of_nobody"}, headers={"X-Xsrftoken": token})
    assert answer.json() == {"cost": None}


def test_two_models_answer_side_by_side(page: Page) -> None:
    page.get_by_role("combobox", name="Compare with").select_option("slow-chat")
    send(page, "say pears")
    answers = page.locator(".compared").get_by_role("article", name="Answer")
    expect(answers.get_by_role("heading")).to_have_text(["local-chat", "slow-chat"])
    expect(answers.locator(".answer")).to_have_text(["pears", "pears"])
    expect(answers.last).to_contain_text("Total time")
    check_accessibility(page)


def test_conversations_are_kept_opened_and_deleted(page: Page) -> None:
    send(page, "say apples")
    page.get_by_role("button", name="New conversation").click()
    send(page, "say pears")
    page.reload()
    page.get_by_text("Earlier conversations").click()
    page.get_by_role("button", name="say apples", exact=True).click()
    expect(page.get_by_role("article", name="Answer").locator(".answer")).to_have_text("apples")
    page.get_by_role("button", name="Delete say pears").click()
    expect(page.get_by_role("button", name="say pears", exact=True)).to_have_count(0)
    check_accessibility(page)
    page.get_by_role("button", name="Delete all").click()
    assert page.evaluate("localStorage.getItem('gate-conversations')") == "[]"
