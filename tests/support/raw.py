"""Servers that send arbitrary bytes with arbitrary timing, and a decorator for tests on both event loops."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from tests.support.variants import vary

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SECONDS = 30
"""The timeout of a test."""


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on asyncio and on uvloop. Fails if a task or file descriptor is left."""

    async def alone(arguments: dict[str, Any]) -> None:
        await asyncio.wait_for(test(**arguments), SECONDS)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, others

    @functools.wraps(test)
    def on_loop(*, event_loop_kind: str, **arguments: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[event_loop_kind]) as runner:
            runner.run(asyncio.sleep(0))  # the first loop of a process opens descriptors for good; they are no leak
        before = descriptors()
        with asyncio.Runner(loop_factory=LOOPS[event_loop_kind]) as runner:
            runner.run(alone(arguments))
        assert descriptors() <= before

    signature = inspect.signature(test)
    kind = inspect.Parameter("event_loop_kind", inspect.Parameter.KEYWORD_ONLY)
    on_loop.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), kind]
    )
    parametrized: Callable[..., None] = pytest.mark.parametrize("event_loop_kind", vary(*sorted(LOOPS, reverse=True)))(
        on_loop
    )
    return parametrized


def descriptors() -> int:
    """The number of open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


class Peer:
    """The server side of one connection; `number` counts connections from 0."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        """The head of the next request. Raises IncompleteReadError when the client has closed the connection."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> bytes:
        """The next request, head and body."""
        head = await self.head()
        _, found, length = head.lower().partition(b"content-length: ")
        return head + await self.reader.readexactly(int(length.partition(b"\r")[0]) if found else 0)

    async def say(self, *pieces: bytes) -> None:
        """Write each piece separately, with a drain between them, so that each is usually a TCP segment of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def hang_up(self) -> None:
        """Close the connection (FIN)."""
        self.writer.close()

    def reset(self) -> None:
        """Abort the connection (RST when unread data is left)."""
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


class Raw:
    """A server that runs `script` for each connection. An exception in a script ends the connection and is kept in `faults`."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.url = ""
        self.peers: list[Peer] = []
        self.faults: list[BaseException] = []
        self.tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        peer = Peer(len(self.peers), reader, writer)
        self.peers.append(peer)
        try:
            await self.script(peer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has closed the connection, or the test is over
        except Exception as fault:
            self.faults.append(fault)
        finally:
            writer.close()
            self.tasks.discard(task)


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Raw]:
    """Serve on a free port. Scripts that wait for the client to close must see it before this context ends."""
    raw = Raw(script)
    server = await asyncio.start_server(raw.serve, host, 0, ssl=tls, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    raw.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        yield raw
    finally:
        server.close()
        for task in list(raw.tasks):
            task.cancel()
        await asyncio.gather(*raw.tasks, return_exceptions=True)
        for peer in raw.peers:
            peer.writer.transport.abort()
        await asyncio.sleep(0)
    assert not raw.faults, raw.faults


def answer(body: bytes = b"ok", status: str = "200 OK", **headers: str) -> bytes:
    """The bytes of a response with a length; underscores in `headers` become hyphens."""
    given = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n", **headers: str) -> bytes:
    """The bytes of a response in chunked transfer coding, RFC 9112 7.1."""
    head = answer(b"", Content_Length="", Transfer_Encoding="chunked", **headers)
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


def always(said: bytes) -> Script:
    """Send `said` as the response to every request on every connection, until the client closes it."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(said)

    return script


def once(*said: bytes) -> Script:
    """Read one request, send `said` and close the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*said)

    return script


def then_wait(*said: bytes) -> Script:
    """Read one request, send `said`, then wait until the client closes the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*said)
        await peer.gone()

    return script
