"""Looks names up, so that a resolver that hangs on one name delays nobody who asks for another.

The loop's own threads are few and shared with files and much else: a few requests for a name whose servers do not answer, which
takes the system's resolver many seconds each, would occupy them all. So a look-up has a thread of its own, and requests for the
same name wait for the same one, also those that come after others have given up. Such a thread does not delay the end of the
process.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

AddressInfo = tuple[int, int, int, str, Any]
"""An entry of the result of `socket.getaddrinfo`."""


class Lookups:
    """The look-ups of one HTTP client that are running, by host and port."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[tuple[str, int], asyncio.Future[Sequence[AddressInfo]]] = {}

    async def find(self, host: str, port: int) -> Sequence[AddressInfo]:
        """The addresses of a host. Raises OSError, and ValueError for an invalid name."""
        running = self._running.get((host, port))
        if running is None:
            running = self._running[host, port] = self._loop.create_future()
            running.add_done_callback(lambda done: self._end((host, port), done))
            threading.Thread(target=self._look_up, args=(host, port, running), name="resolve", daemon=True).start()
        return await asyncio.shield(running)

    def _end(self, name: tuple[str, int], done: asyncio.Future[Sequence[AddressInfo]]) -> None:
        del self._running[name]
        done.exception()  # maybe nobody waits any more

    def _look_up(self, host: str, port: int, result: asyncio.Future[Sequence[AddressInfo]]) -> None:
        tell: Callable[[Any], None] = result.set_result
        try:
            found: Any = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except Exception as error:  # whatever it is, it is that of whoever waits
            found, tell = error, result.set_exception
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(tell, found)
