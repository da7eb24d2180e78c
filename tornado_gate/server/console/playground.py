"""The playground."""

from __future__ import annotations

from tornado_gate.server.console.base import ConsoleHandler

ROUTES: list[tuple[str, type[ConsoleHandler]]] = []
