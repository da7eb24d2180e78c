"""Delete rows that are older than conf allows, in slices, so that no process waits long for a lock."""

from __future__ import annotations

import logging
import time
from typing import Final

from sqlalchemy import Table, delete, func, select

from tornado_gate.config.model import LedgerConfig
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.usage_tables import ALL_TOTALS, usage
from tornado_gate.ledger.rows import DAY, find_first_id

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 600.0
SLICE_ROWS: Final = 1000
SLICES_AT_ONCE: Final = 20
"""The maximum number of slices in a row; further slices follow in the thread's next turn."""
MOST_SECONDS: Final = 0.2
"""No slice begins after this time: meanwhile no row is written."""


class Retention:
    """The deletion of old rows. One thread uses an instance. Several processes may delete at the same time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._due = 0.0

    def run_if_due(self, rules: LedgerConfig) -> None:
        """Delete some of the old rows. A failure is logged, and the deletion is tried again later."""
        if time.monotonic() < self._due:
            return
        try:
            is_done = self.delete(rules, time.time())
        except DatabaseError as error:
            log.warning("old rows of the usage ledger could not be deleted, will retry: %s", error)
            is_done = True
        if is_done:
            self._due = time.monotonic() + CHECK_SECONDS

    def delete(self, rules: LedgerConfig, now: float) -> bool:
        """Delete up to SLICES_AT_ONCE slices. Returns whether all old rows are deleted. Raises DatabaseError."""
        ends_at = time.monotonic() + MOST_SECONDS
        for _ in range(SLICES_AT_ONCE):
            if not self._delete_slice(rules, now):
                return True
            if time.monotonic() >= ends_at:
                break
        return False

    def _delete_slice(self, rules: LedgerConfig, now: float) -> bool:
        old = find_first_id(now - rules.keep_days * DAY)
        chosen = select(usage.c.id).where(usage.c.id < old).order_by(usage.c.id).limit(SLICE_ROWS)
        with self._database.read() as connection:
            is_due = connection.execute(chosen.limit(1)).first() is not None
        if is_due:
            with self._database.write() as connection:
                connection.execute(delete(usage).where(usage.c.id.in_(chosen)))
            return True
        return any(self._delete_bucket(table, int(now - rules.keep_totals_days * DAY)) for table in ALL_TOTALS)

    def _delete_bucket(self, table: Table, before: int) -> bool:
        with self._database.read() as connection:
            oldest = connection.execute(select(func.min(table.c.bucket))).scalar()
        if oldest is None or oldest >= before:
            return False
        with self._database.write() as connection:
            connection.execute(delete(table).where(table.c.bucket == oldest))
        return True
