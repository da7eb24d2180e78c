"""The heartbeat of a process: its row in the table of nodes, written regularly and after each change of the configuration."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress

from tornado_gate import __version__
from tornado_gate.config.stored import get_number
from tornado_gate.database.engine import DatabaseError
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.control.nodes import HEARTBEAT_SECONDS, ProcessRow, announce, remove
from tornado_gate.server.process.configuration_state import ConfigurationState

log = logging.getLogger(__name__)

MAX_FAULT: int = 1000
"""The most characters of the faults that are announced."""
CLOSE_SECONDS = 2.0


class Announcer:
    """The announcements of one process of the node `node`. Call `start` inside the event loop."""

    def __init__(self, gate: Gate, configuration: ConfigurationState, node: str) -> None:
        self._gate = gate
        self._configuration = configuration
        self._node = node
        self._began = time.monotonic()
        self._asked = asyncio.Event()
        self._is_away = True
        self._is_reported = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._configuration.on_change.append(self._asked.set)
        self._task = asyncio.create_task(self._announce_regularly(), name="announce this node")

    async def close(self) -> None:
        """Stop, and delete the row, unless the database is away."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if not self._is_away:
            with suppress(DatabaseError, TimeoutError):  # then the row expires
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._gate.database.run(remove, self._gate.database, self._node, os.getpid())

    async def _announce_regularly(self) -> None:
        while True:
            self._asked.clear()
            try:
                await self._gate.database.run(announce, self._gate.database, self._make_row())
                if self._is_away:
                    log.info("this node has announced itself as %s", self._node)
                self._is_away = self._is_reported = False
            except DatabaseError as error:
                if not self._is_reported:
                    log.warning("this node cannot announce itself to the others, will retry: %s", error)
                self._is_away = self._is_reported = True
            except Exception:
                log.exception("unexpected error while this node announces itself, will retry")
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._asked.wait()

    def _make_row(self) -> ProcessRow:
        config, rejected = self._gate.snapshot.config, self._configuration.rejected
        return ProcessRow(
            id=self._node,
            process=os.getpid(),
            host=socket.gethostname()[:255],
            code=__version__,
            uptime=time.monotonic() - self._began,
            conf_version=get_number(config.path),
            conf_digest=config.version,
            applied=max(0.0, time.time() - self._configuration.applied_at),
            refused_version=self._configuration.refused_version,
            fault="\n".join(rejected.faults)[:MAX_FAULT] if rejected else "",
        )
