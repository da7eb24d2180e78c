"""Pages of the console for members."""

from __future__ import annotations

from tornado_gate.server.console import (
    account_pages,
    home_page,
    key_changes,
    key_pages,
    language_page,
    oidc,
    sign_in_pages,
    sign_up_pages,
    task_pages,
    usage_pages,
)
from tornado_gate.server.console.base import ConsoleHandler

ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    *sign_in_pages.ROUTES,
    *sign_up_pages.ROUTES,
    *oidc.ROUTES,
    *home_page.ROUTES,
    *language_page.ROUTES,
    *key_pages.ROUTES,
    *key_changes.ROUTES,
    *usage_pages.ROUTES,
    *account_pages.ROUTES,
    *task_pages.ROUTES,
]
