"""How many requests of a provider entry run at a time, and who of those that wait is next. Conf: ``providers.X.concurrency``.

A request that finds all places taken waits in a queue of limited length, for a limited time, and holds nothing of the upstream
meanwhile. Accounts share both: the next place goes to the waiting account that has fewest requests running, and the queue's
places are held by the rule of `storage/shares.py`, so one account cannot fill it. Each process counts its own requests.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from tornado_gate.config.model import TargetConcurrency
from tornado_gate.errors import TargetBusy
from tornado_gate.storage.shares import may_hold

Report = Callable[[str, int, int], None]
"""Called after a change with the provider entry, its running and its waiting requests."""
Refused = Callable[[str], None]
"""Called with the reason of a refusal."""


class TargetQueue:
    """The places of one provider entry. `rules` are those of the conf that the latest request has."""

    def __init__(self, provider: str, report: Report, refused: Refused) -> None:
        self.provider = provider
        self.running = 0
        self.waiting = 0
        self._most = 1
        self._report = report
        self._refused = refused
        self._running_of: Counter[str] = Counter()
        self._waiting_of: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter(self, account: str, rules: TargetConcurrency) -> Callable[[], None]:
        """Wait for a place. Returns the function that gives it back, to be called once. Raises TargetBusy without one."""
        self._most = rules.most
        if self.running < rules.most and not self.waiting:
            self._take(account)
        else:
            await self._wait(account, rules)
        return partial(self._leave, account)

    async def _wait(self, account: str, rules: TargetConcurrency) -> None:
        line = self._waiting_of.get(account)
        if not may_hold(1, len(line or ()), self.waiting, rules.queue + 1):
            raise self._busy("target_queue", rules, "its queue, or this account's share of it, is full")
        if line is None:
            line = self._waiting_of[account] = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        self.waiting += 1
        self._report(self.provider, self.running, self.waiting)
        try:
            async with asyncio.timeout(rules.wait):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._leave(account)  # the place came in the same moment
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
            return  # `_leave` has met it, cancelled
        line.remove(turn)
        if not line:
            del self._waiting_of[account]
        self.waiting -= 1
        self._report(self.provider, self.running, self.waiting)

    def _take(self, account: str) -> None:
        self.running += 1
        self._running_of[account] += 1
        self._report(self.provider, self.running, self.waiting)

    def _leave(self, account: str) -> None:
        """Give a place back: the waiting account with the fewest running requests gets it."""
        self.running -= 1
        self._running_of[account] -= 1
        if not self._running_of[account]:
            del self._running_of[account]
        running_of = self._running_of
        while self._waiting_of and self.running < self._most:
            following = min(self._waiting_of, key=lambda name: running_of.get(name, 0))
            turn = self._waiting_of[following][0]
            self._remove(following, turn)
            if not turn.done():  # else its request has just been cancelled
                self._take(following)
                turn.set_result(None)
        self._report(self.provider, self.running, self.waiting)


class TargetQueues:
    """The queues of all provider entries with a limit; one object for each process."""

    def __init__(self, report: Report, refused: Refused) -> None:
        self._report = report
        self._refused = refused
        self._queues: dict[str, TargetQueue] = {}

    def find(self, provider: str) -> TargetQueue:
        """The queue of a provider entry."""
        queue = self._queues.get(provider)
        if queue is None:
            queue = self._queues[provider] = TargetQueue(provider, self._report, self._refused)
        return queue

    def keep(self, providers: frozenset[str]) -> None:
        """Forget the entries that conf no longer has, once their requests have ended."""
        self._queues = {
            name: queue for name, queue in self._queues.items() if name in providers or queue.running or queue.waiting
        }
