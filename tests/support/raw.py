"""Servers that say any bytes in any rhythm, and tests that run on every event loop we serve on and must leave nothing open."""

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

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SECONDS = 30
"""After that a test has hung."""


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """An async test on asyncio and on uvloop. No task and no file descriptor may outlive it."""

    async def alone(arguments: dict[str, Any]) -> None:
        await asyncio.wait_for(test(**arguments), SECONDS)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, others

    @functools.wraps(test)
    def on_loop(*, event_loop_kind: str, **arguments: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[event_loop_kind]) as runner:
            runner.run(asyncio.sleep(0))  # what the first loop of a process opens for good is no leak
        before = descriptors()
        with asyncio.Runner(loop_factory=LOOPS[event_loop_kind]) as runner:
            runner.run(alone(arguments))
        assert descriptors() <= before

    signature = inspect.signature(test)
    kind = inspect.Parameter("event_loop_kind", inspect.Parameter.KEYWORD_ONLY)
    on_loop.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), kind]
    )
    parametrized: Callable[..., None] = pytest.mark.parametrize("event_loop_kind", sorted(LOOPS))(on_loop)
    return parametrized


def descriptors() -> int:
    """How many files and sockets this process has open."""
    return len(os.listdir("/proc/self/fd"))


class Peer:
    """The server's end of one connection; `number` counts them from 0."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        """The head of the next request. Raises IncompleteReadError when the client has left."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> bytes:
        """The next request, head and body."""
        head = await self.head()
        _, found, length = head.lower().partition(b"content-length: ")
        return head + await self.reader.readexactly(int(length.partition(b"\r")[0]) if found else 0)

    async def say(self, *pieces: bytes) -> None:
        """Each piece in a segment of its own, as far as a kernel can be told."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def gone(self) -> None:
        """Until the client has left."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def hang_up(self) -> None:
        """FIN."""
        self.writer.close()

    def reset(self) -> None:
        """RST, when something is unread; the connection is gone either way."""
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


class Raw:
    """A server whose connections follow a script. What a script raises ends the connection and is kept in `faults`."""

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
            pass  # the client has left, or the test is over
        except Exception as fault:
            self.faults.append(fault)
        finally:
            writer.close()
            self.tasks.discard(task)


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Raw]:
    """Serve on a free port. Scripts that wait for the client must see it leave before this ends."""
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
    """An answer with a length; underscores of header names are hyphens."""
    given = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n", **headers: str) -> bytes:
    """An answer in chunked coding, RFC 9112 7.1."""
    head = answer(b"", Content_Length="", Transfer_Encoding="chunked", **headers)
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


def always(said: bytes) -> Script:
    """The same for every request, on every connection, until the client leaves."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(said)

    return script


def once(*said: bytes) -> Script:
    """One request is read, `said` follows, and the connection is closed."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*said)

    return script


def then_wait(*said: bytes) -> Script:
    """One request is read, `said` follows, and then nothing until the client leaves."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*said)
        await peer.gone()

    return script
