"""An upstream whose finished videos cannot be downloaded, in a process of its own: the first segment of the path says why.

Usage: python -m tests.support.hostile_files. It prints its URL. It speaks OpenAI's video API below ``/ATTACK/v1`` and Gemini's
below ``/ATTACK/v1beta``, whose files are at ``http://localhost``, another host than the printed one. Its videos are ready at
once; that of ``whole`` can be downloaded. ``GET /__closed/ATTACK`` waits until no connection of a download with this attack is
open.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable

MIB = 1024 * 1024
LIMIT_BYTES = 1024 * MIB
"""What is sent at most: a gateway without a bound would keep as much."""
TYPE = b"\0\0\0\x18ftypisom\0\0\2\0isomiso2"
MOVIE = TYPE + (8 + MIB).to_bytes(4) + b"mdat" + bytes(range(256)) * (MIB // 256)
"""A whole file, as far as its boxes go."""
BOMB = gzip.compress(TYPE + bytes(64 * MIB))
OK = b"HTTP/1.1 200 OK\r\n"
VIDEO = OK + b"Content-Type: video/mp4\r\n"
CLOSE = VIDEO + b"Connection: close\r\n\r\n"


class Hang:
    """Send nothing more until the client has closed the connection."""


class Reset:
    """End the connection with RST."""


Part = bytes | float | Hang | Reset


Source = Callable[[], AsyncIterator[Part]]


async def repeat(beginning: bytes, piece: bytes, pause: float | None = None) -> AsyncIterator[Part]:
    yield beginning
    while True:
        yield piece
        if pause is not None:
            yield pause


async def send(*parts: Part) -> AsyncIterator[Part]:
    for part in parts:
        yield part


def redirect(path: bytes) -> bytes:
    return b"HTTP/1.1 302 Found\r\nLocation: " + path + b"\r\nContent-Length: 0\r\n\r\n"


def lie(length: int) -> bytes:
    return VIDEO + b"Content-Length: %d\r\n\r\n" % length


ATTACKS: dict[str, Source] = {
    "endless": lambda: repeat(CLOSE + TYPE, bytes(MIB)),
    "tiny-chunks": lambda: repeat(
        VIDEO + b"Transfer-Encoding: chunked\r\n\r\n20\r\n" + TYPE.ljust(32) + b"\r\n", b"1\r\n \r\n" * 4096
    ),
    "announced": lambda: send(lie(10**12), TYPE, Hang()),
    "bomb": lambda: send(VIDEO + b"Content-Encoding: gzip\r\n\r\n" + BOMB, Hang()),
    "drip": lambda: repeat(lie(10**6) + TYPE + bytes(100), b"\0", 0.05),
    "halt": lambda: send(lie(10**6) + TYPE + bytes(100), Hang()),
    "silent": lambda: send(Hang()),
    "headers": lambda: repeat(OK, b"x-header: aaaaaaaa\r\n" * 64),
    "long": lambda: send(lie(2 * len(MOVIE)) + MOVIE),
    "short": lambda: send(lie(len(MOVIE) // 2) + MOVIE),
    "cut": lambda: send(CLOSE + MOVIE[: len(MOVIE) // 2]),
    "reset": lambda: send(CLOSE + MOVIE[: len(MOVIE) // 2], Reset()),
    "part": lambda: send(
        lie(len(MOVIE)).replace(
            b"200 OK", b"206 Partial Content\r\nContent-Range: bytes 0-%d/9999999" % (len(MOVIE) - 1)
        ),
        MOVIE,
    ),
    "page": lambda: send(OK + b"Content-Type: video/mp4\r\nConnection: close\r\n\r\n" + b"<html><p>Not here.</p>" * 9),
    "redirects": lambda: send(redirect(b"/redirects/v1/videos/made/content")),
}


FILES: dict[str, Source] = {
    **ATTACKS,
    "first": ATTACKS["announced"],
    "slow": ATTACKS["drip"],
    "whole": lambda: send(lie(len(MOVIE)) + MOVIE),
}


class Server:
    def __init__(self) -> None:
        self.changed = asyncio.Condition()
        self.open: dict[str, int] = defaultdict(int)
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
            await reader.readexactly(int(length[0][15:]) if length else 0)
            _, attack, *rest = head.split(" ", 2)[1].split("/")
            if attack == "__closed":
                async with asyncio.timeout(30), self.changed:
                    await self.changed.wait_for(lambda: not self.open[rest[0]])
                await write(writer, answer({}))
            elif rest[-1] in ("content", "file"):
                await self.attack(attack, reader, writer)
            else:
                await write(writer, answer(self.describe(attack, head)))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def describe(self, attack: str, head: str) -> dict[str, object]:
        """What either API says of a video that is ready."""
        if "predictLongRunning" in head:
            video = {"uri": f"http://localhost:{self.port}/{attack}/file"}
            done = {"generateVideoResponse": {"generatedSamples": [{"video": video}]}}
            return {"name": "models/veo/operations/made", "done": True, "response": done}
        return {"id": "made", "object": "video", "status": "completed", "progress": 100}

    async def attack(self, attack: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open[attack] += 1
        sent = 0
        try:
            async for part in FILES[attack]():
                if isinstance(part, Hang):
                    await reader.read()
                elif isinstance(part, Reset):
                    opened: socket.socket = writer.get_extra_info("socket")
                    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    writer.transport.abort()
                elif isinstance(part, float):
                    await asyncio.sleep(part)
                else:
                    await write(writer, part)
                    sent += len(part)
                if sent > LIMIT_BYTES or writer.is_closing():
                    break
        finally:
            async with self.changed:
                self.open[attack] -= 1
                self.changed.notify_all()


def answer(value: object) -> bytes:
    body = json.dumps(value).encode()
    return OK + b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


async def write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def main() -> None:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    print(f"hostile files: serving http://127.0.0.1:{server.port}", flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
