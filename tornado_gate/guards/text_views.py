"""The texts of whole bodies, and the bodies with replaced texts. No I/O and no wire format.

The functions take a few µs for each text. A large body is viewed and changed in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from tornado_gate.errors import RequestError
from tornado_gate.guards.text_parts import Change, TextPart, TextRun, move_offset
from tornado_gate.guards.text_walks import Findings, FoundDerived, FoundText, Where, begins_with, find_texts
from tornado_gate.types.text_maps import Derived, Text, TextMap
from tornado_gate.types.texts import GuardedText, Span

_SPOKEN: Final = Text(kind="assistant")


class TextView:
    """The texts of a body. `apply` returns the body with replaced texts."""

    def __init__(self, body: Any, findings: Findings, *, fixes_signed: bool) -> None:
        self._body = body
        self._findings = findings
        self._fixes_signed = fixes_signed
        self.texts: list[GuardedText] = []
        self.unread = findings.unread
        self.is_rounded = findings.is_rounded
        self._owners: list[int] = []
        """For each text the number of its finding."""
        for number, finding in enumerate(findings.texts):
            is_fixed = finding.is_fixed or (finding.is_signed and fixes_signed)
            if finding.is_json:
                windows = [run.make_window(is_fixed=is_fixed) for run in self._read_json(finding).list_due(0)]
                self.texts += windows
                self._owners += [number] * len(windows)
            else:
                self.texts.append(
                    GuardedText(kind=finding.kind, path=finding.place, text=finding.text, is_fixed=is_fixed)
                )
                self._owners.append(number)

    def _read_json(self, finding: FoundText) -> TextPart:
        part = TextPart(finding.kind, finding.place, is_json=True, has_names=self._fixes_signed)
        part.add(finding.text)
        part.finish()
        return part

    def _open_part(self, finding: FoundText) -> TextPart | TextRun:
        if finding.is_json:
            return self._read_json(finding)
        run = TextRun(finding.kind, finding.place, 0)
        run.add(finding.text, finding.text)
        run.is_complete = True
        return run

    def apply(self, spans: Iterable[Span]) -> Any:
        """Return the body with the spans replaced; the body itself stays unchanged.

        Raises RequestError for a span of a fixed text, ValueError for spans that overlap or are not in their text.
        """
        by_text = group_spans(self.texts, spans)
        if not by_text:
            return self._body
        changed = self._change_parts(by_text)
        edit = BodyEdit(self._body)
        for number, text in changed.items():
            edit.replace_text(self._findings.texts[number], text)
        places = {self._findings.texts[number].place: self._changes[number] for number in changed}
        for derived in self._findings.derived:
            edit.adjust(derived, places)
        return edit.finish()

    def _change_parts(self, by_text: Mapping[int, list[tuple[int, int, str]]]) -> dict[int, str]:
        """Return the new text of each finding that has spans."""
        numbers = {self._owners[text] for text in by_text}
        windows: dict[int, list[list[tuple[int, int, str]]]] = {}
        for text, owner in enumerate(self._owners):
            if owner in numbers:
                windows.setdefault(owner, []).append(by_text.get(text, []))
        self._changes: dict[int, list[Change]] = {}
        changed: dict[int, str] = {}
        for number, spans in windows.items():
            finding = self._findings.texts[number]
            part = self._open_part(finding)  # again, because a part is read once
            if isinstance(part, TextPart):
                part.decide(spans, 0)
                changed[number], self._changes[number] = part.take(), part.changes
            else:
                changed[number], self._changes[number] = part.decide(spans[0], 0)
        return changed


def group_spans(texts: Sequence[GuardedText], spans: Iterable[Span]) -> dict[int, list[tuple[int, int, str]]]:
    """Return the spans by the number of their text. Raises RequestError for a span that replaces a fixed text."""
    grouped: dict[int, list[tuple[int, int, str]]] = {}
    for number, start, end, replacement in spans:
        text = texts[number]
        if text.is_fixed:
            raise RequestError(
                f"A guard replaces characters of '{text.path}', which cannot be changed: it is a name, or signed by its vendor. "
                "Remove the text from the request.",
                param=text.path,
                code="blocked_by_guard",
            )
        grouped.setdefault(number, []).append((start, end, replacement))
    return grouped


class BodyEdit:
    """The changes of a body's values. Containers are copied before their first change."""

    def __init__(self, body: Any) -> None:
        self._root = [body]
        self._opened: dict[Where, Any] = {}
        self._renamed: list[tuple[Where, str]] = []

    def set(self, where: Where, value: Any) -> None:
        self._open(where[:-1])[where[-1] if where else 0] = value

    def replace_text(self, finding: FoundText, text: str) -> None:
        """Replace the text of a finding."""
        if finding.is_name:
            self._renamed.append((finding.where, text))
            return
        self.set(finding.where, text if finding.file is None else finding.file.encode(text))

    def adjust(self, derived: FoundDerived, changes: Mapping[str, Sequence[Change]]) -> None:
        """Remove or move a value that depends on texts with changes, by their places."""
        if isinstance(derived.shape, Derived):
            if any(begins_with(path, derived.of) for path in changes):
                self.set(derived.where, derived.shape.empty)
        elif derived.of in changes:
            self.set(derived.where, move_offset(derived.value, changes[derived.of]))

    def finish(self) -> Any:
        """Return the new body. Members are renamed last, because paths have their old names."""
        for where, new_name in sorted(self._renamed, key=lambda item: -len(item[0])):
            holder = self._open(where[:-1])
            name = next(name for name in (new_name + "_" * number for number in count()) if name not in holder)
            members = [(name if old == where[-1] else old, value) for old, value in holder.items()]
            holder.clear()
            holder.update(members)
        return self._root[0]

    def _open(self, where: Where) -> Any:
        """Return the copy of the container at `where`."""
        container = self._opened.get(where)
        if container is not None:
            return container
        if not where and not isinstance(self._root[0], dict | list):
            return self._root
        holder: Any = self._open(where[:-1]) if where else self._root
        key = where[-1] if where else 0
        copied = holder[key] = holder[key].copy()
        self._opened[where] = copied
        return copied


def view_request(text_map: TextMap, body: Any) -> TextView:
    """Return the texts of a request's body, which is parsed JSON or the text fields of a form."""
    return TextView(body, find_texts(body, text_map.request, of_request=True), fixes_signed=True)


def view_response(text_map: TextMap, body: Any) -> TextView:
    """Return the texts of a whole response: parsed JSON, or a string for a text response."""
    shape = _SPOKEN if isinstance(body, str) else text_map.response
    return TextView(body, find_texts(body, shape), fixes_signed=False)
