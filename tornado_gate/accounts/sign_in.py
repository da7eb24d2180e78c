"""Sign-in with e-mail and password. The response and its time do not reveal whether an e-mail has an account."""

from __future__ import annotations

from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.devices import Devices
from tornado_gate.accounts.errors import Denied, SignInFailed
from tornado_gate.accounts.passwords import check_password, hash_password, needs_new_hash, verify_password
from tornado_gate.accounts.people import Actor, Session, User
from tornado_gate.accounts.revision import lock_accounts
from tornado_gate.accounts.rows import USER_COLUMNS, USERS, Part, make_user
from tornado_gate.accounts.sessions import Sessions, make_actor
from tornado_gate.accounts.texts import make_email_key
from tornado_gate.accounts.throttle import (
    ADDRESS_ATTEMPTS,
    DEVICE_ATTEMPTS,
    PAIR_ATTEMPTS,
    Bound,
    Throttle,
    find_network,
    make_bound,
)
from tornado_gate.database.engine import Database


class PasswordSignIn(Part):
    """Sign-in of browsers, with limits of attempts that spare known devices."""

    def __init__(self, database: Database, throttle: Throttle, sessions: Sessions, devices: Devices) -> None:
        super().__init__(database)
        self._throttle = throttle
        self._sessions = sessions
        self._devices = devices

    def with_password(
        self, email: str, password: str, *, address: str, agent: str, device: str = "", replaces: str = ""
    ) -> tuple[str, Session]:
        """Sign in. Returns the value of a new cookie, and its session. The session of the cookie `replaces` ends.

        `device` is the result of `Devices.make_token` after an earlier sign-in. Raises SignInFailed, TooManyAttempts.
        Raises Denied for a disabled account, if the password is right.
        """
        key = make_email_key(email)
        user, stored = self._find_account(key)
        bounds = self._make_bounds(key, user, address, device)
        attempt = self._throttle.begin(bounds)
        if not verify_password(stored, password) or user is None or stored is None:
            self._record_failure(user, address)
            raise SignInFailed
        if user.state != "active":
            self._record_failure(user, address)
            raise Denied("This account is disabled. Ask an administrator to enable it.", code="account_disabled")
        renewed = hash_password(check_password(password)) if needs_new_hash(stored) else stored
        with self.database.write() as connection:
            lock_accounts(connection)
            if not _is_unchanged(connection, user.id, stored):
                raise SignInFailed  # the password was changed, or the account disabled, during the check
            if renewed != stored:
                connection.execute(update(USERS).where(USERS.c.id == user.id).values(password_hash=renewed))
            self._throttle.cancel_within(connection, attempt, bounds[:1])
            made = self._sessions.create(connection, user.id, address=address, agent=agent, replaces=replaces)
            record(connection, make_actor(user, address=address), "user.sign_in", user.id, session=made[1].id)
        return made

    def _find_account(self, key: str) -> tuple[User | None, str | None]:
        with self.database.read() as connection:
            row = connection.execute(select(*USER_COLUMNS).where(USERS.c.email_key == key)).one_or_none()
        return (None, None) if row is None else (make_user(row), row.password_hash)

    def _make_bounds(self, key: str, user: User | None, address: str, device: str) -> list[Bound]:
        """Return the bounds of an attempt. A successful attempt resets the first one, but not the one of the address."""
        if user is not None and self._devices.knows(device, user.id, user.password_changed or 0.0):
            return [make_bound(DEVICE_ATTEMPTS, "device", device)]
        network = find_network(address)
        return [make_bound(PAIR_ATTEMPTS, "pair", key, network), make_bound(ADDRESS_ATTEMPTS, "address", network)]

    def _record_failure(self, user: User | None, address: str) -> None:
        """Record a failure without the e-mail of an unknown account, because people type passwords there."""
        name = "unknown" if user is None else user.email
        actor = Actor(id="" if user is None else user.id, name=name, role="member", address=address)
        with self.database.write() as connection:
            record(connection, actor, "user.sign_in_failed", actor.id)


def _is_unchanged(connection: Connection, user_id: str, stored: str) -> bool:
    query = select(USERS.c.password_hash).where(USERS.c.id == user_id, USERS.c.state == "active")
    return connection.execute(query).scalar_one_or_none() == stored
