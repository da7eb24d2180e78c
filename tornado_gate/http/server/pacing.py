"""Flow control of a connection: read-ahead, write back-pressure, time limits, and a close that delivers the last response.

One timer serves all time limits of a connection. It is not moved for each of them: if it fires early, it is set again.
"""

from __future__ import annotations

import asyncio
import select
import socket
from math import inf
from typing import Final

from tornado.iostream import StreamClosedError

from tornado_gate.types.value import Value

MAX_HELD_BYTES = 64 * 1024
LINGER_SECONDS = 5.0
LINGER_BYTES = 64 * 1024 * 1024
"""The limits, in seconds and in bytes, within which a rejected client's data is discarded. An immediate close would reset the
connection and lose the response.
"""


LAST_SECONDS = 1.0
"""The time for which a connection stays open for a request that its client may be sending already, although the server would
close it.
"""


class Times(Value, frozen=True, kw_only=True):
    """The time limits of connections, in seconds.

    `first_head_seconds`, `idle_seconds`: the time until the head of the first request, and of each further one, is complete.
    `body_seconds`: for a whole body; None: no limit. `stall_seconds`: without progress of a client to which data is sent.
    """

    first_head_seconds: float = 3600.0
    idle_seconds: float = 3600.0
    body_seconds: float | None = None
    stall_seconds: float = 60.0


class Phase:
    """The state of a connection. Not an Enum: accessing a member takes 0.2 µs in Python 3.11."""

    HEAD: Final = "waiting for a request"
    WAIT: Final = "the application is not ready for more bytes"
    BODY: Final = "reading a body"
    CUT: Final = "answered before the body was complete"
    ANSWER: Final = "the request is complete, its response is not"
    DRAIN: Final = "the response is complete, but not yet received"
    LINGER: Final = "answered; further data is discarded"
    CLOSING: Final = "answered; closes when the response is received"
    GONE: Final = "closed"


_READING_PHASES = (Phase.HEAD, Phase.BODY)


def has_unread_input(opened: socket.socket | None) -> bool:
    """Return whether the client has sent data that the loop has not read yet: a close would cause a reset.

    The loop reads it after its next poll. Under load that may be some time after the data has arrived, and timers come first.
    """
    if opened is None or opened.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(opened.fileno(), select.POLLIN)
    return bool(poll.poll(0))


class PacedProtocol(asyncio.Protocol):
    """A protocol with buffers, phases and time limits; subclasses define the meaning of the bytes."""

    __slots__ = (
        "_backlog",
        "_deadline",
        "_eof",
        "_held",
        "_lingered",
        "_loop",
        "_phase",
        "_reading_paused",
        "_rings",
        "_scheduled",
        "_stall_seconds",
        "_timer",
        "_transport",
        "_waiters",
    )

    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, stall_seconds: float) -> None:
        self._loop = loop
        self._stall_seconds = stall_seconds
        self._phase: str = Phase.HEAD
        self._held = b""  # received, not yet parsed
        self._lingered = 0
        self._eof = False
        self._reading_paused = False
        self._scheduled = False
        self._waiters: list[asyncio.Future[None]] | None = None  # a list while the write buffer is full
        self._deadline: float | None = None  # time of the loop's clock
        self._backlog: int | None = None  # unsent bytes when the time limit began, if the limit is about writing
        self._timer: asyncio.TimerHandle | None = None
        self._rings = inf  # when the timer fires

    def _on_writable(self) -> None:
        """Continue when the client has received all data that was written."""

    def _advance(self) -> None:
        """Read held data."""

    def _on_timeout(self) -> None:
        """Handle a limit of `_limit_time` that has passed."""
        self._transport.abort()

    def _on_stalled(self) -> None:
        """Handle a client that has received no data for `_stall_seconds` although data is waiting for it."""
        self._transport.abort()

    # Reading

    def _schedule(self) -> None:
        """Continue with held data later, so that other connections get a turn."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._advance)

    def _pause_or_resume_reading(self) -> None:
        """Pause reading while too much data is held, else resume it."""
        full = len(self._held) > MAX_HELD_BYTES and (self._scheduled or self._phase not in _READING_PHASES)
        if full == self._reading_paused or self._phase is Phase.GONE:
            return
        self._reading_paused = full
        if full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # Closing

    def _has_unread_input(self) -> bool:
        return has_unread_input(self._transport.get_extra_info("socket"))

    def _close_when_written(self) -> None:
        """Close when the client has received all data."""
        if self._held and not self._eof:
            self._close_gracefully()
            return
        self._phase = Phase.CLOSING
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._limit_drain()

    def _close_gracefully(self) -> None:
        """Close the sending half now, and the other half when the client has closed or after `LINGER_SECONDS`."""
        self._held = b""
        if self._eof or self._transport.is_closing():
            self._close_when_written()
            return
        self._phase = Phase.LINGER
        self._pause_or_resume_reading()
        self._limit_time(LINGER_SECONDS)
        self._transport.write_eof()

    def _discard(self, data: bytes) -> None:
        """Discard data of a rejected client, up to `LINGER_BYTES`."""
        self._lingered += len(data)
        if self._lingered > LINGER_BYTES:
            self._transport.abort()

    # Writing

    def send(self, data: bytes) -> asyncio.Future[None] | None:
        """Write. Return a future if the write buffer is full; it fails with StreamClosedError if the client disconnects."""
        self._transport.write(data)
        if self._waiters is None:
            return None
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        return waiter

    def pause_writing(self) -> None:
        self._waiters = []
        if self._phase is Phase.ANSWER:
            self._limit_drain()

    def resume_writing(self) -> None:
        waiters, self._waiters = self._waiters, None
        if self._phase is Phase.ANSWER:
            self._deadline = None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
        self._on_writable()

    # Time. `_deadline = None` ends a limit; the timer may then fire without effect.

    def _limit_time(self, seconds: float) -> None:
        """Call `_on_timeout` after `seconds`, unless `_deadline` is changed."""
        self._backlog = None
        deadline = self._deadline = self._loop.time() + seconds
        if deadline < self._rings:
            self._set_timer(deadline)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings = self._loop.call_at(when, self._check_deadlines), when

    def _limit_drain(self) -> None:
        """Call `_on_stalled` if the client receives no data for `_stall_seconds`."""
        self._limit_time(self._stall_seconds)
        self._backlog = self._transport.get_write_buffer_size()

    def _check_deadlines(self) -> None:
        self._timer, self._rings = None, inf
        if self._deadline is None:
            return
        if self._deadline > self._loop.time():
            self._set_timer(self._deadline)
        elif self._backlog is None:
            self._on_timeout()
        elif self._transport.get_write_buffer_size() < self._backlog:
            self._limit_drain()  # slow, but with progress
        else:
            self._on_stalled()

    def _stop_timing(self) -> None:
        """End all limits and fail all waiting writes."""
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._rings = None, inf
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_exception(StreamClosedError())
                waiter.exception()  # marks the exception as retrieved
