"""A resolver that hangs on one name occupies one thread, and delays nobody who asks for another name."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from typing import Any

import pytest

from tornado_gate.http.client.faults import ConnectError, ConnectTimeout
from tornado_gate.http.client.pool import HttpClient

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Resolver:
    """Hangs on names below .hang until `go_on` is set, and knows every other name as this machine."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked: Counter[str] = Counter()
        self._original = socket.getaddrinfo

    def __call__(self, host: str, port: int, *rest: Any, flags: int = 0, **named: Any) -> Any:
        if flags & socket.AI_NUMERICHOST:
            return self._original(host, port, *rest, flags=flags, **named)
        self.asked[host] += 1
        if host.endswith(".hang"):
            assert self.go_on.wait(60)
        if host.endswith(".nowhere"):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return self._original("127.0.0.1", port, type=socket.SOCK_STREAM)


@pytest.mark.gen_test(timeout=60)
async def test_a_hanging_name_occupies_one_thread_and_delays_no_other_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    before = threading.active_count()
    client = HttpClient(connect_seconds=0.2)
    for _ in range(2):
        hanging = [client.request("GET", f"http://slow.hang:{port}/", {}) for _ in range(50)]
        failed = await asyncio.gather(*hanging, return_exceptions=True)
        assert {type(error) for error in failed} == {ConnectTimeout}
    assert resolver.asked["slow.hang"] == 1, "who comes later waits for the look-up that runs"
    assert threading.active_count() <= before + 1
    patient = HttpClient(connect_seconds=30)
    response = await patient.request("GET", f"http://fast.example:{port}/", {})
    assert response.status == 200
    with pytest.raises(ConnectError, match="unknown"):
        await patient.request("GET", f"http://no.nowhere:{port}/", {})
    waiting = asyncio.create_task(patient.request("GET", f"http://slow.hang:{port}/", {}))
    await asyncio.sleep(0)
    resolver.go_on.set()
    assert (await waiting).status == 200
    for one in (client, patient):
        await one.close()
    server.close()
