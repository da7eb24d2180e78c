"""Takes the target's key out of what passes, should an upstream repeat it. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tornado_gate.wire.openai_chat.errors import MASK

SHORT_BYTES: Final = 4096
"""Up to this length the key itself is looked for at once."""

_MASK: Final = MASK.encode()
_MOST_MARKS: Final = 8


def without(key: str, raw: bytes) -> bytes:
    """`raw`, a whole answer, with something else in place of `key`, which may be empty."""
    if len(raw) > SHORT_BYTES:
        return KeyMask(key).masked(raw)
    return raw.replace(key.encode(), _MASK) if key else raw


class KeyMask:
    """One target's `key`, which may be empty, in an answer that passes whole (`masked`) or in pieces (`feed`, `finish`)."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._held = b""

    def masked(self, raw: bytes) -> bytes:
        """`raw` with something else in the key's place."""
        if not self._key or (len(raw) > SHORT_BYTES and self._lacks_a_mark(raw)):
            return raw
        return raw.replace(self._key, _MASK)

    def _lacks_a_mark(self, raw: bytes) -> bool:
        """Whether some byte of the key is missing from a long piece: one byte is found forty times as quickly as several.

        Pictures and vectors mostly lack the hyphen or a letter. The bytes that are common in them are looked for last.
        """
        return any(raw.find(mark) < 0 for mark in _marks(self._key))

    def feed(self, piece: bytes) -> bytes:
        """What can be handed on once `piece` is there: its end waits when the key might begin in it."""
        if not self._key:
            return piece
        whole = self.masked(self._held + piece if self._held else piece)
        held = self._length_begun(whole[1 - len(self._key) :] if len(self._key) > 1 else b"")
        self._held = whole[len(whole) - held :]
        return whole[: len(whole) - held]

    def finish(self) -> bytes:
        """What still waits."""
        return self._held

    def _length_begun(self, end: bytes) -> int:
        """With how many bytes of the key a piece ends, of which `end` are the last, one fewer than the key has."""
        start = end.find(self._key[:1])
        while start >= 0 and not self._key.startswith(end[start:]):
            start = end.find(self._key[:1], start + 1)
        return len(end) - start if start >= 0 else 0


@lru_cache(maxsize=64)
def _marks(key: bytes) -> tuple[bytes, ...]:
    rarest = sorted(set(key.decode()), key=lambda mark: (mark.isdigit(), mark.isalpha(), mark))
    return tuple(mark.encode() for mark in rarest[:_MOST_MARKS])
