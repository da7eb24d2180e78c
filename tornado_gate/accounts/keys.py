"""API keys in the database: hashed; every change increments a revision.

A key is 256 random bits, so its SHA-256 is stored and no slow hash is needed. Each process polls the revision, so that a
revocation takes effect everywhere within a second.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, cast, func, insert, select, update
from sqlalchemy.engine import Connection, Row

from tornado_gate.config.model import Role
from tornado_gate.database import tables
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database
from tornado_gate.types.value import Value, field

LONGEST_NAME = 100
KEY_MARK = "tg-"
PREFIX_CHARACTERS = 10


def check_name(name: str) -> None:
    """Raise ValueError, with a message for the user, if `name` cannot be the name or the account of a key."""
    if not name.strip() or len(name) > LONGEST_NAME:
        raise ValueError(f"must have 1 to {LONGEST_NAME} characters, not only spaces")
    if not name.isprintable():
        raise ValueError("must not contain control characters or text that is not UTF-8")


def digest_key(key: str) -> bytes:
    """Return the stored hash of a key. Never raises, whatever a caller sent."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


_DURATION = re.compile(r"([0-9]{1,6})([hdw])", re.IGNORECASE)
_UNIT_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def parse_duration(text: str, now: float | None = None) -> float:
    """Return the Unix time of ``30d``, ``12h``, ``2w`` from now, or of ``2027-01-01`` (00:00 UTC).

    Raises ValueError with a message for the user.
    """
    now = time.time() if now is None else now
    if (match := _DURATION.fullmatch(text.strip())) is not None:
        moment = now + int(match[1]) * _UNIT_SECONDS[match[2].lower()]
    else:
        try:
            date = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ValueError(
                f"'{text}' is neither a duration such as 30d, 12h or 2w nor a date such as 2027-01-01"
            ) from None
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if moment <= now:
        raise ValueError(f"'{text}' is not in the future; use a later time")
    return moment


class StoredKey(Value, frozen=True, kw_only=True):
    """A stored key. Times are Unix seconds; empty `models`, `operations` and `addresses` mean all.

    `user` is the owner, None for a key made by command; `role` never exceeds that of the owner. `limits` may have
    `requests_per_minute`, `tokens_per_minute`, `concurrent_requests`; `budget` the fields of `types.Budget`. `hidden`: made by
    the gateway itself, for the playground. `replaced_by` is the key that a rotation has created; this one remains valid until
    `expires`.
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
    hidden: bool = False
    created_by: str = "command"
    created: float
    expires: float | None = None
    revoked: float | None = None
    last_used: float | None = None
    replaced_by: str | None = None

    hidden_fields = frozenset({"digest"})

    def is_active(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or self.expires > now)


_LISTS = ("models", "operations", "addresses", "tags")


def _parse_row(row: Row[Any]) -> StoredKey:
    values = dict(row._mapping)
    for name in _LISTS:
        values[name] = tuple(values[name])
    return StoredKey(**values)


class KeyStore:
    """The keys in the database. Synchronous: from an event loop use `database.run`.

    Every method raises DatabaseError if the database cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, data_dir: Path, address: str = "") -> KeyStore:
        """Open the database of a data directory, or the one at `address`; creates what is missing."""
        return cls(open_database(data_dir, address))

    def close(self) -> None:
        """Close the database. The next call opens it again."""
        self.database.close()

    def create(
        self,
        name: str,
        *,
        account: str | None = None,
        expires: float | None = None,
        **given: Any,
    ) -> tuple[str, StoredKey]:
        """Create a key; return its text, which is not stored, and the stored record. `given` are further fields of StoredKey.

        Raises ValueError for an invalid name or account.
        """
        text = KEY_MARK + secrets.token_urlsafe(32)
        identity = "key_" + secrets.token_hex(6)
        check_name(name)
        check_name(account or identity)
        for field_name in _LISTS:
            given[field_name] = tuple(given.get(field_name, ()))
        stored = StoredKey(
            id=identity,
            name=name,
            account=account or identity,
            digest=digest_key(text),
            prefix=text[:PREFIX_CHARACTERS],
            created=time.time(),
            expires=expires,
            **given,
        )
        row = {column.name: getattr(stored, column.name) for column in tables.keys.columns}
        with self.database.write() as connection:
            connection.execute(insert(tables.keys), [row])
            bump_revision(connection)
        return text, stored

    def list(self) -> tuple[StoredKey, ...]:
        """Return all keys, also revoked and expired ones, oldest first."""
        query = select(tables.keys).order_by(tables.keys.c.created, tables.keys.c.id)
        with self.database.read() as connection:
            return tuple(_parse_row(row) for row in connection.execute(query))

    def find(self, wanted: bytes) -> StoredKey | None:
        """Return the key with this digest; None if it is unknown, revoked or expired, or its owner is disabled.

        The role is at most that of the owner.
        """
        users = tables.users.c
        query = (
            select(tables.keys, users.state.label("owner_state"), users.role.label("owner_role"))
            .select_from(tables.keys.outerjoin(tables.users))
            .where(tables.keys.c.digest == wanted)
        )
        with self.database.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        values = dict(row._mapping)
        state, role = values.pop("owner_state"), values.pop("owner_role")
        for name in _LISTS:
            values[name] = tuple(values[name])
        if role == "member":
            values["role"] = "member"
        key = StoredKey(**values)
        if not hmac.compare_digest(key.digest, wanted) or not key.is_active(time.time()):
            return None
        return key if key.user is None or state == "active" else None

    def revoke(self, identity: str) -> bool:
        """Revoke the key with this id. Returns False if it does not exist or was already revoked."""
        keys = tables.keys
        change = update(keys).where(keys.c.id == identity, keys.c.revoked.is_(None)).values(revoked=time.time())
        with self.database.write() as connection:
            if not connection.execute(change).rowcount:
                return False
            bump_revision(connection)
        return True

    def revision(self) -> int:
        """Return a number that changes with every change of the keys or their permissions."""
        with self.database.read() as connection:
            return int(connection.execute(_READ_REVISION).scalar_one())

    def has_keys(self) -> bool:
        """Whether any key was ever created, also revoked and expired ones."""
        with self.database.read() as connection:
            return connection.execute(select(tables.keys.c.id).limit(1)).first() is not None

    def touch(self, times: Mapping[str, float]) -> None:
        """Record when keys were last used, by id. Does not change the revision, as permissions stay the same."""
        keys = tables.keys
        change = (
            update(keys)
            .where(keys.c.id == bindparam("wanted"))
            .where(func.coalesce(keys.c.last_used, 0) < bindparam("moment"))
            .values(last_used=bindparam("moment"))
        )
        with self.database.write() as connection:
            connection.execute(
                change, [{"wanted": identity, "moment": moment} for identity, moment in sorted(times.items())]
            )


_READ_REVISION = select(tables.meta.c.value).where(tables.meta.c.name == "revision")


def bump_revision(connection: Connection) -> None:
    """Make all processes read keys again, within a second. Call it in every transaction that changes what a key may do."""
    meta = tables.meta
    change = update(meta).where(meta.c.name == "revision")
    connection.execute(change.values(value=cast(cast(meta.c.value, BigInteger) + 1, Text)))
