"""The watch of a configuration in the database: a process applies each new version, and keeps a copy of it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from tornado_gate.config.stored import StoredConf
from tornado_gate.database.engine import DatabaseError
from tornado_gate.database.opening import migrate
from tornado_gate.server.control.conf_copy import write_copy
from tornado_gate.server.control.conf_versions import Mark, read_conf, read_mark
from tornado_gate.server.process.reloader import Reloader
from tornado_gate.server.services import Services

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5


class ConfWatch:
    """The watch of one process. `newest` is the version to load; it begins with the one that the process has started with."""

    def __init__(self, services: Services, start: StoredConf, data_dir: Path) -> None:
        self.newest = start
        self._services = services
        self._data_dir = data_dir
        self._copied: StoredConf | None = start if start.alarm else None
        self._mark: Mark | None = None
        self._is_away = bool(start.alarm)
        self._needs_migration = bool(start.alarm)
        self._asked = asyncio.Event()
        self._metrics = services.gate.metrics.add_stored_conf_metrics()

    def request_look(self) -> None:
        """Look for a new version soon."""
        self._asked.set()

    async def watch(self, reloader: Reloader) -> None:
        """Look for new versions, and let `reloader` apply them."""
        self._services.configuration.on_change.append(self.request_look)
        while True:
            self._asked.clear()
            try:
                if await self._find_new_version():
                    reloader.request_reload()
                await self.keep_copy()
            except Exception:  # if the watch ended, the node would keep its version
                log.exception("unexpected error while watching the configuration in the database")
            self._report()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._asked.wait()

    async def _find_new_version(self) -> bool:
        """Read the newest version if anything has changed. Return whether it differs from the last one."""
        database = self._services.database
        try:
            if self._needs_migration:  # the process has started without the database
                await database.run(migrate, database)
                self._needs_migration = False
            mark = await database.run(read_mark, database)
            if mark == self._mark:
                return False
            newest = await database.run(read_conf, database, self.newest.address)
        except DatabaseError as error:
            if not self._is_away:
                log.error("the configuration cannot be read from the database; this node keeps its version: %s", error)
            self._is_away = True
            return False
        if self._is_away:
            log.warning("the configuration is read from the database")
        self._is_away, self._mark = False, mark
        if newest is None or _is_same(newest, self.newest):
            return False
        self.newest = newest
        return True

    async def keep_copy(self) -> None:
        """Copy the version that this process has applied last, unless it is copied."""
        applied = self._services.gate.snapshot.config.path
        if isinstance(applied, StoredConf) and applied is not self._copied:
            self._copied = applied
            try:
                await asyncio.to_thread(write_copy, self._data_dir, applied)
            except OSError as error:
                log.error("the copy of the configuration cannot be written below %s: %s", self._data_dir, error)

    def _report(self) -> None:
        applied = self._services.gate.snapshot.config.path
        self._metrics.set_versions(
            applied.number if isinstance(applied, StoredConf) else 0,
            self.newest.number,
            is_refused=self._services.configuration.refused_version is not None,
            is_away=self._is_away,
        )


def _is_same(one: StoredConf, other: StoredConf) -> bool:
    """Return whether two versions have the same effect. Drafts of secrets, which no version names, are not compared."""
    texts = (one.number, one.text) == (other.number, other.text)
    return texts and {name: entry["value"] for name, entry in one.secrets.items()} == {
        name: entry["value"] for name, entry in other.secrets.items()
    }
