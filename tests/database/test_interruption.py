"""A server that is silent: a call ends within its time limit, its thread is free again, and the next call works."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from tests.support.postgres import PostgresServer
from tornado_gate.database.engine import CONNECTIONS, Database, DatabaseError
from tornado_gate.database.interruption import DatabaseCall


@pytest.fixture
def server_database(postgres: PostgresServer, tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path, postgres.address("postgres"))
    yield database
    database.close()


@contextmanager
def silent(database: Database) -> Iterator[None]:
    """Suspend the server's processes for the connections of a database, as a network that swallows packets."""

    def list_processes() -> list[int]:
        with database.read() as connection:
            rows = connection.execute(
                text("SELECT pid FROM pg_stat_activity WHERE application_name = 'tornado-gate' ORDER BY pid")
            )
            return [row[0] for row in rows]

    processes = list_processes()
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def read_one(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT 1")).scalar_one())


def sleep_in_server(database: Database, seconds: float) -> None:
    with database.read() as connection:
        connection.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})


@pytest.mark.gen_test(timeout=60)
async def test_a_silent_server_ends_a_call_in_time_and_the_next_one_has_a_new_connection(
    server_database: Database,
) -> None:
    assert await server_database.run(read_one, server_database) == 1
    with silent(server_database):
        began = time.monotonic()
        with pytest.raises(DatabaseError, match=r"not answered within 0\.3 s"):
            await server_database.run_within(0.3, read_one, server_database)
        assert time.monotonic() - began < 15
        assert await server_database.run_within(10, read_one, server_database) == 1


@pytest.mark.gen_test(timeout=60)
async def test_calls_that_wait_for_a_thread_end_in_time_too_and_all_threads_become_free(
    server_database: Database,
) -> None:
    calls = [server_database.run_within(0.5, sleep_in_server, server_database, 20) for _ in range(CONNECTIONS + 3)]
    began = time.monotonic()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [DatabaseError] * len(calls)
    assert time.monotonic() - began < 15, "the server sleeps for 20 s"
    ones = await asyncio.gather(
        *(server_database.run_within(10, read_one, server_database) for _ in range(CONNECTIONS * 2))
    )
    assert ones == [1] * CONNECTIONS * 2


@pytest.mark.gen_test(timeout=60)
async def test_a_connection_that_the_server_has_closed_is_replaced(
    server_database: Database, postgres: PostgresServer
) -> None:
    assert await server_database.run(read_one, server_database) == 1
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tornado-gate'")
    assert await server_database.run(read_one, server_database) == 1


def test_a_call_whose_connection_is_lost_already_can_be_interrupted(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.address("postgres")) as connection:
        postgres.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        call = DatabaseCall(lambda: None)
        call.hold(connection)
        call.interrupt()
        assert call.is_interrupted
