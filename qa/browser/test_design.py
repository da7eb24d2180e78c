"""What all pages share: the theme, tables with menus of rows, charts, and the frame of a page."""

from __future__ import annotations

import itertools
import re
import time
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from qa.browser.history import write_history
from qa.browser.site import create_key
from qa.browser.weight import MOST_BYTES, measure_bytes
from tests.ledger.rows import make_stored_row
from tests.support.browser import Console, check_accessibility
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.writing import write_rows

FIND_BROKEN_WORDS = """() => {
  const broken = [];
  for (const cell of document.querySelectorAll("td, th, .badge")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      if (text.parentElement.closest("code, pre, .visually-hidden, details:not([open])")) continue;
      for (const word of text.data.matchAll(/(?<![\\w.-])[A-Za-z0-9.@]{3,15}(?![\\w.@-])/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (tops.size > 1) broken.push(word[0]);
      }
    }
  }
  return broken;
}"""
"""Returns the words of tables that stand on two lines."""


@pytest.fixture
def used(console: Console) -> Page:
    """A page of the first account, whose key has two days of requests."""
    page = console.open_as_first()
    if not (console.gateway.folder / "history").exists():
        create_key(page, "nightly report")
        database = open_database(console.gateway.folder / "var", "")
        user = Accounts(database, session_seconds=3600).users.list_page()[0][0].id
        write_history(database, key=KeyStore(database).list_page(user=user)[0][0].id, user=user)
        database.close()
        (console.gateway.folder / "history").touch()
    return page


def read_box(part: Locator) -> dict[str, Any]:
    """The place and size of an element."""
    box = part.bounding_box()
    assert box is not None
    return {**box}


def read_background(page: Page) -> str:
    text: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return text


def test_a_theme_is_chosen_and_remembered_before_the_page_is_drawn(console: Console) -> None:
    page = console.open_as_first()
    light = read_background(page)
    page.get_by_label("Theme").select_option("dark")
    dark = read_background(page)
    assert dark != light
    page.goto("/console/keys")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert read_background(page) == dark
    assert page.locator("head script:not([defer])").get_attribute("src").startswith("/console/static/theme.js")  # type: ignore[union-attr]
    check_accessibility(page, "color-contrast")
    page.emulate_media(color_scheme="dark")
    page.get_by_label("Theme").select_option("light")
    assert read_background(page) == light
    page.get_by_label("Theme").select_option("system")
    assert read_background(page) == dark
    page.context.close()


def test_the_menu_of_a_row_works_with_keys_alone(console: Console, used: Page) -> None:
    used.goto("/console/keys")
    menu = used.get_by_label("Actions for nightly report")
    menu.press("Enter")
    rotate = used.get_by_role("link", name="Rotate")
    expect(rotate).to_be_visible()
    check_accessibility(used)
    used.keyboard.press("Tab")
    used.keyboard.press("Escape")
    expect(rotate).to_be_hidden()
    expect(menu).to_be_focused()
    menu.click()
    used.get_by_role("heading", level=1).click()
    expect(rotate).to_be_hidden()


def test_every_table_has_menus_of_rows_and_no_row_has_a_button(console: Console, used: Page) -> None:
    """An open menu of the last row is in sight at all widths, and the page has no scroll bar."""
    for path in ("keys", "users", "models", "plugins", "providers"):
        used.goto(f"/console/{path}")
        menus = used.locator("td.actions-cell > details.row-menu > summary")
        assert menus.count() == used.locator("table:has(.row-menu) tbody tr").count()
        assert used.locator("tbody td .button, tbody td > form button").count() == 0
        for width in (360, 900, 1280):
            used.set_viewport_size({"width": width, "height": 800})
            menus.last.click()
            item = used.locator("details.row-menu[open] a, details.row-menu[open] button").last
            expect(item).to_be_in_viewport()
            box = read_box(item)
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            menus.last.click()
            assert used.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)


def test_short_words_of_a_table_do_not_wrap_in_the_middle(console: Console, used: Page) -> None:
    for path in ("", "models", "plugins", "providers", "requests", "audit"):
        used.goto(f"/console/{path}")
        assert used.evaluate(FIND_BROKEN_WORDS) == [], path


def test_a_chart_shows_today_on_a_phone(console: Console, used: Page) -> None:
    used.set_viewport_size({"width": 360, "height": 740})
    used.goto("/console/usage?range=24h&metric=cost")
    chart = used.locator("svg.chart").first
    box, last = read_box(chart), read_box(chart.locator("rect").last)
    assert last["x"] + last["width"] <= 360
    assert last["x"] > box["x"] + 0.8 * box["width"]
    size = used.locator(".chart-times").first.evaluate("one => getComputedStyle(one).fontSize")
    assert float(size.removesuffix("px")) >= 12
    check_accessibility(used)


