"""The keys of a provider entry with several. The plugin's `configure` is called once for each key."""

from __future__ import annotations

import hashlib
from typing import Any

from tornado_gate.config.model import Secret
from tornado_gate.types import Target
from tornado_gate.types.value import Value, replace

FINGERPRINT_LENGTH = 12


class ProviderKey(Value, frozen=True):
    """One of several keys: its `number` in conf, from 1, its `fingerprint`, and the results of `configure` with it.

    People see the number. The fingerprint is stored with objects that an upstream keeps, so that they are read with the same key
    after the order in conf has changed.
    """

    number: int
    fingerprint: str
    api_key: Secret
    base_url: str
    settings: Any

    def apply(self, target: Target) -> Target:
        """Return `target` with this key."""
        return replace(
            target, key=self.fingerprint, api_key=self.api_key, base_url=self.base_url, settings=self.settings
        )


def make_fingerprint(provider: str, api_key: str) -> str:
    """Return a short name of a key, from which the key cannot be computed."""
    digest = hashlib.sha256(f"{provider}\0{api_key}".encode())
    return digest.hexdigest()[:FINGERPRINT_LENGTH]
