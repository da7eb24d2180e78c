"""Delete rows that are older than conf allows: whole months of PostgreSQL, others in slices, so that no process waits long."""

from __future__ import annotations

import logging
import time
from typing import Final

from sqlalchemy import Table, delete, func, select

from tornado_gate.config.model import LedgerConfig
from tornado_gate.database.clock import read_clock
from tornado_gate.database.engine import Database, DatabaseError, is_lock_timeout
from tornado_gate.database.usage_tables import ALL_TOTALS, OTHER_ROWS, usage
from tornado_gate.ledger.partitions import drop_month, make_months
from tornado_gate.ledger.rows import DAY, find_first_id
from tornado_gate.ledger.spending import find_period

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 600.0
LOCKED_SECONDS: Final = 5.0
"""The pause after a wait for a lock that was in vain, such as the lock of a long report."""
SLICE_ROWS: Final = 1000
SLICES_AT_ONCE: Final = 20
"""The maximum number of slices in a row; further slices follow in the thread's next turn."""
MOST_SECONDS: Final = 0.2
"""No slice begins after this time: meanwhile no row is written."""


def find_oldest_id(rules: LedgerConfig, now: float) -> str:
    """Return the smallest id of a row that is kept at `now`."""
    oldest = now - rules.keep_days * DAY
    return find_first_id(find_period(oldest).month if rules.whole_months else oldest)


class Retention:
    """The deletion of old rows, and the partitions of coming months. One thread uses an instance.

    Several processes may do this at the same time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._due = 0.0

    def run_if_due(self, rules: LedgerConfig) -> None:
        """Make coming months, and delete some of the old rows. A failure is logged, and tried again later."""
        if time.monotonic() < self._due:
            return
        pause = CHECK_SECONDS
        try:
            now = self._read_clock()
            if not self._database.is_file:
                self._make_months(now)
            pause = pause if self.delete(rules, now) else 0.0
        except DatabaseError as error:
            if is_lock_timeout(error):
                log.info("a partition of the usage ledger is in use by another session, will retry")
                pause = LOCKED_SECONDS
            else:
                log.warning("old rows of the usage ledger could not be deleted, will retry: %s", error)
        self._due = time.monotonic() + pause

    def delete(self, rules: LedgerConfig, now: float) -> bool:
        """Delete one month of PostgreSQL, or up to SLICES_AT_ONCE slices. Returns whether all old rows are deleted.

        Raises DatabaseError.
        """
        old = find_oldest_id(rules, now)
        if not self._database.is_file and (name := drop_month(self._database, old)):
            log.info("the rows of the usage ledger in %s are older than ledger.keep_days and were dropped", name)
            return False
        ends_at = time.monotonic() + MOST_SECONDS
        for _ in range(SLICES_AT_ONCE):
            if not self._delete_slice(rules, old, now):
                return True
            if time.monotonic() >= ends_at:
                break
        return False

    def _read_clock(self) -> float:
        """Return the time of the database, so that a node with a wrong clock deletes nothing too early."""
        if self._database.is_file:
            return time.time()
        with self._database.read() as connection:
            return read_clock(connection)

    def _make_months(self, now: float) -> None:
        try:
            made = make_months(self._database, now)
        except DatabaseError as error:
            if is_lock_timeout(error):
                raise
            log.warning(
                "the partitions of coming months cannot be made; their rows go to the table %s meanwhile, will retry: %s",
                *(OTHER_ROWS, error),
            )
        else:
            if made:
                log.info("partitions of the usage ledger were made: %s", ", ".join(made))

    def _delete_slice(self, rules: LedgerConfig, old: str, now: float) -> bool:
        chosen = select(usage.c.id).where(usage.c.id < old).order_by(usage.c.id).limit(SLICE_ROWS)
        with self._database.read() as connection:
            is_due = connection.execute(chosen.limit(1)).first() is not None
        if is_due:
            with self._database.write() as connection:
                # The first condition tells PostgreSQL which partitions need not be searched.
                connection.execute(delete(usage).where(usage.c.id < old, usage.c.id.in_(chosen)))
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
