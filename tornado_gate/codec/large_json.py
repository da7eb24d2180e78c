"""Parses a large JSON text in pieces, so that no call keeps other threads of the process from running for long.

The parser holds Python's lock during its one call, 2 ms for each megabyte, also when a thread calls it. So the text is divided:
msgspec finds the extent of the members of an object or array without building their values, which is many times faster, and
orjson parses them one after the other, a long string in slices. The result is that of ``orjson.loads``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import orjson

from tornado_gate.types.wire import WHOLE_BYTES, invalid_json_error

SLICE_BYTES: Final = 1024 * 1024
BATCH_ITEMS: Final = 10_000
ITEMS_AT_ONCE: Final = 100
"""Items of an array that are written together."""
_SPACE: Final = b" \t\r\n"
_OTHER_STARTS: Final = b"-0123456789tfn"
_LONGEST_PAIR: Final = 12
"""The length of a surrogate pair as two escapes."""

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def load_json(raw: bytes | memoryview) -> Any:
    """The value of a JSON text. Raises orjson.JSONDecodeError."""
    if len(raw) <= WHOLE_BYTES:
        return orjson.loads(raw)
    try:
        return _load(memoryview(raw))
    except msgspec.DecodeError as error:
        raise orjson.JSONDecodeError(str(error), "", 0) from None
    except RecursionError:
        raise orjson.JSONDecodeError("it is nested too deeply", "", 0) from None


def load_upstream_json(body: bytes | memoryview, provider: str = "") -> Any:
    """The value of an upstream's body. `provider` is its name for the error message. Raises UpstreamError."""
    try:
        return load_json(body)
    except orjson.JSONDecodeError as error:
        raise invalid_json_error(provider) from error


def exceeds(value: Any, most: int) -> bool:
    """Whether a JSON value certainly has more than `most` bytes as text. It looks at no more than is needed to know."""
    left, waiting = most, [value]
    while waiting:
        one = waiting.pop()
        left -= 1
        if type(one) is str:
            left -= len(one)
        elif type(one) is dict:
            waiting += one.values()
        elif type(one) is list or type(one) is tuple:
            waiting += one
        if left < 0:
            return True
    return False


def load_text(text: str) -> Any:
    """The value of a JSON text that is a string, such as the arguments of a tool call. Raises orjson.JSONDecodeError."""
    return orjson.loads(text) if len(text) <= WHOLE_BYTES else load_json(text.encode("utf-8", "surrogatepass"))


def dump_json(value: Any) -> bytes:
    """The text of a value that may be large. Raises TypeError for one that has no text."""
    return encode_json(value) if exceeds(value, SLICE_BYTES) else orjson.dumps(value)


def encode_json(value: Any) -> bytes:
    """The text of a value, written in pieces."""
    return b"".join(_iterate_pieces(value))


def _iterate_pieces(value: Any) -> Iterator[bytes]:
    if type(value) is str:
        yield b'"'
        for start in range(0, len(value), SLICE_BYTES):
            yield orjson.dumps(value[start : start + SLICE_BYTES])[1:-1]
        yield b'"'
    elif type(value) is dict and all(type(name) is str for name in value):
        separator = b"{"
        for name, member in value.items():
            yield separator + orjson.dumps(name) + b":"
            yield from _iterate_pieces(member) if exceeds(member, SLICE_BYTES) else (orjson.dumps(member),)
            separator = b","
        yield b"}" if value else b"{}"
    elif type(value) is list:
        yield from _iterate_items(value)
    else:
        yield orjson.dumps(value)


def _iterate_items(items: list[Any]) -> Iterator[bytes]:
    """The text of an array: short items are written together."""
    separator = b"["
    start = 0
    while start < len(items):
        batch = items[start : start + ITEMS_AT_ONCE]
        while len(batch) > 1 and exceeds(batch, SLICE_BYTES):
            batch = batch[: len(batch) // 2]
        yield separator
        if len(batch) == 1:
            yield from _iterate_pieces(batch[0])
        else:
            yield orjson.dumps(batch)[1:-1]
        start += len(batch)
        separator = b","
    yield b"]" if items else b"[]"


def _load(text: memoryview) -> Any:
    if len(text) <= WHOLE_BYTES:
        return orjson.loads(text)
    beginning = bytes(text[:64])
    first = beginning.lstrip(_SPACE)[:1]
    if not first:
        return _load(memoryview(bytes(text).lstrip(_SPACE)))
    if first == b"{":
        return {name: _load(memoryview(member)) for name, member in _MEMBERS.decode(text).items()}
    if first == b"[":
        return _load_items(_ITEMS.decode(text))
    if first == b'"':
        is_bare = beginning.startswith(b'"') and text[-1] == 0x22
        return _load_string(text if is_bare else memoryview(bytes(text).strip(_SPACE)))
    if first not in _OTHER_STARTS:
        raise orjson.JSONDecodeError("unexpected character", "", 0)
    return orjson.loads(text)


def _load_items(items: list[msgspec.Raw]) -> list[Any]:
    """Parse the items of an array; short ones together."""
    found: list[Any] = []
    batch: list[memoryview] = []
    size = 0
    for item in items:
        text = memoryview(item)
        if len(text) > SLICE_BYTES:
            found += _load_batch(batch)
            found.append(_load(text))
            batch, size = [], 0
            continue
        batch.append(text)
        size += len(text)
        if size > SLICE_BYTES or len(batch) >= BATCH_ITEMS:
            found += _load_batch(batch)
            batch, size = [], 0
    return found + _load_batch(batch)


def _load_batch(batch: list[memoryview]) -> list[Any]:
    found: list[Any] = orjson.loads(b"[%b]" % b",".join(batch)) if batch else []
    return found


def _load_string(text: memoryview) -> str:
    """The value of a long string with its quotation marks."""
    pieces: list[str] = []
    position, end = 1, len(text) - 1
    if end < 1 or text[end] != 0x22:
        raise orjson.JSONDecodeError("a string has no end", "", 0)
    while position < end:
        window = bytes(text[position : min(position + SLICE_BYTES + _LONGEST_PAIR, end)])
        if position + len(window) < end:
            window = window[: _find_cut(window, SLICE_BYTES)]
        piece = orjson.loads(b'"%b"' % window)
        if not isinstance(piece, str):
            raise orjson.JSONDecodeError("a string is invalid", "", 0)
        pieces.append(piece)
        position += len(window)
    return "".join(pieces)


def _find_cut(text: bytes, end: int) -> int:
    """A position up to `end` that divides no character, no escape and no surrogate pair. `text` begins at such one."""
    while text[end] & 0xC0 == 0x80:  # a continuation byte of UTF-8
        end -= 1
    position = text.find(b"\\", max(0, end - _LONGEST_PAIR), end)
    if position < 0:
        return end
    run = position - len(text[:position].rstrip(b"\\"))
    position -= run % 2  # the backslash that is not escaped itself: escapes of backslashes are pairs
    while position < end:
        length = _measure_unit(text, position)
        if position + length > end:
            return position
        position += length
    return position


def _measure_unit(text: bytes, position: int) -> int:
    """The length of the character or escape at `position`, of both escapes of a surrogate pair."""
    if text[position] != 0x5C:
        return 1
    if text[position + 1] != 0x75:
        return 2
    is_high = text[position + 2 : position + 4].lower() in (b"d8", b"d9", b"da", b"db")
    return _LONGEST_PAIR if is_high and text[position + 6 : position + 8] == b"\\u" else 6
