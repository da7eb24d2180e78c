"""Counts running and waiting requests of provider entries in all processes of a machine, in the store of limits.

The requests of a process that was killed are removed. While the store cannot be used, each process counts its own requests.
"""

from __future__ import annotations

import logging
import time
from functools import lru_cache
from typing import Final

from tornado_gate.admission.bounds import OPEN, make_counter_id
from tornado_gate.admission.embedded import LOCK_SECONDS, EmbeddedStore
from tornado_gate.admission.store import StoreUnavailable
from tornado_gate.types import Bound
from tornado_gate.types.bounds import Moment

log = logging.getLogger(__name__)

WARNING_SECONDS: Final = 60.0
_NO_LIMIT: Final = 1 << 62
_ANY_MOMENT: Final = Moment(0, 0, 0)
"""Open requests are counted without a time."""


class SharedSlots:
    """The counters of one provider entry. `running` and `waiting` are the requests of this process that the store counts."""

    def __init__(self, provider: str, store: EmbeddedStore) -> None:
        self.running = 0
        self.waiting = 0
        self._provider = provider
        self._store = store
        self._warned_at = float("-inf")
        self._locked_since: float | None = None

    def take_slot(self, most: int, running: int) -> bool:
        """Count a running request if fewer than `most` run. Return whether it may run.

        `running` is the number of running requests of this process. A request may not run while another process has the store.
        """
        try:
            is_counted = bool(self._add("running", most))
        except StoreUnavailable as error:
            self._warn(error)
            return running < most
        self.running += is_counted
        return is_counted

    def add_waiting(self, most: int, waiting: int) -> int:
        """Count a waiting request if fewer than `most` wait. Return the new number of waiting requests; 0 if it is rejected.

        `waiting` is the number of waiting requests of this process. While another process has the store, the request may wait.
        """
        try:
            count = self._add("waiting", most)
        except StoreUnavailable as error:
            self._warn(error)
            return waiting + 1 if waiting < most else 0
        if count:
            self.waiting += 1
        return waiting + 1 if count is None else count

    def count_waiting(self) -> int:
        """Return the number of waiting requests of all processes; 0 if it is unknown."""
        try:
            return self._add("waiting", _NO_LIMIT, 0) or 0
        except StoreUnavailable as error:
            self._warn(error)
            return 0

    def correct(self, running: int, waiting: int) -> None:
        """Lower the counts of the store to the requests that this process still has."""
        if running < self.running:
            self._return("running", self.running - running)
            self.running = running
        if waiting < self.waiting:
            self._return("waiting", self.waiting - waiting)
            self.waiting = waiting

    def _return(self, name: str, count: int) -> None:
        self._store.change((_make_bound(self._provider, name, 0),), (-count,), _ANY_MOMENT)

    def _add(self, name: str, most: int, amount: int = 1) -> int | None:
        """Return the new count; 0 if it would exceed `most`, None if another process has the store. Raises StoreUnavailable."""
        outcome = self._store.try_reserve((_make_bound(self._provider, name, most),), (amount,))
        if outcome is None:
            self._check_lock()
            return None
        self._locked_since = None
        return 0 if outcome.moment is None else outcome.levels[0].used

    def _check_lock(self) -> None:
        """Raise StoreUnavailable if another process has had the lock for long, because it was stopped."""
        now = time.monotonic()
        if self._locked_since is None:
            self._locked_since = now
        elif now - self._locked_since > LOCK_SECONDS:
            raise StoreUnavailable("the store is locked by a process that does not run")

    def _warn(self, error: StoreUnavailable) -> None:
        now = time.monotonic()
        if now - self._warned_at > WARNING_SECONDS:
            self._warned_at = now
            log.error("requests of '%s' are counted in each process on its own: %s", self._provider, error)


@lru_cache(1000)
def _make_bound(provider: str, name: str, limit: int) -> Bound:
    return Bound("provider", provider, name, limit, OPEN, make_counter_id("provider", provider, name))
