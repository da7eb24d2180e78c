"""Every page of the console in another language: no English sentence is left, and scripts speak it too."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from qa.browser.site import PUBLIC, fill_console, find_examples, list_patterns
from qa.browser.test_pages import CALLBACK, NO_SIGN_IN
from tests.support.browser import Console
from tests.support.gateway import Gateway

LANGUAGE = "zh-CN"
_READ_TEXTS = """() => {
  const program = 'code, pre, kbd, script, style, textarea, body [lang]';
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
_ENGLISH = re.compile(r"\b[A-Za-z]+(?:,? [a-z]{2,})+|^[A-Z]?[a-z]{3,}$")
_DATA = re.compile(r"\bxxx\b")


@pytest.fixture(scope="module")
def examples(console_gateway: Gateway, browser: Browser) -> dict[str, str]:
    console = Console(console_gateway, browser)
    page = console.open_as_first()
    fill_console(console, page)
    console.faults.expect(NO_SIGN_IN)
    found = find_examples(page)
    console.close()
    return found


def list_english(page: Page) -> list[str]:
    texts: list[str] = page.evaluate(_READ_TEXTS)
    return [text for text in texts if _ENGLISH.search(text) and not _DATA.search(text)]


@pytest.mark.parametrize("pattern", list_patterns())
def test_a_page_has_no_english_text(console: Console, examples: dict[str, str], pattern: str) -> None:
    path = examples[pattern]
    if path == CALLBACK:
        console.faults.expect(NO_SIGN_IN)
    page = console.new_page(locale=LANGUAGE) if path in PUBLIC else console.open_as_first(path, locale=LANGUAGE)
    if path in PUBLIC:
        page.goto(path)
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    print("TEXTS", path, sorted(set(list_english(page))))
    assert list_english(page) == []
