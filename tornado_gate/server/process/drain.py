"""The end of a serving process: probes fail, the port closes, requests end, and requests that take too long are ended.

There are two reasons, by signal. SIGTERM and SIGINT: the gateway stops. For `server.drain_delay` /readyz is 503 while the port is
still open, so that a load balancer stops sending requests before they would be refused (SIGINT: without this delay). Handed over:
another process accepts on the same sockets, and this one closes its own immediately; /readyz stays 200.

In both cases idle connections stay open temporarily: a client may be sending a request on one. Each gets at most one more
response, with `Connection: close`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tornado_gate.errors import Unavailable
from tornado_gate.server.process import systemd
from tornado_gate.server.services import Services

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

HANDED_OVER_SECONDS = 5.0
"""The time for which idle connections stay open after a hand-over: longer than usual clients keep an unused one (httpx: 5 s)."""
ACCEPT_SECONDS = 0.05
"""Time for the event loop to take over connections that the kernel has given to this process."""
FLUSH_SECONDS = 2.0
"""The time that callers have to read the errors of requests that were ended."""


class Listener(Protocol):
    """An HTTP server for callers: `HttpServer` or `TornadoServer` (`http.server`)."""

    def retire(self) -> None: ...
    def stop_listening(self) -> None: ...
    def close_idle(self) -> None: ...
    async def wait_closed(self) -> None: ...
    async def close_all_connections(self) -> None: ...
    def renew_certificate(self, context: ssl.SSLContext) -> None: ...


class Drain:
    """The end of the process. `stop` or `hand_over` begins it; `wait` returns then, and `run` does the rest.

    A second `stop` ends it immediately.
    """

    def __init__(self, services: Services, listeners: Sequence[Listener]) -> None:
        self._services = services
        self._gate = services.gate
        self._listeners = listeners
        self._begun = asyncio.Event()
        self._hurry = asyncio.Event()
        self._delay: float | None = None  # None: handed over

    def stop(self, number: int) -> None:
        """Begin the end after SIGTERM or SIGINT."""
        if self._begun.is_set():
            self._hurry.set()
            return
        self._delay = 0.0 if number == signal.SIGINT else self._gate.snapshot.config.server.drain_delay
        self._gate.readiness.is_draining = True
        systemd.notify_stopping()
        self._begun.set()

    def hand_over(self) -> None:
        """Begin the end after another process has started to serve on the same sockets."""
        self._begun.set()

    async def wait(self) -> None:
        await self._begun.wait()

    async def run(self) -> None:
        """Close the port and all connections. Return at most about `drain_delay` and `drain_seconds` later."""
        for listener in self._listeners:
            listener.retire()
        if self._delay is None:
            self._stop_listening("handed over to another process")
            await asyncio.sleep(ACCEPT_SECONDS)
            await self._until(self._wait_for_connections(), HANDED_OVER_SECONDS)
        else:
            if self._delay:
                log.info("/readyz is 503; the port closes in %g s", self._delay)
                await self._until(self._hurry.wait(), self._delay)
            self._stop_listening("draining")
        await self._finish_requests(self._gate.snapshot.config.server.drain_seconds)
        for listener in self._listeners:
            await listener.close_all_connections()

    def _stop_listening(self, why: str) -> None:
        for listener in self._listeners:
            listener.stop_listening()
        self._services.close_sessions()
        seconds = self._gate.snapshot.config.server.drain_seconds
        log.info("%s: %d open requests, up to %.0f s", why, self._gate.requests.count, seconds)

    async def _finish_requests(self, seconds: float) -> None:
        for listener in self._listeners:
            listener.close_idle()
        if await self._until(self._wait_for_requests(), seconds):
            return
        log.warning("%d requests were still open after %.0f s; they are ended", self._gate.requests.count, seconds)
        error = Unavailable(
            "The gateway is shutting down, and the request took too long. Send it again.",
            code="shutting_down",
            headers={"Retry-After": "1"},
        )
        for request in list(self._gate.requests.running):
            request.interrupt(error)
        self._hurry.clear()
        await self._until(self._wait_for_requests(), FLUSH_SECONDS)

    async def _wait_for_requests(self) -> None:
        await self._wait_for_connections()
        await self._gate.requests.wait_until_idle()  # connections outside of the HTTP servers: WebSockets

    async def _wait_for_connections(self) -> None:
        await self._gate.requests.wait_until_idle()
        for listener in self._listeners:
            await listener.wait_closed()

    async def _until(self, waiting: Coroutine[Any, Any, object], seconds: float) -> bool:
        """Wait for `waiting`, at most for `seconds`, and not if everything shall end now. Return whether it has ended."""
        work, hurry = asyncio.ensure_future(waiting), asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait((work, hurry), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if work.done():
            return True
        work.cancel()
        return False
