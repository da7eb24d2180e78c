"""An upstream's answer: its head, and its body as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tornado_gate.http.client.content_coding import Inflater
from tornado_gate.http.client.faults import ConnectionBroken, HttpClientError


class ResponseSource(Protocol):
    """Where an answer comes from, while it comes."""

    def resume(self) -> None:
        """The reader has taken what had come."""

    def abort(self) -> None:
        """The reader wants no more."""


def return_unchanged(fault: HttpClientError) -> Exception:
    """The fault itself."""
    return fault


class HttpResponse:
    """The body's pieces, by iterating; what has come since the last piece is one piece. For one reader.

    `headers` have lower-case names; of those that came several times the values are joined with ", ". `explain` may turn a
    fault into what the reader shall get. The connection is closed by `close` and by cancelling a read, unless the answer
    had come to its end: then it was given back at once, also if the end is still unread.
    """

    __slots__ = (
        "_inflater",
        "_loop",
        "_pieces",
        "_source",
        "ended",
        "explain",
        "fault",
        "headers",
        "paused",
        "size",
        "status",
        "waiter",
    )

    def __init__(self, source: ResponseSource, loop: asyncio.AbstractEventLoop, pieces: list[bytes]) -> None:
        """`pieces` are filled by the source until the answer has ended, and emptied by the reader."""
        self.status = 0  # until the head has come
        self.headers: dict[str, str] = {}
        self.explain: Callable[[HttpClientError], Exception] = return_unchanged
        self.ended = False
        self.fault: HttpClientError | None = None
        self.size = 0  # of what has come and was not read, in bytes, with what it was wrapped in
        self.paused = False  # no more comes before the reader has taken what is there
        self._loop = loop
        self._source: ResponseSource | None = source
        self._pieces = pieces
        self._inflater: Inflater | None = None
        self.waiter: asyncio.Future[None] | None = None

    def __aiter__(self) -> HttpResponse:
        return self

    async def __anext__(self) -> bytes:
        try:
            while True:
                if self._pieces or self.ended or self.fault is not None or self._inflater is not None:
                    piece = self._take_available()
                    if piece:
                        return piece
                    if self.ended:
                        raise StopAsyncIteration
                await self.wait_for_change()
        except HttpClientError as fault:
            self.close()
            raise self.explain(fault) from fault
        except (asyncio.CancelledError, GeneratorExit):
            self.close()
            raise

    async def aclose(self) -> None:
        """As `close`, for whoever knows it as an iterator."""
        self.close()

    def close(self) -> None:
        """Nobody reads on. What is missing then never looks like the end."""
        source, self._source = self._source, None
        if source is not None:
            self._pieces.clear()
            self.fail(ConnectionBroken("closed by the reader"))
            source.abort()

    def take_complete_body(self) -> bytes:
        """All of a body that has come to its end already, which is read with this; b"" of others, and of what is packed."""
        return self._take_available() if self.ended and self._inflater is None else b""

    # What the connection does.

    def wait_for_change(self) -> asyncio.Future[None]:
        """Done as soon as something has changed."""
        self.waiter = self._loop.create_future()
        return self.waiter

    def notify_change(self) -> None:
        """Something has changed."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def set_inflater(self, inflater: Inflater | None) -> None:
        """The body must be unpacked."""
        self._inflater = inflater

    def end(self) -> None:
        """All of it has come. The list that it came by is not the answer's any more."""
        self.ended, self._source, self._pieces = True, None, self._pieces.copy()

    def fail(self, fault: HttpClientError) -> None:
        """No more will come. What came before is still given."""
        if not self.ended and self.fault is None:
            self.fault, self._source = fault, None
            self.notify_change()

    def _take_available(self) -> bytes:
        """What has come since the last time, b"" when nothing has. Raises Fault after what came before it."""
        pieces, self.size = self._pieces, 0
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self.paused and self._source is not None:
            self.paused = False
            self._source.resume()
        if self._inflater is not None:
            data = self._inflater.take(data)
            if self.ended and not data:
                self._inflater.finish()
        if self.fault is not None and not data:
            raise self.fault
        return data
