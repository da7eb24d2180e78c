"""The supervisor of several serving processes on the same sockets: it restarts ended ones, and forwards signals to them."""

from __future__ import annotations

import logging
import mmap
import os
import select
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tornado_gate.server.process import systemd
from tornado_gate.server.process.handover import START_SECONDS, Successor
from tornado_gate.server.process.listeners import Listeners
from tornado_gate.telemetry.metrics.process import RestartCounter, remove_process

log = logging.getLogger(__name__)

STEADY_SECONDS: Final = 10.0
"""The time within which an ended process counts as a quick failure."""
CRASH_LOOP: Final = 3
"""The number of consecutive quick failures that make a crash loop."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""The delay in seconds before a process that has failed quickly is replaced: doubled with each such failure."""
MARGIN_SECONDS = 30.0
"""Seconds to end and to write usage, beyond the time that open requests have."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
STOP, HANDED_OVER = signal.SIGUSR1, signal.SIGUSR2
"""The messages of the supervisor to its processes."""
SIGNALS = (*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD)
_PROCESS_ID: Final = struct.Struct("i")


class Board:
    """The memory that the supervisor and its processes share: a page, and a pipe. Create it before they start.

    `life` is the end of the pipe that a process reads: it ends when the supervisor ends, for any reason.
    """

    def __init__(self, drain_seconds: float) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self.life, self._alive = os.pipe()
        self.set_drain_seconds(drain_seconds)

    def enter_child(self) -> None:
        """Prepare the board in a process of the supervisor; call it first."""
        os.close(self._alive)

    @property
    def stop_signal(self) -> int:
        """Return the signal that has stopped the supervisor: SIGTERM or SIGINT."""
        return self._page[1] or signal.SIGTERM

    def set_stop_signal(self, number: int) -> None:
        self._page[1] = number

    @property
    def is_crash_loop(self) -> bool:
        """Return whether processes end again and again soon after their start."""
        return bool(self._page[0])

    def set_crash_loop(self, yes: bool) -> None:
        self._page[0] = int(yes)

    @property
    def drain_seconds(self) -> float:
        """Return the maximum time that a process needs to drain, by the current configuration."""
        seconds: float = struct.unpack_from("d", self._page, 8)[0]
        return seconds

    def set_drain_seconds(self, seconds: float) -> None:
        struct.pack_into("d", self._page, 8, seconds)


class Supervisor:
    """A supervisor of `count` processes that run `child`.

    They run until SIGTERM or SIGINT, or until another gateway replaces all (SIGUSR2). `child` gets a function that it calls when
    it serves; `flush` is called last in each child. This process closes its own copies of `listeners` when it stops. Otherwise
    the kernel would accept connections that wait as long as any process has the socket open.
    """

    def __init__(
        self,
        count: int,
        child: Callable[[Callable[[], None]], None],
        *,
        listeners: Listeners,
        flush: Callable[[], None],
        board: Board,
    ) -> None:
        self._count = count
        self._child = child
        self._listeners = listeners
        self._flush = flush
        self._board = board
        self._started: dict[int, float] = {}
        self._serving: set[int] = set()
        self._due: list[float] = []  # the times at which ended processes are replaced
        self._quick_failures = 0
        self._stopping = False
        self._kill_at: float | None = None
        self._successor: Successor | None = None
        self._give_up_at = 0.0
        self._signals: list[int] = []
        self._hear, self._tell = os.pipe()
        self._woken, self._wake = os.pipe()
        self._restarts: RestartCounter | None = None

    def run(self, ready: Callable[[], None]) -> None:
        """Run the children, and return when the last one has ended. `ready` is called when all of them serve."""
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._note_signal)
        for _ in range(self._count):
            self._start()
        self._restarts = RestartCounter()
        is_ready = False
        while self._started or self._due:
            self._wait()
            self._handle_signals()
            self._reap()
            self._replace_due()
            self._check_successor()
            self._check_health()
            if not is_ready and not self._stopping and len(self._serving) == self._count:
                is_ready = True
                ready()
        signal.set_wakeup_fd(-1)

    # Waiting

    def _wait(self) -> None:
        """Wait for a signal, for a message of a process, or until a deadline."""
        times = [*self._due]
        if self._kill_at is not None:
            times.append(self._kill_at)
        if self._successor is not None:
            times.append(self._give_up_at)
        if self._quick_failures and self._started:
            times.append(max(self._started.values()) + STEADY_SECONDS)
        seconds = max(0.0, min(times) - time.monotonic()) if times else None
        sources = [self._hear, self._woken]
        if self._successor is not None:
            sources.append(self._successor.descriptor)
        readable = select.select(sources, [], [], seconds)[0]
        if self._woken in readable:
            os.read(self._woken, 4096)
        if self._hear in readable:
            # each message is written in one step, so none is incomplete
            message = os.read(self._hear, 64 * _PROCESS_ID.size)
            self._serving |= {process for (process,) in _PROCESS_ID.iter_unpack(message)} & set(self._started)

    def _note_signal(self, number: int, _frame: object) -> None:
        self._signals.append(number)

    def _handle_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if number in STOP_SIGNALS:
                self._stop(number)
            elif number == signal.SIGHUP:
                self._forward(signal.SIGHUP)
            elif number == signal.SIGUSR2:
                self._start_successor()

    def _forward(self, number: int) -> None:
        for process in list(self._started):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    # Processes

    def _start(self) -> None:
        """Start a child. A signal that arrives now is handled when the child is known."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            process = os.fork()
            if process == 0:
                self._run_child()
            self._started[process] = time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _run_child(self) -> None:
        """Run the child and exit the process; never returns, so that a child does not continue with the parent's code."""
        signal.set_wakeup_fd(-1)
        self._board.enter_child()
        # systemd and terminals signal all processes of a group: the signals that the supervisor forwards would count as a second
        # one.
        # ignore SIGHUP until the process has read the current configuration
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for number in (STOP, HANDED_OVER, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        code = 1
        try:
            self._child(self._report_serving)
            code = 0
        except BaseException:
            log.exception("serving process failed")
        finally:
            self._flush()
            os._exit(code)

    def _report_serving(self) -> None:
        os.write(self._tell, _PROCESS_ID.pack(os.getpid()))

    def _reap(self) -> None:
        """Record the processes that have ended."""
        for process in list(self._started):
            with suppress(ChildProcessError):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    self._on_end(process, os.waitstatus_to_exitcode(status))

    def _on_end(self, process: int, code: int) -> None:
        remove_process(process)
        lived = time.monotonic() - self._started.pop(process)
        self._serving.discard(process)
        if self._stopping:
            return
        pause = 0.0
        if lived < STEADY_SECONDS:
            self._quick_failures += 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._quick_failures - 1, 10))
        log.error(
            "process %d ended with exit code %d after %.1f s; it is replaced in %.0f s", process, code, lived, pause
        )
        if self._quick_failures == CRASH_LOOP:
            self._board.set_crash_loop(True)
            log.critical(
                "%d processes ended soon after their start: /readyz is 503 until all of %d run for %.0f s. Their log says why.",
                CRASH_LOOP,
                self._count,
                STEADY_SECONDS,
            )
        self._due.append(time.monotonic() + pause)

    def _replace_due(self) -> None:
        now = time.monotonic()
        for due in [due for due in self._due if due <= now]:
            self._due.remove(due)
            self._start()
            if self._restarts is not None:
                self._restarts.count()

    def _check_health(self) -> None:
        """Reset the quick failures when all processes run, and kill processes that do not stop."""
        now = time.monotonic()
        is_steady = all(now - started >= STEADY_SECONDS for started in self._started.values())
        if self._quick_failures and is_steady and len(self._serving) == self._count:
            self._quick_failures = 0
            self._board.set_crash_loop(False)
            log.info("all %d processes run", self._count)
        if self._kill_at is not None and now >= self._kill_at:
            for process in self._started:
                log.error("process %d did not stop in time and is killed; what it was doing is lost", process)
            self._forward(signal.SIGKILL)
            self._kill_at = None

    # The end

    def _stop(self, number: int) -> None:
        if not self._stopping:
            systemd.notify_stopping()
        if self._successor is not None:
            self._successor.give_up("this one was stopped")
            self._close_successor()
        self._board.set_stop_signal(number)
        self._end(STOP)

    def _end(self, number: int) -> None:
        """Close the sockets of this process and let the children end by a signal."""
        self._stopping = True
        self._due.clear()
        self._listeners.close()
        self._forward(number)
        self._kill_at = time.monotonic() + self._board.drain_seconds + MARGIN_SECONDS

    def _start_successor(self) -> None:
        if self._stopping or self._successor is not None:
            log.warning("SIGUSR2 is ignored: this process already stops or is being replaced")
            return
        try:
            self._successor = Successor(self._listeners)
        except OSError as error:
            log.error("no process can be started to replace this one: %s", error)
        self._give_up_at = time.monotonic() + START_SECONDS

    def _check_successor(self) -> None:
        successor = self._successor
        if successor is None:
            return
        serves = successor.read_state()
        if serves is None and time.monotonic() >= self._give_up_at:
            successor.give_up(f"it did not serve within {START_SECONDS:.0f} s")
            serves = False
        if serves is not None:
            self._close_successor()
        if serves:
            self._end(HANDED_OVER)

    def _close_successor(self) -> None:
        assert self._successor is not None
        self._successor.close()
        self._successor = None
