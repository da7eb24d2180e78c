"""The texts of a stream of events: pieces of texts, whole texts, and events that repeat them. No I/O and no wire format.

Events leave in the order in which they arrived. Held-back text leaves with a later event of its part. Before an event that ends
the part, a copy of the part's last event carries the remaining text. Events with a ``sequence_number`` need no such copies: the
last one is kept until the next arrives. The values of log probabilities leave with their text, until a part of it is replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final

from tornado_gate.guards.text_parts import Change, TextPart, apply_changes
from tornado_gate.guards.text_views import BodyEdit, group_spans
from tornado_gate.guards.text_walks import FoundDerived, FoundText, Where, begins_with, find_texts
from tornado_gate.types.text_maps import Derived, Shape
from tornado_gate.types.texts import GuardedText, Span

ReviewTexts = Callable[[list[GuardedText]], Awaitable[Sequence[Span]]]
"""Returns a guard's replacements in the texts, or raises the GateError of a block."""
ReportUnread = Callable[[Sequence[tuple[str, str]]], None]
"""Gets the paths of values that cannot be read, each with the reason. Raises the GateError of a required guard."""

MAX_PARTS: Final = 4096
"""The number of texts whose replacements are stored for events that repeat them. Further ones are reviewed again."""
_MAX_COPIED: Final = 80
"""Longer strings beside a piece of a text, such as signatures, are not copied."""
_SEQUENCE: Final = "sequence_number"


class Event:
    """An event on its way.

    `raw` are the received bytes, `value` is their JSON, None without JSON; `tag` belongs to the caller.
    """

    __slots__ = ("derived", "endings", "pieces", "raw", "tag", "value", "wholes")

    def __init__(self, raw: Any, value: Any, tag: Any = None) -> None:
        self.raw, self.value, self.tag = raw, value, tag
        self.pieces: list[tuple[FoundText, TextPart]] = []
        self.wholes: list[tuple[FoundText, TextPart]] = []
        self.derived: list[FoundDerived] = []
        self.endings: list[TextPart] = []
        """The parts whose remaining text leaves before this event."""


