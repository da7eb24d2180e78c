"""A transport on a TLS stream of Tornado: its socket cannot move to a transport of the event loop, because it is encrypted."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from tornado.iostream import IOStream, StreamClosedError

READ_BYTES: Final = 64 * 1024
HIGH_WATER, LOW_WATER = 64 * 1024, 16 * 1024
"""Unsent bytes above which the protocol is told to pause writing, and up to which it may continue."""


class StreamTransport(asyncio.Transport):
    """The transport of `protocol` on a detached stream. The protocol is connected when this returns."""

    __slots__ = ("_is_closing", "_is_full", "_is_lost", "_protocol", "_reading", "_resumed", "_stream", "_unsent")

    def __init__(self, stream: IOStream, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._stream = stream
        self._protocol = protocol
        self._unsent = 0
        self._is_full = False
        self._is_closing = False
        self._is_lost = False
        self._resumed = asyncio.Event()  # not set: reading is paused
        self._resumed.set()
        protocol.connection_made(self)
        stream.set_close_callback(self._on_closed)
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        """Give the protocol all data, until the stream is closed."""
        try:
            while True:
                await self._resumed.wait()
                data = await self._stream.read_bytes(READ_BYTES, partial=True)
                await self._resumed.wait()
                self._protocol.data_received(data)
        except StreamClosedError:
            self._on_closed()

    def _on_closed(self) -> None:
        """Notify the protocol, once. Tornado calls this for a stream that closes, but not for a stream that was closed before."""
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._reading.cancel()
        self._protocol.connection_lost(None)

    def pause_reading(self) -> None:
        self._resumed.clear()

    def resume_reading(self) -> None:
        self._resumed.set()

    def is_reading(self) -> bool:
        return self._resumed.is_set()

    def write(self, data: Any) -> None:
        """Send. Data after a close is dropped, as by the transports of asyncio."""
        if self.is_closing():
            return
        self._unsent += len(data)
        self._stream.write(data).add_done_callback(partial(self._on_sent, len(data)))
        if self._unsent > HIGH_WATER and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def _on_sent(self, count: int, sent: asyncio.Future[None]) -> None:
        self._unsent -= count
        if sent.cancelled() or sent.exception() is not None:
            return  # the stream is closed
        if self._is_full and self._unsent <= LOW_WATER:
            self._is_full = False
            self._protocol.resume_writing()
        if self._is_closing and not self._unsent:
            self._stream.close()

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Close after all data is sent."""
        self._is_closing = True
        if not self._unsent:
            self._stream.close()

    def abort(self) -> None:
        self._is_closing = True
        self._stream.close()

    def is_closing(self) -> bool:
        return self._is_closing or self._stream.closed()
