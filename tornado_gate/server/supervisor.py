"""Runs several serving processes on the same sockets, restarts those that die, and forwards signals to them."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence

from tornado_gate.telemetry.metrics import remove_process

log = logging.getLogger(__name__)

RESTART_SECONDS = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Supervisor:
    """Runs `child` in `count` processes until SIGTERM or SIGINT, restarts a process that dies, and forwards SIGHUP.

    `child` gets a function that it calls when it serves; `flush` is called last in each child. `sockets` are the listening
    sockets of the children: this process closes its own copies when it stops, because a connection is accepted by the kernel,
    and then waits, as long as any process has the socket open.
    """

    def __init__(
        self,
        count: int,
        child: Callable[[Callable[[], None]], None],
        *,
        sockets: Sequence[socket.socket],
        flush: Callable[[], None],
    ) -> None:
        self._count = count
        self._child = child
        self._sockets = sockets
        self._flush = flush
        self._started: dict[int, float] = {}
        self._stopping = False
        self._hear, self._tell = os.pipe()

    def run(self, ready: Callable[[], None]) -> None:
        """Run the children; returns when the last one has ended. `ready` is called when all of them serve."""
        for number in SIGNALS:
            signal.signal(number, self._forward_signal)
        for _ in range(self._count):
            self._start()
        heard = 0
        while heard < self._count and not self._stopping:
            heard += len(os.read(self._hear, self._count - heard))
        if not self._stopping:
            ready()
        while self._started:
            self._restart_child(*os.wait())

    def _start(self) -> None:
        """Start a child, unless the processes stop. A signal that arrives meanwhile is handled when the child is known."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            if self._stopping:
                return
            process = os.fork()
            if process == 0:
                self._run_child()
            self._started[process] = time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _restart_child(self, process: int, status: int) -> None:
        remove_process(process)
        started = self._started.pop(process, None)
        if started is None or self._stopping:
            return
        log.error("process %d ended with exit code %s; restarting it", process, os.waitstatus_to_exitcode(status))
        if time.monotonic() - started < RESTART_SECONDS:
            time.sleep(RESTART_SECONDS)
        self._start()

    def _forward_signal(self, number: int, _frame: object) -> None:
        if number != signal.SIGHUP:
            self._stopping = True
            for bound in self._sockets:
                bound.close()
        for process in list(self._started):
            os.kill(process, signal.SIGHUP if number == signal.SIGHUP else signal.SIGTERM)

    def _report_serving(self) -> None:
        os.write(self._tell, b".")

    def _run_child(self) -> None:
        """Run the child and exit the process; never returns, so that a child does not continue with the parent's code."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it has read the current configuration
        for number in (signal.SIGTERM, signal.SIGINT):
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
