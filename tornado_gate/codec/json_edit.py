"""Change top-level values of a JSON object's text and no other byte.

A body on the verbatim lane goes up as it came: key order, spelling of numbers and escapes, unknown fields. Only what must
differ (the model's name, a switch that conf demands) is cut out and replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.types.value import Value

REMOVE: Final = object()
"""As a value in `patch_json`: take the member out."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_SPACE = re.compile(rb"[ \t\r\n]*+")
_COLON = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+")
_TO_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+[{}\[\]]')
_SCALAR_END = re.compile(rb"[,}\]\s]")
_PLAIN_NAME = re.compile(r"[A-Za-z_]+")
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")


class _Member(Value, frozen=True):
    """Where a top-level member stands in the text. `comma` is the end of the comma after it and of its space, 0 without one."""

    name: str
    start: int
    value_start: int
    value_end: int
    comma: int


def patch_json(raw: bytes, changes: Mapping[str, Any], body: Mapping[str, Any] | None = None) -> bytes:
    """The object text `raw` with the top-level members in `changes` replaced, appended or, with REMOVE, taken out.

    `raw` must be a valid JSON object without duplicate names, as `jsonbody.load_object` has checked. `body`, what `raw` was
    parsed to, saves the walk over the text where it can: the result is the same.
    """
    found = None if body is None else _find_changed_members(raw, changes, body)
    if found is None:
        found = [member for member in _iterate_members(raw) if member.name in changes]
    removed = [member for member in found if changes[member.name] is REMOVE]
    here = {member.name for member in found}
    added = [_render_member(name, value) for name, value in changes.items() if name not in here and value is not REMOVE]
    if not removed and not added:
        return b"".join(_iterate_changed_pieces(raw, found, changes, len(raw)))
    close = raw.rindex(b"}")
    head = b"".join(_iterate_changed_pieces(raw, found, changes, close))
    if removed:
        head = _strip_last_comma(head)
    if added:
        stripped = head.rstrip()
        before = (head,) if stripped.endswith(b"{") else (stripped, b",")
        return b"".join((*before, b",".join(added), raw[close:]))
    return head + raw[close:]


def _render_member(name: str, value: Any) -> bytes:
    return orjson.dumps(name) + b":" + orjson.dumps(value)


def _iterate_changed_pieces(
    raw: bytes, found: list[_Member], changes: Mapping[str, Any], end: int
) -> Iterator[bytes | memoryview]:
    """The pieces of `raw` up to `end`, with the members in `found` changed."""
    text = memoryview(raw)  # whose slices are no copies: a body may be long
    kept_until = 0
    for member in found:
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
    """The members to change, in their order; None when only a walk can tell where one of them stands.

    A name of letters can be spelled in one other way, with ``\\u``. Where nothing is, the name of a member of `body` stands in
    the text as it is, between quotation marks; and if that is nowhere else, neither deeper nor as a value, it is there.
    A name that is only said to be missing is looked for too: nothing may come to stand twice.
    """
    found: list[_Member] = []
    for name in changes:
        if _PLAIN_NAME.fullmatch(name) is None:
            return None
        quoted = b'"%b"' % name.encode()
        start = raw.rfind(quoted)
        if start < 0 and name not in body:
            continue
        if start < 0 or name not in body or raw.find(quoted) != start:
            return None
        found.append(_read_member(raw, name, start, start + len(quoted)))
    if found and raw.rfind(b"\\u00") >= 0 and _ESCAPED_LETTER.search(raw) is not None:
        return None
    return sorted(found, key=lambda member: member.start)


def _iterate_members(raw: bytes) -> Iterator[_Member]:
    """Each top-level member."""
    position = _skip_space(raw, raw.index(b"{") + 1)
    while raw[position] != 0x7D:  # }
        name = _STRING.match(raw, position)
        assert name is not None, "the body was checked before"
        member = _read_member(raw, orjson.loads(name[0]), position, name.end())
        yield member
        position = member.comma or _skip_space(raw, member.value_end)


def _read_member(raw: bytes, name: str, start: int, name_end: int) -> _Member:
    colon = _COLON.match(raw, name_end)
    assert colon is not None, "the body was checked before"
    value_start = colon.end()
    value_end = _find_value_end(raw, value_start)
    position = _skip_space(raw, value_end)
    comma = _skip_space(raw, position + 1) if raw[position] == 0x2C else 0  # ,
    return _Member(name, start, value_start, value_end, comma)


def _skip_space(raw: bytes, position: int) -> int:
    match = _SPACE.match(raw, position)
    return match.end() if match else position


def _find_value_end(raw: bytes, position: int) -> int:
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
        match = _TO_BRACKET.match(raw, position)
        assert match is not None, "the body was checked before"
        position = match.end()
        if raw[position - 1] in b"{[":
            depth += 1
        else:
            depth -= 1
            if not depth:
                return position
