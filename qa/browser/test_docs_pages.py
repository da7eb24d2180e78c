"""The pages of the API documentation, which need no account and no script."""

from __future__ import annotations

import pytest

from tests.support.browser import Console, check_accessibility

PAGES = ("/docs", "/docs/chat", "/docs/admin-keys", "/docs/errors")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_accessible_and_fit_every_screen(console: Console, dark: bool) -> None:
    for width in (1280, 390):
        page = console.new_page(width=width, dark=dark)
        for path in PAGES:
            page.goto(path)
            check_accessibility(page)
            overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert overflow <= 0, f"{path} at {width}"


def test_a_route_is_found_by_keyboard(console: Console) -> None:
    page = console.new_page()
    page.goto("/docs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_role("link", name="/v1/chat/completions").press("Enter")
    section = page.get_by_role("region", name="Create a chat completion", exact=True)
    section.get_by_text("Python", exact=True).press("Enter")
    assert "httpx.post" in section.inner_text()
