"""Every page of the console in another language: no English text is left, and scripts speak it too."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from qa.browser.site import CALLBACK, NO_SIGN_IN, PUBLIC, list_patterns
from tests.support.browser import Console
from tornado_gate.types.wire import OPERATIONS

LANGUAGE = "zh-CN"
_READ_TEXTS = """() => {
  const program = 'code, pre, kbd, script, style, noscript, textarea, body [lang], [translate=no]';
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!element.closest(program)) texts.push(walker.currentNode.data.replace(/\\s+/g, ' ').trim());
  }
  for (const element of document.querySelectorAll('[title], [placeholder], [aria-label], [data-confirm], [data-label]'))
    for (const name of ['title', 'placeholder', 'aria-label', 'data-confirm', 'data-label'])
      if (element.hasAttribute(name) && !element.closest(program)) texts.push(element.getAttribute(name));
  return texts;
}"""
"""Returns the texts of a page for people. Texts of the API have `lang="en"`, and names of programs are code."""
_ENGLISH = re.compile(r"\b[A-Za-z]+(?:,? [a-z]{2,})+|^[A-Z]?[a-z]{3,}$")
TERMS = (
    *OPERATIONS,
    *("anthropic", "cache", "cascade", "dashscope", "gemini", "kling", "local", "openai", "otel", "redact"),
    *("Anthropic", "Cerebras", "Groq", "Local demonstration", "Ollama", "llama.cpp server"),
    *("slow", "talker", "curl", "Python", "Token", "aac", "flac", "opus", "wav"),
    *("Example", "Research", "nightly report", "another browser"),
)
"""Names that are the same in every language: operations, plugins, vendors, formats, and what the fixtures have made."""
_TERM = re.compile(rf"(?<![A-Za-z_])(?:{'|'.join(map(re.escape, sorted(TERMS, key=len, reverse=True)))})(?![A-Za-z_])")


def list_english(page: Page) -> list[str]:
    texts: list[str] = page.evaluate(_READ_TEXTS)
    return sorted({text for text in texts if _ENGLISH.search(_TERM.sub("…", text))})


@pytest.mark.qa
@pytest.mark.parametrize("pattern", list_patterns())
def test_a_page_has_no_english_text(console: Console, examples: dict[str, str], pattern: str) -> None:
    path = examples[pattern]
    if path == CALLBACK:
        console.faults.expect(NO_SIGN_IN)
    page = console.new_page(locale=LANGUAGE) if path in PUBLIC else console.open_as_first(path, locale=LANGUAGE)
    if path in PUBLIC:
        page.goto(path)
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")

    assert list_english(page) == []


@pytest.mark.qa
def test_the_playground_speaks_the_language(console: Console) -> None:
    console.open_as_first()  # makes the account, by the English form
    page = console.open_as_first("/console/playground", locale=LANGUAGE)

    page.get_by_role("textbox", name="消息").fill("say hello")
    page.get_by_role("button", name="发送", exact=True).click()

    expect(page.get_by_role("article", name="回答")).to_have_count(1)
    expect(page.locator("#panel-chat dt", has_text="总时间")).to_be_visible()
    expect(page.locator("#panel-chat dt", has_text="状态").locator("+ dd")).to_have_text("200")
    assert list_english(page) == ["say hello", "删除 say hello"]
