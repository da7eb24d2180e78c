"""One text that arrives in chunks: the windows for a guard, the held-back characters, and the replacements. No I/O.

The last `lookahead` characters of a text that continues are held back. A replacement that begins before them is final if the text
continues after its end, because a guard's match is at most `lookahead` long. A replacement that reaches the end of the window may
still grow: it is held back until it is final, up to MAX_HELD characters.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from tornado_gate.codec.json_strings import JsonStrings, Piece, escape_text, find_raw_offsets
from tornado_gate.types.texts import GuardedText, TextKind

MAX_HELD: Final = 64 * 1024
"""The maximum number of characters that are held back because they are replaced and the replaced text may continue."""

MAX_NAME: Final = 64
_PLAIN_NAME: Final = re.compile(r"(?:[A-Za-z_$](?!.*[0-9]{5})[][A-Za-z0-9_$.-]*|[0-9]{1,6})\Z")


class Change(NamedTuple):
    """The characters `start` to `end` of a text were replaced; `text` are the characters in their place."""

    start: int
    end: int
    text: str


def is_plain_name(name: str) -> bool:
    """Return whether the name of a member cannot be a text: an identifier without a long number, or a short number."""
    return len(name) <= MAX_NAME and _PLAIN_NAME.match(name) is not None


def apply_changes(text: str, changes: Iterable[Change]) -> str:
    """Return the text with the changes, which are in order."""
    out: list[str] = []
    position = 0
    for change in changes:
        out += (text[position : change.start], change.text)
        position = change.end
    return "".join((*out, text[position:]))


def move_offset(offset: int, changes: Iterable[Change]) -> int:
    """Return the position of `offset` after the changes. Inside a replaced text it is the end of the replacement."""
    moved = 0
    for change in changes:
        if change.start >= offset:
            break
        moved += len(change.text) - (change.end - change.start)
        if change.end > offset:
            moved += change.end - offset
    return offset + moved


class TextRun:
    """A text within a part: the part itself, or one string in its JSON."""

    __slots__ = (
        "_added",
        "_escaped",
        "_raw",
        "_raw_start",
        "_size",
        "context",
        "is_complete",
        "is_json",
        "is_name",
        "is_number",
        "kind",
        "path",
        "text",
    )

    def __init__(
        self,
        kind: TextKind,
        path: str,
        raw_start: int,
        *,
        is_json: bool = False,
        is_name: bool = False,
        is_number: bool = False,
    ) -> None:
        self.kind, self.path = kind, path
        self.is_number = is_number
        self.is_json, self.is_name, self.is_complete = is_json, is_name, False
        self.context = self.text = self._raw = ""
        self._raw_start = raw_start
        self._escaped = False
        self._added: list[tuple[str, str]] = []
        self._size = 0

    def add(self, raw: str, text: str) -> None:
        self._added.append((raw, text))
        self._size += len(text)

    def _join(self) -> None:
        """Join the pieces, once for all that were added since the last review."""
        if self._added:
            raw = "".join([self._raw, *(piece for piece, _ in self._added)])
            text = "".join([self.text, *(piece for _, piece in self._added)])
            self._raw, self.text = raw, text
            self._escaped = raw != text
            self._added.clear()

    def is_due(self, lookahead: int) -> bool:
        """Return whether a review can decide a part of it."""
        return self.is_complete or self._size > lookahead

    def is_empty(self) -> bool:
        """Return whether it has no characters."""
        return not self._size

    def is_plain(self) -> bool:
        """Return whether it is the plain name of a member."""
        if not self.is_name or not self.is_complete or self.context:
            return False
        self._join()
        return is_plain_name(self.text)

    def make_window(self, *, is_fixed: bool = False) -> GuardedText:
        self._join()
        return GuardedText(
            kind=self.kind,
            path=self.path,
            text=self.context + self.text,
            sent=len(self.context),
            is_complete=self.is_complete,
            is_fixed=is_fixed,
        )

    def decide(self, spans: Sequence[tuple[int, int, str]], lookahead: int) -> tuple[str, list[Change]]:
        """Apply the spans of a review of the window. Return the characters that are decided, and the changes in the part."""
        self._join()
        if self.is_number and spans:
            return self._decide_number(spans)
        sent = len(self.context)
        border = len(self.text) if self.is_complete else len(self.text) - lookahead
        chosen, cut = self._choose_decided([(start - sent, end - sent, new) for start, end, new in spans], border)
        offsets = [offset for start, end, _ in chosen for offset in (start, end)]
        if cut < len(self.text):
            offsets.append(cut)
        raw_offsets = find_raw_offsets(self._raw, offsets) if self._escaped else offsets
        raw_cut = raw_offsets[-1] if cut < len(self.text) else len(self._raw)
        out: list[str] = []
        texts: list[str] = []
        changes: list[Change] = []
        position = raw_position = 0
        for number, (start, end, new) in enumerate(chosen):
            raw_start, raw_end = raw_offsets[2 * number : 2 * number + 2]
            written = escape_text(new) if self.is_json else new
            out += (self._raw[raw_position:raw_start], written)
            texts += (self.text[position:start], new)
            changes.append(Change(self._raw_start + raw_start, self._raw_start + raw_end, written))
            position, raw_position = end, raw_end
        out.append(self._raw[raw_position:raw_cut])
        texts.append(self.text[position:cut])
        self._forget(cut, raw_cut)
        self.context = "" if self.is_complete else (self.context + "".join(texts))[-lookahead:] if lookahead else ""
        return "".join(out), changes

    def _decide_number(self, spans: Sequence[tuple[int, int, str]]) -> tuple[str, list[Change]]:
        """Apply the spans of a review to a number, which becomes a string."""
        text = apply_changes(
            self.text, [Change(*span) for span in self._choose_decided(list(spans), len(self.text))[0]]
        )
        written = f'"{escape_text(text)}"'
        change = Change(self._raw_start, self._raw_start + len(self._raw), written)
        self._forget(len(self.text), len(self._raw))
        return written, [change]

    def _choose_decided(self, spans: list[tuple[int, int, str]], border: int) -> tuple[list[tuple[int, int, str]], int]:
        """Return the spans that are decided, in order, and the end of the decided characters."""
        chosen: list[tuple[int, int, str]] = []
        cut = max(border, 0)
        for start, end, new in sorted(spans):
            if start < 0 or end < start or end > len(self.text) or (chosen and start < chosen[-1][1]):
                raise ValueError(
                    f"A span of the text '{self.path}' is not within the characters that can be replaced, or overlaps another."
                )
            if not self.is_complete:
                if start >= border:
                    break
                if end == len(self.text) and end - start <= MAX_HELD:
                    return chosen, start
            chosen.append((start, end, new))
            cut = max(cut, end)
        return chosen, cut

    def _forget(self, cut: int, raw_cut: int) -> None:
        self.text, self._raw = self.text[cut:], self._raw[raw_cut:]
        self._size = len(self.text)
        self._raw_start += raw_cut
        self._escaped = self._escaped and self._raw != self.text


class TextPart:
    """A text at one place: the pieces that arrived, the windows for the next review, and the characters that are decided.

    `has_names`: plain names of members in its JSON are reviewed, too.
    """

    __slots__ = (
        "_digest",
        "_has_names",
        "_json",
        "_lexed",
        "_queue",
        "_ready",
        "changes",
        "is_complete",
        "is_fixed",
        "kind",
        "length",
        "place",
        "released",
    )

    def __init__(self, kind: TextKind, place: str, *, is_json: bool = False, has_names: bool = False) -> None:
        self.kind, self.place = kind, place
        self._has_names, self.is_fixed = has_names, False
        self.is_complete = False
        self.length = 0
        """The number of characters that arrived."""
        self.released = 0
        """The number of characters that `take` has returned."""
        self.changes: list[Change] = []
        self._digest = blake2b(digest_size=16)
        self._json = JsonStrings() if is_json else None
        self._lexed = 0
        self._queue: deque[TextRun | str] = deque()
        self._ready: list[str] = []

    def add(self, fragment: str) -> None:
        """Add the next characters."""
        self._digest.update(fragment.encode("utf-8", "surrogatepass"))
        if self._json is not None:
            self._add_pieces(self._json.feed(fragment))
        elif fragment:
            run = self._open_run()
            run.add(fragment, fragment)
        self.length += len(fragment)

    def finish(self) -> None:
        """Mark the text as complete: no more characters follow."""
        if self._json is not None:
            self._add_pieces(self._json.finish())
        elif self._queue:
            self._open_run().is_complete = True
        self.is_complete = True

    def is_same(self, text: str) -> bool:
        """Return whether `text` is the whole text that arrived."""
        if len(text) != self.length:
            return False
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() == self._digest.digest()

    def list_due(self, lookahead: int) -> list[TextRun]:
        """Return the texts for the next review."""
        return [
            run for run in self._queue if type(run) is TextRun and run.is_due(lookahead) and not self._is_passed(run)
        ]

    def _is_passed(self, run: TextRun) -> bool:
        """Return whether no part of a run needs a review."""
        return run.is_empty() or (not self._has_names and run.is_plain())

    def decide(self, spans: Sequence[Sequence[tuple[int, int, str]]], lookahead: int) -> None:
        """Apply the spans of a review, one list for each text of `list_due`."""
        due = iter(spans)
        while self._queue:
            run = self._queue[0]
            if isinstance(run, str):
                self._ready.append(run)
            elif run.is_complete and self._is_passed(run):
                self._ready.append(run.decide((), lookahead)[0])
            elif not run.is_due(lookahead):
                return
            else:
                decided, changes = run.decide(next(due), lookahead)
                self._ready.append(decided)
                self.changes += changes
                if not run.is_complete:
                    return
            self._queue.popleft()

    def take(self) -> str:
        """Return the characters that were decided since the last call."""
        ready, self._ready = "".join(self._ready), []
        self.released += len(ready)
        return ready

    def _open_run(self) -> TextRun:
        if not self._queue:
            self._queue.append(TextRun(self.kind, self.place, self.length))
        run = self._queue[-1]
        assert isinstance(run, TextRun), "a part that is not JSON is one run"
        return run

    def _add_pieces(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if piece.text is None:
                self._queue.append(piece.raw)
            else:
                if piece.begins:
                    self._queue.append(self._make_run(piece))
                run = self._open_run()
                run.add(piece.raw, piece.text)
                run.is_complete = piece.ends
            self._lexed += len(piece.raw)

    def _make_run(self, piece: Piece) -> TextRun:
        path = ".".join((self.place, *piece.path)) if piece.path else self.place
        return TextRun(
            self.kind, path, self._lexed, is_json=piece.is_json, is_name=piece.is_name, is_number=piece.is_number
        )
