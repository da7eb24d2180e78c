"""The ledger of a process. It takes entries from the event loop, and writes their rows in batches from its own thread.

The event loop appends to a queue in memory and never waits. Every INTERVAL_SECONDS the thread writes the new entries:
to the database, or to the spool on the disk while the database is away or does not answer. A process that is killed loses
at most the entries of the last second. A process that stops normally loses no entry.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol

import sqlalchemy

from tornado_gate.config.model import LedgerConfig
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.ledger.database_thread import DatabaseHangs, DatabaseThread
from tornado_gate.ledger.entries import MODEL_BYTES, RowMaker
from tornado_gate.ledger.estimates import needs_estimate
from tornado_gate.ledger.retention import Retention
from tornado_gate.ledger.spool import Spool, read_segment
from tornado_gate.ledger.writing import COST, StoredRow, write_rows
from tornado_gate.telemetry.entries import Entry, find_outcome
from tornado_gate.types.value import replace

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 0.5
MAX_HELD_BODIES: Final = 50
"""The number of entries with a body that wakes the thread. It makes their rows, which need the body for an estimate of
the prompt, and writes them later.
"""
BATCH_ROWS: Final = 1000
MAX_ENTRIES: Final = 100_000
"""Entries in memory. Further entries are dropped and counted. The thread takes the entries out twice a second."""
MAX_KEPT_ROWS: Final = 10_000
"""Rows in memory while neither the database nor the disk accepts any: about 10 MB."""
RETRY_SECONDS: Final = 2.0
"""Seconds until the database is tried again."""
HANG_SECONDS: Final = 0.45
"""Seconds until the rows of an unfinished write go to the spool too. With INTERVAL_SECONDS this is less than a second."""
ENDING_SECONDS: Final = 5.0
"""The same at the end of the process: the database gets more time, because the spool is read at the next start only."""
CLOSE_SECONDS: Final = 20.0
SLICE_ROWS: Final = 100
"""The number of rows that are made before other threads get their turn: about half a millisecond."""

RowResult = Literal["written", "spooled", "dropped"]


def _shorten_entry(entry: Entry) -> Entry:
    """Return the entry of a request for a model with a long name, without that name."""
    target, model = entry.target, entry.model[:MODEL_BYTES]
    target = replace(target, model=target.model[:MODEL_BYTES], upstream_model=target.upstream_model[:MODEL_BYTES])
    return replace(entry, model=model, target=target, progress=replace(entry.progress, model=model, target=target))


class LedgerMetrics(Protocol):
    """The measurements that the ledger reports; `telemetry.metrics.ledger.LedgerMetrics` is the implementation."""

    def count_rows(self, result: RowResult, number: int) -> None: ...
    def count_unpriced(self, model: str, provider: str, number: int) -> None: ...
    def set_lag(self, seconds: float) -> None: ...


class Ledger:
    """The ledger of one process. `add` belongs to the event loop; `start` and `close` surround it. `rules` may be
    replaced.
    """

    def __init__(self, database: Database, data_dir: Path, rules: LedgerConfig, metrics: LedgerMetrics) -> None:
        self.rules = rules
        self._database = database
        self._metrics = metrics
        self._entries: deque[Entry] = deque()
        self._overflow = 0
        self._held = 0
        self._spool = Spool(data_dir, rules.spool_bytes)
        self._retention = Retention(database)
        self._calls = DatabaseThread("ledger database")
        self._patience = HANG_SECONDS
        self._wake = threading.Event()
        self._ending = False
        self._turns = threading.Condition()
        self._wanted = self._done = 0
        self._thread: threading.Thread | None = None
        self._lost_since: float | None = None
        self._is_loss_reported = False
        self._retry_at = 0.0
        self._has_dropped = False
        self._taken: list[tuple[StoredRow, bool]] = []
        self._oldest = 0
        self._write_at = 0.0
        self._kept: deque[StoredRow] = deque()  # rows that neither the database nor the disk could take

    def add(self, entry: Entry) -> None:
        """Record a request. Never raises and never waits. Releases the request's body after a moment."""
        entries, charge = self._entries, entry.charge
        if len(entries) >= MAX_ENTRIES:
            self._overflow += 1
            charge.release_body()
            return
        if charge.estimate_prompt is not None:
            if not needs_estimate(entry, entry.outcome or find_outcome(entry.status, entry.error_code)):
                charge.release_body()
            else:
                self._held += 1
                if not self._held % MAX_HELD_BODIES:
                    self._wake.set()
        if len(entry.model) > MODEL_BYTES:
            entry = _shorten_entry(entry)
        entries.append(entry)
        if not len(entries) % BATCH_ROWS:
            self._wake.set()

    def start(self) -> None:
        """Start the thread, which also writes the rows that ended processes have left in the spool."""
        if self._thread is None:
            self._ending = False
            self._thread = threading.Thread(target=self._run_thread, name="ledger", daemon=True)
            self._thread.start()

    async def close(self) -> None:
        """Write all entries, to the database or to the spool, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._ending = True
        self._wake.set()
        await asyncio.to_thread(thread.join, CLOSE_SECONDS)
        if thread.is_alive():
            log.error(
                "the usage of up to %d requests could not be written before the end: the database hangs",
                len(self._entries) + len(self._taken),
            )

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until everything that was added before is in the database or the spool. Blocks; returns False after
        `seconds`.
        """
        with self._turns:
            self._wanted += 1
            flush_number = self._wanted
            self._wake.set()
            return self._turns.wait_for(lambda: self._done >= flush_number, seconds)

    def flush_to_database(self, seconds: float) -> bool:
        """Wait like `flush`. Return False if rows are only in the spool."""
        return self.flush(seconds) and self._lost_since is None

    # The thread

    def _run_thread(self) -> None:
        while True:
            self._wake.wait(max(0.0, self._write_at - time.monotonic()))
            self._wake.clear()
            with self._turns:
                flush_number, ending = self._wanted, self._ending
            try:
                self._process_entries(
                    ending, is_due=ending or flush_number > self._done or time.monotonic() >= self._write_at
                )
            except Exception:  # if the thread ended, no request would be recorded any more
                log.exception("unexpected error while writing the usage ledger")
            with self._turns:
                self._done = flush_number
                self._turns.notify_all()
            if ending and not self._entries:
                self._give_up_kept()
                self._spool.close()
                self._calls.close()
                return

    def _process_entries(self, ending: bool, *, is_due: bool) -> None:
        """Make rows of the entries, which releases their bodies. Write the rows if it is time, or if they fill a batch."""
        self._spool.max_bytes = self.rules.spool_bytes
        self._patience = ENDING_SECONDS if ending else HANG_SECONDS
        if is_due:
            self._write_at = time.monotonic() + INTERVAL_SECONDS
            self._replay_spool(now=ending)
        self._take_rows()
        while self._taken and (is_due or len(self._taken) >= BATCH_ROWS):
            self._metrics.set_lag(max(0.0, time.time() - self._oldest / 1e6))
            taken, self._taken = self._taken, []
            self._store_rows(taken)
            self._take_rows()
        if not is_due:
            return
        self._metrics.set_lag(0.0 if self._lost_since is None else time.monotonic() - self._lost_since)
        self._report_overflow()
        if self._lost_since is None and not ending:
            self._delete_old_rows()

    def _delete_old_rows(self) -> None:
        with suppress(DatabaseHangs):  # the next write reports it, if it hangs too
            self._calls.run(lambda: self._retention.run_if_due(self.rules), HANG_SECONDS)

    def _take_rows(self) -> None:
        """Make rows until BATCH_ROWS wait to be written. Mark each row that may be in the database already."""
        rows, maker = self._taken, RowMaker()
        entries = [self._entries.popleft() for _ in range(min(len(self._entries), BATCH_ROWS - len(rows)))]
        unpriced: Counter[tuple[str, str]] = Counter()
        if entries and not rows:
            self._oldest = entries[0].ended
        for number, entry in enumerate(entries, 1):
            try:
                row = maker.make_row(entry)
            except Exception:
                log.exception("the usage of request %s cannot be recorded", entry.request_id)
                self._count_dropped(1)
                continue
            if entry.charge.estimate_prompt is not None:
                entry.charge.release_body()
            rows.append((row, bool(entry.row_id)))
            if row[COST] is None:
                unpriced[entry.target.model, entry.target.provider] += 1
            if not number % SLICE_ROWS:
                time.sleep(0)  # lets the event loop run, which would wait for 5 ms otherwise
        for (model, provider), number in unpriced.items():
            self._metrics.count_unpriced(model, provider, number)

    def _store_rows(self, taken: Sequence[tuple[StoredRow, bool]]) -> None:
        rows = [row for row, _ in taken]
        if not rows:
            return
        if self._lost_since is None:
            try:
                self._count_written(rows, may_repeat=any(repeats for _, repeats in taken))
                return
            except DatabaseError as error:
                self._note_loss(error)
        self._spool_rows(rows)

    def _count_written(self, rows: Sequence[StoredRow], *, may_repeat: bool) -> None:
        """Write rows and count those that were new. Raises DatabaseError; rows of a write that hangs may be written later."""
        written = self._calls.run(partial(self._write_rows, rows, may_repeat=may_repeat), self._patience)
        self._metrics.count_rows("written", written)

    def _write_rows(self, rows: Sequence[StoredRow], *, may_repeat: bool) -> int:
        """Write rows, and return how many were new. Rows that the database refuses are dropped. Raises DatabaseError."""
        try:
            return write_rows(self._database, rows, may_repeat=may_repeat)
        except sqlalchemy.exc.IntegrityError:  # two random ids are equal
            return write_rows(self._database, rows, may_repeat=True)
        except (DatabaseError, OverflowError) as error:  # SQLite's driver itself refuses numbers of more than 64 bits
            if isinstance(error, DatabaseError) and not isinstance(error.__cause__, sqlalchemy.exc.DataError):
                raise
            if len(rows) == 1:
                log.error("the database refuses a row of the usage ledger: %s", error)
                self._count_dropped(1)
                return 0
        return sum(self._write_rows([row], may_repeat=True) for row in rows)

    def _spool_rows(self, rows: Sequence[StoredRow]) -> None:
        try:
            dropped = self._spool.append(rows)
        except OSError as error:
            self._keep_rows(rows, error)
            return
        self._metrics.count_rows("spooled", len(rows))
        if dropped:
            self._count_dropped(dropped)

    def _keep_rows(self, rows: Sequence[StoredRow], error: OSError) -> None:
        """Keep rows in memory, as far as there is room, because the disk does not accept them, for example when it is
        full.
        """
        if not self._kept:
            log.error("usage cannot be written to the data directory and is kept in memory: %s", error)
        self._kept += rows
        lost = max(0, len(self._kept) - MAX_KEPT_ROWS)
        for _ in range(lost):
            self._kept.popleft()
        if lost:
            self._count_dropped(lost)

    def _write_kept(self) -> None:
        while self._kept and self._lost_since is None:
            rows = [self._kept.popleft() for _ in range(min(BATCH_ROWS, len(self._kept)))]
            self._store_rows([(row, True) for row in rows])

    def _give_up_kept(self) -> None:
        """Write kept rows to the spool before the end, which is their last chance."""
        rows = list(self._kept)
        try:
            self._count_dropped(self._spool.append(rows) if rows else 0)
        except OSError as error:
            log.error("the usage of %d requests is lost: %s", len(rows), error)
            self._count_dropped(len(rows))

    def _note_loss(self, error: DatabaseError) -> None:
        """Spool rows from now on. A slow answer is reported only if the database has still not answered after RETRY_SECONDS."""
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
        hangs = isinstance(error, DatabaseHangs)
        if not self._is_loss_reported and not (hangs and now < self._lost_since + RETRY_SECONDS):
            self._is_loss_reported = True
            level = logging.WARNING if hangs else logging.ERROR
            log.log(level, "the usage ledger cannot be written; rows are kept in the data directory: %s", error)
        self._retry_at = now + RETRY_SECONDS

    def _count_dropped(self, number: int) -> None:
        if not number:
            return
        self._metrics.count_rows("dropped", number)
        if not self._has_dropped:
            self._has_dropped = True
            log.error(
                "rows of the usage ledger were dropped: see the metric tornado_gate_ledger_rows, ledger.spool_bytes"
            )

    def _report_overflow(self) -> None:
        lost, self._overflow = self._overflow, 0
        if lost:
            self._count_dropped(lost)

    # The spool

    def _replay_spool(self, *, now: bool) -> None:
        """Write the rows in the spool, oldest first, if it is time to try."""
        if not now and time.monotonic() < self._retry_at:
            return
        self._retry_at = time.monotonic() + RETRY_SECONDS
        try:
            for segment in self._spool.list_segments():
                self._replay_segment(segment)
        except DatabaseError as error:
            self._note_loss(error)
            return
        except OSError as error:
            log.error("the spool of the usage ledger cannot be read, will retry: %s", error)
            return
        if self._lost_since is not None and self._is_back():
            if self._is_loss_reported:
                log.warning("the usage ledger can be written again")
            self._lost_since = None
            self._is_loss_reported = False
            self._has_dropped = False
        self._write_kept()

    def _is_back(self) -> bool:
        try:
            self._calls.run(self._read_nothing, self._patience)
        except DatabaseError as error:
            self._note_loss(error)
            return False
        return True

    def _read_nothing(self) -> None:
        with self._database.read() as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))

    def _replay_segment(self, segment: Path) -> None:
        rows: list[StoredRow] = []
        for row in read_segment(segment):
            rows.append(row)
            if len(rows) == BATCH_ROWS:
                self._replay_rows(rows)
                rows = []
        self._replay_rows(rows)
        self._spool.remove(segment)

    def _replay_rows(self, rows: Sequence[StoredRow]) -> None:
        if rows:
            self._count_written(rows, may_repeat=True)
