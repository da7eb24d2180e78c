"""Pages of the console in a real browser: Playwright drives the Chromium that `tests.support.chromium` finds.

Playwright's synchronous API keeps an event loop running in its thread, so tests with a browser use no fixture with an event loop,
and the browser ends with its file of tests: the next file in the same process may start loops of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.support.chromium import find_chromium
from tests.support.gateway import Gateway
from tests.support.node import PACKAGES

AXE = PACKAGES / "axe-core" / "axe.min.js"
WAIT_MILLISECONDS = 30_000
"""The limit of a wait that has failed."""
ARGUMENTS = [
    "--no-sandbox",  # tests run as root in containers
    "--font-render-hinting=none",  # the same picture on every machine
    "--use-fake-device-for-media-stream",  # a microphone that beeps
    "--use-fake-ui-for-media-stream",  # permission to use it is given without a question
]
REPORT_VIOLATIONS = """\
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`content security policy: ${event.violatedDirective} blocked ${event.blockedURI} ${event.sample}`);
});"""

EMAIL = "ada@example.org"
PASSWORD = "correct horse battery"


@contextmanager
def run_browser() -> Iterator[Browser]:
    """A browser, which ends with the block. Raises BrowserMissing."""
    found = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.executable, args=ARGUMENTS, env={**os.environ, **found.environment}
        )
        try:
            yield browser
        finally:
            browser.close()


class Faults:
    """What went wrong on pages: errors in the console, exceptions, violations of the content security policy, failed requests."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._expected: list[re.Pattern[str]] = []

    def watch(self, context: BrowserContext) -> None:
        """Collect the faults of all pages of a context."""
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.found.append(f"exception: {error.error}"))
        context.on("requestfailed", self._note_failure)

    def _note_failure(self, request: Request) -> None:
        """ERR_ABORTED is no fault: the page or its end has cancelled the request, or a script has read the last of its stream."""
        if "ERR_ABORTED" not in str(request.failure):
            self.found.append(f"request failed: {request.method} {request.url} {request.failure}")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"console: {message.text} ({message.location['url']})")

    def expect(self, pattern: str) -> None:
        """Say that a fault comes in this test: `check` then fails without it."""
        self._expected.append(re.compile(pattern))

    def check(self) -> None:
        """Raise AssertionError when a fault was found that nobody expected, or an expected one was not found."""
        unexpected = [text for text in self.found if not any(pattern.search(text) for pattern in self._expected)]
        assert not unexpected, "faults on the pages:\n" + "\n".join(unexpected)
        for pattern in self._expected:
            assert any(pattern.search(text) for text in self.found), f"no fault matches {pattern.pattern!r}"


class Console:
    """The console of a running gateway, and the pages that a test has opened."""

    def __init__(self, gateway: Gateway, browser: Browser) -> None:
        self.gateway = gateway
        self.browser = browser
        self.faults = Faults()
        self._contexts: list[BrowserContext] = []

    @property
    def url(self) -> str:
        """The address of the gateway, without a path."""
        return self.gateway.url

    def new_page(self, *, width: int = 1280, height: int = 800, dark: bool = False, **options: Any) -> Page:
        """A page of a new visitor, without cookies. Addresses may be relative. `options`: of Playwright's contexts."""
        context = self.browser.new_context(
            base_url=self.url,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            **options,
        )
        context.set_default_timeout(WAIT_MILLISECONDS)
        self.faults.watch(context)
        self._contexts.append(context)
        return context.new_page()

    def sign_up(self, page: Page, email: str, password: str = PASSWORD) -> None:
        """Make an account by the form; the first one of a gateway is its administrator. Ends on the page after it."""
        page.goto("/console/signup")
        page.get_by_label("Email").fill(email)
        page.get_by_label("Password", exact=True).fill(password)
        if (token := page.get_by_label("Set-up token")).count():
            token.fill(self.find_setup_token())
        page.get_by_role("button", name="Sign up").click()
        page.get_by_role("button", name="Sign out").wait_for()

    def find_setup_token(self) -> str:
        """The token that the gateway printed at its first start, for the first account."""
        found = re.search(r"/console/signup\?token=([\w-]+)", self.gateway.wait_for_log("/console/signup?token="))
        assert found is not None
        return found[1]

    def sign_in(self, page: Page, email: str = EMAIL, password: str = PASSWORD) -> None:
        """Sign in by the form. Ends on the page after it."""
        page.goto("/console/login")
        page.get_by_label("Email").fill(email)
        page.get_by_label("Password", exact=True).fill(password)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_role("button", name="Sign out").wait_for()

    def open_as_first(self, path: str = "/console/", **options: Any) -> Page:
        """A page for the first account, an administrator, which is made if the gateway has none. `options`: of `new_page`.

        All of them are in one session: a test that ends it calls `sign_in` instead.
        """
        cookies = self.gateway.folder / "first_account.json"
        if cookies.exists():
            page = self.new_page(storage_state=cookies, **options)
            page.goto(path)
        else:
            page = self.new_page(**options)
            self.sign_up(page, EMAIL)
            page.context.storage_state(path=cookies)
            if path != "/console/":
                page.goto(path)
        return page

    def close(self) -> None:
        """Close the pages, then check their faults."""
        for context in self._contexts:
            context.close()
        self.faults.check()


def check_accessibility(page: Page, *rules: str) -> None:
    """Raise AssertionError when axe-core finds a serious or critical fault on the page as it is now. `rules`: as of `run_axe`."""
    serious = [
        "\n  ".join([f"{fault['id']} ({fault['impact']}): {fault['help']}", *fault["where"]])
        for fault in run_axe(page, *rules)
        if fault["impact"] in ("serious", "critical")
    ]
    assert not serious, f"{page.url} is not accessible:\n" + "\n".join(serious)


def run_axe(page: Page, *rules: str) -> list[dict[str, Any]]:
    """What axe-core finds: `id`, `impact` (minor, moderate, serious, critical), `help`, `where` (the first lines of HTML).

    `rules` are the ids of the rules to check; all without one.
    """
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    options = {"resultTypes": ["violations"], **({"runOnly": {"type": "rule", "values": rules}} if rules else {})}
    found: list[dict[str, Any]] = page.evaluate(
        """async (options) => (await axe.run(document, options)).violations.map((one) => ({
          id: one.id, impact: one.impact, help: one.help, where: one.nodes.map((node) => node.html + " " + node.failureSummary),
        }))""",
        options,
    )
    return found
