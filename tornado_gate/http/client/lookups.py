"""Look-ups of names in separate threads, so that a resolver that hangs on one name delays no other look-up.

The loop's own threads are few and shared with files and much else. A few requests for a name whose servers do not respond would
occupy them all, because the system's resolver takes many seconds for each. So a look-up has a separate thread. Requests for the
same name wait for the same look-up, including later requests after others have timed out. Such a thread does not delay the end of
the process.
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

    async def find_addresses(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Return the addresses of a host. Raises OSError, and ValueError for an invalid name."""
        running = self._running.get((host, port))
        if running is None:
            running = self._running[host, port] = self._loop.create_future()
            running.add_done_callback(lambda done: self._end((host, port), done))
            threading.Thread(target=self._look_up, args=(host, port, running), name="resolve", daemon=True).start()
        return await asyncio.shield(running)

    def _end(self, name: tuple[str, int], done: asyncio.Future[Sequence[AddressInfo]]) -> None:
        del self._running[name]
        done.exception()  # maybe no request waits any more

    def _look_up(self, host: str, port: int, result: asyncio.Future[Sequence[AddressInfo]]) -> None:
        tell: Callable[[Any], None] = result.set_result
        try:
            outcome: Any = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except Exception as error:  # any error is passed to the requests that wait
            outcome, tell = error, result.set_exception
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(tell, outcome)
