"""The browser of the tests itself: it shows pages, and no fault on a page goes unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support import chromium
from tests.support.browser import Console, check_accessibility, run_axe
from tests.support.gateway import Gateway


@pytest.mark.representative
def test_an_unknown_page_says_where_to_go(console: Console) -> None:
    page = console.new_page()
    console.faults.expect("status of 404")
    answer = page.goto("/console/nothing")
    assert answer is not None
    assert answer.status == 404
    assert page.get_by_role("heading", name="Not found").is_visible()
    check_accessibility(page)


def test_faults_on_a_page_are_found(console_gateway: Gateway, browser: Browser) -> None:
    console = Console(console_gateway, browser)
    page = console.new_page()
    page.goto("/console/nothing")
    page.evaluate(
        """async () => {
          const image = document.createElement("img");
          image.src = "http://127.0.0.1:1/picture";
          document.body.append(image);
          document.body.append(Object.assign(document.createElement("script"), { textContent: "alert(1)" }));
          setTimeout(() => { throw new Error("thrown"); });
          await fetch("/console/static/none.css");
          await new Promise((resolve) => setTimeout(resolve));
        }"""
    )
    with pytest.raises(AssertionError) as caught:
        console.close()
    for text in (
        "img-src blocked http://127.0.0.1:1/picture",
        "script-src-elem blocked inline",
        "thrown",
        "none.css",
        "404",
    ):
        assert text in str(caught.value), text


def test_an_expected_fault_that_does_not_come_fails(console: Console) -> None:
    other = Console(console.gateway, console.browser)
    other.faults.expect("status of 500")
    with pytest.raises(AssertionError, match="status of 500"):
        other.close()


def test_axe_finds_a_serious_fault(console: Console) -> None:
    page = console.new_page()
    console.faults.expect("status of 404")
    page.goto("/console/nothing")
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert [fault["id"] for fault in run_axe(page)] == ["label"]
    with pytest.raises(AssertionError, match="label"):
        check_accessibility(page)


def test_without_a_browser_the_run_fails_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chromium, "PACKED", tmp_path / "none")
    with pytest.raises(chromium.BrowserMissing, match="apt-get install chromium"):
        chromium.find_chromium()
