"""The pages at /docs: the API description for people, rendered here, without scripts and without files from another host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tornado_gate import __version__
from tornado_gate.errors import NotFound
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.console.assets import get_asset_address
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.server.handlers.common import find_request_origin
from tornado_gate.server.openapi import sections
from tornado_gate.server.openapi.description import ApiDescription
from tornado_gate.server.openapi.errors import STATUSES

PREFIX = "/docs"
ERRORS_PAGE = "errors"
SEARCH_PAGE = "search"
MAX_SEARCH = 100
"""The maximum number of characters of a search."""
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class DocsHandler(GateHandler):
    """GET /docs, and /docs/<tag>. Needs no key."""

    def initialize(self, gate: Gate, description: ApiDescription) -> None:  # type: ignore[override]  # has one argument more
        super().initialize(gate)
        self.description = description

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")

    async def get(self) -> None:
        document = (await self.description.get()).document
        page = self.request.path.removeprefix(PREFIX).strip("/")
        tags = sections.list_tags(document)
        if not page:
            self._send_page("index.html", "API documentation", tags, introduction=document["info"]["description"])
        elif page == ERRORS_PAGE:
            self._send_page("errors.html", "Errors", tags, statuses=STATUSES)
        elif page == SEARCH_PAGE:
            query = self.get_query_argument("q", "")[:MAX_SEARCH]
            self._send_page("search.html", "Search", tags, query=query, results=sections.search_tags(tags, query))
        else:
            operations = sections.list_operations(document, page, self._get_base_url())
            if not operations:
                raise NotFound("The documentation has no such page. /docs lists all pages.", code="unknown_route")
            self._send_page("tag.html", operations[0].tag, tags, operations=operations)

    head = get

    def _get_base_url(self) -> str:
        server = self.snapshot.config.server
        origin = find_request_origin(self.request, server)
        return server.public_url or f"{origin.protocol}://{origin.host}"

    def get_template_path(self) -> str:
        return str(Path(__file__).parent / "templates")

    def _send_page(self, template: str, title: str, tags: list[sections.Tag], **values: Any) -> None:
        """Send a page. Templates escape every value, except texts that `sections` has rendered."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-cache")
        self.render(
            template,
            title=title,
            tags=tags,
            path=self.request.path.rstrip("/"),
            asset=get_asset_address,
            version=__version__,
            render_text=sections.render_text,
            render_inline=sections.render_inline,
            **values,
        )
