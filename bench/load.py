"""The load generator: plain connections that send prepared bytes and check every response. Used by every measurement here.

Callbacks instead of coroutines, so that this process is not what limits a fast gateway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

MAX_PARALLEL_OPENS = 64  # connections that are opened at a time
PATIENCE_SECONDS = 120.0


class BadAnswer(Exception):
    """A response differs from what the case expects; the message says how."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The properties of every valid response."""

    ends: bytes  # ignoring trailing white space
    least_bytes: int
    holds: bytes = b""
    times: int = 0  # minimum number of occurrences of `holds`

    def check(self, status: int, body: bytes) -> None:
        """Check a response. Raises BadAnswer."""
        if status != 200:
            raise BadAnswer(f"status {status}: {body[:160].decode(errors='replace')}")
        if len(body) < self.least_bytes or not body.rstrip().endswith(self.ends):
            raise BadAnswer(f"cut short: {len(body)} bytes that end with {body[-40:]!r}")
        if self.times and body.count(self.holds) < self.times:
            raise BadAnswer(f"{body.count(self.holds)} of {self.times} times {self.holds.decode()} in what came")


@dataclass(slots=True)
class LoadResult:
    """The result of a load."""

    answers: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def check(self) -> LoadResult:
        """Return itself. Raises BadAnswer if a response was wrong, or none arrived."""
        if self.faults or not self.answers:
            raise BadAnswer(self.faults[0] if self.faults else "no answer in time")
        return self


class LoadConnection(asyncio.Protocol):
    """Sends a request on demand; `answered` is called after each response, with None or an error message."""

    def __init__(
        self, request: bytes, expected: Expected, answered: Callable[[LoadConnection, str | None], None]
    ) -> None:
        self._request, self._expected, self._answered = request, expected, answered
        self._parts: list[bytes] = []
        self._waiting = False
        self.first = 0.0  # time of the first byte of the body
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._waiting:
            self._waiting = False
            self._answered(self, "the connection was closed before the response was complete")

    def send(self) -> None:
        """Send the request again."""
        assert self.transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._parts, self._waiting, self.first = [], True, 0.0
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        if not self._parts:
            self.first = time.perf_counter()
        self._parts.append(data)

    def on_message_complete(self) -> None:
        self._waiting = False
        fault = None
        try:
            self._expected.check(self._parser.get_status_code(), b"".join(self._parts))
        except BadAnswer as error:
            fault = str(error)
        self._parts = []
        if not self._parser.should_keep_alive() and self.transport:
            self.transport.close()
            self.transport = None
        self._answered(self, fault)


class LoadGenerator:
    """A number of connections to one address that send the same request."""

    def __init__(self, port: int, request: bytes, expected: Expected) -> None:
        self._port, self._request, self._expected = port, request, expected
        self._loop = asyncio.get_running_loop()
        self._open: list[LoadConnection] = []
        self._tally, self._until, self._running = LoadResult(), 0.0, 0
        self._over: asyncio.Future[None] = self._loop.create_future()

    async def open(self, count: int) -> None:
        """Open that many connections."""
        while len(self._open) < count:
            more = min(MAX_PARALLEL_OPENS, count - len(self._open))
            self._open += await asyncio.gather(*(self._connect() for _ in range(more)))

    async def _connect(self) -> LoadConnection:
        _, made = await self._loop.create_connection(
            lambda: LoadConnection(self._request, self._expected, self._on_answer), "127.0.0.1", self._port
        )
        return made

    @property
    def first(self) -> float:
        """Time of the first byte of the first connection's last response, as of `time.perf_counter`."""
        return self._open[0].first

    def close(self) -> None:
        for one in self._open:
            if one.transport:
                one.transport.close()

    async def run(self, seconds: float) -> LoadResult:
        """Repeat the request on every connection for that many seconds (0: once), then wait for all responses."""
        self._tally, self._over = LoadResult(), self._loop.create_future()
        started = time.perf_counter()
        self._until, self._running = started + seconds, len(self._open)
        self._open = [one if one.transport else await self._connect() for one in self._open]
        for one in self._open:
            one.send()
        try:
            await asyncio.wait_for(self._over, PATIENCE_SECONDS)
        except TimeoutError:
            self._tally.faults.append(f"{self._running} responses did not arrive within {PATIENCE_SECONDS:.0f} s")
        self._tally.seconds = time.perf_counter() - started
        return self._tally

    def _on_answer(self, one: LoadConnection, fault: str | None) -> None:
        if fault:
            self._tally.faults.append(fault)
        else:
            self._tally.answers += 1
        if fault or time.perf_counter() >= self._until:
            self._running -= 1
            if not self._running and not self._over.done():
                self._over.set_result(None)
        elif one.transport:
            one.send()
        else:
            self._loop.create_task(self._replace_connection(one))

    async def _replace_connection(self, gone: LoadConnection) -> None:
        """Replace a connection that the server has closed after a response."""
        fresh = await self._connect()
        self._open[self._open.index(gone)] = fresh
        fresh.send()


async def measure_first_chunks(port: int, request: bytes, expected: Expected, count: int, gap: float) -> list[float]:
    """Return seconds until the first byte of the response's body, for sequential requests with a pause between."""
    load, found = LoadGenerator(port, request, expected), []
    await load.open(1)
    for _ in range(count):
        started = time.perf_counter()
        (await load.run(0)).check()
        found.append(load.first - started)
        await asyncio.sleep(gap)
    load.close()
    return found


async def run_and_watch(load: LoadGenerator, glance: Callable[[], None], every: float) -> LoadResult:
    """Send one request per connection; `glance` is called meanwhile."""
    running = asyncio.create_task(load.run(0))
    while not running.done():
        glance()
        await asyncio.wait([running], timeout=every)
    return await running
