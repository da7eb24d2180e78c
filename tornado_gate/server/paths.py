"""The paths that belong to the console, /admin/v1 and /docs."""

from __future__ import annotations

MAX_FORM_BYTES = 64 * 1024
"""The maximum size of a form of the console."""
ASSETS = "/console/static/"


def is_console_path(path: str) -> bool:
    return path == "/console" or path.startswith("/console/")


def is_admin_path(path: str) -> bool:
    """Return whether a path, as it was sent, belongs to the administration API."""
    return path == "/admin/v1" or path.startswith("/admin/v1/")


def is_docs_path(path: str) -> bool:
    return path == "/docs" or path.startswith("/docs/")
