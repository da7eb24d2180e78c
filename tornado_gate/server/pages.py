"""The handlers of the console, /admin/v1 and /docs, whose modules are imported after the start, or for their first request.

They are half of the modules of the server, and no request for a model needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tornado_gate.server.admin.handler import AdminHandler
    from tornado_gate.server.console.assets import AssetHandler
    from tornado_gate.server.console.base import ConsoleHandler
    from tornado_gate.server.openapi.pages import DocsHandler


def find_console_page(path: str) -> tuple[type[ConsoleHandler], list[bytes]]:
    """Return the page of a path of the console, and the arguments of its methods."""
    from tornado_gate.server.console.routes import find_page

    return find_page(path)


def get_asset_handler() -> type[AssetHandler]:
    from tornado_gate.server.console.assets import AssetHandler

    return AssetHandler


def get_admin_handler() -> type[AdminHandler]:
    from tornado_gate.server.admin.handler import AdminHandler

    return AdminHandler


def get_docs_handler() -> type[DocsHandler]:
    from tornado_gate.server.openapi.pages import DocsHandler

    return DocsHandler


def load_pages() -> None:
    """Import all these modules, so that their first request is not slow."""
    find_console_page("/console")
    get_admin_handler()
    get_docs_handler()
