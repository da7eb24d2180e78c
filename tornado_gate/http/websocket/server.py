"""The caller's end of a WebSocket: Tornado's `WebSocketHandler` with the gateway's frame code.

The handler is Tornado's: its `get` checks the handshake; `select_subprotocol`, `open`, `on_message` and `on_close` are called
where Tornado documents it. The handler's protocol is a `FrameProtocol` instead of a WebSocketProtocol13. It sends 101 through the
handler, detaches the connection as `RequestHandler.detach` does, and passes it to a `WebSocketConnection`:

- Behind the fast front the transport changes its protocol (`set_protocol`): no second socket, descriptor or IOStream.
- Behind Tornado's own front the connection is an IOStream; its socket moves to a new transport of the event loop. An encrypted
  stream stays, with a `StreamTransport`.

Both fronts thus share one frame code with the same limits, close codes and back-pressure. Tornado's frame reader works with its
own front only, and has other close codes and pings. It also creates a future per message, so the relay would need a second form.
It needs two and a half times the CPU, and half as much memory again (bench/realtime.py).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from socket import socket

from tornado.iostream import IOStream, SSLIOStream
from tornado.websocket import WebSocketHandler, WebSocketProtocol13

from tornado_gate.http.server.connection import ServerConnection
from tornado_gate.http.server.response import SWITCHING
from tornado_gate.http.websocket.connection import Hold, WebSocketConnection
from tornado_gate.http.websocket.frames import INTERNAL_ERROR

KEY_BYTES = 16
READ_BYTES, EARLY_READS = 64 * 1024, 16


class FrameProtocol:
    """A protocol that `WebSocketHandler.get_websocket_protocol` returns: the called part of Tornado's WebSocketProtocol.

    The handler sends on `connection` itself, because `write_message` creates a future per message. `most` is the maximum size of
    a message in bytes; `hold` counts the bytes of incomplete messages (`WebSocketConnection`).
    """

    def __init__(self, handler: WebSocketHandler, most: int, hold: Hold | None = None) -> None:
        self._handler = handler
        self._release: Callable[[], None] | None = None
        self.connection = WebSocketConnection(server=True, most=most, ended=self._on_end, hold=hold)

    async def accept_connection(self, handler: WebSocketHandler) -> None:
        """Send 101, switch to frames, call the handler's `open`, and pass each message to its `on_message`.

        `on_message` is looked up once, after `open`. The handler has checked the headers of the handshake.
        """
        _send_handshake(handler)
        try:
            self._release = await _switch_protocol(handler, self.connection)
        except OSError:
            self._on_end()  # the client has disconnected
            return
        if self.connection.is_closed:
            self._stop_counting()
            return
        try:
            opening = handler.open()
            if opening is not None:
                await opening
        except BaseException:
            self.connection.close(INTERNAL_ERROR)
            raise
        self.connection.begin(handler.on_message)

    def on_connection_close(self) -> None:
        """Do nothing when the handler reports that the connection is lost."""

    def _on_end(self) -> None:
        self._stop_counting()
        self._handler.on_ws_connection_close(self.connection.close_code, self.connection.close_reason)

    def _stop_counting(self) -> None:
        """Stop counting the connection at the server."""
        if self._release is not None:
            self._release()


def is_key(value: str) -> bool:
    """Return whether this is a valid Sec-WebSocket-Key: 16 bytes in base64 (RFC 6455, 4.1).

    Two headers joined by a comma are not.
    """
    try:
        return len(base64.b64decode(value, validate=True)) == KEY_BYTES
    except ValueError:
        return False


def _send_handshake(handler: WebSocketHandler) -> None:
    headers = handler.request.headers
    handler.clear_header("Content-Type")
    handler.set_status(SWITCHING)
    handler.set_header("Upgrade", "websocket")
    handler.set_header("Connection", "Upgrade")
    handler.set_header("Sec-WebSocket-Accept", WebSocketProtocol13.compute_accept_value(headers["Sec-WebSocket-Key"]))
    offered = [name.strip() for name in headers.get("Sec-WebSocket-Protocol", "").split(",") if name.strip()]
    chosen = handler.select_subprotocol(offered)
    if chosen is not None:
        handler.set_header("Sec-WebSocket-Protocol", chosen)
    handler.flush()


async def _switch_protocol(handler: WebSocketHandler, connection: WebSocketConnection) -> Callable[[], None] | None:
    """Switch the connection to frames. Raises OSError if the client has disconnected.

    Return a function to call when the connection is closed, if the HTTP server counts open connections.
    """
    detached: object = handler.detach()
    if isinstance(detached, ServerConnection):
        return detached.switch_protocol(connection)
    assert isinstance(detached, IOStream)
    if isinstance(detached, SSLIOStream):
        await take_stream(detached, connection)
    else:
        await take_socket(detached, connection)
    return None


async def take_stream(stream: SSLIOStream, connection: WebSocketConnection) -> None:
    """Use an encrypted stream as the transport. Raises OSError if the client has disconnected."""
    from tornado_gate.http.websocket.stream_transport import StreamTransport

    await stream.write(b"")  # waits until the handshake response is sent
    StreamTransport(stream, connection)


async def take_socket(stream: IOStream, connection: WebSocketConnection) -> None:
    """Move the socket of a stream to an asyncio transport. Raises OSError if the client has disconnected."""
    await stream.write(b"")  # waits until the handshake response is sent
    for _ in range(EARLY_READS):
        reading = asyncio.ensure_future(stream.read_bytes(READ_BYTES, partial=True))
        if reading.done():
            connection.feed(reading.result())
        if not reading.done() or len(reading.result()) < READ_BYTES:
            break
    else:
        stream.close()
        raise ConnectionAbortedError("the client sent too much data before the handshake response")
    stream.io_loop.remove_handler(stream.fileno())
    duplicate = socket(fileno=stream.socket.detach())
    stream.close()
    await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, duplicate)
