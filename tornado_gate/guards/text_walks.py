"""The search for the texts in a JSON value by its shape (`types/text_maps.py`). No I/O and no wire format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from tornado_gate.codec.json_strings import LEAST_NUMBER
from tornado_gate.codec.text_files import (
    BASE64_MARK,
    TextFile,
    UnreadableFile,
    find_embedded_files,
    is_data,
    is_data_url,
    list_sealed_texts,
    read_base64,
    read_data_url,
    read_encoded_json,
)
from tornado_gate.errors import RequestError
from tornado_gate.guards.text_parts import is_plain_name
from tornado_gate.types.text_maps import (
    OTHER,
    TEXT,
    Data,
    Derived,
    Events,
    JsonText,
    Media,
    Object,
    Offset,
    Shape,
    Text,
    Word,
)
from tornado_gate.types.texts import TextKind

Where = tuple[str | int, ...]
"""The names and numbers that lead to a value in a body."""

MAX_LEVELS: Final = 200
"""The maximum number of levels of objects and arrays. Requests have fewer (`codec.json_body.MAX_DEPTH`)."""
_WORD: Final = re.compile(r"[!-?A-~]{0,512}\Z")
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_MEDIA_TYPES: Final = ("media_type", "mime_type", "mimeType")
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})
_WALKED: Final = frozenset({str, list, dict})
_NUMBERS: Final = frozenset({int, float})
_JSON_STARTS: Final = ("{", "[")
_JSON_SPACE: Final = " \t\r\n"
_LONG_FLOAT: Final = 16
_MOST_INT: Final = 2**63 - 1
MAX_EMBEDDED: Final = 1000
"""The maximum number of data URLs inside the texts of a body that are read: each takes about 10 µs."""
_SHORT_DATA: Final = 128
"""Data up to this length is seen as it is written, too: a word may be base64 by chance."""
COMMON_WORDS: Final = frozenset(
    (
        "application", "array", "assistant", "auto", "base64", "boolean", "computer_call", "content", "custom", "developer",
        "document", "ephemeral", "file", "function", "function_call", "function_call_output", "image", "image_url", "input_audio",
        "input_file", "input_image", "input_text", "integer", "json_object", "json_schema", "message", "model", "none", "number",
        "object", "output_text", "reasoning", "refusal", "required", "string", "summary_text", "system", "text", "thinking",
        "tool", "tool_result", "tool_use", "url", "user", "wav", "mp3", "high", "low", "OBJECT", "STRING",
    )
)  # fmt: skip
"""Words of the wire formats themselves, which are in most requests."""


class FoundText(NamedTuple):
    """A text in a body: a string, or with `is_name` the name of the member at `where`."""

    where: Where
    place: str
    kind: TextKind
    text: str
    is_json: bool = False
    is_name: bool = False
    is_delta: bool = False
    is_signed: bool = False
    file: TextFile | None = None
    is_fixed: bool = False


class FoundDerived(NamedTuple):
    """A value that depends on the texts whose place is `of` or begins with it."""

    where: Where
    of: str
    shape: Derived | Offset
    value: Any


class Findings:
    """The findings in one body or event."""

    __slots__ = ("derived", "ended", "is_rounded", "texts", "unread")

    def __init__(self) -> None:
        self.unread: list[tuple[str, str]] = []
        """The paths of values that cannot be read, each with the reason: the end of a sentence about the value."""
        self.is_rounded = False
        """Return whether numbers may have had more digits than their value: then the value has to be rendered again."""
        self.texts: list[FoundText] = []
        self.derived: list[FoundDerived] = []
        self.ended: list[str] = []
        """The places of objects whose texts end with this event."""


def find_texts(value: Any, shape: Shape, *, of_request: bool = False) -> Findings:
    """Find the texts in `value`. Raises RequestError for a value with more than MAX_LEVELS levels.

    `of_request`: callers choose ids, names and data, so that these are texts, too.
    """
    findings = Findings()
    walk = _RequestWalk(findings) if of_request else _Walk(findings)
    walk.visit(value, shape, _Spot((), "", "", "other", {}))
    return findings


def begins_with(place: str, start: str) -> bool:
    """Return whether a place is `start` or below it."""
    return not start or place == start or (place.startswith(start) and place[len(start)] == ".")


class _Spot(NamedTuple):
    """The position of a value: its path and place, and the object.

    It also has the place of the object around it, and the kind that this object has chosen.
    """

    where: Where
    place: str
    base: str
    kind: TextKind
    holder: Mapping[str, Any]


class _Walk:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._texts = findings.texts
        self._derived = findings.derived
        self._ended = findings.ended

    def visit(self, value: Any, shape: Shape, spot: _Spot) -> None:
        kind = type(value)
        if type(shape) is Derived:
            self._visit_derived(value, shape, spot)
        elif kind is str:
            self._visit_string(value, shape, spot)
        elif kind is list:
            where, place, base, around, holder = spot
            if len(where) > MAX_LEVELS:
                raise _make_depth_error()
            for number, item in enumerate(value):
                if type(item) in _WALKED:
                    self.visit(item, shape, _Spot((*where, number), f"{place}.{number}", base, around, holder))
                elif type(item) in _NUMBERS and isinstance(shape, Text):
                    self._add_number(
                        item, _Spot((*where, number), f"{place}.{number}", base, shape.kind or around, holder)
                    )
        elif kind is dict:
            self._visit_object(value, shape, spot)

    def _visit_object(self, value: dict[str, Any], shape: Shape, spot: _Spot) -> None:
        if len(spot.where) > MAX_LEVELS:
            raise _make_depth_error()
        if type(shape) is Events:
            name = value.get(shape.name)
            shape = shape.shapes.get(name, shape.other) if isinstance(name, str | bool) else shape.other
        if type(shape) is Object:
            self._visit_members(value, shape, spot)
        else:
            inside = shape if isinstance(shape, Text) else OTHER
            self._visit_members(value, _ANY, spot._replace(kind=inside.kind or spot.kind), Text(kind=inside.kind))

    def _visit_members(self, value: dict[str, Any], shape: Object, spot: _Spot, others: Shape | None = None) -> None:
        where, place, base, kind, holder = spot
        if shape.place:
            place = _join(base, _fill(shape.place, value, holder))
        if shape.kind or shape.kinds:
            kind = _choose_kind(shape, value, kind)
        if others is None:
            others = shape.others or OTHER
        members = shape.members
        for name, item in value.items():
            member = members.get(name)
            if member is None:
                self._visit_name(name, where, place, kind)
                member = others
            found = item.__class__
            if found is str and member.__class__ is Word and _WORD.match(item):
                self._visit_word(item, where, name)  # fast path: most members of an event
            elif found in _WALKED or (member.__class__ is Derived and item is not None):
                visit = self._visit_string if found is str and member.__class__ is not Derived else self.visit
                visit(item, member, _Spot((*where, name), f"{place}.{name}" if place else name, place, kind, value))
            elif found in _NUMBERS:
                if type(member) is Offset and found is int:
                    self._derived.append(FoundDerived((*where, name), _join(place, member.of), member, item))
                elif isinstance(member, Text) and shape is _ANY:
                    self._add_number(item, _Spot((*where, name), f"{place}.{name}", place, member.kind or kind, value))
        for name, ended in shape.ends.items():
            if value.get(name) not in _NOTHING:
                self._ended += [_join(place, _fill(template, value, holder)) for template in ended]

    def _visit_name(self, name: str, where: Where, place: str, kind: TextKind) -> None:
        """Visit the name of a member that the shape does not define."""
        if not is_plain_name(name):
            self._texts.append(FoundText((*where, name), place, kind, name, is_name=True))

    def _visit_word(self, value: str, where: Where, name: str) -> None:
        """Visit a word at its place."""

    def _add_number(self, value: float, spot: _Spot) -> None:
        """Add a number of a tool, or of other JSON that the caller or the model chooses."""
        if spot.kind == "other":
            return  # in a response: counts and times of upstreams
        self._append_number(value, spot)

    def _append_number(self, value: float, spot: _Spot) -> None:
        text = orjson.dumps(value).decode() if -_MOST_INT <= value <= _MOST_INT else str(value)
        if len(text) >= LEAST_NUMBER:
            self._texts.append(FoundText(spot.where, spot.place, spot.kind, text))

    def _visit_derived(self, value: Any, shape: Derived, spot: _Spot) -> None:
        of = _join(spot.base, _fill(shape.of, spot.holder, {})) if shape.of else spot.base
        self._derived.append(FoundDerived(spot.where, of, shape, value))
        if shape.shape is not None:
            self.visit(value, shape.shape, spot)

    def _visit_string(self, value: str, shape: Shape, spot: _Spot) -> None:
        if not value:
            return
        if isinstance(shape, Text):
            self._add_text(value, shape, spot)
        elif type(shape) is Word:
            if not _WORD.match(value):
                self._add_other(value, spot)
            else:
                self._visit_word(value, spot.where[:-1], str(spot.where[-1]) if spot.where else "")
        elif type(shape) is Data:
            self._visit_data(value, shape, spot)
        elif type(shape) is Media:
            self._visit_media(value, spot)
        elif type(shape) is Object:
            if shape.string is not None:
                self._visit_string(value, shape.string, spot)
            else:
                self._add_text(value, TEXT, spot._replace(kind=shape.kind) if shape.kind else spot)
        else:
            other = shape.other if type(shape) is Events else OTHER
            self._visit_string(value, other, spot)

    def _add_text(self, value: str, shape: Text, spot: _Spot) -> None:
        place = _join(spot.base, _fill(shape.place, spot.holder, {})) if shape.place else spot.place
        self._texts.append(
            FoundText(
                spot.where,
                place,
                shape.kind or spot.kind,
                value,
                is_json=type(shape) is JsonText,
                is_delta=shape.delta,
                is_signed=bool(shape.signed_by and spot.holder.get(shape.signed_by)),
            )
        )

    def _add_other(self, value: str, spot: _Spot) -> None:
        self._texts.append(FoundText(spot.where, spot.place, "other", value))

    def _visit_data(self, value: str, shape: Data, spot: _Spot) -> None:
        if shape.json_after and value.startswith(shape.json_after):
            self._visit_own_data(value, shape, spot)
        elif not is_data(value):
            self._add_other(value, spot)

    def _visit_own_data(self, value: str, shape: Data, spot: _Spot) -> None:
        try:
            file = read_encoded_json(value, shape.json_after)
        except UnreadableFile as fault:
            self._add_unread(value, spot, fault)
        else:
            if file is not None:
                self._texts.append(FoundText(spot.where, spot.place, "other", file.text, is_json=True, file=file))

    def _add_unread(self, value: str, spot: _Spot, fault: UnreadableFile) -> None:
        """Add a string that cannot be read; it is a text as it is written."""
        self._findings.unread.append((".".join(map(str, spot.where)), fault.reason))
        self._add_other(value, spot)

    def _visit_media(self, value: str, spot: _Spot) -> None:
        declared = [spot.holder[name] for name in _MEDIA_TYPES if type(spot.holder.get(name)) is str]
        try:
            if is_data_url(value):
                file = read_data_url(value, declared)
            elif value.find("://") >= 0 or (declared and spot.holder.get("type") == "text"):
                self._texts.append(FoundText(spot.where, spot.place, spot.kind if declared else "other", value))
                return
            else:
                file = read_base64(value, declared)
        except UnreadableFile as fault:
            self._add_unread(value, spot, fault)
            return
        if file is not None:
            self._texts.append(FoundText(spot.where, spot.place, spot.kind, file.text, file=file))
            for other in file.others:
                self._texts.append(FoundText(spot.where, spot.place, spot.kind, other, is_fixed=True))


class _RequestWalk(_Walk):
    """The search for the texts of a request, where callers choose ids, names and data."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._seen: set[str] = set()
        self._embedded = 0

    def _visit_name(self, name: str, where: Where, place: str, kind: TextKind) -> None:
        if is_plain_name(name):
            self._add_word(name, (*where, name), place)
        else:
            super()._visit_name(name, where, place, kind)

    def _visit_word(self, value: str, where: Where, name: str) -> None:
        self._add_word(value, (*where, name), name)

    def _add_word(self, value: str, where: Where, place: str) -> None:
        if value and value not in COMMON_WORDS and value not in self._seen:
            self._seen.add(value)
            self._texts.append(FoundText(where, ".".join(map(str, where)), "name", value, is_fixed=True))

    def _add_number(self, value: float, spot: _Spot) -> None:
        self._append_number(value, spot)
        if type(value) is float and len(repr(value)) >= _LONG_FLOAT:
            self._findings.is_rounded = True
            if value.is_integer():  # its digits, without the exponent
                self._texts.append(FoundText(spot.where, spot.place, spot.kind, str(int(value)), is_fixed=True))

    def _add_text(self, value: str, shape: Text, spot: _Spot) -> None:
        if is_data_url(value):  # an address may hold a text, and some shapes do not define it
            self._visit_media(value, spot._replace(kind=shape.kind or spot.kind))
            return
        if type(shape) is Text and (shape.kind or spot.kind) == "tool_result" and _is_json(value):
            shape = JsonText(kind=shape.kind, signed_by=shape.signed_by, delta=shape.delta, place=shape.place)
        super()._add_text(value, shape, spot)
        marks = value.count(BASE64_MARK)
        if not marks:
            return
        self._embedded += marks
        if self._embedded > MAX_EMBEDDED:
            where = ".".join(map(str, spot.where))
            self._findings.unread.append((where, f"has more than {MAX_EMBEDDED:,} data URLs, with the texts before it"))
            return
        for text in find_embedded_files(value):
            self._texts.append(FoundText(spot.where, spot.place, shape.kind or spot.kind, text, is_fixed=True))

    def _visit_data(self, value: str, shape: Data, spot: _Spot) -> None:
        if not is_data(value) or (shape.json_after and value.startswith(shape.json_after)):
            super()._visit_data(value, shape, spot)
            return
        try:
            sealed = list_sealed_texts(value)
        except UnreadableFile:
            self._add_data_as_written(value, spot)
            return
        if len(value) <= _SHORT_DATA:
            sealed.append(value)
        for text in sealed:
            self._texts.append(FoundText(spot.where, spot.place, "name", text, is_fixed=True))

    def _add_data_as_written(self, value: str, spot: _Spot) -> None:
        """Add a string in the place of data that is not base64. JSON in it, which a format may unpack, is read."""
        begin = min((at for at in map(value.find, _JSON_STARTS) if at >= 0), default=-1)
        if begin >= 0:
            file = TextFile(value[begin:], value[:begin], is_base64=False)
            self._texts.append(FoundText(spot.where, spot.place, "other", file.text, is_json=True, is_fixed=True))
        self._add_other(value, spot)


