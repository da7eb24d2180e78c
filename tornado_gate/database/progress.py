"""The progress of a copy to the database, in the log."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

SECONDS = 5.0
"""The interval of messages. The first and the last are always logged."""


class Progress:
    """Counts the items of a kind, `total` in all, which are carried over to `target`."""

    def __init__(self, kind: str, total: int, target: str) -> None:
        self._kind, self._total, self._target = kind, total, target
        self._next = 0.0

    def report(self, done: int) -> None:
        """Log that `done` items have been carried over, unless the last message is recent."""
        now = time.monotonic()
        if now >= self._next or done >= self._total:
            self._next = now + SECONDS
            log.info("carried over %d of %d %s to %s", done, self._total, self._kind, self._target)
