"""A connection that changes its protocol goes over to Tornado's own front, whose WebSocketHandler wants an IOStream."""

from __future__ import annotations

import asyncio
import os
import socket

from tornado.http1connection import HTTP1ConnectionParameters, HTTP1ServerConnection
from tornado.httputil import HTTPServerConnectionDelegate
from tornado.iostream import IOStream

from tornado_gate.http.server.response import Context


class _Prefilled(IOStream):
    """A stream of which the first bytes were read by somebody else."""

    def __init__(self, connection: socket.socket, first: bytes) -> None:
        self._first = bytearray(first)
        super().__init__(connection)

    def read_from_fd(self, buf: bytearray | memoryview) -> int | None:
        """Those first, then what the socket has."""
        if not self._first:
            return super().read_from_fd(buf)
        count = min(len(buf), len(self._first))
        buf[:count] = self._first[:count]
        del self._first[:count]
        return count


def hand_over(
    transport: asyncio.Transport,
    first: bytes,
    parameters: HTTP1ConnectionParameters,
    context: Context,
    delegate: HTTPServerConnectionDelegate,
) -> HTTP1ServerConnection:
    """Tornado serves what `transport` did, beginning with the bytes `first`. The transport must have nothing left to write.

    Raises OSError when there is no file descriptor left.
    """
    transport.pause_reading()
    # A second descriptor keeps TCP alive while the transport closes its own. uvloop has no real socket to give.
    connection = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
    connection.setblocking(False)
    transport.abort()
    served = HTTP1ServerConnection(_Prefilled(connection, first), parameters, context)
    served.start_serving(delegate)
    return served
