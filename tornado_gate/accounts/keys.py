"""API keys in the database: hashed; every change increments a revision.

A key is 256 random bits, so its SHA-256 is stored and no slow hash is needed. Each process polls the revision, so that a
revocation takes effect everywhere within a second.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.engine import Connection

from tornado_gate.accounts import key_queries
from tornado_gate.accounts.audit import record
from tornado_gate.accounts.errors import AccountError, Conflict
from tornado_gate.accounts.key_checks import check_fields, check_name
from tornado_gate.accounts.key_queries import KeyFilter
from tornado_gate.accounts.key_rules import widens_rights
from tornado_gate.accounts.makers import has_maker
from tornado_gate.accounts.people import Actor
from tornado_gate.accounts.revision import bump_revision, lock_accounts
from tornado_gate.accounts.stored_key import (
    LIST_FIELDS,
    PREFIX_CHARACTERS,
    StoredKey,
    digest_key,
    make_key_id,
    make_key_text,
    parse_key,
)
from tornado_gate.accounts.texts import make_storable
from tornado_gate.database import tables
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database
from tornado_gate.types.value import replace

__all__ = ["KeyStore", "StoredKey", "bump_revision", "digest_key"]

LONGEST_OVERLAP = 366 * 86400
CHANGEABLE = frozenset({*LIST_FIELDS, "name", "team", "role", "limits", "budget", "expires"})
"""The fields that `change` accepts."""
_COPIED = (
    *LIST_FIELDS,
    "name",
    "account",
    "user",
    "team",
    "role",
    "limits",
    "budget",
    "hidden",
    "created_by",
    "issued_by",
    "expires",
)
"""The fields that the successor of a rotated key copies."""


class KeyStore:
    """The keys in the database. Synchronous: from an event loop use `database.run`.

    Every method raises DatabaseError if the database cannot be used. Methods that change a key write an event to the
    audit log when they have an `actor`. They raise AccountError for values that a key cannot have.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, data_dir: Path, address: str = "") -> KeyStore:
        """Open the database of a data directory, or the one at `address`. Creates missing tables."""
        return cls(open_database(data_dir, address))

    def close(self) -> None:
        """Close the database. The next call opens it again."""
        self.database.close()

    # Reading

    def get(self, identity: str) -> StoredKey:
        """Return the key with this id, in any state. Raises NotFound."""
        with self.database.read() as connection:
            return key_queries.get_key(connection, identity)

    def find_named(self, name: str) -> StoredKey:
        """Return the key with this id or, if it is not revoked, this name. Raises NotFound, or Conflict for an ambiguous name."""
        with self.database.read() as connection:
            return key_queries.find_named(connection, name)

    def list(self) -> tuple[StoredKey, ...]:
        """Return all keys, oldest first, including revoked and expired ones."""
        query = select(tables.keys).order_by(tables.keys.c.created, tables.keys.c.id)
        with self.database.read() as connection:
            return tuple(parse_key(row) for row in connection.execute(query))

    def list_page(
        self,
        *,
        user: str | None = None,
        team: str | None = None,
        either: Iterable[str] = (),
        search: str = "",
        state: str = "",
        hidden: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[builtins.list[StoredKey], int]:
        """Return a page of the keys, newest first, and the number of keys on all pages.

        `search` is a part of the name, or the beginning of the id or of the key. `state` is "active", "expired",
        "revoked" or "" for all. `hidden`: include the gateway's own keys. `either` are ids of teams: their keys are
        listed together with the keys of `user`. A page has at most `key_queries.LARGEST_PAGE` keys.
        """
        key_filter = KeyFilter(user=user, team=team, either=tuple(either), search=search, state=state, hidden=hidden)
        with self.database.read() as connection:
            return key_queries.list_page(connection, key_filter, offset, limit)

    def name_owners(self, keys: Iterable[StoredKey]) -> Mapping[str, str]:
        """Return the e-mail of each owner and the name of each team of the keys, by id."""
        with self.database.read() as connection:
            return key_queries.name_owners(connection, keys)

    def find_suspensions(self, keys: Iterable[StoredKey]) -> Mapping[str, str]:
        """Return, by id, why active keys cannot be used now, such as "its maker is disabled"."""
        with self.database.read() as connection:
            return key_queries.find_suspensions(connection, keys)

    def find_owner(self, email: str | None, team: str | None, *, role: str = "member") -> dict[str, str]:
        """Return the ids of a user by e-mail (`user`) and of a team by name or id (`team`), without the fields that are
        None.

        Raises AccountError if they do not exist, or if a key of this `role` with both could not be used.
        """
        with self.database.read() as connection:
            return key_queries.find_owner(connection, email, team, role)

    def find_key(self, digest: bytes) -> StoredKey | None:
        """Return the key with this digest, with its permissions after the limits of its owner and its team.

        None in these cases: the key is unknown, revoked or expired; its owner is disabled or has left its team; its
        maker may no longer make it.
        """
        with self.database.read() as connection:
            return key_queries.find_usable(connection, [digest]).get(digest)

    def find_keys(self, digests: Sequence[bytes], seconds: float) -> dict[bytes, StoredKey]:
        """Return the keys with these digests as `find_key` does, without those that are not usable.

        After `seconds` the remaining ones are left out.
        """
        with self.database.read() as connection:
            return key_queries.find_usable(connection, digests, seconds=seconds)

    def revision(self) -> int:
        """Return a number that changes with every change of the keys or their permissions."""
        with self.database.read() as connection:
            return int(connection.execute(_READ_REVISION).scalar_one())

    def has_keys(self) -> bool:
        """Return whether any key was ever created, including revoked and expired ones."""
        with self.database.read() as connection:
            return connection.execute(select(tables.keys.c.id).limit(1)).first() is not None

    # Changing

    def create(
        self,
        name: str,
        *,
        account: str | None = None,
        expires: float | None = None,
        actor: Actor | None = None,
        **fields: Any,
    ) -> tuple[str, StoredKey]:
        """Create a key. Returns its text, which is not stored, and the stored record.

        `fields` are further fields of StoredKey. Without an `account`, the account is the id of the owner (`user`), else
        the id of the key.
        """
        text, identity = make_key_text(), make_key_id()
        if account is not None:
            check_name(account, "account")
        stored = StoredKey(
            id=identity,
            account=account or fields.get("user") or identity,
            digest=digest_key(text),
            prefix=text[:PREFIX_CHARACTERS],
            created=time.time(),
            **check_fields({**fields, "name": name, "expires": expires}),
        )
        with self.database.write() as connection:
            lock_accounts(connection)
            _insert_key(connection, stored)
            if actor is not None:
                record(connection, actor, "key.create", stored.id, **_describe_key(stored))
        return text, stored

    def add_hashed(self, entries: Iterable[Mapping[str, Any]], *, actor: Actor) -> builtins.list[StoredKey]:
        """Create keys by their digests, in one transaction. Return the new ones: a digest that is stored already stays as it is.

        Each entry has `name`, `digest` and `prefix`, and may have further fields of StoredKey.
        """
        made: builtins.list[StoredKey] = []
        with self.database.write() as connection:
            lock_accounts(connection)
            for entry in entries:
                known = select(tables.keys.c.id).where(tables.keys.c.digest == entry["digest"])
                if connection.execute(known).first() is not None:
                    continue
                identity = make_key_id()
                stored = StoredKey(id=identity, account=identity, created=time.time(), **check_fields(entry))
                _insert_key(connection, stored)
                record(connection, actor, "key.create", identity, **_describe_key(stored))
                made.append(stored)
        return made

    def revoke(self, identity: str, *, actor: Actor | None = None) -> bool:
        """Revoke the key with this id. Returns False if it does not exist or was already revoked."""
        with self.database.write() as connection:
            lock_accounts(connection)
            return _revoke_key(connection, identity, actor)

    def revoke_named(self, name: str, *, actor: Actor | None = None) -> StoredKey:
        """Revoke the key with this id or name. Returns its previous state. Raises NotFound, or Conflict for an
        ambiguous name.
        """
        with self.database.write() as connection:
            lock_accounts(connection)
            key = key_queries.find_named(connection, name)
            if not _revoke_key(connection, key.id, actor):
                raise Conflict(f"The key {key.id} is revoked already.", code="key_revoked")
        return key

    def rotate(
        self,
        identity: str,
        *,
        overlap_seconds: float = 0.0,
        actor: Actor | None = None,
    ) -> tuple[str, StoredKey]:
        """Create a key with the same permissions, account and expiry. Returns its text and its record, as `create`
        does.

        The old key stays valid for `overlap_seconds`; with 0 it is revoked immediately. Both share limits and budgets.
        `created_by` remains the maker of the first key, which `key_rules` relies on. `issued_by` becomes the actor, who
        receives the new text. Raises NotFound. Raises Conflict for a key that may no longer be used or was rotated
        before.
        """
        if not 0 <= overlap_seconds <= LONGEST_OVERLAP:
            raise AccountError("The overlap must be from 0 seconds to 366 days.", field="overlap")
        text, now = make_key_text(), time.time()
        with self.database.write() as connection:
            lock_accounts(connection)
            old = key_queries.get_key(connection, identity, lock=True)
            _check_is_current(old, now)
            new = StoredKey(
                id=make_key_id(),
                digest=digest_key(text),
                prefix=text[:PREFIX_CHARACTERS],
                created=now,
                counted_as=old.usage_id,
                **{name: getattr(old, name) for name in _COPIED},
            )
            is_granted = (
                actor is not None and actor.id == old.user and old.shares_account
            )  # the owner could not make it
            if actor is not None and not is_granted and not _is_same_key(connection, actor.id, old):
                new = replace(new, issued_by=actor.id)
            _insert_key(connection, new)
            until = min(old.expires or float("inf"), now + overlap_seconds)
            ends = {"expires": until} if overlap_seconds else {"revoked": now}
            connection.execute(_update_key(old.id).values(replaced_by=new.id, **ends))
            if actor is not None:
                record(connection, actor, "key.rotate", old.id, name=old.name, replaced_by=new.id, valid_until=until)
        return text, new

    def adopt(self, identity: str, actor: Actor) -> StoredKey:
        """Make the actor the issuer of an active key, in place of its maker. Raises NotFound, and Conflict for an ended
        key.

        The text stays the same, so the maker can still use it. Only a rotation ends that.
        """
        with self.database.write() as connection:
            lock_accounts(connection)
            key = key_queries.get_key(connection, identity, lock=True)
            state = key.get_state(time.time())
            if state != "active":
                message = f"The key {key.id} is {state}, so it cannot be taken over. Create another key."
                raise Conflict(message, code=f"key_{state}")
            if not _is_same_key(connection, actor.id, key):
                connection.execute(_update_key(key.id).values(issued_by=actor.id))
                bump_revision(connection)
                record(connection, actor, "key.adopt", key.id, name=key.name, before=key.issuer)
            return key_queries.get_key(connection, identity)

    def change(self, identity: str, *, actor: Actor | None = None, **fields: Any) -> StoredKey:
        """Change fields of a key, as far as they are in CHANGEABLE, and return the key. Raises NotFound, and Conflict
        for a revoked key.
        """
        if unknown := set(fields) - CHANGEABLE:
            raise TypeError(f"fields that cannot be changed: {', '.join(sorted(unknown))}")
        with self.database.write() as connection:
            lock_accounts(connection)
            old = key_queries.get_key(connection, identity, lock=True)
            if fields.get("expires") == old.expires:
                fields.pop("expires", None)  # an expiry in the past may stay
            new = replace(old, **check_fields(fields))
            _check_change(old, new)
            changed = [name for name in sorted(fields) if getattr(new, name) != getattr(old, name)]
            if not changed:
                return old
            if actor is not None and old.user is None and not has_maker(old) and widens_rights(old, new):
                new = replace(new, issued_by=actor.id)  # these rights have no issuer yet
            values = {name: getattr(new, name) for name in (*changed, "issued_by")}
            connection.execute(_update_key(identity).values(values))
            bump_revision(connection)
            if actor is not None:
                before = {name: getattr(old, name) for name in changed}
                after = {name: getattr(new, name) for name in changed}
                record(connection, actor, "key.change", identity, name=new.name, before=before, after=after)
        return new

    def touch(self, times: Mapping[str, float]) -> None:
        """Record the time of each key's last use, by id. The revision stays the same, because permissions do not change."""
        keys = tables.keys
        change = (
            update(keys)
            .where(keys.c.id == bindparam("wanted"))
            .where(func.coalesce(keys.c.last_used, 0) < bindparam("moment"))
            .values(last_used=bindparam("moment"))
        )
        with self.database.write() as connection:
            lock_accounts(connection)
            connection.execute(
                change, [{"wanted": identity, "moment": moment} for identity, moment in sorted(times.items())]
            )


def _insert_key(connection: Connection, key: StoredKey) -> None:
    row = {column.name: getattr(key, column.name) for column in tables.keys.columns}
    connection.execute(insert(tables.keys), [row])
    bump_revision(connection)


def _update_key(identity: str) -> Any:
    return update(tables.keys).where(tables.keys.c.id == identity)


def _revoke_key(connection: Connection, identity: str, actor: Actor | None) -> bool:
    change = _update_key(make_storable(identity)).where(tables.keys.c.revoked.is_(None)).values(revoked=time.time())
    name = connection.execute(change.returning(tables.keys.c.name)).scalar_one_or_none()
    if name is None:
        return False
    bump_revision(connection)
    if actor is not None:
        record(connection, actor, "key.revoke", identity, name=name)
    return True


def _is_same_key(connection: Connection, actor_id: str, key: StoredKey) -> bool:
    """Return whether the actor is the key itself, before or after a rotation. A key cannot be its own issuer."""
    query = select(tables.keys.c.counted_as).where(tables.keys.c.id == make_storable(actor_id))
    row = connection.execute(query).one_or_none()
    return row is not None and (row.counted_as or actor_id) == key.usage_id


def _check_is_current(key: StoredKey, now: float) -> None:
    state = key.get_state(now)
    if state != "active":
        raise Conflict(
            f"The key {key.id} is {state}, so it cannot be rotated. Create another key.", code=f"key_{state}"
        )
    if key.replaced_by is not None:
        message = f"The key {key.id} was rotated already: its successor is {key.replaced_by}. Rotate that key."
        raise Conflict(message, code="key_rotated")


def _check_change(old: StoredKey, new: StoredKey) -> None:
    if old.revoked is not None:
        raise Conflict(f"The key {old.id} is revoked, so it cannot be changed. Create another key.", code="key_revoked")
    if old.replaced_by is not None and (new.expires is None or new.expires > (old.expires or 0)):
        message = (
            f"The key {old.id} was rotated, so it cannot be valid for longer. Use its successor {old.replaced_by}."
        )
        raise Conflict(message, code="key_rotated")


def _describe_key(key: StoredKey) -> dict[str, Any]:
    """Return the audit log's description of a new key: its name, its other set fields, and the account if it is shared."""
    names = ("user", "team", "role", *LIST_FIELDS, "limits", "budget", "expires")
    shared = {} if key.account in (key.id, key.user) else {"account": key.account}
    return {"name": key.name, **shared, **{name: getattr(key, name) for name in names if getattr(key, name)}}


_READ_REVISION = select(tables.meta.c.value).where(tables.meta.c.name == "revision")
