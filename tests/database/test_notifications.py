"""The connection on which a process receives notices, when it breaks."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import PostgresServer
from tornado_gate.database.engine import Database
from tornado_gate.database.notifications import EVERYTHING, KEYS, Listener, send_notice

BREAK = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
CONNECTIONS = 20


class BusyListener(Listener):
    """A listener in a process that opens connections as soon as the listener's own connection breaks."""

    def __init__(self, database: Database, notices: asyncio.Queue[str]) -> None:
        super().__init__(database, notices.put_nowait)
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.readable: asyncio.Queue[int] = asyncio.Queue()

    def _read_notices(self, connection: Any, ended: asyncio.Future[None]) -> None:
        super()._read_notices(connection, ended)
        if ended.done() and not self.pairs:
            self.pairs = [socket.socketpair() for _ in range(CONNECTIONS)]
            for number, (reader, _) in enumerate(self.pairs):
                asyncio.get_running_loop().add_reader(reader, self._read, number)

    def _read(self, number: int) -> None:
        self.pairs[number][0].recv(1)
        self.readable.put_nowait(number)

    def close_pairs(self) -> None:
        for pair in self.pairs:
            asyncio.get_running_loop().remove_reader(pair[0])
            for end in pair:
                end.close()


@pytest.mark.gen_test(timeout=60)
async def test_a_listener_whose_connection_breaks_leaves_the_connections_of_others_alone(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    database, notices = Database(tmp_path, postgres.address("postgres")), asyncio.Queue[str]()
    listener = BusyListener(database, notices)
    listener.start()
    assert await notices.get() == EVERYTHING
    postgres.execute(BREAK)
    assert await notices.get() == EVERYTHING, "it listens again"
    for _, writer in listener.pairs:
        writer.send(b"x")
    assert {await listener.readable.get() for _ in range(CONNECTIONS)} == set(range(CONNECTIONS))
    with database.write() as connection:
        send_notice(connection, KEYS)
    assert await notices.get() == KEYS
    await listener.close()
    listener.close_pairs()
    database.close()
