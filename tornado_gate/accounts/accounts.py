"""`Accounts`: everything that pages, the admin API and commands do with users, sessions, teams and invitations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from tornado_gate.accounts.devices import Devices
from tornado_gate.accounts.identities import IdentitySignIn
from tornado_gate.accounts.limit_overrides import LimitOverrides
from tornado_gate.accounts.links import Invitations, ResetLinks
from tornado_gate.accounts.passwords import CONCURRENT_HASHES
from tornado_gate.accounts.sessions import Sessions
from tornado_gate.accounts.setup_tokens import SetupTokens
from tornado_gate.accounts.sign_in import PasswordSignIn
from tornado_gate.accounts.sign_up import SignUp
from tornado_gate.accounts.teams import Members, Organisations, Teams
from tornado_gate.accounts.throttle import Throttle
from tornado_gate.accounts.users import Users
from tornado_gate.database.engine import Database

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Accounts:
    """People and what they may do, in the database: one object for each subject. Synchronous; from an event loop use `run`.

    Every method raises DatabaseError if the database cannot be used, and AccountError, with a message for people, if it refuses.
    Every change is in the audit log. A change of what a key may do takes effect in every process within a second.
    """

    def __init__(self, database: Database, *, session_seconds: float) -> None:
        self.database = database
        self.throttle = Throttle(database)
        self.users = Users(database)
        self.sessions = Sessions(database, self.throttle, session_seconds)
        self.devices = Devices(database)
        self.sign_in = PasswordSignIn(database, self.throttle, self.sessions, self.devices)
        self.identities = IdentitySignIn(database, self.sessions)
        self.sign_up = SignUp(database, self.throttle, self.sessions)
        self.setup = SetupTokens(database)
        self.invitations = Invitations(database)
        self.reset_links = ResetLinks(database)
        self.organisations = Organisations(database)
        self.teams = Teams(database)
        self.members = Members(database)
        self.limit_overrides = LimitOverrides(database)
        self._threads: ThreadPoolExecutor | None = None

    async def run(
        self, function: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """Return the result of `function`, which runs in a thread for accounts.

        Hashes of passwords are slow: in the threads of the database they would delay the look-up of keys.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(CONCURRENT_HASHES, thread_name_prefix="accounts")
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*arguments, **named))

    def close(self) -> None:
        """End the threads. The database is closed by its owner."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None
