"""A child process that prints a line when it is ready, and whose output is collected."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.fork_server import ForkedProcess, get_fork_server

READY_SECONDS = 120.0
STOP_SECONDS = 60.0
"""Limits of waits that have failed: on a busy machine a start or a stop takes many times longer than usual."""
REPOSITORY = Path(__file__).resolve().parents[2]


class ChildFailed(AssertionError):
    """A child process did not start or did not stop; the message contains its output."""


class Child:
    """One child process. stdout and stderr are collected together, in the order of their lines.

    `inherited` are descriptors that it keeps open. Tests wait for its output or its exit only, never for a fixed time: a
    deadline is the limit of a wait that failed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path = REPOSITORY,
        forked: bool = False,
        inherited: Sequence[int] = (),
    ) -> None:
        """`forked`: the command is `tornado-gate`, and the fork server starts it if the environment allows it."""
        self.command = list(command)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self.process: subprocess.Popen[str] | ForkedProcess
        if forked and not inherited and get_fork_server().can_start(environment):
            self.process = get_fork_server().start(self.command[1:], environment, folder, stderr=False)
        else:
            self.process = self._start(environment, folder, inherited)
        self._lines: list[str] = []
        self._line_read = threading.Condition()
        self._ended = False
        self._news: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name=f"output of {command[0]}", daemon=True)
        self._reader.start()

    def _start(self, environment: Mapping[str, str], folder: Path, inherited: Sequence[int]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            pass_fds=inherited,
        )

    @property
    def output(self) -> str:
        """The output of the child so far."""
        return "".join(self._lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._line_read:
                self._lines.append(line)
                self._line_read.notify_all()
            self._news.put(line)
        with self._line_read:
            self._ended = True
            self._line_read.notify_all()
        self._news.put(None)

    def wait_for_output(self, pattern: str, count: int = 1, seconds: float = READY_SECONDS) -> str:
        """Wait until the whole output has `count` matches of `pattern`, and return the output.

        A log line is written after the answer of its request. Raises ChildFailed when the matches do not come within `seconds`,
        or when the output ends before.
        """
        expression = re.compile(pattern, re.MULTILINE)

        def is_found() -> bool:
            return len(expression.findall(self.output)) >= count

        with self._line_read:
            self._line_read.wait_for(lambda: self._ended or is_found(), seconds)
        if not is_found():
            raise ChildFailed(f"{self.command} did not print {pattern!r} {count} times:\n{self.output}")
        return self.output

    def wait_for_line(self, pattern: str, seconds: float = READY_SECONDS) -> re.Match[str]:
        """The next unread line that matches `pattern`. Raises ChildFailed when none comes within `seconds`."""
        deadline = time.monotonic() + seconds
        try:
            while (line := self._news.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
                if found := re.search(pattern, line):
                    return found
            self.process.wait()
            state = f"before it ended with status {self.process.returncode}"
        except queue.Empty:
            state = f"in {seconds} s"
        self.kill()
        raise ChildFailed(f"{self.command} printed no line that matches {pattern!r} {state}:\n{self.output}")

    def stop(self, seconds: float = STOP_SECONDS) -> str:
        """Send SIGTERM, wait for the exit and return the output. Raises ChildFailed when the process does not exit."""
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ChildFailed(f"{self.command} did not exit in {seconds} s after SIGTERM:\n{self.output}") from error
        self._close()
        return self.output

    def kill(self) -> None:
        """Kill the process and its children (SIGKILL)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close()

    def _close(self) -> None:
        self._reader.join(STOP_SECONDS)
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()