class EventTexts:
    """A filter that takes events, requests reviews, and returns events. `render` makes the bytes of an event with a new value.

    `of_request`: the events are messages of a caller, see `find_texts`.
    """

    def __init__(
        self,
        shape: Shape,
        lookahead: int,
        render: Callable[[Event, Any], Any],
        report_unread: ReportUnread,
        *,
        of_request: bool = False,
    ) -> None:
        self._shape, self._lookahead, self._render = shape, lookahead, render
        self._report_unread, self._of_request = report_unread, of_request
        self._queue: list[Event] = []
        self._parts: dict[str, TextPart] = {}
        self._open: dict[str, TextPart] = {}
        self._touched: dict[TextPart, None] = {}
        self._last_events: dict[TextPart, tuple[Event, FoundText]] = {}
        self._waiting: dict[str, list[tuple[list[tuple[TextPart, int]], Any]]] = {}
        """By place the values that reveal pieces of texts, with the lengths of these texts at their ends."""
        self._changed: dict[str, list[Change]] = {}

    def add_other(self, raw: Any) -> None:
        """Add bytes that are no event, such as a comment. They do not wait for texts."""
        self._queue.insert(len(self._queue) - self._keeps_last(), Event(raw, None))

    def add(self, raw: Any, value: Any, tag: Any = None) -> None:
        """Add the next event. `tag` is its name, which is reviewed once for each stream; "" or None without one."""
        event = Event(raw, value, tag)
        findings = find_texts(value, self._shape, of_request=self._of_request)
        if findings.unread:
            self._report_unread(findings.unread)
        event.derived = findings.derived
        for finding in findings.texts:
            if finding.is_delta:
                self._add_piece(event, finding)
            else:
                self._add_whole(event, finding)
        if tag:
            self._add_whole(event, FoundText((), "event", "name", tag, is_fixed=True))
        self._hold_derived(event)
        for path in findings.ended:
            self._end_below(event, path)
        self._queue.append(event)

    def end(self, raw: Any = None) -> None:
        """Add the end of the stream: no text continues."""
        event = Event(raw, None)
        self._end_below(event, "")
        self._queue.append(event)

    def list_due(self) -> list[GuardedText]:
        """Return the texts for the next review."""
        return [
            run.make_window(is_fixed=part.is_fixed) for part in self._touched for run in part.list_due(self._lookahead)
        ]

    def take(self, due: Sequence[GuardedText], spans: Iterable[Span], *, final: bool = False) -> list[Any]:
        """Apply a review of the texts that `list_due` returned, and return the events that may leave."""
        by_text = group_spans(due, spans)
        number = 0
        for part in self._touched:
            count = len(part.list_due(self._lookahead))
            part.decide([by_text.get(index, []) for index in range(number, number + count)], self._lookahead)
            number += count
            if part.changes:
                self._changed[part.place] = part.changes
        self._touched.clear()
        kept = [] if final or not self._keeps_last() else [self._queue.pop()]
        queue, self._queue = self._queue, kept
        out: list[Any] = []
        for event in queue:
            self._write(event, out)
        return out

    async def review(self, review: ReviewTexts, *, final: bool = False) -> list[Any]:
        """Review the texts that are due, and return the events that may leave."""
        due = self.list_due()
        return self.take(due, await review(due) if due else (), final=final)

    def _keeps_last(self) -> bool:
        """Return whether the last event is kept for text that is held back."""
        if not self._queue:
            return False
        last = self._queue[-1]
        if not last.pieces or not isinstance(last.value, dict) or _SEQUENCE not in last.value:
            return False
        return not any(part.is_complete for _, part in last.pieces)

    def _add_piece(self, event: Event, finding: FoundText) -> None:
        part = self._open.get(finding.place)
        if part is None:
            part = TextPart(finding.kind, finding.place, is_json=finding.is_json)
            self._changed.pop(finding.place, None)
            self._store(finding.place, part)
            self._open[finding.place] = part
        part.add(finding.text)
        self._touched[part] = None
        event.pieces.append((finding, part))
        self._last_events[part] = (event, finding)

    def _add_whole(self, event: Event, finding: FoundText) -> None:
        place = f"{finding.place}.\0{finding.text}" if finding.is_name or finding.is_fixed else finding.place
        text = finding.text
        part = self._open.get(place)
        if part is not None:
            self._finish(event, part)
        part = part or self._parts.get(place)
        if part is None or not part.is_same(text):
            part = TextPart(finding.kind, finding.place, is_json=finding.is_json, has_names=self._of_request)
            part.is_fixed = finding.is_fixed
            part.add(text)
            part.finish()
            self._changed.pop(finding.place, None)
            self._store(place, part)
            self._touched[part] = None
        event.wholes.append((finding, part))

    def _store(self, place: str, part: TextPart) -> None:
        self._parts.pop(place, None)
        self._parts[place] = part
        if len(self._parts) > MAX_PARTS:
            oldest = next(iter(self._parts))
            removed = self._parts.pop(oldest)
            self._changed.pop(oldest, None)
            if not removed.is_complete:
                self._parts[oldest] = removed

    def _end_below(self, event: Event, place: str) -> None:
        if not self._open:
            return
        for part in [part for part in self._open.values() if begins_with(part.place, place)]:
            self._finish(event, part)

    def _finish(self, event: Event, part: TextPart) -> None:
        part.finish()
        self._touched[part] = None
        del self._open[part.place]
        event.endings.append(part)

    def _write(self, event: Event, out: list[Any]) -> None:
        own = [part for _, part in event.pieces]
        for part in event.endings:
            if part not in own:
                self._write_rest(part, out)
        if event.value is None:
            if event.raw is not None:
                out.append(event.raw)
        else:
            out.append(self._finish_event(event))
        for part in event.endings:
            self._last_events.pop(part, None)
        if event.endings and self._waiting:
            self._forget_waiting(event.endings)

    def _write_rest(self, part: TextPart, out: list[Any]) -> None:
        """Append a copy of the part's last event with the remaining text."""
        text = part.take()
        if not text or part not in self._last_events:
            return
        event, last_finding = self._last_events[part]
        dropped = {item.where for item, _ in (*event.pieces, *event.wholes)} | {item.where for item in event.derived}
        edit = BodyEdit(_copy_along(event.value, last_finding.where, (), dropped))
        edit.set(_map_where(last_finding.where, last_finding.where), text)
        for derived in event.derived:
            if (
                _waits(derived)
                and begins_with(part.place, derived.of)
                and (where := _map_where(derived.where, last_finding.where))
            ):
                edit.set(where, self._release(derived))
        out.append(self._render(event, edit.finish()))

    def _finish_event(self, event: Event) -> Any:
        edit = BodyEdit(event.value)
        for finding, part in event.pieces:
            text = part.take()
            if text != finding.text:
                edit.set(finding.where, text)
        for finding, part in event.wholes:
            part.take()
            if part.changes:
                edit.replace_text(finding, apply_changes(finding.text, part.changes))
        for derived in event.derived:
            if event.pieces and _waits(derived):
                if (released := self._release(derived)) != derived.value:
                    edit.set(derived.where, released)
            else:
                edit.adjust(derived, self._changed)
        value = edit.finish()
        return event.raw if value is event.value else self._render(event, value)

    def _hold_derived(self, event: Event) -> None:
        """Keep the values that reveal the pieces of an event."""
        for derived in event.derived:
            if event.pieces and _waits(derived):
                covered = [(part, part.length) for _, part in event.pieces if begins_with(part.place, derived.of)]
                self._waiting.setdefault(derived.of, []).append((covered, derived.value))

    def _forget_waiting(self, ended: Collection[TextPart]) -> None:
        """Drop the values of ended parts, which no later event can carry."""
        for of, waiting in list(self._waiting.items()):
            left = [entry for entry in waiting if any(part not in ended for part, _ in entry[0])]
            if left:
                self._waiting[of] = left
            else:
                del self._waiting[of]

    def _release(self, derived: FoundDerived) -> Any:
        """Return the values whose text has left."""
        assert isinstance(derived.shape, Derived), "the caller checks this"
        waiting = self._waiting.get(derived.of, [])
        if any(begins_with(path, derived.of) for path in self._changed):
            waiting.clear()
        released = derived.shape.empty
        while waiting and all(part.released >= length for part, length in waiting[0][0]):
            released = _merge(released, waiting.pop(0)[1])
        return released


