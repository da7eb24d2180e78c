"""Sessions of browsers. They are found by the digest of a random cookie value, which is new at every sign-in.

Their owner can list and end them.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection, Row

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.errors import AccountError, Denied, NotFound
from tornado_gate.accounts.key_ends import revoke_keys_of_ended_sessions
from tornado_gate.accounts.passwords import check_password, hash_password, verify_password
from tornado_gate.accounts.people import Actor, Session, User
from tornado_gate.accounts.revision import lock_accounts
from tornado_gate.accounts.rows import USER_COLUMNS, USERS, Part, end_sessions, make_user, read_user
from tornado_gate.accounts.texts import make_storable, shorten
from tornado_gate.accounts.throttle import PAIR_ATTEMPTS, Throttle, make_bound
from tornado_gate.accounts.tokens import digest_token, make_id, make_token
from tornado_gate.database import tables
from tornado_gate.database.engine import Database

TOUCH_SECONDS = 60.0
_SESSIONS = tables.sessions
_COLUMNS = [column.label(f"session_{column.name}") for column in _SESSIONS.columns if column.name != "digest"]


class Sessions(Part):
    """The sessions of all users.

    A session ends `lifetime_seconds` after its sign-in. A reload changes the lifetime of later sessions.
    """

    def __init__(self, database: Database, throttle: Throttle, lifetime_seconds: float) -> None:
        super().__init__(database)
        self.lifetime_seconds = lifetime_seconds
        self._throttle = throttle

    def create(
        self, connection: Connection, user_id: str, *, address: str, agent: str, replaces: str = ""
    ) -> tuple[str, Session]:
        """Create a session with a new cookie value, end the session of the cookie `replaces`, and delete expired ones."""
        now = time.time()
        cookie = make_token()
        _delete_sessions(connection, now, replaces)
        row = {
            "id": make_id("session"),
            "digest": digest_token(cookie),
            "user": user_id,
            "created": now,
            "last_seen": now,
            "expires": now + self.lifetime_seconds,
            "address": shorten(address, 60),
            "agent": shorten(agent, 300),
        }
        connection.execute(insert(_SESSIONS), [row])
        connection.execute(update(USERS).where(USERS.c.id == user_id).values(last_login=now))
        created = connection.execute(_select_sessions().where(_SESSIONS.c.id == row["id"])).one()
        return cookie, _make_session(created)

    def find_session(self, cookie: str) -> Session | None:
        """Return the session of a cookie's value; None if it is unknown or has ended, or its user is disabled.

        Records the time of this use, at most once a minute.
        """
        now = time.time()
        query = _select_sessions().where(
            _SESSIONS.c.digest == digest_token(cookie), _SESSIONS.c.expires > now, USERS.c.state == "active"
        )
        with self.database.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        session = _make_session(row)
        if session.last_seen < now - TOUCH_SECONDS:
            with self.database.write() as connection:
                connection.execute(update(_SESSIONS).where(_SESSIONS.c.id == session.id).values(last_seen=now))
        return session

    def list_open(self, user_id: str) -> list[Session]:
        """Return the sessions of a user that have not ended, last used first."""
        query = _select_sessions().where(_SESSIONS.c.user == make_storable(user_id), _SESSIONS.c.expires > time.time())
        with self.database.read() as connection:
            rows = connection.execute(query.order_by(_SESSIONS.c.last_seen.desc(), _SESSIONS.c.id)).all()
        return [_make_session(row) for row in rows]

    def end(self, user_id: str, session_id: str, actor: Actor | None = None) -> None:
        """End one session of a user. Raises NotFound if the user has no such session."""
        condition = (_SESSIONS.c.user == user_id, _SESSIONS.c.id == make_storable(session_id))
        with self.database.write() as connection:
            lock_accounts(connection)
            if not connection.execute(delete(_SESSIONS).where(*condition)).rowcount:
                raise NotFound("There is no such session.", code="unknown_session")
            revoke_keys_of_ended_sessions(connection)
            user = read_user(connection, user_id)
            record(connection, actor or make_actor(user), "session.end", session_id, user=user_id)

    def end_others(self, user_id: str, keep_id: str = "", actor: Actor | None = None) -> int:
        """End all sessions of a user except one. Returns the number of ended sessions. Raises NotFound for an unknown
        user.
        """
        with self.database.write() as connection:
            lock_accounts(connection)
            user = read_user(connection, user_id)
            ended = end_sessions(connection, user_id, keep_id)
            if ended:
                record(connection, actor or make_actor(user), "session.end_others", user_id, ended=ended)
        return ended

    def change_password(self, session: Session, old: str, new: str, actor: Actor) -> None:
        """Change the password of the session's user. All other sessions end.

        Raises AccountError (`wrong_password`, `invalid_password`), Denied for a user without a password,
        TooManyAttempts.
        """
        user_id = session.user.id
        password = check_password(new, "new")
        bound = make_bound(PAIR_ATTEMPTS, "password", user_id)
        attempt = self._throttle.begin([bound])
        with self.database.read() as connection:
            stored = connection.execute(select(USERS.c.password_hash).where(USERS.c.id == user_id)).scalar_one_or_none()
        if stored is None:
            self._throttle.cancel(attempt)
            message = "This account has no password. An administrator can create a reset link, which sets one."
            raise Denied(message, code="no_password")
        if not verify_password(stored, old):
            raise AccountError("The current password is wrong.", code="wrong_password", field="old")
        hashed = hash_password(password)
        with self.database.write() as connection:
            lock_accounts(connection)
            self._throttle.cancel_within(connection, attempt, [bound])
            set_password(connection, user_id, hashed, keep_session=session.id)
            record(connection, actor, "user.change_password", user_id)


def set_password(connection: Connection, user_id: str, hashed: str, keep_session: str = "") -> None:
    """Store a hash. All sessions except one and all reset links of the user end."""
    now = time.time()
    connection.execute(update(USERS).where(USERS.c.id == user_id).values(password_hash=hashed, password_changed=now))
    connection.execute(delete(tables.reset_links).where(tables.reset_links.c.user == user_id))
    end_sessions(connection, user_id, keep_session)


def _delete_sessions(connection: Connection, now: float, replaces: str) -> None:
    """Delete expired sessions, and the one of the cookie `replaces`."""
    ended = _SESSIONS.c.expires <= now
    if replaces:
        ended = ended | (_SESSIONS.c.digest == digest_token(replaces))
    if connection.execute(delete(_SESSIONS).where(ended)).rowcount:
        revoke_keys_of_ended_sessions(connection)


def make_actor(user: User, *, address: str = "", request_id: str = "") -> Actor:
    """Return the actor for actions of a user."""
    return Actor(id=user.id, name=user.email, role=user.role, address=address, request_id=request_id)


def _select_sessions() -> Any:
    return select(*USER_COLUMNS, *_COLUMNS).select_from(_SESSIONS.join(USERS))


def _make_session(row: Row[Any]) -> Session:
    names = ("id", "created", "last_seen", "expires", "address", "agent")
    return Session(user=make_user(row), **{name: row._mapping[f"session_{name}"] for name in names})
