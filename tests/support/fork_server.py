"""Starts gateways from a process that has imported their modules: a start takes 0.15 s of CPU time instead of 0.9 s.

The tests start hundreds of gateways. `ForkServer` runs this file as a program, which imports the modules and forks for each
start; the fork calls the same `main` as the installed command, with the arguments, environment and folder that it is given.
Tests of the start itself use the installed command (`Gateway.start(…, installed=True)`).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
MAX_MESSAGE = 1 << 20
MAX_FILES = 1024
PATH_VARIABLE = "PYTHONPATH"
READ_AT_START = ("PYTHON", "LD_", "MALLOC_", "PROMETHEUS_", "TZ", "LANG", "LC_")
"""Variables that have an effect only on a new process begin so."""


class ForkedProcess:
    """A process of the fork server, with what the tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, status: socket.socket, stdout: TextIO, stderr: TextIO) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = stdout
        self.stderr = stderr
        self._status = status

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, negative for a signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("tornado-gate", timeout or 0.0)
            told = self._status.recv(16)
            assert told, "the fork server has ended"
            self.returncode = int(told)
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The program below, one for each process of tests. It ends, with all that it started, when the tests' process ends."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environment = dict(os.environ)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._failure = ""

    def can_start(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork would see all of `environment`: False if it changes what a process reads at its start only."""
        names = {name for name in {*environment, *self._environment} if name.startswith(READ_AT_START)}
        return all(
            environment.get(name) == self._environment.get(name) for name in names - {"PYTHONUNBUFFERED", PATH_VARIABLE}
        )

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        stderr: bool,
        stdin: int | None = None,
    ) -> ForkedProcess:
        """Run `tornado-gate` with these arguments, in a session of its own. `stderr`: it has a pipe of its own.

        `stdin` is an open file; without it the input is empty.
        """
        status, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(2 if stderr else 1)]
        message = {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder)}
        try:
            files = [theirs.fileno(), pipes[0][1], pipes[-1][1], *([] if stdin is None else [stdin])]
            with contextlib.suppress(ConnectionError):
                socket.send_fds(self._socket, [json.dumps(message).encode()], files)
        finally:
            theirs.close()
            for _, writing in pipes:
                os.close(writing)
        pid = int(status.recv(16) or b"0")
        assert pid, self._explain_end()
        outputs = [os.fdopen(reading, encoding="utf-8", errors="replace") for reading, _ in pipes]
        return ForkedProcess(pid, status, outputs[0], outputs[-1])

    def _explain_end(self) -> str:
        """Why it has ended: usually a module cannot be imported."""
        self._failure = self._failure or self._process.communicate(timeout=START_SECONDS)[1]
        return f"the fork server has ended:\n{self._failure}"

    def close(self) -> None:
        self._socket.close()
        self._process.communicate(timeout=START_SECONDS)


@functools.cache
def get_fork_server() -> ForkServer:
    return ForkServer()


def close_fork_server() -> None:
    """End the fork server of this process, if there is one."""
    if get_fork_server.cache_info().currsize:
        get_fork_server().close()
        get_fork_server.cache_clear()


class _Program:
    """The fork server itself: it has one thread, and no file is open that a fork could share by mistake."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, tuple[int, socket.socket]] = {}

    def run(self) -> list[str]:
        """Fork for each message. Returns in the forks only, with the arguments."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            for file, _ in poll.poll():
                if file in self._children:
                    poll.unregister(file)
                    self._report_end(file)
                    continue
                message, files, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 4)
                if not message:
                    self._end()
                pid = os.fork()
                if not pid:
                    self._forget_files()
                    return _become(json.loads(message), *files[1:])
                for inherited in files[1:]:
                    os.close(inherited)
                status = socket.socket(fileno=files[0])
                status.sendall(b"%d" % pid)
                ended = os.pidfd_open(pid)
                self._children[ended] = (pid, status)
                poll.register(ended, select.POLLIN)

    def _report_end(self, file: int) -> None:
        pid, status = self._children.pop(file)
        os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with status, contextlib.suppress(OSError):
            status.sendall(b"%d" % code)

    def _forget_files(self) -> None:
        """In a fork: these objects may not close what has their number there."""
        self._control.detach()
        for _, status in self._children.values():
            status.detach()

    def _end(self) -> NoReturn:
        for pid, _ in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        os._exit(0)


def _become(message: dict[str, Any], stdout: int, stderr: int, stdin: int = 0) -> list[str]:
    """Make a fork what a new process would be."""
    os.setsid()
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(3, MAX_FILES)
    os.chdir(message["folder"])
    os.environ.clear()
    os.environ.update(message["environment"])
    sys.path[1:1] = [path for path in os.environ.get(PATH_VARIABLE, "").split(":") if path and path not in sys.path]
    arguments: list[str] = message["arguments"]
    return arguments


def _import_modules() -> None:
    """Import what a gateway imports, except what reads the environment (prometheus_client)."""
    for name in (
        "tornado_gate.cli",
        "tornado_gate.server.process.process",
        "tornado_gate.server.process.supervisor",
        "uvloop",
    ):
        importlib.import_module(name)
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server import pages

    pages.load_pages()
    host = PluginHost()
    for name in host.plugins:
        host.load(name)
    host.load_deferred_modules()
    assert "prometheus_client" not in sys.modules
    assert len(os.listdir("/proc/self/task")) == 1, "a thread would not be in the forks"
    gc.collect()
    gc.freeze()  # otherwise the collector visits, and so copies, all objects in each fork: 0.35 s of CPU time at its end


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    _import_modules()
    sys.argv = ["tornado-gate", *_Program(control).run()]
    from tornado_gate.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
