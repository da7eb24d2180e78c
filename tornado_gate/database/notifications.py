"""Notices between the processes of all nodes that share a PostgreSQL database: NOTIFY when a transaction commits, and LISTEN.

A notice only says what to read again. It can be lost, for example with its connection, so every reader also polls.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from sqlalchemy import text
from sqlalchemy.engine import Connection

from tornado_gate.database.engine import Database, DatabaseError

log = logging.getLogger(__name__)

CHANNEL: Final = "tornado_gate"
KEYS: Final = "keys"
"""The subject of changes of keys, users, teams and limits."""
CONFIGURATION: Final = "configuration"
"""The subject of new versions of the configuration, and of its secrets."""
EVERYTHING: Final = ""
"""The subject when notices may have been lost."""
RETRY_SECONDS: Final = 1.0


def send_notice(connection: Connection, subject: str) -> None:
    """Send a notice to all listeners when the transaction of `connection` commits. SQLite has no listeners."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_notify(:channel, :subject)"), {"channel": CHANNEL, "subject": subject})


class Listener:
    """The connection on which one process receives notices. If it is lost, it is opened again.

    `on_notice` gets the subject of each notice, and EVERYTHING each time the connection has been opened. Use it from the event
    loop: the connection is opened in a thread, and read when its socket is readable.
    """

    def __init__(self, database: Database, on_notice: Callable[[str], None]) -> None:
        self._database = database
        self._on_notice = on_notice
        self._task: asyncio.Task[None] | None = None
        self._is_lost = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_listening(), name="listen to notices")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _keep_listening(self) -> None:
        while True:
            try:
                await self._listen()
                cause = "the connection was closed"
            except DatabaseError as error:
                cause = str(error)
            except Exception as error:
                cause = f"unexpected {type(error).__name__}"
                if not self._is_lost:
                    log.exception("unexpected error while listening to notices of other nodes")
            if not self._is_lost:
                log.warning("notices of other nodes do not arrive, changes are found by polling: %s", cause)
            self._is_lost = True
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        """Receive notices until the connection ends. Raises DatabaseError if it cannot be opened."""
        connection = await self._database.run(self._database.listen, CHANNEL)
        loop, driver = asyncio.get_running_loop(), connection.connection.dbapi_connection
        socket = cast(Any, driver).pgconn
        # libpq closes its descriptor when the connection breaks. The next connection of a caller may then get the number.
        number, ended = os.dup(socket.socket), loop.create_future()
        loop.add_reader(number, self._read_notices, socket, ended)
        try:
            if self._is_lost:
                log.warning("notices of other nodes arrive again")
            self._is_lost = False
            self._on_notice(EVERYTHING)
            await ended
        finally:
            loop.remove_reader(number)
            os.close(number)
            with suppress(Exception):  # the connection may be broken
                connection.close()

    def _read_notices(self, socket: Any, ended: asyncio.Future[None]) -> None:
        """Read what has arrived, without waiting."""
        try:
            socket.consume_input()
            subjects: list[str] = []
            while (notice := socket.notifies()) is not None:
                subjects.append(notice.extra.decode("utf-8", "replace"))
        except Exception:  # of the driver: the server has closed the connection
            if not ended.done():
                ended.set_result(None)
            return
        for subject in dict.fromkeys(subjects):
            self._on_notice(subject)
