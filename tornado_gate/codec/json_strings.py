"""The strings in a JSON text that arrives in chunks, found without parsing it as a whole. No I/O.

Guards read the strings in the arguments of a tool call, and replace characters of them; all other characters stay as they are.
Models may write a text that is not JSON. It is one string from the first wrong character on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Final, NamedTuple

_BETWEEN: Final = re.compile(
    r'(?:[ \t\r\n]+|[{}\[\]:,]|(?:-?[0-9][0-9.eE+\-]{0,999}|true|false|null)(?=[ \t\r\n{}\[\]:,"])){1,1000}'
)
_BEGUN_WORD: Final = re.compile(
    r"(?:-?[0-9][0-9.eE+\-]{0,999}|-|t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|n(?:u(?:ll?)?)?)\Z"
)
_LAST_WORD: Final = re.compile(r"(?:-?[0-9][0-9.eE+\-]*|true|false|null)\Z")
_HEX: Final = "[0-9a-fA-F]"
_ESCAPE: Final = rf'\\(?:["\\/bfnrt]|u{_HEX}{{4}})'
_RUN: Final = re.compile(rf'[^"\\]*(?:{_ESCAPE}[^"\\]*){{0,1000}}')
_BEGUN_ESCAPE: Final = re.compile(rf"\\(?:u{_HEX}{{0,3}})?\Z")
_BEGUN_PAIR: Final = re.compile(rf"\\u[dD][89abAB]{_HEX}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?\Z")
_LONGEST_BEGUN_PAIR: Final = 11
_PAIR_HALF: Final = 6
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_UNIT: Final = re.compile(rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|{_ESCAPE}|\\")

_NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+\-]{0,999}")
LEAST_NUMBER: Final = 4
"""Numbers with fewer characters are no texts."""

MAX_DEPTH: Final = 32
"""Names of members in deeper objects are not part of paths."""


class Piece(NamedTuple):
    """A piece of the JSON text.

    `raw` are its characters in the text. `text` is their meaning inside of a string, None between strings.

    `begins` and `ends`: the first and the last piece of a string; they do not include the quotes. `path` is the path of the
    string; for a name, it is the path of its object. `is_name`: it is the name of a member. `is_json` is false for the end of a
    text that is not JSON. A number of at least LEAST_NUMBER characters is a piece as a string is; a replacement needs quotes
    around it.
    """

    raw: str
    text: str | None = None
    begins: bool = False
    ends: bool = False
    path: tuple[str, ...] = ()
    is_name: bool = False
    is_json: bool = True
    is_number: bool = False


def escape_text(text: str) -> str:
    """Return the characters of `text` inside a JSON string."""
    encode = encode_basestring_ascii if _SURROGATE.search(text) else encode_basestring
    return encode(text)[1:-1]


def find_raw_offsets(raw: str, offsets: Sequence[int]) -> list[int]:
    """Return the positions in `raw`, which has escapes, of ascending positions in its meaning."""
    positions: list[int] = []
    at = meant = 0  # all before `at` in `raw` means `meant` characters
    for unit in _UNIT.finditer(raw) if offsets else ():
        while len(positions) < len(offsets) and offsets[len(positions)] <= meant + unit.start() - at:
            positions.append(at + offsets[len(positions)] - meant)
        if len(positions) == len(offsets):
            break
        meant += unit.start() - at + 1
        at = unit.end()
    return positions + [at + offset - meant for offset in offsets[len(positions) :]]


class JsonStrings:
    """A parser that divides one JSON text into pieces."""

    def __init__(self) -> None:
        self._carried = ""
        self._path: list[str | int] = []
        """For each open container the number of its current item, or the name of its current member."""
        self._is_object: list[bool] = []
        self._expects_name = False
        self._name: list[str] = []
        self._in_string = False
        self._at_begin = False
        self._is_json = True

    def feed(self, fragment: str) -> list[Piece]:
        """Return the pieces of the next fragment. The end of an incomplete escape or word is kept for the next call."""
        text, self._carried = self._carried + fragment, ""
        pieces: list[Piece] = []
        position = 0
        while position < len(text):
            if not self._is_json:
                self._add_text(pieces, text[position:], text[position:])
                break
            position = (
                self._read_string(text, position, pieces)
                if self._in_string
                else self._read_between(text, position, pieces)
            )
        return pieces

    def finish(self) -> list[Piece]:
        """Return the remaining pieces, after the last fragment."""
        rest, self._carried = self._carried, ""
        pieces: list[Piece] = []
        if rest and not self._in_string:
            if _LAST_WORD.match(rest):
                self._add_between(pieces, rest, 0, len(rest))
                return pieces
            self._leave_json()
        if rest or self._in_string:
            self._add_text(pieces, rest, rest)
            pieces[-1] = pieces[-1]._replace(ends=True)
            self._in_string = False
        return pieces

    def _read_between(self, text: str, position: int, pieces: list[Piece]) -> int:
        """Read characters between strings, up to the next string."""
        match = _BETWEEN.match(text, position)
        end = match.end() if match else position
        if end < len(text) and text[end] == '"':
            self._add_between(pieces, text, position, end)
            pieces.append(Piece('"'))
            self._in_string = self._at_begin = True
            self._name = []
            return end + 1
        self._add_between(pieces, text, position, end)
        if _BEGUN_WORD.match(text, end):
            self._carried = text[end:]
            return len(text)
        if end == position:
            self._leave_json()
        return end

    def _add_between(self, pieces: list[Piece], text: str, start: int, end: int) -> None:
        """Add characters between strings; longer numbers among them are texts."""
        for match in _NUMBER.finditer(text, start, end) if end - start >= LEAST_NUMBER else ():
            if match.end() - match.start() >= LEAST_NUMBER:
                self._follow_marks(text, start, match.start())
                if match.start() > start:
                    pieces.append(Piece(text[start : match.start()]))
                path = tuple(map(str, self._path[:MAX_DEPTH]))
                pieces.append(Piece(match[0], match[0], begins=True, ends=True, path=path, is_number=True))
                start = match.end()
        self._follow_marks(text, start, end)
        if end > start:
            pieces.append(Piece(text[start:end]))

    def _leave_json(self) -> None:
        self._is_json, self._in_string, self._at_begin = False, True, True
        self._path, self._is_object, self._expects_name = [], [], False

    def _follow_marks(self, text: str, start: int, end: int) -> None:
        """Follow brackets, commas and colons, which decide whether the next string is a name, and its path."""
        for character in text[start:end]:
            if character in "{[":
                self._is_object.append(character == "{")
                self._path.append("" if character == "{" else 0)
                self._expects_name = character == "{"
            elif character in "}]":
                if self._path:
                    self._path.pop()
                    self._is_object.pop()
                self._expects_name = False
            elif character == "," and self._path:
                if self._is_object[-1]:
                    self._expects_name = True
                else:
                    self._path[-1] = int(self._path[-1] or 0) + 1
            elif character == ":":
                self._expects_name = False

    def _read_string(self, text: str, position: int, pieces: list[Piece]) -> int:
        """Read characters of a string, up to its end or to the end of the text."""
        match = _RUN.match(text, position)
        end = match.end() if match else position
        pair = None
        if len(text) - end < _LONGEST_BEGUN_PAIR:
            pair = _BEGUN_PAIR.search(text, max(position, end - _PAIR_HALF))
            end = pair.start() if pair else end
        if end > position:
            raw = text[position:end]
            self._add_text(pieces, raw, raw if raw.find("\\") < 0 else scanstring(raw + '"', 0, False)[0])
        if end == len(text):
            return end
        if pair:
            self._carried = text[end:]
            return len(text)
        if text[end] == '"':
            self._add_text(pieces, "", "", ends=True)
            pieces.append(Piece('"'))
            self._end_string()
            return end + 1
        if _BEGUN_ESCAPE.match(text, end):
            self._carried = text[end:]
            return len(text)
        if end == position:  # a wrong escape
            self._add_text(pieces, text[end], text[end])
            return end + 1
        return end

    def _end_string(self) -> None:
        self._in_string = False
        if self._expects_name:
            self._path[-1] = "".join(self._name)
            self._expects_name = False

    def _add_text(self, pieces: list[Piece], raw: str, text: str, *, ends: bool = False) -> None:
        is_name = self._expects_name
        if is_name:
            self._name.append(text)
        path = self._path[: min(len(self._path) - is_name, MAX_DEPTH)]
        pieces.append(Piece(raw, text, self._at_begin, ends, tuple(map(str, path)), is_name, self._is_json))
        self._at_begin = False
