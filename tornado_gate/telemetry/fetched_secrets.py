"""Secrets that providers fetch or make while the gateway runs, such as access tokens. In memory, and bounded."""

from __future__ import annotations

import threading
from typing import Final

from tornado_gate.types import Target

MOST_SECRETS: Final = 8
"""The number of secrets of one key of a provider entry. The latest are kept, because an upstream may still repeat the
previous one.
"""
MOST_KEYS: Final = 1000
"""The number of keys with secrets. The most recently used are kept."""


class FetchedSecrets:
    """The latest secrets of each key of a provider entry. `revision` changes with them. Thread-safe."""

    def __init__(self) -> None:
        self.revision = 0
        self._latest: dict[tuple[str, str], tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def add(self, target: Target, secret: str) -> None:
        """Add a secret of the target's provider entry. A known secret changes nothing."""
        key = target.provider, target.key
        if secret in self._latest.get(key, ()):
            return
        with self._lock:
            latest = dict(self._latest)  # other threads read at the same time
            latest[key] = (*latest.pop(key, ()), secret)[-MOST_SECRETS:]
            while len(latest) > MOST_KEYS:
                del latest[next(iter(latest))]
            self._latest = latest
            self.revision += 1

    def find_secrets(self, target: Target) -> tuple[str, ...]:
        return self._latest.get((target.provider, target.key), ()) if self._latest else ()

    def list(self) -> set[str]:
        return {secret for secrets in self._latest.values() for secret in secrets}


FETCHED: Final = FetchedSecrets()
"""The fetched secrets of this process."""
