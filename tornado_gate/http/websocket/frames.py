"""WebSocket frames: bytes <-> messages. Pure. Source: RFC 6455, section 5 for frames, 7.4 and 8.1 for closing codes.

No extension is offered or taken, so a frame with a reserved bit is a fault; base64 of sound would not get smaller.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final

from tornado.util import _websocket_mask  # Tornado's name for it in C, since 3.2: 1 µs for 4 KB, where Python takes 17

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NO_CODE: Final = 1005
"""What stands for a closing frame without a code."""
PROTOCOL_ERROR, UNSUPPORTED, INVALID_TEXT, TOO_BIG, INTERNAL_ERROR = 1002, 1003, 1007, 1009, 1011
LONGEST_REASON: Final = 123
"""Bytes: a control frame has at most 125, two of which are the code."""

_LEAST: Final = 2
_SHORT, _LONG, _LONGEST = struct.Struct("!BB").pack, struct.Struct("!BBH").pack, struct.Struct("!BBQ").pack
_CODE: Final = struct.Struct("!H")

Message = tuple[int, str | bytes]


class ProtocolError(Exception):
    """The other side breaks the protocol; `code` is what the connection is closed with.

    `readable` says that the fault is in a message, not in the frames: what follows can be read, its goodbye among it.
    """

    def __init__(self, code: int, message: str, *, readable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.readable = readable


class FrameReader:
    """Bytes go in as they come, messages come out one by one, so that nothing is taken apart before it is wanted.

    `masked` says whether the other side must mask (a client must, a server must not). `most` is the bytes that a message may
    have: more is refused when it is announced.
    """

    __slots__ = ("_at", "_data", "_masked", "_most", "_need", "_opcode", "_parts", "_skip")

    def __init__(self, *, masked: bool, most: int) -> None:
        self._masked = masked
        self._most = most
        self._data: bytes | bytearray = b""
        self._at = 0
        self._need = _LEAST
        self._skip = 0  # what is still to come of a message that is too big
        self._opcode = CONTINUATION
        self._parts: bytes | bytearray = b""  # a bytearray while a message comes in parts

    def feed(self, data: bytes) -> None:
        """What has come. Kept as it is when all before it has been read, which is how it nearly always is."""
        if self._at == len(self._data):
            self._data = data
        elif isinstance(self._data, bytearray):
            del self._data[: self._at]
            self._data += data
        else:
            self._data = bytearray(self._data[self._at :])
            self._data += data
        self._at = 0

    def read_message(self) -> Message | None:
        """The next (opcode, payload); None until more has come. PART, and nothing, is a message that goes on.

        A TEXT has a str. Raises ProtocolFault.
        """
        if self._skip:
            skipped = min(self._skip, len(self._data) - self._at)
            self._skip -= skipped
            self._at += skipped
        data, at = self._data, self._at
        have = len(data) - at
        if have < self._need:
            return None
        first, second = data[at], data[at + 1]
        if first & 0x70 or (second >= 0x80) is not self._masked:
            raise ProtocolError(PROTOCOL_ERROR, "a reserved bit is set" if first & 0x70 else "the mask is wrong")
        size, start = second & 0x7F, at + 2
        if size > 125:
            start += 2 if size == 126 else 8
            if have < start - at:
                self._need = start - at
                return None
            size = int.from_bytes(data[at + 2 : start], "big")
        if self._masked:
            start += 4
        end = start + size
        if size > 125 or self._parts:
            self._check_size(first, size, end - at)
        if len(data) < end:
            self._need = end - at
            return None
        payload = bytes(data[start:end])
        if self._masked:
            payload = _websocket_mask(bytes(data[start - 4 : start]), payload)
        self._need = _LEAST
        if end == len(data):
            self._data, self._at = b"", 0
        else:
            self._at = end
        return self._message(first, payload)

    def _check_size(self, first: int, size: int, whole: int) -> None:
        """`whole` is what the frame has with its head."""
        if first & 0x08:
            if size > 125:
                raise ProtocolError(PROTOCOL_ERROR, "a control frame is too long")
        elif size + len(self._parts) > self._most:
            self._need, self._skip, self._parts = _LEAST, whole, b""
            self._opcode = CONTINUATION if first & 0x80 else self._opcode or first & 0x0F
            raise ProtocolError(TOO_BIG, f"a message may have {self._most} bytes", readable=True)

    def _message(self, first: int, payload: bytes) -> Message:
        opcode, final = first & 0x0F, first >= 0x80
        if opcode >= CLOSE:
            if opcode > PONG or not final:
                raise ProtocolError(PROTOCOL_ERROR, "an unknown or a divided control frame")
            return opcode, payload
        if opcode > BINARY or (opcode == CONTINUATION) is not (self._opcode != CONTINUATION):
            raise ProtocolError(PROTOCOL_ERROR, "a frame that cannot stand here")
        if not final or opcode == CONTINUATION:
            if not self._parts:
                self._parts = bytearray()
            self._parts += payload
            self._opcode = opcode or self._opcode
            if not final:
                return CONTINUATION, b""
            opcode, payload = self._opcode, bytes(self._parts)
            self._opcode, self._parts = CONTINUATION, b""
        if opcode == BINARY:
            return opcode, payload
        try:
            return opcode, payload.decode()
        except UnicodeDecodeError:
            raise ProtocolError(INVALID_TEXT, "a text is not UTF-8", readable=True) from None


def make_frame(opcode: int, payload: bytes, *, masked: bool) -> bytes:
    """One whole message."""
    bit, size = 0x80 if masked else 0, len(payload)
    if size < 126:
        head = _SHORT(0x80 | opcode, bit | size)
    elif size < 65536:
        head = _LONG(0x80 | opcode, bit | 126, size)
    else:
        head = _LONGEST(0x80 | opcode, bit | 127, size)
    if not masked:
        return head + payload
    mask = next(_masks)
    return b"".join((head, mask, _websocket_mask(mask, payload)))


def make_close_payload(code: int, reason: str = "") -> bytes:
    """The payload of a closing frame; a reason that is too long is cut."""
    if code == NO_CODE:
        return b""
    cut = reason.encode(errors="replace")[:LONGEST_REASON].decode(errors="ignore")
    return _CODE.pack(code) + cut.encode()


def parse_close_payload(payload: bytes) -> tuple[int, str]:
    """(code, reason) of a closing frame. Raises ProtocolFault."""
    if not payload:
        return NO_CODE, ""
    if len(payload) < _CODE.size:
        raise ProtocolError(PROTOCOL_ERROR, "half a code")
    (code,) = _CODE.unpack_from(payload)
    if not (code in range(3000, 5000) or code in range(1000, 1004) or code in range(1007, 1015)):
        raise ProtocolError(PROTOCOL_ERROR, "a code that may not be sent")
    try:
        return code, payload[_CODE.size :].decode()
    except UnicodeDecodeError:
        raise ProtocolError(INVALID_TEXT, "a reason is not UTF-8") from None


def _generate_masks() -> Iterator[bytes]:
    """Masks that nobody can foresee (5.3), for one system call in a thousand."""
    while True:
        block = os.urandom(4096)
        for at in range(0, len(block), 4):
            yield block[at : at + 4]


_masks: Final = _generate_masks()
