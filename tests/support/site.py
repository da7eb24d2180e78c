"""An HTTP server that sends arbitrary bytes, and a scripted resolver: for tests of the fetcher."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

KEY = """
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgNicJ2+xaDSxQAQJV
RnUERXRecv/EvONl9rMppk7G4iGhRANCAAQ8BiMXKwwfdPh4yyRfw4MBo59ZFme7
snpVnBnGHIxRgPsGyjr/zmwOPGGLTtGaCgy3y8zWy/PpEbh1GBRLXQON
"""
"""The private key of CERTIFICATE, which is self-signed for site.test and used only in these tests."""
CERTIFICATE = """
MIIBXTCCAQSgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlzaXRlLnRl
c3QwIBcNMjQwMTAxMDAwMDAwWhgPMjEyNDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CXNpdGUudGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDwGIxcrDB90+HjL
JF/DgwGjn1kWZ7uyelWcGcYcjFGA+wbKOv/ObA48YYtO0ZoKDLfLzNbL8+kRuHUY
FEtdA42jRTBDMBQGA1UdEQQNMAuCCXNpdGUudGVzdDAMBgNVHRMEBTADAQH/MB0G
A1UdDgQWBBRom4BOFt8qdnkc+6I4cGUpVs3EQzAKBggqhkjOPQQDAgNHADBEAiBL
UFK7QuQBWH/yu8AP6uLjZGnM9mLf7YC3UDaiflgCDQIgSsuPm+12ipI8UHoSNdCz
o9RLDb12aXOEyZOyU4K5G5U=
"""

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """The bytes of an HTTP response; underscores in `headers` become hyphens."""
    given = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


class Site:
    """A server that sends the configured response for each path and records the request heads in `asked`."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.left = asyncio.Event()
        self.port = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        said = self.answers[head.split(" ")[1]]
        try:
            if isinstance(said, bytes):
                writer.write(said)
                await writer.drain()
            else:
                await said(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.left.set()


class Names:
    """A scripted resolver: each look-up of a name takes its next answer; the last one repeats."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self.answers = {name: list(of) for name, of in answers.items()}
        self.asked: list[str] = []

    def __call__(self, name: str, port: int) -> Sequence[str]:
        self.asked.append(name)
        if name not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        left = self.answers[name]
        return left.pop(0) if len(left) > 1 else left[0]


def tls_of_site_test(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS contexts of a server for site.test, and of a client that trusts its certificate."""
    pem = folder / "site.pem"
    words = (("PRIVATE KEY", KEY), ("CERTIFICATE", CERTIFICATE))
    pem.write_text("".join(f"-----BEGIN {what}-----{text}-----END {what}-----\n" for what, text in words))
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(pem))
    server.load_cert_chain(pem)
    return server, client
