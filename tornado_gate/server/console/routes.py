"""The pages of the console by path. A path without a page is a 404 page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tornado_gate.errors import NotFound
from tornado_gate.server.console import admin_pages, member_pages, playground
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import translate

PREFIX = "/console"
Routes = Sequence[tuple[str, type[ConsoleHandler]]]
"""Pairs of patterns and pages. A pattern covers a whole path; its groups are the arguments of the page's methods."""


class UnknownPageHandler(ConsoleHandler):
    access = "public"

    def check_method(self) -> None:
        """Accept every method: the path has no page."""

    async def prepare(self) -> None:
        await super().prepare()
        raise NotFound(translate("The console has no such page. The navigation lists all pages."), code="unknown_route")


_ROUTES = [
    (re.compile(pattern), handler)
    for routes in (member_pages.ROUTES, admin_pages.ROUTES, playground.ROUTES)
    for pattern, handler in routes
]


def find_page(path: str) -> tuple[type[ConsoleHandler], list[bytes]]:
    """Return the page of a path below /console, and the arguments of its methods. A trailing slash changes nothing."""
    trimmed = path.rstrip("/") or PREFIX
    for pattern, handler in _ROUTES:
        match = pattern.fullmatch(trimmed)
        if match is not None:
            return handler, [text.encode() for text in match.groups("")]
    return UnknownPageHandler, []


def list_pages() -> list[tuple[str, type[ConsoleHandler]]]:
    """Return all pages: (pattern, handler)."""
    return [(pattern.pattern, handler) for pattern, handler in _ROUTES]
