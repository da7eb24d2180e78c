"""The replacement of a running gateway by a new one on the same sockets (SIGUSR2), without a refused connection.

The running process starts its own start command again, as a child which inherits the listening sockets. When the child serves, it
reports this over a pipe, and the running process drains. If the child ends before that, or needs too long, the running process
continues: a faulty configuration or a broken installation changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, MutableMapping

from tornado_gate.server.process.listeners import VARIABLE as LISTENERS_VARIABLE
from tornado_gate.server.process.listeners import Listeners
from tornado_gate.telemetry.metrics.series import DIRECTORY_VARIABLE

log = logging.getLogger(__name__)

READY_VARIABLE = "TORNADO_GATE_READY_FD"
START_SECONDS = 120.0
"""The time after which a new process that does not serve is killed."""


class Successor:
    """A new process that will replace this one. `descriptor` can be read when the process serves or has failed."""

    def __init__(self, listeners: Listeners) -> None:
        """Start the process. Raises OSError."""
        if os.getpid() == 1:
            raise OSError(
                "this is the first process of its container, which would end with it; replace the container instead"
            )
        environment = {name: value for name, value in os.environ.items() if name != DIRECTORY_VARIABLE}
        self.descriptor, writer = os.pipe()
        os.set_blocking(self.descriptor, False)
        environment[LISTENERS_VARIABLE] = listeners.encode()
        environment[READY_VARIABLE] = str(writer)
        try:
            self.process = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]],
                env=environment,
                pass_fds=[writer, *(listener.fileno() for listener in listeners.all)],
            )
        except OSError:
            os.close(self.descriptor)
            raise
        finally:
            os.close(writer)
        log.info("process %d was started to replace this one", self.process.pid)

    def read_state(self) -> bool | None:
        """Return whether the process serves; None if that is not known yet. False: it has ended, or is killed now."""
        try:
            if os.read(self.descriptor, 1):
                return True
        except BlockingIOError:
            return None
        self.give_up("it ended before it served: its log says why")
        return False

    def give_up(self, why: str) -> None:
        """Kill the process, and log why this one continues."""
        self.process.kill()
        log.error("process %d does not replace this one, which continues: %s", self.process.pid, why)

    def close(self) -> None:
        """Release the resources that this process holds for the new one. The new one continues, unless it was killed."""
        os.close(self.descriptor)
        self.process.poll()
        self.process.returncode = self.process.returncode or 0  # no warning that the child still runs


class Predecessor:
    """The process that this one replaces, if there is one."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        text = environment.pop(READY_VARIABLE, "")
        self._descriptor = int(text) if text else None
        if self._descriptor is not None:
            os.set_inheritable(self._descriptor, False)

    def report_serving(self) -> None:
        """Report to the old process that this one serves, so that it drains."""
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, b"1")
        except BrokenPipeError:
            log.info("the process that this one replaces has ended already")
        os.close(self._descriptor)
        self._descriptor = None


class Replacement:
    """A replacement in progress. It starts a `Successor`, and calls `hand_over` when that serves. It needs an event loop."""

    def __init__(self, listeners: Listeners, loop: asyncio.AbstractEventLoop, hand_over: Callable[[], None]) -> None:
        self._listeners = listeners
        self._loop = loop
        self._hand_over = hand_over
        self._successor: Successor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def start(self) -> None:
        """Start a successor after SIGUSR2."""
        if self._is_over or self._successor is not None:
            log.warning("SIGUSR2 is ignored: this process already stops or is being replaced")
            return
        try:
            self._successor = Successor(self._listeners)
        except OSError as error:
            log.error("no process can be started to replace this one: %s", error)
            return
        self._loop.add_reader(self._successor.descriptor, self._on_state)
        self._timer = self._loop.call_later(START_SECONDS, self._on_timeout)

    def cancel(self) -> None:
        """Kill the successor, because this process stops."""
        self._is_over = True
        if self._successor is not None:
            self._successor.give_up("this one was stopped")
            self._close()

    def _on_state(self) -> None:
        assert self._successor is not None
        serves = self._successor.read_state()
        if serves is None:
            return
        self._close()
        if serves:
            self._is_over = True
            self._hand_over()

    def _on_timeout(self) -> None:
        assert self._successor is not None
        self._successor.give_up(f"it did not serve within {START_SECONDS:.0f} s")
        self._close()

    def _close(self) -> None:
        assert self._successor is not None
        assert self._timer is not None
        self._loop.remove_reader(self._successor.descriptor)
        self._timer.cancel()
        self._successor.close()
        self._successor = None
