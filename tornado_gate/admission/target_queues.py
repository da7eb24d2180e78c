"""Limits the running requests of a provider entry, and queues the others. Conf: ``providers.X.concurrency``.

A running request has a slot. A request without a free slot waits in a queue of limited length, for a limited time. It uses no
connection of the upstream while it waits. Accounts share slots and queue: the next slot goes to the waiting account with the
fewest running requests, and the rule of `account_shares.py` divides the queue, so one account cannot fill it.

All processes of the machine share the slots and the queue (`shared_slots.py`). Each process decides which of its requests is
next. When a request ends, its process takes the slot for a request that waits there, with a probability equal to the process's
share of all waiting requests. Otherwise the first process that looks takes the slot. So no process keeps its slots while others
wait.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Final

from tornado_gate.account_shares import may_hold
from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.shared_slots import SharedSlots
from tornado_gate.config.model import TargetConcurrency
from tornado_gate.errors import TargetBusy

Report = Callable[[str, int, int], None]
"""Called after a change with the provider entry, its running and its waiting requests."""
Refused = Callable[[str], None]
"""Called with the reason of a refusal."""
LOOK_SECONDS: Final = 0.02
"""The interval at which a process with waiting requests looks for slots that other processes have released."""


class TargetQueue:
    """The slots and the queue of one provider entry. The configuration of the latest request applies."""

    def __init__(self, provider: str, store: EmbeddedStore, report: Report, refused: Refused) -> None:
        self.provider = provider
        self.running = 0
        self.waiting = 0
        self._most = 1
        self._slots = SharedSlots(provider, store)
        self._report = report
        self._refused = refused
        self._running_of: Counter[str] = Counter()
        self._waiting_of: dict[str, deque[asyncio.Future[None]]] = {}
        self._look: asyncio.TimerHandle | None = None

    async def enter(self, account: str, rules: TargetConcurrency) -> Callable[[], None]:
        """Wait for a slot. Return the function that releases it, to be called once. Raises TargetBusy without a free slot."""
        leave = self.try_enter(account, rules)
        if leave is not None:
            return leave
        await self._wait(account, rules)
        return partial(self._leave, account)

    def try_enter(self, account: str, rules: TargetConcurrency) -> Callable[[], None] | None:
        """Take a free slot. Return the function that releases it, to be called once; None if the request must wait."""
        self._most = rules.most
        if self.waiting or not self._slots.take_slot(rules.most, self.running):
            return None
        self._start(account)
        return partial(self._leave, account)

    async def _wait(self, account: str, rules: TargetConcurrency) -> None:
        line = self._waiting_of.get(account)
        waiting = self._slots.add_waiting(rules.queue, self.waiting)
        if not waiting or not may_hold(1, len(line or ()), waiting - 1, rules.queue + 1):
            self._count_again()
            raise self._busy("target_queue", rules, "its queue, or this account's share of it, is full")
        if line is None:
            line = self._waiting_of[account] = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        self.waiting += 1
        self._count_again()
        self._look_later()
        try:
            async with asyncio.timeout(rules.wait):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._leave(account)  # the slot became free in the same moment
            else:
                self._remove(account, turn)
            if isinstance(error, TimeoutError):
                raise self._busy("target_wait", rules, f"none ended within {rules.wait:g} s") from None
            raise

    def _busy(self, reason: str, rules: TargetConcurrency, why: str) -> TargetBusy:
        self._refused(reason)
        seconds = max(1, round(rules.wait))
        message = (
            f"The provider '{self.provider}' runs as many requests as it may at a time ({rules.most}), and {why}. "
            f"Retry after {seconds} s."
        )
        return TargetBusy(message, headers={"Retry-After": str(seconds)})

    def _remove(self, account: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting_of.get(account)
        if line is None or turn not in line:
            return  # `_drop_cancelled` has removed it
        line.remove(turn)
        if not line:
            del self._waiting_of[account]
        self.waiting -= 1
        self._count_again()

    def _start(self, account: str) -> None:
        self.running += 1
        self._running_of[account] += 1
        self._count_again()

    def _leave(self, account: str) -> None:
        """Release a slot, and admit waiting requests."""
        self.running -= 1
        self._running_of[account] -= 1
        if not self._running_of[account]:
            del self._running_of[account]
        self._count_again()
        self._admit(shares=True)

    def _count_again(self) -> None:
        self._slots.correct(self.running, self.waiting)
        self._report(self.provider, self.running, self.waiting)

    def _admit(self, *, shares: bool = False) -> None:
        """Give free slots to waiting requests. `shares`: leave slots to other processes, by their share of waiting requests."""
        while self._drop_cancelled():
            if not self._slots.take_slot(self._most, self.running):
                break
            if shares and random.random() * self._slots.count_waiting() >= self.waiting:
                self._count_again()
                break
            following = self._find_next()
            turn = self._waiting_of[following][0]
            self.running += 1  # before the counts are corrected: the slot is taken
            self._running_of[following] += 1
            self._remove(following, turn)
            turn.set_result(None)
        self._look_later()

    def _find_next(self) -> str:
        """Return the waiting account with the fewest running requests."""
        return min(self._waiting_of, key=lambda name: self._running_of.get(name, 0))

    def _drop_cancelled(self) -> bool:
        """Remove cancelled requests from the front of the queue. Return whether others wait."""
        while self._waiting_of:
            following = self._find_next()
            turn = self._waiting_of[following][0]
            if not turn.done():
                return True
            self._remove(following, turn)
        return False

    def _look_later(self) -> None:
        if self._look is None and self.waiting:
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self._admit()


class TargetQueues:
    """The queues of all provider entries with a limit. A process has one object."""

    def __init__(self, store: EmbeddedStore, report: Report, refused: Refused) -> None:
        self._store = store
        self._report = report
        self._refused = refused
        self._queues: dict[str, TargetQueue] = {}

    def find_queue(self, provider: str) -> TargetQueue:
        """Return the queue of a provider entry."""
        queue = self._queues.get(provider)
        if queue is None:
            queue = self._queues[provider] = TargetQueue(provider, self._store, self._report, self._refused)
        return queue

    def keep(self, providers: frozenset[str]) -> None:
        """Remove the queues of entries that conf no longer has, except queues with requests."""
        self._queues = {
            name: queue for name, queue in self._queues.items() if name in providers or queue.running or queue.waiting
        }
