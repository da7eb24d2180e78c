"""The encryption of webhook secrets in the database, with the keys of GATE_SECRET_KEY (AES-256-GCM).

The first key encrypts, all decrypt. Without the variable, secrets are in clear: nodes have no other key in common. The text has
at most 100 characters, as its column.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from typing import Any

from tornado_gate.config.secret_store import KEY_VARIABLE, SecretError, split_keys
from tornado_gate.tasks.webhook_secrets import PREFIX, WebhookSecretError

MARK = "aes:"
"""The beginning of an encrypted secret. A secret in clear begins with PREFIX."""
NONCE_BYTES = 12
_LABEL = b"tornado-gate webhook secrets\0"


class WebhookCipher:
    """The cipher of a process. The methods raise WebhookSecretError."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._text = environment.get(KEY_VARIABLE, "")
        self._ciphers: list[Any] | None = None

    def encrypt(self, owner: bytes, secret: str) -> str:
        """Return the text for the database. `owner` is encrypted with it, so that accounts cannot exchange secrets."""
        ciphers = self._load()
        if not ciphers or not secret:
            return secret
        nonce = os.urandom(NONCE_BYTES)
        content = base64.b64decode(secret.removeprefix(PREFIX))
        return MARK + base64.b64encode(nonce + ciphers[0].encrypt(nonce, content, owner)).decode()

    def decrypt(self, owner: bytes, stored: str) -> tuple[str, bool]:
        """Return a secret, and whether its text is what `encrypt` makes now: not in clear, and not with an older key."""
        ciphers = self._load()
        if not stored.startswith(MARK):
            return stored, not (ciphers and stored)
        if not ciphers:
            raise WebhookSecretError(
                f"the webhook secrets in the database are encrypted: set {KEY_VARIABLE} to the same key at every node"
            )
        from cryptography.exceptions import InvalidTag

        data = base64.b64decode(stored.removeprefix(MARK))
        for number, cipher in enumerate(ciphers):
            try:
                content = cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], owner)
            except InvalidTag:
                continue
            return PREFIX + base64.b64encode(content).decode(), number == 0
        raise WebhookSecretError(
            f"a webhook secret in the database cannot be decrypted: {KEY_VARIABLE} has another key"
        )

    def _load(self) -> list[Any]:
        """Return the ciphers, newest first; [] without a key. Importing `cryptography` takes 50 ms."""
        if self._ciphers is None:
            try:
                keys = split_keys(self._text)
            except SecretError as error:
                raise WebhookSecretError(str(error)) from error
            self._ciphers = [_make_cipher(key) for key in keys]
        return self._ciphers


def _make_cipher(key: str) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hashlib.sha256(_LABEL + key.encode()).digest())
