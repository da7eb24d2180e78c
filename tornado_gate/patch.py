"""Change top-level values of a JSON object's text and no other byte.

A body on the verbatim lane goes up as it came: key order, spelling of numbers and escapes, unknown fields. Only what must
differ (the model's name, a switch that conf demands) is cut out and replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

REMOVE: Final = object()
"""As a value in `patch_json`: take the member out."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRUCTURE = re.compile(rb'["{}\[\]]')
_SCALAR_END = re.compile(rb"[,}\]\s]")


def patch_json(raw: bytes, changes: Mapping[str, Any]) -> bytes:
    """The object text `raw` with the top-level members in `changes` replaced, appended or, with REMOVE, taken out.

    `raw` must be a valid JSON object without duplicate names, as `jsonbody.load_object` has checked.
    """
    pending = dict(changes)
    pieces: list[bytes] = []
    kept_until = 0
    members = 0
    for name, start, value_start, value_end, comma in _members(raw):
        members += 1
        if name not in pending:
            continue
        value = pending.pop(name)
        if value is REMOVE:
            members -= 1
            pieces.append(raw[kept_until:start])
            kept_until = comma if comma else value_end
        else:
            pieces += (raw[kept_until:value_start], orjson.dumps(value))
            kept_until = value_end
    close = raw.rindex(b"}")
    head = b"".join([*pieces, raw[kept_until:close]])
    added = [orjson.dumps(name) + b":" + orjson.dumps(value) for name, value in pending.items() if value is not REMOVE]
    if REMOVE in changes.values():
        head = _without_last_comma(head)
    if added:
        if members:
            head = head.rstrip() + b","
        head += b",".join(added)
    return head + raw[close:]


def _without_last_comma(head: bytes) -> bytes:
    stripped = head.rstrip()
    return stripped[:-1] if stripped.endswith(b",") else head


def _members(raw: bytes) -> Any:
    """(name, start of member, start of value, end of value, end of the comma after it or 0) for each top-level member."""
    position = _skip(raw, raw.index(b"{") + 1)
    while raw[position] != 0x7D:  # }
        start = position
        name_match = _STRING.match(raw, position)
        assert name_match is not None, "the body was checked before"
        value_start = _skip(raw, _skip(raw, name_match.end()) + 1)
        value_end = _end_of_value(raw, value_start)
        position = _skip(raw, value_end)
        comma = 0
        if raw[position] == 0x2C:  # ,
            position = comma = _skip(raw, position + 1)
        yield orjson.loads(name_match.group()), start, value_start, value_end, comma


def _skip(raw: bytes, position: int) -> int:
    match = _SPACE.match(raw, position)
    return match.end() if match else position


def _end_of_value(raw: bytes, position: int) -> int:
    first = raw[position]
    if first == 0x22:  # "
        match = _STRING.match(raw, position)
        assert match is not None, "the body was checked before"
        return match.end()
    if first not in (0x7B, 0x5B):  # { [
        match = _SCALAR_END.search(raw, position)
        return match.start() if match else len(raw)
    depth = 0
    while True:
        match = _STRUCTURE.search(raw, position)
        assert match is not None, "the body was checked before"
        position = match.end()
        character = match.group()
        if character == b'"':
            string = _STRING.match(raw, match.start())
            assert string is not None, "the body was checked before"
            position = string.end()
        elif character in b"{[":
            depth += 1
        else:
            depth -= 1
            if not depth:
                return position