def test_hours_of_a_chart_are_in_the_browsers_zone(console: Console, used: Page) -> None:
    page = console.open_as_first("/console/usage?range=24h", timezone_id="Asia/Kolkata")
    label = page.locator(".chart-times text").first
    bar = page.locator("svg.chart rect > title").first
    assert label.text_content()[2:] == bar.text_content()[2:5] == ":30"  # type: ignore[index]
    page.get_by_role("button", name="Times in UTC").click()
    expect(label).to_have_text(re.compile(r"^\d\d:00$"))
    assert bar.text_content()[2:6] == ":00:"  # type: ignore[index]


def test_long_names_fit_a_phone_and_bars_do_not_overlap(console: Console, used: Page) -> None:
    """Names of keys have up to 100 characters, without a space too."""
    database = open_database(console.gateway.folder / "var", "")
    user = Accounts(database, session_seconds=3600).users.list_page()[0][0].id
    limits = {"requests_per_minute": 10}
    key = KeyStore(database).create("k" * 100, user=user, budget={"usd_per_day": 1}, limits=limits)[1]
    write_rows(database, [make_stored_row(time.time(), key=key.id, user=user, cost=950_000_000)], may_repeat=False)
    database.close()
    used.set_viewport_size({"width": 390, "height": 844})
    for path in ("", "alerts", "keys", f"keys/{key.id}", "requests?show=all"):
        used.goto(f"/console/{path}")
        assert used.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    used.goto(f"/console/keys/{key.id}")
    boxes = [read_box(part) for part in used.locator(".bars > *").all()]
    assert len(boxes) == 6
    for one, other in itertools.combinations(boxes, 2):
        apart = one["x"] + one["width"] <= other["x"] + 1 or other["x"] + other["width"] <= one["x"] + 1
        below = one["y"] + one["height"] <= other["y"] + 1 or other["y"] + other["height"] <= one["y"] + 1
        assert apart or below, (one, other)
    used.set_viewport_size({"width": 1280, "height": 800})
    for path in ("", "requests?show=all", "requests", "audit", "models"):
        used.goto(f"/console/{path}")
        assert used.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_a_model_has_one_colour_on_all_charts(console: Console, used: Page) -> None:
    seen = set()
    for address in ("range=24h&metric=cost", "range=7d&metric=requests", "range=7d&model=slow-chat"):
        used.goto(f"/console/usage?{address}")
        seen.add(used.locator(".legend li", has_text="slow-chat").locator("rect").first.get_attribute("class"))
    assert len(seen) == 1


def test_rows_are_dense_and_the_head_stays(console: Console, used: Page) -> None:
    used.goto("/console/requests")
    rows = used.locator("tbody tr")
    heights = [read_box(rows.nth(index))["height"] for index in range(10)]
    assert max(heights) < 75
    used.evaluate("window.scrollTo(0, 1500)")
    assert read_box(used.locator("thead th").first)["y"] == pytest.approx(0, abs=2)
    used.set_viewport_size({"width": 390, "height": 844})
    assert max(read_box(rows.nth(index))["height"] for index in range(10)) < 190


def test_full_pages_are_light(console: Console, used: Page) -> None:
    for path in ("requests", "requests?show=all", "usage?range=24h", "playground"):
        assert measure_bytes(used, f"/console/{path}") <= MOST_BYTES, path


def test_the_header_and_the_columns_have_the_same_edges(console: Console) -> None:
    page = console.open_as_first(width=1920, height=1000)
    assert read_box(page.locator(".brand"))["x"] == read_box(page.locator(".side"))["x"]
    sign_out, content = read_box(page.get_by_role("button", name="Sign out")), read_box(page.locator("main"))
    assert sign_out["x"] + sign_out["width"] == pytest.approx(content["x"] + content["width"], abs=1)
    uses = page.locator("svg.icon use").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    icons = page.request.get(uses[0].partition("#")[0]).text()
    assert all(f'id="{use.partition("#")[2]}"' in icons for use in uses)
    assert re.search("Lucide", page.request.get("/console/static/icons-LICENSE.txt").text())


def test_the_footer_searches_the_documentation(console: Console) -> None:
    page = console.open_as_first()
    page.get_by_label("Search the API documentation").fill("embeddings")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="/v1/embeddings", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert "#" in page.url
