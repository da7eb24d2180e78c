"""Tokens of devices: signed proofs that a browser has signed in before as a certain user.

With such a token, a user can sign in while somebody at the same address is guessing passwords. It gives no other right.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from tornado_gate.accounts.rows import Part
from tornado_gate.accounts.tokens import LONGEST
from tornado_gate.database import tables

DEVICE_SECONDS = 180 * 86400
SECRET_NAME = "device_secret"
"""The name of the secret in the table `meta`."""


class Devices(Part):
    _device_secret: bytes | None = None

    def make_token(self, user_id: str) -> str:
        """Return a token for a browser whose user has just signed in: ``USER.EXPIRES.ISSUEDxNONCE.SIGNATURE``."""
        now = time.time()
        text = f"{user_id}.{int(now) + DEVICE_SECONDS}.{int(now * 1000):x}x{secrets.token_hex(8)}"
        return f"{text}.{self._sign_text(text)}"

    def knows(self, token: str, user_id: str, since: float = 0.0) -> bool:
        """Return whether a token was made for this user after `since`, and has not expired. Never raises for a
        malformed token.

        `since` is the time at which the password was last changed or removed. An owner of an older token may not have
        the current password.
        """
        if not user_id or len(token) > LONGEST or not token.isascii():
            return False
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._sign_text(text), signature):
            return False
        owner, expires, nonce = text.split(".")
        issued, mark, _ = nonce.partition("x")
        if not mark or int(issued, 16) < int(since * 1000):
            return False
        return owner == user_id and int(expires) > time.time()

    def _sign_text(self, text: str) -> str:
        if self._device_secret is None:
            self._device_secret = self._read_device_secret()
        return hmac.new(self._device_secret, text.encode(), hashlib.sha256).hexdigest()

    def _read_device_secret(self) -> bytes:
        """Return the secret that all processes share. The first process creates it."""
        query = select(tables.meta.c.value).where(tables.meta.c.name == SECRET_NAME)
        with self.database.read() as connection:
            known = connection.execute(query).scalar_one_or_none()
        if known is None:
            try:
                with self.database.write() as connection:
                    connection.execute(insert(tables.meta).values(name=SECRET_NAME, value=secrets.token_hex(32)))
            except IntegrityError:  # another process has created it in the same moment
                pass
            with self.database.read() as connection:
                known = connection.execute(query).scalar_one()
        return bytes.fromhex(known)
