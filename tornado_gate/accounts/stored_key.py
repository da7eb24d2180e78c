"""An API key as it is stored, and how its text becomes the digest that is stored instead."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy.engine import Row

from tornado_gate.config.model import Role
from tornado_gate.database import tables
from tornado_gate.types.value import Value, field

KEY_MARK = "tg-"
PREFIX_CHARACTERS = 10
LIST_FIELDS = ("models", "operations", "addresses", "tags")

KeyState = Literal["active", "expired", "revoked"]


class StoredKey(Value, frozen=True, kw_only=True):
    """A stored key. Times are Unix seconds; empty `models`, `operations` and `addresses` mean all.

    `user` is the owner, None for a key made by command; `role` never exceeds that of the owner. `limits` may have
    `requests_per_minute`, `tokens_per_minute`, `concurrent_requests`; `budget` the fields of `types.Budget`. `hidden`: made by
    the gateway itself, for the playground. `replaced_by` is the key that a rotation has created; this one remains valid until
    `expires`. `team_budget`, `team_limits`, `user_budget` and `user_limits` are those of its team and its user, `team_name` and
    `user_name` (an e-mail) their names, in keys that `KeyStore.find` returns.
    `counted_as` is the first key of a chain of rotations, None for that key itself. `issued_by` is who has rotated or adopted
    the key, None if nobody has; see `issuer`.
    """

    id: str
    name: str
    account: str
    user: str | None = None
    team: str | None = None
    role: Role = "member"
    digest: bytes
    prefix: str
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    team_budget: Mapping[str, Any] = field(default_factory=dict)
    team_limits: Mapping[str, int] = field(default_factory=dict)
    user_budget: Mapping[str, Any] = field(default_factory=dict)
    user_limits: Mapping[str, int] = field(default_factory=dict)
    team_name: str = ""
    user_name: str = ""
    hidden: bool = False
    created_by: str = "command"
    created: float
    expires: float | None = None
    revoked: float | None = None
    last_used: float | None = None
    replaced_by: str | None = None
    counted_as: str | None = None
    issued_by: str | None = None

    hidden_fields = frozenset({"digest"})

    @property
    def usage_id(self) -> str:
        """The id under which limits, budgets and usage count: the same after a rotation, which so gives no new budget."""
        return self.counted_as or self.id

    @property
    def shares_account(self) -> bool:
        """Whether the key has the stored data of an account that is neither its own nor its owner's."""
        return self.account not in (self.id, self.usage_id, self.user)

    @property
    def issuer(self) -> str:
        """Who knows the text of the key, or answers for it: who has made, rotated or adopted it. See `makers`."""
        return self.issued_by or self.created_by

    def is_active(self, now: float) -> bool:
        return self.get_state(now) == "active"

    def get_state(self, now: float) -> KeyState:
        """The state at the time `now`. Whether owner and maker still may what the key may do is not part of it: see `makers`."""
        if self.revoked is not None:
            return "revoked"
        return "active" if self.expires is None or self.expires > now else "expired"


def digest_key(key: str) -> bytes:
    """Return the stored hash of a key. Never raises, whatever a caller sent."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def make_key_text() -> str:
    """A new key: 256 random bits."""
    return KEY_MARK + secrets.token_urlsafe(32)


def make_key_id() -> str:
    return "key_" + secrets.token_hex(6)


def parse_key(row: Row[Any]) -> StoredKey:
    """The key in a row of the table; the columns of other tables are ignored."""
    values = {name: value for name, value in row._mapping.items() if name in tables.keys.c}
    for name in LIST_FIELDS:
        values[name] = tuple(values[name])
    return StoredKey(**values)
