"""The modules that are imported when a request first needs them, so that the server starts faster.

A plugin imports such a module inside the function that uses it, and registers its name here. The server imports registered
modules soon after its start, so that requests rarely wait for an import.
"""

from __future__ import annotations

from threading import Lock

_lock = Lock()
_waiting: dict[str, None] = {}


def lazy_import(package: str, *modules: str) -> None:
    """Register modules of `package` (usually ``__name__``) that are imported inside functions only."""
    with _lock:
        _waiting.update(dict.fromkeys(f"{package}.{module}" for module in modules))


def take_waiting() -> list[str]:
    """Return the full names of modules registered since the last call; the caller imports them."""
    with _lock:
        modules = list(_waiting)
        _waiting.clear()
        return modules