def _waits(derived: FoundDerived) -> bool:
    """Return whether a value in a piece of a stream leaves with its text."""
    return isinstance(derived.shape, Derived) and derived.shape.shape is None and isinstance(derived.value, dict | list)


def _merge(before: Any, after: Any) -> Any:
    if isinstance(before, list) and isinstance(after, list):
        return before + after
    if isinstance(before, dict) and isinstance(after, dict):
        return {**before, **{name: _merge(before.get(name), value) for name, value in after.items()}}
    return before if after is None else after


def _copy_along(value: Any, where: Where, at: Where, dropped: Collection[Where]) -> Any:
    """Return a copy of an event with the members that identify the piece of text at `where`.

    These are names and numbers, not other texts.
    """
    if not where:
        return value
    if isinstance(value, list):
        return [_copy_along(value[int(where[0])], where[1:], (*at, where[0]), dropped)]
    copied = {}
    for name, member in value.items():
        if name == where[0]:
            copied[name] = _copy_along(member, where[1:], (*at, name), dropped)
        elif isinstance(member, list):
            copied[name] = []
        elif isinstance(member, str):
            if (*at, name) not in dropped and len(member) <= _MAX_COPIED:
                copied[name] = member
        elif not isinstance(member, dict):
            copied[name] = member
    return copied


def _map_where(where: Where, along: Where) -> Where:
    """Return the path in the copy of an event for a member beside the path `along`; () for others."""
    if where[:-1] != along[: len(where) - 1]:
        return ()
    return (
        *(0 if isinstance(step, int) else step for step in where[:-1]),
        where[-1] if isinstance(where[-1], str) else 0,
    )
