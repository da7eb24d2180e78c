"""Why plugins failed in a running server, in a file that `tornado-gate plugins list` reads.

One JSON object below data_dir, by plugin: ``{"acme": {"time": 1767225600, "error": "call_upstream raised KeyError"}}``.
Written by atomic replace, from a thread, at most once a second: a plugin that fails on every request costs nothing more.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

FILE_NAME = "plugin-failures.json"


class FailureLog:
    """The writing side: one for each process; the last writer's entry for a plugin wins."""

    def __init__(self, data_dir: Path, interval_seconds: float = 1.0) -> None:
        self._data_dir = data_dir
        self._interval = interval_seconds
        self._lock = threading.Lock()
        self._pending: dict[str, Any] = {}
        self._timer: threading.Timer | None = None

    def note(self, plugin: str, error: str) -> None:
        """Remember a failure; returns at once."""
        with self._lock:
            self._pending[plugin] = {"time": int(time.time()), "error": error[:500]}
            if self._timer is None:
                self._timer = threading.Timer(self._interval, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Write what was noted, now."""
        with self._lock:
            pending, self._pending = self._pending, {}
            self._timer = None
        if not pending:
            return
        text = json.dumps(read(self._data_dir) | pending)
        path = self._data_dir / FILE_NAME
        fresh = path.with_name(f".{FILE_NAME}.{os.getpid()}")
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)
        except OSError as error:
            log.warning("cannot write %s: %s", path, error.strerror)


def read(data_dir: Path) -> dict[str, Any]:
    """What servers have noted; {} when there is nothing, or nothing that can be read."""
    try:
        noted = json.loads((data_dir / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def clear(data_dir: Path) -> None:
    """Forget everything, as at a start."""
    (data_dir / FILE_NAME).unlink(missing_ok=True)
