"""The connection of one node to one engine, as a process of its own: it passes bytes, delays them, stops, or refuses.

``python -m qa.cluster.link ADDRESS [HOST]`` prints its two ports. ADDRESS is ``host:port``, or the path of a Unix socket. The
first port is at HOST, by default 127.0.0.1. The second port takes one command a line: ``pass``, ``delay SECONDS``, ``stall``,
``refuse`` or ``counts``. The answer is a line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

_CHUNK = 65536


class Link:
    """`counts` are connections, and bytes to and from the engine, since the start."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._mode = "pass"
        self._delay = 0.0
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self.counts = {"connections": 0, "to_engine": 0, "from_engine": 0}

    async def serve(self, host: str) -> None:
        data = await asyncio.start_server(self._connect, host, 0)
        control = await asyncio.start_server(self._control, "127.0.0.1", 0)
        ports = [server.sockets[0].getsockname()[1] for server in (data, control)]
        print(f"link: data {ports[0]} control {ports[1]}", flush=True)
        await asyncio.gather(data.serve_forever(), control.serve_forever())

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := (await reader.readline()).decode().split():
            if line[0] != "counts":
                self._set_mode(line[0], float(line[1]) if len(line) > 1 else 0.0)
            writer.write(json.dumps(self.counts).encode() + b"\n")
            await writer.drain()
        writer.close()

    def _set_mode(self, mode: str, delay: float) -> None:
        self._mode, self._delay = mode, delay
        self._changed.set()
        self._changed = asyncio.Event()
        if mode == "refuse":
            for writer in self._writers:
                writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "refuse":
            writer.transport.abort()
            return
        self.counts["connections"] += 1
        if self._address.startswith("/"):
            engine_reader, engine_writer = await asyncio.open_unix_connection(self._address)
        else:
            host, _, port = self._address.rpartition(":")
            engine_reader, engine_writer = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, engine_writer}
        try:
            await asyncio.gather(
                self._copy(reader, engine_writer, "to_engine"), self._copy(engine_reader, writer, "from_engine")
            )
        finally:
            self._writers -= {writer, engine_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(_CHUNK):
                await asyncio.sleep(self._delay)
                while self._mode == "stall":
                    await self._changed.wait()
                self.counts[direction] += len(chunk)
                writer.write(chunk)
                await writer.drain()
        writer.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Link(sys.argv[1]).serve(sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"))
