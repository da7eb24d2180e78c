"""WebSocket frames: bytes <-> messages. Pure. Source: RFC 6455, section 5 for frames, 7.4 and 8.1 for close codes.

Extensions are not negotiated, so a frame with a reserved bit is an error; compression would not shrink base64 audio.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final

from tornado.util import _websocket_mask  # Tornado's C function, since 3.2: 1 µs for 4 KB; Python takes 17

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NO_CODE: Final = 1005
"""The close code for a close frame without a code."""
PROTOCOL_ERROR, UNSUPPORTED, INVALID_TEXT, TOO_BIG, INTERNAL_ERROR = 1002, 1003, 1007, 1009, 1011
LONGEST_REASON: Final = 123
"""Maximum bytes of a close reason: a control frame has at most 125, and two of them are the code."""

_LEAST: Final = 2
_SHORT, _LONG, _LONGEST = struct.Struct("!BB").pack, struct.Struct("!BBH").pack, struct.Struct("!BBQ").pack
_CODE: Final = struct.Struct("!H")

Message = tuple[int, str | bytes]


class ProtocolError(Exception):
    """An error: the peer violates the protocol; `code` is the close code to send.

    `readable`: the fault is in a message, not in the framing, so the frames after it can be read, including the close frame.
    """

    def __init__(self, code: int, message: str, *, readable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.readable = readable


class FrameReader:
    """A parser of messages from the bytes fed to it; a message is parsed only when it is requested.

    `masked`: the peer must mask (a client must, a server must not). `most` is the maximum size of a message in bytes; a larger
    one is rejected when its header arrives.
    """

    __slots__ = ("_at", "_data", "_masked", "_most", "_need", "_opcode", "_parts", "_skip")

    def __init__(self, *, masked: bool, most: int) -> None:
        self._masked = masked
        self._most = most
        self._data: bytes | bytearray = b""
        self._at = 0
        self._need = _LEAST
        self._skip = 0  # bytes to skip of a message that is too big
        self._opcode = CONTINUATION
        self._parts: bytes | bytearray = b""  # a bytearray while a message is fragmented

    def feed(self, data: bytes) -> None:
        """Add received bytes. They are not copied if everything before them has been parsed, the usual case."""
        if self._at == len(self._data):
            self._data = data
        elif isinstance(self._data, bytearray):
            del self._data[: self._at]
            self._data += data
        else:
            self._data = bytearray(self._data[self._at :])
            self._data += data
        self._at = 0

    @property
    def buffered(self) -> int:
        """Return the number of bytes of messages that are not complete or were not requested yet."""
        return len(self._data) - self._at + len(self._parts)

    def read_message(self) -> Message | None:
        """Return the next (opcode, payload), None if more bytes are needed, or (PART, b"") for a fragment of a message.

        The payload of TEXT is a str. Raises ProtocolError.
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

    def _check_size(self, first: int, size: int, frame_size: int) -> None:
        """Raise ProtocolError for a message or control frame that is too large. `frame_size` includes the header."""
        if first & 0x08:
            if size > 125:
                raise ProtocolError(PROTOCOL_ERROR, "a control frame is too long")
        elif size + len(self._parts) > self._most:
            self._need, self._skip, self._parts = _LEAST, frame_size, b""
            self._opcode = CONTINUATION if first & 0x80 else self._opcode or first & 0x0F
            raise ProtocolError(TOO_BIG, f"a message may have at most {self._most} bytes", readable=True)

    def _message(self, first: int, payload: bytes) -> Message:
        opcode, final = first & 0x0F, first >= 0x80
        if opcode >= CLOSE:
            if opcode > PONG or not final:
                raise ProtocolError(PROTOCOL_ERROR, "an unknown or a fragmented control frame")
            return opcode, payload
        if opcode > BINARY or (opcode == CONTINUATION) is not (self._opcode != CONTINUATION):
            raise ProtocolError(PROTOCOL_ERROR, "an unexpected frame in a fragmented message")
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
            raise ProtocolError(INVALID_TEXT, "a text message is not UTF-8", readable=True) from None


def make_frame(opcode: int, payload: bytes, *, masked: bool) -> bytes:
    """Return one unfragmented frame."""
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
    """Return the payload of a close frame; a reason that is too long is truncated."""
    if code == NO_CODE:
        return b""
    cut = reason.encode(errors="replace")[:LONGEST_REASON].decode(errors="ignore")
    return _CODE.pack(code) + cut.encode()


def parse_close_payload(payload: bytes) -> tuple[int, str]:
    """Return (code, reason) of a close frame. Raises ProtocolError."""
    if not payload:
        return NO_CODE, ""
    if len(payload) < _CODE.size:
        raise ProtocolError(PROTOCOL_ERROR, "the close code is incomplete")
    (code,) = _CODE.unpack_from(payload)
    if not (code in range(3000, 5000) or code in range(1000, 1004) or code in range(1007, 1015)):
        raise ProtocolError(PROTOCOL_ERROR, "the close code is not allowed")
    try:
        return code, payload[_CODE.size :].decode()
    except UnicodeDecodeError:
        raise ProtocolError(INVALID_TEXT, "the close reason is not UTF-8") from None


def _generate_masks() -> Iterator[bytes]:
    """Yield unpredictable masks (5.3), with one system call per thousand."""
    while True:
        block = os.urandom(4096)
        for at in range(0, len(block), 4):
            yield block[at : at + 4]


_masks: Final = _generate_masks()
