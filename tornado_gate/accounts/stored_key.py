"""An API key as it is stored, and the digest that is stored instead of its text."""

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

    `user` is the owner, None for a key made by command. `role` never exceeds the owner's role. `limits` may have
    `requests_per_minute`, `tokens_per_minute`, `concurrent_requests`; `budget` has the fields of `types.Budget`.
    `hidden`: made by the gateway itself, for the playground. `replaced_by` is the key that a rotation has created; this
    key remains valid until `expires`. `counted_as` is the first key of a chain of rotations, None for that key itself.
    `issued_by` is the actor who has rotated or adopted the key, None if there was no such action; see `issuer`.

    `KeyStore.find_key` adds these fields: `team_budget`, `team_limits`, `user_budget` and `user_limits` come from the team
    and the user of the key; `team_name` and `user_name` (an e-mail) are their names.
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
        """Return the id under which limits, budgets and usage count. It survives a rotation, so a rotation gives no new
        budget.
        """
        return self.counted_as or self.id

    @property
    def shares_account(self) -> bool:
        """Return whether the key has the stored data of an account that belongs to neither the key nor its owner."""
        return self.account not in (self.id, self.usage_id, self.user)

    @property
    def issuer(self) -> str:
        """Return the issuer: the actor who has made, rotated or adopted the key, and may have its text. See `makers`."""
        return self.issued_by or self.created_by

    def is_active(self, now: float) -> bool:
        return self.get_state(now) == "active"

    def get_state(self, now: float) -> KeyState:
        """Return the state at the time `now`. The current rights of owner and maker are not included: see `makers`."""
        if self.revoked is not None:
            return "revoked"
        return "active" if self.expires is None or self.expires > now else "expired"


def digest_key(key: str) -> bytes:
    """Return the stored hash of a key. Never raises, for any text from a caller."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def make_key_text() -> str:
    """Return a new key: 256 random bits."""
    return KEY_MARK + secrets.token_urlsafe(32)


def make_key_id() -> str:
    return "key_" + secrets.token_hex(6)


def parse_key(row: Row[Any]) -> StoredKey:
    """Return the key in a row of the table. Columns of other tables are ignored."""
    values = {name: value for name, value in row._mapping.items() if name in tables.keys.c}
    for name in LIST_FIELDS:
        values[name] = tuple(values[name])
    return StoredKey(**values)
