"""One end of a WebSocket on an asyncio transport: messages, pings, closing, back-pressure.

A message needs no task, and no future unless it has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import cast

from tornado_gate.http.websocket.frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    UNSUPPORTED,
    FrameReader,
    ProtocolError,
    make_close_payload,
    make_frame,
    parse_close_payload,
)

PING_SECONDS = 20.0
"""Interval of pings. The connection is aborted if no data arrives between two of them."""
CLOSE_SECONDS = 5.0
"""Maximum time for the peer's close frame."""
MESSAGES_PER_TURN = 64
"""The number of messages that are read before other connections get a turn."""

Receive = Callable[[str | bytes], Awaitable[object] | None]
Hold = Callable[[int], Awaitable[object] | None]


class WebSocketConnection(asyncio.Protocol):
    """One end of a WebSocket.

    `begin` sets the receiver of messages; if it returns an awaitable, reading pauses until that is done.

    `ended` is called once, when the connection is lost, with or without a closing handshake; `close_code` is then the peer's
    code, None without one. `server`: this is the server's end. No data is read before `begin`. Only a `server` accepts binary
    messages. `hold`, if present, is called with the number of buffered bytes while a message is incomplete; if it returns an
    awaitable, reading pauses until that is done.
    """

    __slots__ = (
        "_before",
        "_ended",
        "_heard",
        "_heard_bye",
        "_held",
        "_hold",
        "_owed_pong",
        "_reader",
        "_receive",
        "_room",
        "_said_bye",
        "_server",
        "_timer",
        "_transport",
        "close_code",
        "close_reason",
    )
    _transport: asyncio.Transport

    def __init__(self, *, server: bool, most: int, ended: Callable[[], None], hold: Hold | None = None) -> None:
        self._server = server
        self._ended: Callable[[], None] | None = ended
        self._receive: Receive | None = None
        self._reader = FrameReader(masked=server, most=most)
        self._before: asyncio.BaseProtocol | None = None
        self._heard = True
        self._heard_bye = self._said_bye = False
        self._held: asyncio.Future[object] | None = None
        self._hold = hold
        self._room: asyncio.Future[None] | None = None
        self._owed_pong: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.close_code: int | None = None
        self.close_reason = ""

    @property
    def is_closed(self) -> bool:
        """Return whether the connection was established and is lost."""
        return self._ended is None

    # Called by the owner

    def feed(self, data: bytes) -> None:
        """Add data that arrived after the handshake, before there was a transport."""
        self._reader.feed(data)

    def take_over(self, transport: asyncio.Transport, before: asyncio.BaseProtocol) -> None:
        """Take over a transport from another protocol, whose `connection_lost` is still called at the end."""
        self._before = before
        transport.set_protocol(self)
        self.connection_made(transport)

    def begin(self, receive: Receive) -> None:
        """Start reading."""
        self._receive = receive
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self._deliver_messages()

    def write(self, text: str) -> asyncio.Future[None] | None:
        """Send a message. Return a future to wait for if the peer reads slowly, else None. Raises ConnectionError when closed."""
        if self._said_bye or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._transport.write(make_frame(TEXT, text.encode(), masked=not self._server))
        return self._room

    def write_all(self, texts: Iterable[str]) -> asyncio.Future[None] | None:
        """Write like `write`, for several messages in one call."""
        if self._said_bye or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        masked = not self._server
        self._transport.write(b"".join([make_frame(TEXT, text.encode(), masked=masked) for text in texts]))
        return self._room

    def close(self, code: int, reason: str = "") -> None:
        """Send a close frame, and wait at most `CLOSE_SECONDS` for the peer's."""
        if self._said_bye or self._transport.is_closing():
            return
        self._said_bye = True
        self._write(CLOSE, make_close_payload(code, reason))
        self._set_timer(CLOSE_SECONDS, self._transport.abort)
        if self._receive is None:
            self._transport.resume_reading()  # `begin` was not called: read only the peer's close frame

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._set_timer(PING_SECONDS, self._send_ping)
        self._transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if not self._heard_bye:
            self._reader.feed(data)
            if self._held is None and (self._receive is not None or self._said_bye):
                self._deliver_messages()
            if self._hold is not None and self._held is None and not self._said_bye:
                waiting = self._hold(self._reader.buffered)
                if waiting is not None:
                    self._pause_reading(waiting)

    def pause_writing(self) -> None:
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)
        pong, self._owed_pong = self._owed_pong, None
        if pong is not None and not self._said_bye:
            self._write(PONG, pong)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._said_bye = self._heard_bye = True
        self.resume_writing()
        before, ended = self._before, self._ended
        self._receive = self._ended = self._before = None
        if before is not None:
            before.connection_lost(error)
        if ended is not None:
            ended()

    # Received messages

    def _deliver_messages(self) -> None:
        """Pass received messages on, until one has to wait."""
        for _ in range(MESSAGES_PER_TURN):
            if self._heard_bye:
                return
            try:
                message = self._reader.read_message()
                if message is None:
                    return
                rest = self._deliver_message(*message)
            except ProtocolError as fault:
                self._fail_connection(fault)
            else:
                if rest is not None:
                    self._pause_reading(rest)
                    return
        self._pause_reading(asyncio.sleep(0))

    def _deliver_message(self, opcode: int, payload: str | bytes) -> Awaitable[object] | None:
        if opcode == TEXT or (opcode == BINARY and self._server):
            return self._receive(payload) if self._receive is not None and not self._said_bye else None
        assert isinstance(payload, bytes)
        if opcode == PING:
            # Only the last ping gets a pong (5.5.3): a peer that pings and never reads must not fill the memory.
            if self._room is not None:
                self._owed_pong = payload
            elif not self._said_bye:
                self._write(PONG, payload)
        elif opcode == CLOSE:
            self._on_close_frame(payload)
        elif opcode == BINARY:
            raise ProtocolError(UNSUPPORTED, "only text messages are supported")
        return None

    def _on_close_frame(self, payload: bytes) -> None:
        code, reason = parse_close_payload(payload)
        self._heard_bye = True
        self.close_code, self.close_reason = code, reason
        self.close(code)
        self._transport.close()

    def _pause_reading(self, rest: Awaitable[object]) -> None:
        self._held = asyncio.ensure_future(rest)
        if not self._transport.is_closing():
            self._transport.pause_reading()
        self._held.add_done_callback(self._resume_reading)

    def _resume_reading(self, _: asyncio.Future[object]) -> None:
        self._held = None
        if self._transport.is_closing():
            return
        self._deliver_messages()
        if self._held is None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _fail_connection(self, fault: ProtocolError) -> None:
        """Send a close frame with the reason, and close.

        Data that still arrives is read and dropped until the peer closes: closing a socket with unread data causes a reset, which
        discards the close frame.
        """
        self.close(fault.code, str(fault))
        if fault.readable and self._server:
            return
        self._heard_bye = True
        if self._server and self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _write(self, opcode: int, payload: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(make_frame(opcode, payload, masked=not self._server))

    def _send_ping(self) -> None:
        if not self._heard and self._held is None and self._transport.is_reading():
            self._transport.abort()
            return
        self._heard = False
        self._write(PING, b"")
        self._set_timer(PING_SECONDS, self._send_ping)

    def _set_timer(self, seconds: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, call)
