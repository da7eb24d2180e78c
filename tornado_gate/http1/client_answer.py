"""An upstream's answer: its head, and its body as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tornado_gate.http1.client_coding import Inflater
from tornado_gate.http1.client_faults import Broken, Fault


class Source(Protocol):
    """Where an answer comes from, while it comes."""

    def resume(self) -> None:
        """The reader has taken what had come."""

    def abort(self) -> None:
        """The reader wants no more."""


def same(fault: Fault) -> Exception:
    """The fault itself."""
    return fault


class Answer:
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
        "_waiter",
        "ended",
        "explain",
        "fault",
        "headers",
        "size",
        "status",
    )

    def __init__(self, source: Source, loop: asyncio.AbstractEventLoop) -> None:
        self.status = 0  # until the head has come
        self.headers: dict[str, str] = {}
        self.explain: Callable[[Fault], Exception] = same
        self.ended = False
        self.fault: Fault | None = None
        self.size = 0  # of what has come and was not read, in bytes
        self._loop = loop
        self._source: Source | None = source
        self._pieces: list[bytes] = []
        self._inflater: Inflater | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> bytes:
        try:
            while not (piece := self._take()):
                if self.ended:
                    raise StopAsyncIteration
                await self.more()
            return piece
        except Fault as fault:
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
            self.fail(Broken("closed by the reader"))
            source.abort()

    def whole(self) -> bytes:
        """All of a body that has come to its end already, which is read with this; b"" of others, and of what is packed."""
        return self._take() if self.ended and self._inflater is None else b""

    def more(self) -> asyncio.Future[None]:
        """Done as soon as something has changed."""
        self._waiter = self._loop.create_future()
        return self._waiter

    def wake(self) -> None:
        """Something has changed."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def add(self, piece: bytes) -> None:
        """A piece of the body has come."""
        self._pieces.append(piece)
        self.size += len(piece)

    def packed(self, inflater: Inflater | None) -> None:
        """The body must be unpacked."""
        self._inflater = inflater

    def end(self) -> None:
        """All of it has come."""
        self.ended, self._source = True, None

    def fail(self, fault: Fault) -> None:
        """No more will come. What came before is still given."""
        if not self.ended and self.fault is None:
            self.fault, self._source = fault, None
            self.wake()

    def _take(self) -> bytes:
        """What has come since the last time, b"" when nothing has. Raises Fault after what came before it."""
        data, pieces = b"", self._pieces
        if pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self.size = 0
            if self._source is not None:
                self._source.resume()
        if self._inflater is not None:
            data = self._inflater.take(data)
            if self.ended and not data:
                self._inflater.finish()
        if self.fault is not None and not data:
            raise self.fault
        return data
