"""The choice of the console's language."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from tornado_gate.server.console.base import LANGUAGE_COOKIE, ConsoleHandler, check_next
from tornado_gate.server.console.languages.catalogues import LANGUAGES

REMEMBERED_SECONDS = 365 * 86400


class LanguagePage(ConsoleHandler):
    """`/console/language?to=zh`: keep the choice in the browser, and lead back to the page with the link."""

    access = "public"

    async def get(self) -> None:
        language = self.get_query_argument("to", "")
        if language in LANGUAGES:
            self.set_private_cookie(LANGUAGE_COOKIE, language, seconds=REMEMBERED_SECONDS)
        page = urlsplit(self.request.headers.get("Referer", ""))
        self.redirect(check_next(urlunsplit(("", "", page.path, page.query, ""))))


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [("/console/language", LanguagePage)]
