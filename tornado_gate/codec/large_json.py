"""Parses a large JSON text in pieces, so that no call keeps other threads of the process from running for long.

The parser holds Python's lock during its one call, 2 ms for each megabyte, also when a thread calls it. So the text is divided:
msgspec finds the extent of the members of an object or array without building their values, which is many times faster, and
orjson parses them one after the other, a long string in slices. The result is that of ``orjson.loads``.

Most large texts have a few long strings. They are found by a search from quote to quote, which is faster than msgspec, and are
parsed apart from the rest.
"""

from __future__ import annotations

import secrets
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
MOST_QUOTES: Final = 10_000
"""A text with more quotes than this is not searched for long strings to its end."""
MOST_BACKSLASHES: Final = 64
_BACKSLASH: Final = 0x5C
_LONGEST_PAIR: Final = 12
"""The length of a surrogate pair as two escapes."""

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def load_json(raw: bytes | memoryview) -> Any:
    """The value of a JSON text. Raises orjson.JSONDecodeError."""
    if len(raw) <= WHOLE_BYTES:
        return orjson.loads(raw)
    try:
        if type(raw) is bytes:
            value = _load_apart(raw)
            if value is not None:
                return value
        return _load(memoryview(raw))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # the latter for the name of a member
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


def _load_apart(raw: bytes) -> Any:
    """The value of a text with few long strings, which are parsed apart from the rest; None for any other text."""
    extents = _find_long_strings(raw)
    if not extents or len(raw) - sum(end - start for start, end in extents) > WHOLE_BYTES:
        return None
    mark = f"string {secrets.token_hex(16)} "  # no caller can know it
    pieces: list[bytes] = []
    kept_until = 0
    for number, (start, end) in enumerate(extents):
        pieces += raw[kept_until:start], b'"%b%d"' % (mark.encode(), number)
        kept_until = end
    pieces.append(raw[kept_until:])
    text = memoryview(raw)
    try:
        value = orjson.loads(b"".join(pieces))
        strings = {f"{mark}{number}": _load_string(text[start:end]) for number, (start, end) in enumerate(extents)}
    except orjson.JSONDecodeError:
        return None  # the other way finds the error
    return value if _insert_strings(value, strings) else None


def _find_long_strings(raw: bytes) -> list[tuple[int, int]]:
    """The start and the end of each string above SLICE_BYTES, with its quotes; nothing if there are too many quotes."""
    extents: list[tuple[int, int]] = []
    start, position = -1, 0
    for _ in range(MOST_QUOTES):
        quote = raw.find(b'"', position)
        if quote < 0:
            return extents
        position = quote + 1
        if start < 0:
            start = quote
            continue
        backslashes = count_backslashes(raw, start + 1, quote)
        if backslashes == MOST_BACKSLASHES:
            return []
        if not backslashes % 2:
            if quote - start > SLICE_BYTES:
                extents.append((start, quote + 1))
            start = -1
    return []


def count_backslashes(raw: bytes, start: int, end: int) -> int:
    """The number of backslashes before `end`, from `start` on; MOST_BACKSLASHES at most."""
    if end == start or raw[end - 1] != _BACKSLASH:
        return 0
    before = raw[max(start, end - MOST_BACKSLASHES) : end]
    return len(before) - len(before.rstrip(b"\\"))


def _insert_strings(value: Any, strings: dict[str, str]) -> bool:
    """Put the strings in the place of their names in `value`. Whether all had a place; a name of a member is none."""
    left = len(strings)
    waiting = [value] if type(value) is dict or type(value) is list else []
    while waiting and left:
        container = waiting.pop()
        items = container.items() if type(container) is dict else enumerate(container)
        for key, item in list(items):
            kind = type(item)
            if kind is dict or kind is list:
                waiting.append(item)
            elif kind is str and item in strings:
                container[key] = strings[item]
                left -= 1
    return not left


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
    loaded: list[Any] = []
    batch: list[memoryview] = []
    size = 0
    for item in items:
        text = memoryview(item)
        if len(text) > SLICE_BYTES:
            loaded += _load_batch(batch)
            loaded.append(_load(text))
            batch, size = [], 0
            continue
        batch.append(text)
        size += len(text)
        if size > SLICE_BYTES or len(batch) >= BATCH_ITEMS:
            loaded += _load_batch(batch)
            batch, size = [], 0
    return loaded + _load_batch(batch)


def _load_batch(batch: list[memoryview]) -> list[Any]:
    items: list[Any] = orjson.loads(b"[%b]" % b",".join(batch)) if batch else []
    return items


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
