"""The minimum cost of a gateway in Python: bytes are forwarded, and only the ends of messages are detected.

Usage: python -m bench.forwarder PORT UPSTREAM_PORT. No flow control and no time-outs: a measure, not a proxy.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any, cast

import httptools
import uvloop

FREE_CONNECTIONS: list[UpstreamConnection] = []
OPENING_TASKS: set[asyncio.Task[Any]] = set()  # the event loop itself holds only weak references to tasks


class UpstreamConnection(asyncio.Protocol):
    """A connection to the upstream, used for one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.front: ForwarderConnection | None = None
        self.queued = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.queued)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in FREE_CONNECTIONS:
            FREE_CONNECTIONS.remove(self)
        if self.front and self.front.transport:
            self.front.transport.close()

    def begin(self, front: ForwarderConnection) -> None:
        self.front = front
        self._parser = httptools.HttpResponseParser(self)

    def send(self, data: bytes) -> None:
        if self.transport:
            self.transport.write(data)
        else:
            self.queued += data

    def data_received(self, data: bytes) -> None:
        if self.front and self.front.transport:
            self.front.transport.write(data)
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self.front:
            self.front.back = None
        self.front = None
        FREE_CONNECTIONS.append(self)


class ForwarderConnection(asyncio.Protocol):
    """A caller's connection."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self.transport: asyncio.Transport | None = None
        self.back: UpstreamConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        if self.back is None:
            self.back = FREE_CONNECTIONS.pop() if FREE_CONNECTIONS else self._open()
            self.back.begin(self)
        self.back.send(data)

    def _open(self) -> UpstreamConnection:
        back, loop = UpstreamConnection(), asyncio.get_running_loop()
        task = loop.create_task(loop.create_connection(lambda: back, "127.0.0.1", self._upstream))
        OPENING_TASKS.add(task)
        task.add_done_callback(OPENING_TASKS.discard)
        return back


async def main(port: int, upstream: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = await asyncio.get_running_loop().create_server(
        lambda: ForwarderConnection(upstream), "127.0.0.1", port, backlog=8192
    )
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), int(sys.argv[2])))
