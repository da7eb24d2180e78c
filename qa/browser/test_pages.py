"""Every page of the console: accessible in the light and in the dark, narrow enough for a phone, and light."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from qa.browser.site import CALLBACK, NO_SIGN_IN, PUBLIC, is_at, list_patterns
from qa.browser.weight import MOST_BYTES, measure_bytes
from tests.support.browser import Console, check_accessibility


@pytest.mark.parametrize("pattern", list_patterns())
def test_a_page_is_accessible_and_light(console: Console, examples: dict[str, str], pattern: str) -> None:
    assert pattern in examples, "no page of the console has a link to this page"
    path = examples[pattern]
    if path == CALLBACK:
        console.faults.expect(NO_SIGN_IN)
    page = console.new_page() if path in PUBLIC else console.open_as_first(path)
    if path not in PUBLIC and not is_at(page, path):  # the address of a form, which leads to the form's page
        assert page.get_by_role("heading", level=1).is_visible()
        return
    assert measure_bytes(page, path) <= MOST_BYTES
    check_accessibility(page)
    page.emulate_media(color_scheme="dark")
    check_accessibility(page, "color-contrast")
    page.set_viewport_size({"width": 360, "height": 740})
    assert read_width(page) <= 360
    check_accessibility(page, "scrollable-region-focusable", "target-size", "color-contrast")


def read_width(page: Page) -> int:
    """The width that the page needs."""
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width
