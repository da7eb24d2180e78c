"""The PostgreSQL of the tests leaves nothing, whatever happens to the tests."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from tests.support.process import Child

KILLED = """
import os, signal
from tests.support.postgres import PostgresServer
server = PostgresServer()
print("server", (server.folder / "data/postmaster.pid").read_text().split()[0], server.watchdog.pid, server.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.qa
def test_a_server_ends_with_a_process_of_tests_that_is_killed() -> None:
    tests = Child([sys.executable, "-c", KILLED])
    told = tests.wait_for_line(r"^server (\d+) (\d+) (\S+)$")
    for pid in (int(told[1]), int(told[2])):
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue  # it has ended already
        assert select.select([process], [], [], 60)[0], f"process {pid} still runs"
        os.close(process)
    assert not Path(told[3]).exists()
