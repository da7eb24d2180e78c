"""The failures of plugins in a running server, in a file that `tornado-gate plugins list` reads.

The file is one JSON object in data_dir, by plugin: ``{"acme": {"time": 1767225600, "error": "call_upstream raised KeyError"}}``.
It is written by atomic replace, in a thread, at most once a second: a plugin that fails on every request causes no more writes.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from tornado_gate.storage.private import open_private

log = logging.getLogger(__name__)

FILE_NAME = "plugin-failures.json"


class FailureLog:
    """A writer of the file; one per process. The entry of the last writer replaces older entries of a plugin."""

    def __init__(self, data_dir: Path, interval_seconds: float = 1.0) -> None:
        self._data_dir = data_dir
        self._interval = interval_seconds
        self._lock = threading.Lock()
        self._pending: dict[str, Any] = {}
        self._timer: threading.Timer | None = None

    def note(self, plugin: str, error: str) -> None:
        """Record a failure; does not block."""
        with self._lock:
            self._pending[plugin] = {"time": int(time.time()), "error": error[:500]}
            if self._timer is None:
                self._timer = threading.Timer(self._interval, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Write recorded failures now."""
        with self._lock:
            pending, self._pending = self._pending, {}
            self._timer = None
        if not pending:
            return
        text = json.dumps(read(self._data_dir) | pending)
        path = self._data_dir / FILE_NAME
        fresh = path.with_name(f".{FILE_NAME}.{os.getpid()}")
        try:
            with open(fresh, "w", encoding="utf-8", opener=open_private) as file:
                file.write(text)
            fresh.replace(path)
        except OSError as error:
            log.warning("cannot write the plugin failures to %s: %s; check server.data_dir", path, error.strerror)


def read(data_dir: Path) -> dict[str, Any]:
    """Return the recorded failures; {} if the file is missing or invalid."""
    try:
        noted = json.loads((data_dir / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def clear(data_dir: Path) -> None:
    """Delete all records; called when the server starts."""
    (data_dir / FILE_NAME).unlink(missing_ok=True)
