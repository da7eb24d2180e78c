"""Threads for the reviews of large texts by guards, and the order of waiting reviews.

A review that takes long must harm only the account that sent the text. An account has one thread at a time and a share of the
queue, and accounts take turns. The time limit of a review begins when its thread does. Threads that compute delay the event loop,
so the next one begins when the one before has ended, or has run for SLOW_SECONDS.

A review that exceeds its limit is stopped by an exception in its thread. Python raises it at the next instruction, so not in a
call that never returns, such as a lock or a search in C. Such a thread is *stuck*: its slot goes to another thread, its account
gets no other thread until it returns, and the exception is raised repeatedly. Processes could be killed instead, but guards
have their state in the process, and get a `Call` with open connections.

No thread helps against a hook that keeps Python's lock, as a search by the module `re` does until it returns.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from tornado_gate.account_shares import may_hold
from tornado_gate.errors import Unavailable
from tornado_gate.plugins.guard_lanes import ReviewHangs, ReviewTimeout
from tornado_gate.plugins.watchdog import runs_in

Result = TypeVar("Result")
Report = Callable[[int, int, int, int], None]
"""Called after a change with four counts: running threads, waiting reviews, stuck threads, and the highest sum of these for one
account.
"""

log = logging.getLogger(__name__)

THREADS: Final = 4
"""The number of parallel threads, without stuck threads."""
SLOW_SECONDS: Final = 0.25
"""A review that has run for so long lets another one begin."""
MAX_STUCK: Final = 32
"""The stuck threads that are replaced. Each belongs to another account."""
QUEUE: Final = 256
WAIT_SECONDS: Final = 60.0
WORK_SECONDS: Final = 60.0
"""The time limit of work that is no hook: reading a body and replacing texts in it."""
STOP_SECONDS: Final = 1.0
"""Seconds between two stop signals to a stuck thread. An account whose thread is then still stuck gets no other thread."""
LOOK_SECONDS: Final = (0.005, 0.1)
"""Seconds until the next check of a thread that could not be stopped: during the first STOP_SECONDS, and later."""
_LOCKING: Final = frozenset({"logging", "threading", "queue", "importlib", "_frozen_importlib", "prometheus_client"})
"""Packages whose locks all threads share. An exception within them could leave a lock closed for ever."""


class ReviewStopped(BaseException):
    """Raised in a thread whose review has taken too long. A BaseException, so that a guard does not catch it by accident."""


class _Work:
    """A function in its own thread. The thread is a daemon, so that a stuck thread does not keep the process from ending."""

    def __init__(self, account: str, function: Callable[[], Any], ended: Callable[[_Work], None]) -> None:
        self.account = account
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.is_finished = False
        self.hangs = False
        """The thread did not end after a stop signal."""
        self.next_stop = self.hangs_at = 0.0
        self._ended = ended
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, args=(function,), name="review", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return not self.is_finished and self._thread.is_alive()

    def stop(self, now: float) -> None:
        """Raise ReviewStopped in the thread, unless the function has returned or is where it must not be interrupted."""
        with self._lock:
            identity = self._thread.ident or 0
            if self.is_alive and not _holds_locks(identity):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(identity), ctypes.py_object(ReviewStopped))
                self.next_stop = now + STOP_SECONDS

    def _work(self, function: Callable[[], Any]) -> None:
        try:
            try:
                outcome = partial(_set_result, self.result, function())
            except BaseException as error:
                outcome = partial(_set_error, self.result, error)
            del function  # it holds a body
            self._finish(outcome)
        except ReviewStopped:  # it came after the function
            self._finish(self.result.cancel)

    def _finish(self, outcome: Callable[[], object]) -> None:
        with self._lock:
            self.is_finished = True
        loop = self.result.get_loop()
        try:
            loop.call_soon_threadsafe(outcome)
            loop.call_soon_threadsafe(self._ended, self)
        except RuntimeError:
            log.debug("a review has ended after the event loop")


def _holds_locks(identity: int) -> bool:
    """Return whether a review runs code of a package of `_LOCKING` in a thread."""
    return runs_in(sys._current_frames().get(identity), _LOCKING, _Work._work.__code__)


def _set_result(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _set_error(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(RuntimeError("stopped") if isinstance(error, ReviewStopped | StopIteration) else error)


class ReviewThreads:
    """One for each process."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._running: Counter[str] = Counter()
        self._slow: set[str] = set()
        """The accounts whose review has run for long."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By account, in the order of their turns."""
        self._stuck: dict[str, list[_Work]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def run(
        self, account: str, function: Callable[..., Result], *arguments: Any, seconds: float = WORK_SECONDS
    ) -> Result:
        """Return the result of a function that runs in a thread of the account, in turn.

        Raises the function's errors, and ReviewTimeout if it takes longer than `seconds`. Raises ReviewHangs while another
        thread of the account cannot be stopped, and Unavailable if the review gets no slot.
        """
        await self._enter(account)
        try:
            work = _Work(account, partial(function, *arguments), self._remove_work)
        except BaseException:
            self._leave(account)
            raise
        limit = asyncio.timeout(seconds)
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._note_slow, account)
        try:
            async with limit:
                result: Result = await work.result
                return result
        except TimeoutError:
            if not limit.expired():
                raise
            raise ReviewTimeout from None
        finally:
            timer.cancel()
            self._slow.discard(account)
            if not work.is_finished:  # it takes too long, or the caller has left
                self._abandon(work)
            self._leave(account)

    def explain_stuck(self) -> str:
        """Return the reason why no review can begin, or ""."""
        if self._count_slots() > 0:
            return ""
        return f"{self._count_stuck()} reviews of guards hang, which needs a restart of the process"

    async def _enter(self, account: str) -> None:
        """Wait for a slot."""
        if any(work.hangs for work in self._stuck.get(account, ())):
            raise ReviewHangs
        line = self._waiting.get(account)
        if line is None and self._may_begin(account):
            self._running[account] += 1
            self._report_threads()
            return
        waiting = self._count_waiting()
        if not may_hold(1, len(line or ()), waiting, QUEUE):
            raise _make_busy("too many large texts wait for it")
        if line is None:
            line = self._waiting[account] = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        self._report_threads()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave(account)  # the slot became free in the same moment
            else:
                self._remove(account, turn)
            if isinstance(error, TimeoutError):
                raise _make_busy(f"no place was free within {WAIT_SECONDS:g} s") from None
            raise

    def _may_begin(self, account: str) -> bool:
        has_thread = self._running[account] or account in self._stuck
        return not has_thread and self._has_slot()

    def _has_slot(self) -> bool:
        running = self._running.total()
        return running < self._count_slots() and running <= len(self._slow)

    def _note_slow(self, account: str) -> None:
        self._slow.add(account)
        self._admit()

    def _count_slots(self) -> int:
        return THREADS - max(0, self._count_stuck() - MAX_STUCK)

    def _count_stuck(self) -> int:
        return sum(map(len, self._stuck.values()))

    def _count_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _leave(self, account: str) -> None:
        """Give a slot back, and admit waiting reviews."""
        self._running[account] -= 1
        if not self._running[account]:
            del self._running[account]
        self._admit()

    def _admit(self) -> None:
        for account in list(self._waiting):
            if not self._has_slot():
                break
            line = self._waiting[account]
            while line and line[0].done():
                line.popleft()  # its request has just been cancelled
            if line and not self._may_begin(account):
                continue
            if line:
                self._running[account] += 1
                line.popleft().set_result(None)
            del self._waiting[account]
            if line:
                self._waiting[account] = line  # the last one to have a turn
        self._report_threads()

    def _remove(self, account: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting.get(account)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[account]
            self._report_threads()

    def _abandon(self, work: _Work) -> None:
        """Tell a thread to stop; other work of its account waits until it has."""
        self._stuck.setdefault(work.account, []).append(work)
        work.hangs_at = asyncio.get_running_loop().time() + STOP_SECONDS
        self._stop_all()

    def _stop_all(self) -> None:
        """Stop the stuck threads, and look at them again while there are any."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        works = [work for works in self._stuck.values() for work in works]
        for work in works:
            if not work.is_alive:
                self._remove_work(work)
                continue
            if now >= work.next_stop:
                work.stop(now)
            if now >= work.hangs_at:
                self._refuse_others(work)
        if self._timer is not None:
            self._timer.cancel()
        wait = min((max(LOOK_SECONDS[work.hangs], work.next_stop - now) for work in works), default=0.0)
        self._timer = loop.call_later(wait, self._stop_all) if self._stuck else None

    def _refuse_others(self, work: _Work) -> None:
        """Let no request of an account wait for a thread that hangs."""
        if not work.hangs:
            work.hangs = True
            log.error(
                "a review of a large text of the account '%s' cannot be stopped; its next ones fail", work.account
            )
        for turn in self._waiting.pop(work.account, ()):
            if not turn.done():
                turn.set_exception(ReviewHangs())
        self._report_threads()

    def _remove_work(self, work: _Work) -> None:
        """Remove work whose thread has ended."""
        works = self._stuck.get(work.account)
        if works is not None and work in works:
            works.remove(work)
            if not works:
                del self._stuck[work.account]
            self._admit()

    def _report_threads(self) -> None:
        held = Counter(self._running)
        for accounts in (self._waiting, self._stuck):
            for account, items in accounts.items():
                held[account] += len(items)
        self._report(self._running.total(), self._count_waiting(), self._count_stuck(), max(held.values(), default=0))


def _make_busy(why: str) -> Unavailable:
    message = f"The gateway could not review the large texts of this request: {why}. Retry after 10 s."
    return Unavailable(message, code="overloaded", headers={"Retry-After": "10"})
