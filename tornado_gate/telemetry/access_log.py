"""Access log lines on their way from the event loop to the thread that writes the log. Independent of wire formats.

A line is an `Entry` on a deque: no lock, no `logging.LogRecord`, and one wake-up of the thread per batch.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from tornado_gate.telemetry.entries import Entry
from tornado_gate.telemetry.redaction import FIELD_CHARACTERS

LOGGER = "tornado_gate.access"

_ENDED_AS_THE_STATUS_SAYS = ("", "complete", "refused", "failed")
_MAX_TEXT_CHARACTERS: Final = FIELD_CHARACTERS // 2
_MARK: Final = 10**15 + secrets.randbelow(10**15)
"""A number that stands for the values of single lines. It is random, so that no caller can write it into a line."""
_MARK_TEXT: Final = str(_MARK)


def render_message(entry: Entry) -> str:
    """Return method, path without query, and status."""
    return f"{entry.method} {entry.path.partition('?')[0]} {entry.status}"


def list_secret_bearing_texts(entry: Entry) -> str:
    """Return all texts that may contain a secret, from the caller or the configuration, one per line."""
    target = entry.target
    names = f"{entry.request_id}\n{entry.caller.id}\n{entry.model}\n{target.provider}\n{target.upstream_model}"
    return f"{render_message(entry)}\n{names}\n{entry.error_code}"


def list_fields(entry: Entry) -> dict[str, Any]:
    """Return the fields of a line in order. Unknown fields are omitted."""
    usage, images, target = entry.meter.usage, entry.meter.images, entry.target
    fields: dict[str, Any] = {
        "method": entry.method,
        "path": entry.path.partition("?")[0],
        "status": entry.status,
        "milliseconds": round(entry.total_ms, 2),
        "request_id": entry.request_id,
        "caller": entry.caller.id,
        "client": entry.client,
        "model": entry.model,
        "provider": target.provider,
        "upstream_model": target.upstream_model,
        "bytes_out": entry.bytes_out,
        "attempts": entry.progress.attempts,
    }
    if usage is not None:
        if usage.input_tokens is not None:
            fields["input_tokens"] = usage.input_tokens
        if usage.output_tokens is not None:
            fields["output_tokens"] = usage.output_tokens
    if images:
        fields["images"] = images
    if entry.error_code:
        fields["error"] = entry.error_code
    if entry.outcome not in _ENDED_AS_THE_STATUS_SAYS:
        fields["outcome"] = entry.outcome
    return {name: value for name, value in fields.items() if value != ""}


LineKind = tuple[object, ...]
"""What lines with the same template have in common."""


def get_kind(entry: Entry) -> LineKind:
    """Return the values that decide the template of a line. Objects are represented by their ids, so a kind is valid only
    as long as its entries exist.
    """
    usage = entry.meter.usage
    return (
        *(entry.method, entry.path, entry.status, id(entry.caller), id(entry.target), entry.model, entry.client),
        *(entry.error_code, entry.outcome, entry.meter.images, not entry.request_id),
        *(usage is None or usage.input_tokens is None, usage is None or usage.output_tokens is None),
    )


class LineTemplate:
    """The text that lines of one kind have in common.

    `is_usable`: no field of the kind would be cut. Call `prepare` before `fill`.
    """

    __slots__ = ("_counts", "_entry", "_parts", "is_usable", "secret_bearing_texts")

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._parts: tuple[str, ...] = ()
        self._counts: tuple[tuple[str, str], ...] = ()
        self.secret_bearing_texts = list_secret_bearing_texts(entry)
        self.is_usable = bool(entry.request_id) and len(self.secret_bearing_texts) <= _MAX_TEXT_CHARACTERS

    def prepare(self, render: Callable[[str, str, dict[str, Any]], str]) -> None:
        """Render the template. `render` returns the line for a time, a message and fields."""
        entry, fields = self._entry, list_fields(self._entry)
        counts = [name for name in _COUNTS if name in fields]
        fields |= dict.fromkeys((*_NUMBERS, *counts), _MARK)
        fields["request_id"] = _MARK_TEXT
        parts = render(_MARK_TEXT, render_message(entry), fields).split(_MARK_TEXT)
        self._parts = tuple(parts[:6])
        self._counts = tuple(zip(counts, parts[6:], strict=True))

    def fill(self, time: str, entry: Entry) -> str:
        """Return the line of an entry of this kind, whose request id must be plain (see `are_plain`)."""
        begin, after_time, after_milliseconds, after_id, after_bytes, rest = self._parts
        line = (
            f"{begin}{time}{after_time}{round(entry.total_ms, 2)}{after_milliseconds}{entry.request_id}{after_id}"
            f"{entry.bytes_out}{after_bytes}{entry.progress.attempts}{rest}"
        )
        for name, after_count in self._counts:
            line += f"{getattr(entry.meter.usage, name)}{after_count}"
        return line


_NUMBERS: Final = ("milliseconds", "bytes_out", "attempts")
_COUNTS: Final = ("input_tokens", "output_tokens")


def are_plain(request_ids: Sequence[str]) -> bool:
    """Return whether a line contains these ids as they are: they are short and have letters, digits and ``-_.:`` only."""
    text = "".join(request_ids)
    for sign in "-_.:":
        text = text.replace(sign, "")
    return text.isascii() and text.isalnum() and len(max(request_ids, key=len)) <= _MAX_TEXT_CHARACTERS


class AccessBuffer:
    """A queue of at most `most` lines; lines that exceed it are dropped and counted.

    The event loop calls `add`, the writer thread all other methods: each number is changed by one thread only, so no lock is
    needed. `wake` is called for the first line after `request_wake`; it must not block.
    """

    __slots__ = ("_awake", "_counted", "_lines", "_lost", "_most", "_wake")

    def __init__(self, most: int, wake: Callable[[], None]) -> None:
        self._most = most
        self._wake = wake
        self._lines: deque[Entry] = deque()
        self._awake = False
        self._lost = self._counted = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, entry: Entry) -> None:
        lines = self._lines
        if len(lines) >= self._most:
            self._lost += 1
            return
        lines.append(entry)
        if not self._awake:
            self._awake = True
            self._wake()

    def request_wake(self) -> None:
        """Call `wake` for the next line. Check for lines again after this: a line added just before has not called
        `wake`.
        """
        self._awake = False

    def take_lines(self, most: int, until: int | None = None) -> list[Entry]:
        """Return up to `most` lines in order, none newer than `until` (microseconds since 1970)."""
        lines = self._lines
        entries: list[Entry] = []
        while lines and len(entries) < most and (until is None or lines[0].ended <= until):
            entries.append(lines.popleft())
        return entries

    def take_dropped(self) -> int:
        """Return the number of dropped lines since the last call."""
        lost = self._lost
        dropped, self._counted = lost - self._counted, lost
        return dropped
