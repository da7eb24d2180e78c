"""An upstream whose responses never end, in a process of its own: the first segment of the path says how.

Usage: python -m tests.support.endless. It prints its URL. ``GET /__closed/ATTACK`` waits until the gateway has closed the
connection of the latest request for this attack, and answers with the bytes that were sent on it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

MIB = 1024 * 1024
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
WORD = {
    **CHUNK,
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "word " * 500}, "finish_reason": None}],
}
HTTP = b"HTTP/1.1 200 OK\r\n"
JSON = HTTP + b"Content-Type: application/json\r\nConnection: close\r\n"
EVENTS = HTTP + b"Content-Type: text/event-stream\r\nConnection: close\r\n"
AUDIO = HTTP + b"Content-Type: audio/mpeg\r\nConnection: close\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
LIMIT_BYTES = 1024 * MIB
"""What is sent at most: a gateway without a bound would need as much memory."""


def make_bomb() -> Iterator[bytes]:
    """1 GiB of spaces in 1 MiB of gzip."""
    yield JSON + b"Content-Encoding: gzip\r\n\r\n"
    yield compress_spaces() * 64


@cache
def compress_spaces() -> bytes:
    return gzip.compress(b" " * (16 * MIB), 9)


ENDLESS: dict[str, tuple[bytes, bytes, int]] = {
    "answer": (JSON + b'\r\n{"id": "', b"a" * 64, 1024),
    "spaces": (JSON + b"\r\n", b" " * 64, 1024),
    "tiny-chunks": (JSON + CHUNKED, b"1\r\n \r\n", 1024),
    "extension": (JSON + CHUNKED + b"1;", b"a" * 64, 1024),
    "trailers": (JSON + CHUNKED + b"2\r\n{}\r\n0\r\n", b"x-trailer: aaaaaaaa\r\n", 1024),
    "event": (EVENTS + b'\r\ndata: {"id": "', b"a" * 64, 1024),
    "comments": (EVENTS + b"\r\n", b": ping\n\n", 1024),
    "newlines": (EVENTS + b"\r\n", b"\n", 1024),
    "events": (EVENTS + b"\r\n", b"data: %b\n\n" % json.dumps(WORD).encode(), 4),
    "headers": (HTTP, b"x-header: aaaaaaaa\r\n", 1024),
    "header": (HTTP + b"x-header: ", b"a" * 64, 1024),
    "status": (b"HTTP/1.1 200 ", b"O" * 64, 1024),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 1024),
    "audio": (AUDIO, b"\xff\xfb\x90" * 64, 1024),
}
"""How each response begins, what follows without an end, and how often that is written at a time."""


def make(attack: str) -> Iterator[bytes]:
    """The pieces of a response."""
    if attack == "bomb":
        yield from make_bomb()
        return
    beginning, piece, times = ENDLESS[attack]
    yield beginning
    while True:
        yield piece * times


class State:
    def __init__(self) -> None:
        self.changed = asyncio.Condition()
        self.open: dict[str, int] = defaultdict(int)
        self.sent: dict[str, int] = defaultdict(int)

    async def end(self, attack: str) -> None:
        async with self.changed:
            self.open[attack] -= 1
            self.changed.notify_all()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            attack = head.split(b" ", 2)[1].decode().split("/")[1]
            if attack == "__closed":
                await self.report(writer, head.split(b" ", 2)[1].decode().split("/")[2])
                return
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(lengths[0][15:]) if lengths else 0)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            return
        self.open[attack] += 1
        self.sent[attack] = 0
        try:
            for piece in make(attack):
                writer.write(piece)
                self.sent[attack] += len(piece)
                await writer.drain()
                if self.sent[attack] > LIMIT_BYTES or writer.is_closing():
                    break
        except OSError:
            pass
        finally:
            writer.transport.abort()
            await self.end(attack)

    async def report(self, writer: asyncio.StreamWriter, attack: str) -> None:
        async with asyncio.timeout(30), self.changed:
            await self.changed.wait_for(lambda: not self.open[attack])
        body = str(self.sent[attack]).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(State().serve, "127.0.0.1", 0)
    print(f"endless: serving http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
