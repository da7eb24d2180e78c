"""The relay alone, between a real caller's connection and a provider that is not asked."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.support.raw import on_both_loops
from tornado_gate.config.model import RealtimeConfig
from tornado_gate.errors import GateError, InvalidField
from tornado_gate.http.websocket.connection import WebSocketConnection
from tornado_gate.http.websocket.frames import TEXT, make_frame
from tornado_gate.realtime.relay import Relay

MESSAGES = 5000
ERROR_BYTES = 10_000


class Refusing:
    """A format that accepts no message."""

    def __init__(self) -> None:
        self.errors = 0

    def translate_client_message(self, message: str) -> list[str]:
        raise InvalidField("type", "no")

    def render_error(self, error: GateError, event_id: str) -> str:
        self.errors += 1
        return "x" * ERROR_BYTES


class Silent:
    """A provider that sends nothing."""

    async def receive(self) -> str | None:
        await asyncio.Event().wait()
        return None


@pytest.mark.parametrize("message", ["{}", b"binary"], ids=["invalid", "binary"])
@on_both_loops
async def test_a_caller_that_reads_no_errors_is_not_read_from(message: Any) -> None:
    """5,000 invalid messages would make 50 MB of errors; what is sent is what the sockets hold."""
    ended = asyncio.Event()
    caller = WebSocketConnection(server=True, most=1000, ended=ended.set)
    far, near = socket.socketpair()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_accepted_socket(lambda: caller, near)
    rules, side, provider = RealtimeConfig(messages_per_second=10 * MESSAGES), Refusing(), Silent()
    relay = Relay(side, caller, provider, rules, "req", None)  # type: ignore[arg-type]  # parts of their interfaces
    relay.begin()
    caller.begin(relay.receive)
    frame = make_frame(TEXT, b"{}", masked=True) if message == "{}" else make_frame(2, message, masked=True)
    far.setblocking(False)
    sending = asyncio.ensure_future(loop.sock_sendall(far, frame * MESSAGES))
    before = -1
    while side.errors != before or not side.errors:
        before = side.errors
        for _ in range(100):  # until the relay has read all that it reads
            await asyncio.sleep(0)
    assert transport.get_write_buffer_size() < 1_000_000
    assert 0 < side.errors < MESSAGES / 2
    sending.cancel()
    relay.stop()
    far.close()
    await ended.wait()
    await asyncio.gather(sending, relay._pulling or sending, return_exceptions=True)
