"""The accounts in the database: synchronous, from an event loop use `database.run`."""

from __future__ import annotations

from tornado_gate.accounts.people import Session
from tornado_gate.database.engine import Database


class Accounts:
    """All methods raise AccountError for what is refused, and DatabaseError."""

    def __init__(self, database: Database, *, session_seconds: float) -> None:
        self._database = database
        self.session_seconds = session_seconds

    def find_session(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it is unknown or has ended."""
        return None
