"""The replacement of top-level values in the text of a JSON object; all other bytes stay unchanged.

On the verbatim lane the upstream receives the caller's bytes: key order, spelling of numbers and escapes, unknown fields. Only
the values that must differ (the model's name, a field that conf sets) are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.byte_search import SLICE_BYTES, find_in_slices
from tornado_gate.types.value import Value

REMOVE: Final = object()
"""As a value in `patch_json`: remove the member."""

EDGE_BYTES = 1024
"""A member that is so near to an end of the text is found without a search of the whole text."""
WINDOW_BYTES = 1024 * 1024
"""The maximum length of text that one call of a pattern searches, because other threads wait during the call."""

# Groups are not repeated possessively: CPython 3.11 before 3.11.5 loses its place when such a group fails (its issue 101955).
_STRING_CONTENT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*+")
_WITHOUT_BRACKETS = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*"[^"{}\[\]]*+)*')
_SCALAR_END = re.compile(rb"[,}\]\s]")
_PLAIN_NAME = re.compile(r"[A-Za-z_]+")
_BACKSLASH: Final = 0x5C
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")


class _Member(Value, frozen=True):
    """The position of a top-level member. `comma` is the end of the following comma and its white space; 0 without a comma."""

    name: str
    start: int
    value_start: int
    value_end: int
    comma: int


def patch_json(raw: bytes, changes: Mapping[str, Any], body: Mapping[str, Any] | None = None) -> bytes:
    """Return `raw` with the top-level members in `changes` replaced, appended or, for the value REMOVE, removed.

    `raw` must be a valid JSON object without duplicate names; `json_body.load_object` checks this. `body`, the parsed `raw`,
    makes most calls faster, because the text need not be scanned; the result is the same.
    """
    members = None if body is None else _find_changed_members(raw, changes, body)
    if members is None:
        members = [member for member in _iterate_members(raw) if member.name in changes]
    removed = [member for member in members if changes[member.name] is REMOVE]
    present = {member.name for member in members}
    added = [
        _render_member(name, value) for name, value in changes.items() if name not in present and value is not REMOVE
    ]
    if not removed and not added:
        return b"".join(_iterate_changed_pieces(raw, members, changes, len(raw)))
    close = raw.rindex(b"}")
    head = b"".join(_iterate_changed_pieces(raw, members, changes, close))
    if removed:
        head = _strip_last_comma(head)
    if added:
        stripped = head.rstrip()
        before = (head,) if stripped.endswith(b"{") else (stripped, b",")
        return b"".join((*before, b",".join(added), raw[close:]))
    return head + raw[close:]


def append_member(raw: bytes, name: bytes, value: bytes) -> bytes | None:
    """Return the JSON object `raw`, which has no member `name`, with that member appended, like `patch_json`.

    `name` includes its quotes; `value` is JSON. Return None if the name occurs in the text, or for an empty or long object: then
    use `patch_json`.
    """
    if len(raw) > SLICE_BYTES or raw.find(name) >= 0:
        return None
    close = raw.rindex(b"}")
    head = raw[:close].rstrip()
    return None if head.endswith(b"{") else b"%b,%b:%b%b" % (head, name, value, raw[close:])


def _render_member(name: str, value: Any) -> bytes:
    return orjson.dumps(name) + b":" + orjson.dumps(value)


def _iterate_changed_pieces(
    raw: bytes, members: list[_Member], changes: Mapping[str, Any], end: int
) -> Iterator[bytes | memoryview]:
    """Yield the pieces of `raw` up to `end`, with the members in `members` changed."""
    text = memoryview(raw)  # slices without copying: a body may be large
    kept_until = 0
    for member in members:
        value = changes[member.name]
        if value is REMOVE:
            yield text[kept_until : member.start]
            kept_until = member.comma or member.value_end
        else:
            yield text[kept_until : member.value_start]
            yield orjson.dumps(value)
            kept_until = member.value_end
    yield text[kept_until:end]


def _strip_last_comma(head: bytes) -> bytes:
    stripped = head.rstrip()
    return stripped[:-1] if stripped.endswith(b",") else head


def _find_changed_members(raw: bytes, changes: Mapping[str, Any], body: Mapping[str, Any]) -> list[_Member] | None:
    """Return the members to change, in text order; None if their positions are ambiguous and a full scan is needed.

    A name of letters has one other spelling, with ``\\u`` escapes. Without such escapes, the quoted name of a member of `body`
    occurs in the text; if it occurs once, that is the member's position. If it occurs more often (nested, or as a value), the
    position is ambiguous. Names that `body` does not hold are searched too, so that no member is added twice.
    """
    members: list[_Member] = []
    is_searched = False
    for name in changes:
        if _PLAIN_NAME.fullmatch(name) is None:
            return None
        quoted = b'"%b"' % name.encode()
        start = _find_near_start(raw, quoted)
        if start < 0:
            start = _find_near_end(raw, quoted)
        if start >= 0:
            members.append(_read_member(raw, name, start, start + len(quoted)))
            continue
        is_searched = True
        start = find_in_slices(raw, quoted)
        if start < 0 and name not in body:
            continue
        if start < 0 or name not in body or find_in_slices(raw, quoted, start + 1) >= 0:
            return None
        members.append(_read_member(raw, name, start, start + len(quoted)))
    if is_searched and members and find_in_slices(raw, b"\\u00", pattern=_ESCAPED_LETTER) >= 0:
        return None
    return sorted(members, key=lambda member: member.start)


def _find_near_start(raw: bytes, quoted: bytes) -> int:
    """Return the position of the top-level member with the quoted name if it is near the start of a valid `raw`, else -1.

    The text before it, completed by a member and the end of the object, is a JSON object only if a name of the top level can
    follow it.
    """
    start = raw.find(quoted, 0, EDGE_BYTES)
    return start if start > 0 and _is_json(raw, start, raw[:start] + b'"":0}') else -1


def _find_near_end(raw: bytes, quoted: bytes) -> int:
    """Return the position like `_find_near_start`, near the end.

    The text from there on is the rest of a JSON object only if it ends as many objects as it begins, and one more.
    """
    start = raw.rfind(quoted, max(0, len(raw) - EDGE_BYTES))
    return start if start > 0 and _is_json(raw, start, b"{" + raw[start:]) else -1


def _is_json(raw: bytes, start: int, text: bytes) -> bool:
    """Return whether `text` is JSON. The quotation mark at `start` of `raw` must not be an escaped one."""
    if raw[start - 1] == _BACKSLASH:
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _iterate_members(raw: bytes) -> Iterator[_Member]:
    """Yield each top-level member in text order."""
    position = _skip_space(raw, raw.index(b"{") + 1)
    while raw[position] != 0x7D:  # }
        name_end = _find_string_end(raw, position)
        member = _read_member(raw, orjson.loads(raw[position:name_end]), position, name_end)
        yield member
        position = member.comma or _skip_space(raw, member.value_end)


def _read_member(raw: bytes, name: str, start: int, name_end: int) -> _Member:
    value_start = _skip_space(raw, _skip_space(raw, name_end) + 1)  # after the colon: the body was checked before
    value_end = _find_value_end(raw, value_start)
    position = _skip_space(raw, value_end)
    comma = _skip_space(raw, position + 1) if raw[position] == 0x2C else 0  # ,
    return _Member(name, start, value_start, value_end, comma)


def _skip_space(raw: bytes, position: int) -> int:
    while True:
        match = _SPACE.match(raw, position, position + WINDOW_BYTES)
        if match is None or match.end() < position + WINDOW_BYTES:
            return match.end() if match else position
        position = match.end()


def _find_value_end(raw: bytes, position: int) -> int:
    first = raw[position]
    if first == 0x22:  # "
        return _find_string_end(raw, position)
    if first not in (0x7B, 0x5B):  # { [
        match = _SCALAR_END.search(raw, position)
        return match.start() if match else len(raw)
    return _find_container_end(raw, position)


def _find_container_end(raw: bytes, position: int) -> int:
    depth = 0
    while True:
        match = _WITHOUT_BRACKETS.match(raw, position, position + WINDOW_BYTES)
        assert match is not None, "it matches everywhere"
        position = match.end()
        char = raw[position]
        if char == 0x22:  # a string that does not end within the window
            position = _find_string_end(raw, position)
        elif char in b"{[":
            depth += 1
            position += 1
        elif char in b"}]":
            depth -= 1
            position += 1
            if not depth:
                return position


def _find_string_end(raw: bytes, position: int) -> int:
    """Return the position after the closing quote of the string that begins at `position`."""
    position += 1
    while raw[position] != 0x22:
        match = _STRING_CONTENT.match(raw, position, position + WINDOW_BYTES)
        assert match is not None, "it matches everywhere"
        position = match.end()
    return position + 1
