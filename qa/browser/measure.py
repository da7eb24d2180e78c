"""``python -m qa.browser.measure``: screenshots of all pages, and docs/contributing/console-measures.md."""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from qa.browser.conftest import CONF
from qa.browser.history import write_history
from qa.browser.site import PUBLIC, fill_console, find_examples, is_at, list_patterns
from qa.browser.weight import MOST_BYTES, measure_bytes, measure_first_paint
from tests.support.browser import Console, run_axe, run_browser
from tests.support.gateway import Gateway
from tests.support.process import REPOSITORY
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.database.opening import open_database

TABLE = REPOSITORY / "docs" / "contributing" / "console-measures.md"
SCREENSHOTS = REPOSITORY / "docs" / "screenshots"
MOST_SCREENSHOT_BYTES = 2_000_000
DARK = ("home", "usage", "playground")
IMPACTS = ("critical", "serious", "moderate", "minor")
HEAD = """# Measurements of the console

Written by `make screenshots`, with {browser} on the machine that ran it, against a gateway with the embedded models and a little
data. *kB* is what a page takes on the wire without a cache, headers included; the limit is {limit} kB. *First paint* is the first
contentful paint on the loopback interface, the median of three loads with a warm cache. *axe* counts the faults that axe-core
4.14.1 finds in the light, in the dark and at a width of 360 pixels, by impact: critical / serious / moderate / minor.
`qa/browser/test_pages.py` fails for a heavier page, and for a critical or serious fault.

| page | path | kB | first paint, ms | axe |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Visit:
    """One page: the name of its pictures, its pattern and an example of its path."""

    name: str
    pattern: str
    path: str


def make_name(pattern: str) -> str:
    """``/console/keys/([…])/revoke`` as ``keys-one-revoke``."""
    parts = re.sub(r"\([^)]*\)", "one", pattern).split("/")[2:]
    return "-".join(parts) or "home"


def measure(visit: Visit, page: Page) -> tuple[str, Counter[str]]:
    """Measure a page and take its screenshots; returns a row of the table, and the faults by impact."""
    size = measure_bytes(page, visit.path)
    paint = measure_first_paint(page, visit.path)
    faults = Counter(fault["impact"] for fault in run_axe(page))
    take_screenshot(page, f"{visit.name}-desktop")
    page.emulate_media(color_scheme="dark")
    faults |= Counter(fault["impact"] for fault in run_axe(page))
    if visit.name in DARK:
        take_screenshot(page, f"{visit.name}-dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(visit.path)
    faults |= Counter(fault["impact"] for fault in run_axe(page))
    take_screenshot(page, f"{visit.name}-phone")
    counts = " / ".join(str(faults[impact]) for impact in IMPACTS)
    shown = re.sub(r"\([^)]*\)", "…", visit.pattern)
    print(f"{visit.name}: {size} bytes, {paint:.0f} ms, axe {counts}", flush=True)
    return f"| {visit.name} | `{shown}` | {size / 1000:.1f} | {paint:.0f} | {counts} |", faults


def take_screenshot(page: Page, name: str) -> None:
    """Write what the window shows as WebP."""
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").save(SCREENSHOTS / f"{name}.webp", quality=70, method=6)


def write_scripted_history(console: Console) -> None:
    """Fill the ledger for two days, so that charts and figures look as in use."""
    database = open_database(console.gateway.folder / "var", "")
    accounts = Accounts(database, session_seconds=3600)
    user = accounts.users.list_page()[0][0].id
    keys, _ = KeyStore(database).list_page(user=user)
    write_history(database, key=keys[0].usage_id, user=user, team=accounts.teams.list_all()[0].id)
    database.close()


def show_answer(page: Page) -> None:
    """Let the playground show an answer, as its picture should."""
    page.get_by_role("textbox", name="Message").fill("say that the playground streams answers")
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_text("Total time").first.wait_for()


def measure_all(console: Console) -> tuple[list[str], Counter[str]]:
    """Measure all pages: the rows of the table, and all faults by impact."""
    first = console.open_as_first()
    fill_console(console, first)
    write_scripted_history(console)
    examples = find_examples(first)
    rows: list[str] = []
    faults: Counter[str] = Counter()
    for pattern in list_patterns():
        if pattern not in examples:
            print(f"no page of the console has a link to {pattern}")
            continue
        page = console.new_page() if pattern in PUBLIC else console.open_as_first(examples[pattern])
        if pattern in PUBLIC or is_at(page, examples[pattern]):
            row, found = measure(Visit(make_name(pattern), pattern, examples[pattern]), page)
            rows.append(row)
            faults += found
        page.context.close()
    page = console.open_as_first("/console/playground")
    show_answer(page)
    take_screenshot(page, "playground-desktop")
    return rows, faults


def main() -> None:
    """Write the table and the screenshots; exit with 1 for a serious fault, or when the screenshots are too large together."""
    SCREENSHOTS.mkdir(exist_ok=True)
    for old in SCREENSHOTS.glob("*.webp"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder, run_browser() as browser:
        gateway = Gateway.start(CONF, Path(folder))
        try:
            console = Console(gateway, browser)
            console.faults.expect("status of 400")  # the page to which an identity provider leads, without a sign-in
            rows, faults = measure_all(console)
            console.close()
            head = HEAD.format(browser=f"Chromium {browser.version}", limit=MOST_BYTES // 1000)
        finally:
            gateway.stop()
    TABLE.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in SCREENSHOTS.iterdir())
    print(f"{len(rows)} pages, axe {dict(faults)}, screenshots {size / 1000:.0f} kB")
    if faults["critical"] or faults["serious"] or size > MOST_SCREENSHOT_BYTES:
        sys.exit(1)


if __name__ == "__main__":
    main()