def _is_json(value: str) -> bool:
    """Return whether a string is a JSON object or array, which a translator may unpack."""
    if value.lstrip(_JSON_SPACE)[:1] not in _JSON_STARTS:
        return False
    try:
        orjson.loads(value)
    except (ValueError, RecursionError):
        return False
    return True


def _make_depth_error() -> RequestError:
    return RequestError(
        f"Guards read JSON of at most {MAX_LEVELS} levels, and this has more. Send a flatter value.",
        code="invalid_json",
    )


_ANY: Final = Object()
"""An object in which all strings are texts."""


def _choose_kind(shape: Object, value: dict[str, Any], around: TextKind) -> TextKind:
    for name, kinds in shape.kinds.items():
        chosen = value.get(name)
        if type(chosen) is str and chosen in kinds:
            return kinds[chosen]
    return shape.kind or around


def _join(base: str, place: str) -> str:
    if not place:
        return base
    if place[:1] == "/":
        return place[1:]
    while place[:1] == "^":
        base, place = base.rpartition(".")[0], place[1:]
    return f"{base}.{place}" if base and place else base or place


def _fill(template: str, own: Mapping[str, Any], around: Mapping[str, Any]) -> str:
    """Return the template with the values of members instead of their names in braces."""
    if template.find("{") < 0:
        return template
    return _PLACEHOLDER.sub(lambda match: str(own.get(match[1], around.get(match[1], 0))), template)
