"""Functions that use the database in its threads, with a time limit that also holds while the server is silent.

The server ends a long statement itself. A server that hangs, or a network that swallows packets, does not: then the connection
of the thread is shut down, so that the function ends with an error and the thread is free again.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

_CURRENT: Final = threading.local()


class DatabaseCall:
    """A function for a thread of the database. The thread calls it; another one may interrupt it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._connection: Any = None
        self.is_interrupted = False

    def __call__(self) -> Any:
        _CURRENT.call = self
        try:
            return self._function()
        finally:
            _CURRENT.call = None
            self.hold(None)

    def hold(self, connection: Any) -> None:
        """Note the connection of psycopg that the function uses now; None before it is given back or closed."""
        with self._lock:
            self._connection = connection
            if connection is not None and self.is_interrupted:
                self._shut_down()

    def interrupt(self) -> None:
        """Let the function fail: at once if it waits for the server, otherwise when it takes a connection."""
        with self._lock:
            self.is_interrupted = True
            if self._connection is not None:
                self._shut_down()

    def _shut_down(self) -> None:
        # A connection that is lost already has no descriptor: the driver raises an error of its own.
        with suppress(Exception), socket.socket(fileno=os.dup(self._connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)


def note_connection(connection: Any) -> None:
    """Note the connection of the call that runs in this thread, if one does."""
    call: DatabaseCall | None = getattr(_CURRENT, "call", None)
    if call is not None:
        call.hold(connection)
