"""An upstream's response: status and headers, and the body as an async iterator."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from tornado_gate.http.client.content_coding import Inflater
from tornado_gate.http.client.faults import ConnectionBroken, HttpClientError, ResponseTooLarge

MAX_LENGTH_DIGITS = 18
"""A Content-Length with more digits is absurd; the parser refuses it."""


FREE_FRAMING_BYTES = 1024 * 1024
FRAMING_SHARE = 16
"""The maximum share of the framing of a body, such as the lengths of its chunks.

It may take FREE_FRAMING_BYTES or this part of the body's limit: chunks of one byte cost as much to parse as long ones.
"""

RELEASE_SECONDS = 1.0
"""The time for which the end of a response is awaited after its reader has all data.

Most upstreams send it in the same moment.
"""


class ResponseSource(Protocol):
    """The connection that delivers a response."""

    def gather_body(self, hold: Callable[[int], None]) -> int:
        """Begin to gather the body, see `HttpResponse.gather_body`."""

    def resume(self) -> None:
        """Continue reading: the reader has taken all buffered data."""

    def abort(self) -> None:
        """Close the connection: the reader needs no more data."""


class SizeBound(NamedTuple):
    """The maximum size of a body in bytes, after decompression, and the conf key that sets it."""

    most: int
    key: str


UNBOUNDED = SizeBound(sys.maxsize, "")


def check_announced_length(headers: Mapping[str, str], bound: SizeBound) -> None:
    """Raise ResponseTooLarge if the head announces more than `bound`: then the body need not be read."""
    length = headers.get("content-length", "")
    if length.isdecimal() and len(length) <= MAX_LENGTH_DIGITS and int(length) > bound.most:
        raise ResponseTooLarge(*bound)


def return_unchanged(fault: HttpClientError) -> Exception:
    """Return the fault unchanged."""
    return fault


class HttpResponse:
    """An async iterator over the body; all data since the last chunk is one chunk. For one reader.

    `headers` have lower-case names; repeated values are joined with ", ". `explain` maps a fault to the exception for the reader.
    `close` and a cancelled read close the connection, unless the response was complete: then the connection is already back in
    the pool, even if the end is still unread.
    """

    # The state of a response that has just begun; a class attribute costs nothing until it changes.
    status = 0  # until the head has arrived
    explain: Callable[[HttpClientError], Exception] = staticmethod(return_unchanged)
    ended = False
    fault: HttpClientError | None = None
    size = 0  # unread bytes, with the overhead of the framing
    paused = False  # reading is paused until the reader takes the buffered data
    waiter: asyncio.Future[None] | None = None
    listener: Callable[[], None] | None = None  # called once instead, when the head has arrived or cannot arrive
    _bound = UNBOUNDED
    _left = sys.maxsize  # bytes of the body that may still be delivered
    _framing = 0  # received bytes of the framing, which are not part of the body
    _inflater: Inflater | None = None
    _gathers = False  # the rest of the body is one piece

    def __init__(self, source: ResponseSource, loop: asyncio.AbstractEventLoop, pieces: list[bytes]) -> None:
        """Create a response. `pieces` is filled by the source until the response has ended, and emptied by the reader."""
        self.headers: dict[str, str] = {}
        self._loop = loop
        self._source: ResponseSource | None = source
        self._pieces = pieces

    def __aiter__(self) -> HttpResponse:
        return self

    async def __anext__(self) -> bytes:
        try:
            while True:
                if self._pieces or self.ended or self.fault is not None or self._inflater is not None:
                    piece = self._take_available()
                    if piece:
                        if self._inflater is not None and self._inflater.has_more:
                            await asyncio.sleep(0)  # a small body may hold seconds of decompression
                        return piece
                    if self.ended:
                        raise StopAsyncIteration
                await self.wait_for_change()
                if self._gathers and not (self.ended or self.fault is not None):
                    return b""
        except HttpClientError as fault:
            self.close()
            raise self.explain(fault) from fault
        except (asyncio.CancelledError, GeneratorExit):
            self.close()
            raise

    def limit_size(self, bound: SizeBound) -> None:
        """Deliver at most `bound.most` bytes; beyond them reading fails and the connection is closed.

        Call it before the body is read. Raises ResponseTooLarge if the head already announces more.
        """
        self._bound, self._left = bound, bound.most
        check_announced_length(self.headers, bound)

    def gather_body(self, hold: Callable[[int], None]) -> int:
        """Deliver the rest of the body as one chunk, if its length is known and neither short nor too long.

        It is received directly into that chunk. While it arrives, empty chunks show that it does. `hold` reserves its memory,
        and may raise. Return the reserved bytes, 0 if the body is delivered as usual.
        """
        source = self._source
        if source is None or self._inflater is not None:
            return 0
        held = source.gather_body(hold)
        if held:
            self._gathers, self.size, self.paused = True, 0, False
        return held

    async def aclose(self) -> None:
        """Close as `close`, for code that expects an async generator."""
        self.close()

    def close(self) -> None:
        """Stop reading and close the connection. An incomplete body then ends with a fault, never like a complete one."""
        source, self._source = self._source, None
        if source is not None:
            self._pieces.clear()
            self.fail(ConnectionBroken("the reader closed the response"))
            source.abort()

    async def release(self) -> None:
        """Release the connection of a reader who has all data: it is used again if the body ends soon.

        The end of a stream of events often arrives a moment after its last event.
        """
        self.let_end()

    def let_end(self) -> None:
        """Release the connection like `release`."""
        source, self._source = self._source, None
        if source is not None:
            self._loop.call_later(RELEASE_SECONDS, self._abort_unless_ended, source)

    def _abort_unless_ended(self, source: ResponseSource) -> None:
        if not self.ended:
            source.abort()

    def take_complete_body(self) -> bytes:
        """Return all of a complete, unread body and mark it as read; b"" if it is incomplete or compressed."""
        return self._take_available() if self.ended and self._inflater is None else b""

    def take_small_body(self, bound: SizeBound) -> bytes:
        """Return all of an unread body that has arrived in one read, with the end of the response, and mark it as read.

        Return b"" for any other body, and for one that is compressed or exceeds `bound`.
        """
        pieces = self._pieces
        if not self.ended or len(pieces) != 1 or self.size or self._inflater is not None:
            return b""
        data = pieces[0]
        if len(data) > bound.most:
            return b""
        pieces.clear()
        return data

    @property
    def is_compressed(self) -> bool:
        """Return whether the body is decompressed, so that data may follow that needs no further input."""
        return self._inflater is not None

    def take_arrived(self) -> bytes:
        """Return the data since the last call, b"" without any: for a reader without a task, who has set `listener`.

        Raises the fault, mapped by `explain`, after all data before it. Not for a body that `is_compressed`.
        """
        try:
            pieces = self._pieces
            if len(pieces) != 1 or self.paused or self._left < (length := len(pieces[0])):
                return self._take_available()
            # Nearly all events: the same as there, in half of the steps.
            framing, self.size = self.size - length, 0
            if framing > 0:
                self._framing += framing
                if self._framing > FREE_FRAMING_BYTES:
                    self._count_framing(0)
            self._left -= length
            return pieces.pop()
        except HttpClientError as fault:
            self.close()
            raise self.explain(fault) from fault

    # Called by the connection.

    def wait_for_change(self) -> asyncio.Future[None]:
        """Return a future that is done at the next change."""
        self.waiter = self._loop.create_future()
        return self.waiter

    def notify_change(self) -> None:
        """Wake up the reader, or call the listener."""
        listener = self.listener
        if listener is not None:
            self.listener = None
            listener()
            return
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait_for_head(self) -> HttpResponse:
        """Wait for status and headers, and return the response. Raises the fault if they cannot arrive."""
        try:
            while not self.status:
                if self.fault is not None:
                    raise self.fault
                await self.wait_for_change()
        except BaseException:
            self.close()
            raise
        return self

    def set_inflater(self, inflater: Inflater | None) -> None:
        """Decompress the body with `inflater`; None leaves it as it is."""
        self._inflater = inflater

    def end(self) -> None:
        """Mark the response as complete. Copies the list of pieces, which the connection reuses."""
        self.ended, self._source, self._pieces = True, None, self._pieces.copy()

    def fail(self, fault: HttpClientError) -> None:
        """End the response with a fault. Data that arrived before is still delivered."""
        if not self.ended and self.fault is None:
            self.fault, self._source = fault, None
            self.notify_change()

    def _count_framing(self, size: int) -> None:
        self._framing += size
        if self._framing > FREE_FRAMING_BYTES and self._framing > self._bound.most // FRAMING_SHARE:
            raise ResponseTooLarge(*self._bound)

    def _take_available(self) -> bytes:
        """Return the data since the last call, b"" without any. Raises HttpClientError after all data before the fault."""
        pieces, size, self.size = self._pieces, self.size, 0
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if size > len(data):
            self._count_framing(size - len(data))
        if self.paused and self._source is not None:
            self.paused = False
            self._source.resume()
        if self._inflater is not None:
            data = self._inflater.take(data)
            if self.ended and not data:
                self._inflater.finish()
        self._left -= len(data)
        if self._left < 0:
            raise ResponseTooLarge(*self._bound)
        if self.fault is not None and not data:
            raise self.fault
        return data
