"""The timer of a process: it looks for causes, raises and resolves alerts, and sends messages.

Every process looks at its own circuits and keys. One process of each machine, which holds the lock of a file, also looks at
the database and the spool, resolves alerts and sends messages. The database decides between machines: see `store`.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from tornado_gate.alerts import present
from tornado_gate.alerts.sending import send
from tornado_gate.alerts.store import AlertStore, Claimed
from tornado_gate.alerts.values import Alert, Notice, SendFailed
from tornado_gate.config.alerting import AlertsConfig, SinkConfig
from tornado_gate.database.engine import DatabaseError
from tornado_gate.http.fetch import Fetcher
from tornado_gate.pipeline.gate import Gate
from tornado_gate.storage.private import make_folder, open_private

log = logging.getLogger(__name__)

FOLDER: Final = "alerts"
UNSEEN_INTERVALS: Final = 3
"""The intervals after which a cause that no process sees any more is resolved."""
LEAST_UNSEEN_SECONDS: Final = 2.0
PRUNE_SECONDS: Final = 3600.0
MAX_DIRECT: Final = 20
"""Alerts that are sent while the database is away, and attempts for each."""
DIRECT_ATTEMPTS: Final = 6


class AlertMetrics(Protocol):
    """The measurements of alerts; `telemetry.metrics.alerts.AlertMetrics` is the implementation."""

    def count_raised(self, kind: str) -> None: ...
    def count_message(self, sink: str, result: str, number: int = 1) -> None: ...
    def set_queued(self, number: int) -> None: ...


class AlertWatch:
    """The timer of one process. Call `start` inside the event loop, and `close` before it ends. `rules` may be replaced.

    `find_faults` returns the faults of a rejected configuration, () if there is none.
    """

    def __init__(
        self,
        gate: Gate,
        fetcher: Fetcher,
        metrics: AlertMetrics,
        find_faults: Callable[[], Sequence[str]],
        rules: AlertsConfig,
    ) -> None:
        self.rules = rules
        self._gate = gate
        self._fetcher = fetcher
        self._metrics = metrics
        self._find_faults = find_faults
        self._store = AlertStore(gate.database)
        self._folder = gate.snapshot.config.server.data_dir / FOLDER
        self._lock: int | None = None
        self._runner: asyncio.Task[None] | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._refused_since = time.time()
        self._prune_at = 0.0
        self._direct: dict[str, int] = {}
        self._is_database_away = False

    def start(self) -> None:
        self._runner = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop. A message that is being sent is sent again by the next process that looks."""
        tasks = [task for task in (self._runner, *self._sending.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._runner, self._sending = None, {}
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:  # the timer must survive, or no alert would ever be sent
                log.exception("unexpected error while looking for alerts")
            await asyncio.sleep(self.rules.interval_seconds)

    async def look(self) -> None:
        """Look once: raise and resolve alerts, and begin to send what is due."""
        if self._lock is None:
            self._lock = await asyncio.to_thread(_take_lock, self._folder)
        alerts = present.find_process_alerts(self._gate, self._find_faults())
        is_leader = self._lock is not None
        if is_leader:
            alerts += await asyncio.to_thread(present.find_machine_alerts, self._gate)
        try:
            await self._keep_account(alerts, is_leader=is_leader)
        except DatabaseError as error:
            if not self._is_database_away:
                log.warning("alerts cannot be recorded, because the database is away: %s", error)
            self._is_database_away = True
            if is_leader:
                await self._send_directly(alerts)

    async def _keep_account(self, alerts: list[Alert], *, is_leader: bool) -> None:
        """Raise, renew and resolve alerts in the database. Raises DatabaseError."""
        run, sinks = self._gate.database.run, tuple(self.rules.sinks.values())
        if is_leader:
            begun = time.time()
            alerts += await run(present.find_account_alerts, self._gate, self._refused_since)
            self._refused_since = begun - 2.0  # rows are written within a second
        if alerts:
            new, dropped = await run(self._store.record, alerts, sinks, frozenset(self._direct))
            for alert in new:
                log.warning("alert: %s", alert.title)
                self._metrics.count_raised(alert.kind)
            self._count_dropped(dropped)
        self._is_database_away = False
        self._direct.clear()
        if is_leader:
            await self._maintain(sinks)

    async def _maintain(self, sinks: Sequence[SinkConfig]) -> None:
        """Resolve alerts, delete old ones, and send what is due. Raises DatabaseError."""
        run, now = self._gate.database.run, time.time()
        unseen = max(LEAST_UNSEEN_SECONDS, UNSEEN_INTERVALS * self.rules.interval_seconds)
        _, dropped = await run(self._store.resolve, unseen, sinks)
        self._count_dropped(dropped)
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_SECONDS
            await run(self._store.prune)
            await run(self._store.drop_foreign, list(self.rules.sinks))
        for sink in sinks:
            if sink.name not in self._sending:
                self._sending[sink.name] = asyncio.create_task(self._send_due(sink))
        self._metrics.set_queued(await run(self._store.count_queued))

    def _count_dropped(self, number: int) -> None:
        if number:
            log.error("%d messages about alerts were dropped, because too many wait", number)
            self._metrics.count_message("", "dropped", number)

    async def _send_due(self, sink: SinkConfig) -> None:
        """Send the messages that are due for a sink, one after the other."""
        run = self._gate.database.run
        try:
            for message in await run(self._store.claim, sink):
                await self._send_claimed(sink, message)
        except DatabaseError as error:
            log.warning("messages to the sink '%s' wait for the database: %s", sink.name, error)
        finally:
            self._sending.pop(sink.name, None)

    async def _send_claimed(self, sink: SinkConfig, message: Claimed) -> None:
        error = ""
        try:
            await send(self._fetcher, sink, message.notice, self._gate.snapshot.config.server.public_url)
        except SendFailed as failed:
            error = str(failed)
        state = await self._gate.database.run(self._store.finish, message, error)
        result = {"queued": "retried"}.get(state, state)
        self._metrics.count_message(sink.name, result)
        if error:
            log.warning("the sink '%s' did not accept a message (%s): %s", sink.name, result, error)

    async def _send_directly(self, alerts: Sequence[Alert]) -> None:
        """Send alerts while the database is away. Attempts are bounded, and counted by this process."""
        for alert in alerts:
            tried = self._direct.get(alert.cause, 0)
            if tried >= DIRECT_ATTEMPTS or (not tried and len(self._direct) >= MAX_DIRECT):
                continue
            sinks = [sink for sink in self.rules.sinks.values() if alert.kind in sink.events]
            results = await asyncio.gather(*(self._send_one_directly(sink, alert) for sink in sinks))
            self._direct[alert.cause] = DIRECT_ATTEMPTS if any(results) else tried + 1

    async def _send_one_directly(self, sink: SinkConfig, alert: Alert) -> bool:
        """Return whether the sink accepted the message."""
        notice = Notice(
            id=f"alert_{time.time_ns()}_raised",
            phase="raised",
            kind=alert.kind,
            severity=alert.severity,
            title=alert.title,
            message=alert.message,
            moment=time.time(),
        )
        try:
            await send(self._fetcher, sink, notice, self._gate.snapshot.config.server.public_url)
        except SendFailed as failed:
            log.warning("the sink '%s' did not accept a message: %s", sink.name, failed)
            self._metrics.count_message(sink.name, "retried")
            return False
        self._metrics.count_message(sink.name, "sent")
        return True


def _take_lock(folder: Path) -> int | None:
    """Return the open lock file of the process that serves for its machine; None while another process holds it."""
    try:
        make_folder(folder)
        opened = open_private(folder / "lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        log.warning("the lock of the alerts cannot be used: %s", error)
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened
