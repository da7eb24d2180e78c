"""Modules that are imported when a request first needs them, so that a server starts without them.

Where a plugin needs such a module, it has the import inside the function that does; it names the module here, so that the
server imports it soon after it has begun to serve, and hardly a request ever waits for it.
"""

from __future__ import annotations

from threading import Lock

_lock = Lock()
_waiting: dict[str, None] = {}


def lazy_import(package: str, *modules: str) -> None:
    """Name modules of `package` (usually ``__name__``) that are imported inside functions only."""
    with _lock:
        _waiting.update(dict.fromkeys(f"{package}.{module}" for module in modules))


def take_waiting() -> list[str]:
    """The full names of those that nobody has taken yet; whoever takes them imports them."""
    with _lock:
        taken = list(_waiting)
        _waiting.clear()
        return taken
