"""The buffer of a long body: the event loop reads into it directly, so that the body is neither copied nor joined.

The buffer is a bytes object that is filled before anybody else sees it. CPython allows that for a new object of
``PyBytes_FromStringAndSize(NULL, size)``. Its memory is not written at first, so a body that never arrives takes no pages.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final, Protocol

PROGRESS_SECONDS: Final = 1 / 16
"""The reader is woken at most this often while the body arrives, to extend its time limits. As exact as the timer wheel."""

LAST_BYTES: Final = 1
"""The end of a body comes through `data_received`, because data that follows it must be noticed."""

_WRITABLE: Final = 0x200  # PyBUF_WRITE

_api = ctypes.pythonapi
_make_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", _api)
)
_find_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", _api))
_make_view = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", _api)
)


class BodyReceiver(Protocol):
    """The connection of a body."""

    def on_nearly_whole(self) -> None:
        """Take the transport back: only the last bytes are missing."""

    def on_progress(self) -> None:
        """Wake up the reader: the body is still arriving."""

    def eof_received(self) -> bool | None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class DirectBody(asyncio.BufferedProtocol):
    """The protocol of a connection while all but the last bytes of a body arrive."""

    __slots__ = ("_at", "_body", "_loop", "_receiver", "_size", "_until", "_view", "_woken")

    def __init__(
        self, receiver: BodyReceiver, loop: asyncio.AbstractEventLoop, pieces: list[bytes], missing: int
    ) -> None:
        """Create a buffer for `pieces`, which have arrived, and `missing` bytes, which are more than LAST_BYTES."""
        self._receiver = receiver
        self._loop = loop
        self._size = size = sum(map(len, pieces)) + missing
        self._until = size - LAST_BYTES
        self._body: bytes = _make_bytes(None, size)
        self._view: memoryview = _make_view(_find_address(self._body), size, _WRITABLE)
        self._at = 0
        self._woken = loop.time()
        for piece in pieces:
            self.append(piece)

    def append(self, piece: bytes) -> None:
        """Copy a piece that has arrived in another way."""
        end = self._at + len(piece)
        self._view[self._at : end] = piece
        self._at = end

    def take(self) -> bytes:
        """Return the whole body. Raises ValueError if bytes of it are missing: they have never been written."""
        if self._at != self._size:
            raise ValueError("the body is incomplete")
        return self._body

    # Called by the transport.

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._at : self._until]

    def buffer_updated(self, nbytes: int) -> None:
        self._at += nbytes
        if self._at == self._until:
            self._receiver.on_nearly_whole()
        elif (now := self._loop.time()) - self._woken >= PROGRESS_SECONDS:
            self._woken = now
            self._receiver.on_progress()

    def eof_received(self) -> bool | None:
        return self._receiver.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.connection_lost(exc)

    def pause_writing(self) -> None:
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        self._receiver.resume_writing()
