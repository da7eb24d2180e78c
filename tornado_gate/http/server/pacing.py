"""The pace of a connection: how much is read ahead, how fast the client takes what is written, how long things may take, and
how it ends so that the client gets to see the last answer.

One timer serves all time limits of a connection. It is not moved for each of them: when it rings early, it looks again later.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final

from tornado.iostream import StreamClosedError

MAX_HELD_BYTES = 64 * 1024
LINGER_SECONDS = 5.0
"""How long what a refused client still sends is thrown away. Closing at once would make TCP take back the answer."""


class Phase:
    """What a connection is about. Not an Enum: to look up a member of one takes 0.2 µs in Python 3.11."""

    HEAD: Final = "waiting for a request"
    WAIT: Final = "the application asked to wait before the next bytes"
    BODY: Final = "reading a body"
    CUT: Final = "answered before the body had come"
    ANSWER: Final = "the request is whole, its answer is not"
    DRAIN: Final = "the answer is whole, the client has yet to take it"
    LINGER: Final = "answered; what still comes is thrown away"
    CLOSING: Final = "answered; it closes when the client has taken it"
    GONE: Final = "closed"


_READING_PHASES = (Phase.HEAD, Phase.BODY)


class PacedProtocol(asyncio.Protocol):
    """Bytes and time; what they mean is for who inherits."""

    __slots__ = (
        "_backlog",
        "_deadline",
        "_eof",
        "_held",
        "_idle_seconds",
        "_loop",
        "_phase",
        "_reading_paused",
        "_rings",
        "_scheduled",
        "_timer",
        "_transport",
        "_waiters",
    )

    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, idle_seconds: float) -> None:
        self._loop = loop
        self._idle_seconds = idle_seconds
        self._phase: str = Phase.HEAD
        self._held = b""  # what has come and was not read yet
        self._eof = False
        self._reading_paused = False
        self._scheduled = False
        self._waiters: list[asyncio.Future[None]] | None = None  # a list while the client takes less than is written
        self._deadline: float | None = None  # of the loop's clock
        self._backlog: int | None = None  # bytes that were unwritten when the time limit began, if it is about them
        self._timer: asyncio.TimerHandle | None = None
        self._rings = inf  # when the timer does

    def _on_writable(self) -> None:
        """Called when the client has taken what was written."""

    def _advance(self) -> None:
        """Called to read what is held."""

    # Reading

    def _schedule(self) -> None:
        """Go on with what is held, but let others have their turn."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._advance)

    def _pause_or_resume_reading(self) -> None:
        """Stop reading while too much is held, or read on."""
        full = len(self._held) > MAX_HELD_BYTES and (self._scheduled or self._phase not in _READING_PHASES)
        if full == self._reading_paused or self._phase is Phase.GONE:
            return
        self._reading_paused = full
        if full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # Closing

    def _close_when_written(self) -> None:
        """When the client has taken everything."""
        if self._held and not self._eof:
            self._close_gracefully()
            return
        self._phase = Phase.CLOSING
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._limit_drain()

    def _close_gracefully(self) -> None:
        """Close the sending half now, and the other when the client has seen that."""
        self._held = b""
        if self._eof or self._transport.is_closing():
            self._close_when_written()
            return
        self._phase = Phase.LINGER
        self._pause_or_resume_reading()
        self._limit_time(LINGER_SECONDS)
        self._transport.write_eof()

    # Writing

    def send(self, data: bytes) -> asyncio.Future[None] | None:
        """Write. A future when the client takes less than is written; it fails with StreamClosedError if the client leaves."""
        self._transport.write(data)
        if self._waiters is None:
            return None
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        return waiter

    def pause_writing(self) -> None:
        self._waiters = []

    def resume_writing(self) -> None:
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
        self._on_writable()

    # Time. `_deadline = None` ends a limit; the timer may ring for nothing.

    def _limit_time(self, seconds: float) -> None:
        """What begins now may take so long; then the connection is aborted."""
        self._backlog = None
        deadline = self._deadline = self._loop.time() + seconds
        if deadline < self._rings:
            self._set_timer(deadline)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings = self._loop.call_at(when, self._check_deadlines), when

    def _limit_drain(self) -> None:
        """The client may not go on for so long to take nothing of what is written."""
        self._limit_time(self._idle_seconds)
        self._backlog = self._transport.get_write_buffer_size()

    def _check_deadlines(self) -> None:
        self._timer, self._rings = None, inf
        if self._deadline is None:
            return
        if self._deadline > self._loop.time():
            self._set_timer(self._deadline)
        elif self._backlog is not None and self._transport.get_write_buffer_size() < self._backlog:
            self._limit_drain()  # slow, but it takes something
        else:
            self._transport.abort()

    def _stop_timing(self) -> None:
        """Nothing is written any more and nothing is waited for."""
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._rings = None, inf
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_exception(StreamClosedError())
                waiter.exception()  # who does not await it need not hear of it
