"""The account of a configuration entry, and the tokens signed with its keys.

Source: https://app.klingai.com/global/dev/document-api/apiReference/commonInfo, "API Authentication": a JWT (RFC 7519) by HS256
with iss the access key, exp in 1800 s and nbf 5 s ago, signed with the secret key, as ``Authorization: Bearer``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from marshmallow import Schema

from tornado_gate import ProviderEntry, lazy_import
from tornado_gate.codec.fields import String
from tornado_gate.config import load_settings
from tornado_gate.errors import ConfigError

lazy_import("joserfc", "jwk", "jwt")  # loads cryptography

TOKEN_SECONDS: Final = 1800
CLOCK_SKEW_SECONDS: Final = 5
"""A token is valid from this long ago, for upstream clocks that are slow."""
RENEWAL_SECONDS: Final = 60
"""Tokens with less remaining validity are replaced."""

_MASK: Final = "***"
_MIN_SECRET_LENGTH: Final = 8
"""Shorter values are not masked. They are not secret, and masking them would garble messages."""


class KlingSettingsSchema(Schema):
    """The settings of a provider entry that this plugin defines."""

    access_key = String()
    secret_key = String()


@dataclass(slots=True, kw_only=True)
class KlingAccount:
    """The vendor's key pair, which signs tokens, or one `api_key`, which is sent unchanged, or no key."""

    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    clock: Callable[[], float] = time.time
    _token: str = field(default="", init=False, repr=False)
    _ends: float = field(default=0.0, init=False)

    def make_headers(self) -> dict[str, str]:
        """Return the authorization header; {} without a key."""
        key = self._get_token() if self.secret_key else self.api_key
        return {"authorization": f"Bearer {key}"} if key else {}

    def _get_token(self) -> str:
        """Return a token with at least a minute of validity. It is renewed about twice an hour."""
        now = self.clock()
        if now > self._ends - RENEWAL_SECONDS:
            self._ends = int(now) + TOKEN_SECONDS
            claims = {"iss": self.access_key, "exp": self._ends, "nbf": int(now) - CLOCK_SKEW_SECONDS}
            self._token = _sign_claims(claims, self.secret_key)
        return self._token

    def mask_keys(self, text: str) -> str:
        """Return `text` from the upstream with all keys of this account masked."""
        for secret in (self._token, self.secret_key, self.access_key, self.api_key):
            if len(secret) >= _MIN_SECRET_LENGTH:
                text = text.replace(secret, _MASK)
        return text


def _sign_claims(claims: dict[str, Any], secret: str) -> str:
    """A JWT by HS256."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    return jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, OctKey.import_key(secret))


def read_account(entry: ProviderEntry) -> KlingAccount:
    """Return the account of an entry: ``api_key`` as "ACCESS:SECRET", or the settings ``access_key`` and
    ``secret_key``.

    An api_key without a colon is a single key, as resellers of the API issue. Raises ConfigError.
    """
    settings = load_settings(KlingSettingsSchema, entry.settings)
    access, secret = settings.get("access_key", ""), settings.get("secret_key", "")
    if bool(access) != bool(secret):
        missing = "secret_key" if access else "access_key"
        raise ConfigError([((missing,), "is missing; set both access_key and secret_key")])
    if access and entry.api_key:
        raise ConfigError(
            [(("api_key",), "cannot be combined with access_key and secret_key; remove one or the other")]
        )
    if access:
        return KlingAccount(access_key=access, secret_key=secret)
    access, colon, secret = entry.api_key.partition(":")
    if not colon:
        return KlingAccount(api_key=entry.api_key)
    if not access or not secret:
        raise ConfigError(
            [(("api_key",), 'must contain the access key and the secret key, separated by a colon: "ACCESS:SECRET"')]
        )
    return KlingAccount(access_key=access, secret_key=secret)
