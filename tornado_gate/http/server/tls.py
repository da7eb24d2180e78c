"""TLS of callers' connections: a transport that encrypts, between the event loop's transport and a connection's protocol.

asyncio's own TLS transports hide three things that `ServerConnection` needs. A connection counts from its first byte, not from
the end of its handshake. The bytes that the client has not received yet are known. A close does not wait for the client's
close_notify, and the sending half can be closed alone.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from tornado_gate.http.server.connection import ConnectionOwner, ServerConnection

log = logging.getLogger(__name__)

RECORD_BYTES: Final = 16 * 1024
"""The maximum number of bytes of a TLS record."""


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """The protocol of a TCP transport, and the encrypted transport of `protocol`.

    `protocol` is connected immediately, so its time for the first request covers the handshake. Data that it writes before the
    end of the handshake is sent after it. A failed handshake closes the connection.
    """

    __slots__ = ("_incoming", "_is_closing", "_is_open", "_outgoing", "_pending", "_protocol", "_tcp", "_then", "_tls")

    _tcp: asyncio.Transport

    def __init__(self, context: ssl.SSLContext, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = False  # the handshake is complete
        self._is_closing = False  # nothing more is encrypted
        self._pending: list[bytes] = []  # written before the end of the handshake
        self._then: Callable[[], None] | None = None  # the close that waits for the handshake

    # Protocol: called by the TCP transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tcp = cast(asyncio.Transport, transport)
        self._protocol.connection_made(self)

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._on_handshake_complete()
            received, has_ended = self._decrypt()
        except ssl.SSLWantReadError:
            self._send_encrypted()
            return
        except ssl.SSLError as error:
            log.info("TLS connection from %s is closed: %s", self._tcp.get_extra_info("peername"), error.reason)
            self._fail()
            return
        self._send_encrypted()  # a response to a renewal of keys
        if received:
            self._protocol.data_received(received)
        if has_ended and not self._tcp.is_closing() and not self._protocol.eof_received():
            self.close()

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._pending.clear()
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def _decrypt(self) -> tuple[bytes, bool]:
        """Return all data of complete records, and whether the client has ended its sending half. Raises SSLError."""
        chunks: list[bytes] = []
        try:
            while chunk := self._tls.read(RECORD_BYTES):
                chunks.append(chunk)
        except ssl.SSLWantReadError:
            return b"".join(chunks), False
        except ssl.SSLZeroReturnError:
            pass
        return b"".join(chunks), True

    def _on_handshake_complete(self) -> None:
        self._is_open = True
        pending, self._pending = self._pending, []
        for data in pending:
            self._encrypt(data)
        self._send_encrypted()
        if self._then is not None:
            self._then()

    def _fail(self) -> None:
        """Send the alert that the TLS library has written, and close: a client of plain HTTP sees the end of the connection."""
        self._is_closing = True
        self._send_encrypted()
        self._tcp.close()

    # Transport: called by the protocol

    def write(self, data: Any) -> None:
        """Encrypt and send. Data after a close is dropped, as by the transports of asyncio."""
        if self._is_closing or not data:
            return
        if not self._is_open:
            self._pending.append(bytes(data))
            return
        self._encrypt(data)
        self._send_encrypted()

    def close(self) -> None:
        """Send everything and a close_notify, then close. The client's close_notify is not awaited."""
        if self._is_open or not self._pending:
            self._end_sending()
            self._tcp.close()
        else:
            self._then = self.close

    def write_eof(self) -> None:
        """Send everything and a close_notify, and close the sending half."""
        if self._is_open:
            self._end_sending()
            if not self._tcp.is_closing():
                self._tcp.write_eof()
        else:
            self._then = self.write_eof

    def can_write_eof(self) -> bool:
        return True

    def abort(self) -> None:
        self._is_closing = True
        self._tcp.abort()

    def is_closing(self) -> bool:
        return self._tcp.is_closing()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._tls if name == "ssl_object" else self._tcp.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        self._tcp.resume_reading()

    def is_reading(self) -> bool:
        return self._tcp.is_reading()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the kernel has not taken yet."""
        return self._tcp.get_write_buffer_size() + sum(map(len, self._pending))

    def _encrypt(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]

    def _send_encrypted(self) -> None:
        data = self._outgoing.read()
        if data and not self._tcp.is_closing():
            self._tcp.write(data)

    def _end_sending(self) -> None:
        if self._is_open and not self._is_closing:
            with suppress(ssl.SSLError):  # the client's close_notify has not arrived
                self._tls.unwrap()
            self._send_encrypted()
        self._is_closing = True


class SecureConnection(ServerConnection):
    """A connection whose requests have the scheme https."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._context.protocol = "https"


def make_connection(context: ssl.SSLContext, server: ConnectionOwner, loop: asyncio.AbstractEventLoop) -> TlsTransport:
    """Return the protocol of a new TCP transport."""
    return TlsTransport(context, SecureConnection(server, loop))
