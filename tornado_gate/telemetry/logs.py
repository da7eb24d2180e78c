"""Structured logs without secrets, on the standard library. Independent of requests, except for the `Entry` of the access log.

The event loop only puts a record into a bounded queue; a thread redacts, formats and writes it. A full queue drops
records and logs their number later: a slow terminal must not slow requests. Access log lines are not records: they wait
in their own buffer and are written in batches, at most `BATCH_SECONDS` later.

One JSON object per line: ``time`` (ISO 8601, UTC, milliseconds), ``level``, ``logger``, ``message``, the fields logged
with ``extra={"fields": {...}}``, and ``exception`` or ``stack`` if present. As text, the same as ``key=value``.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Literal, TextIO

import orjson

from tornado_gate.telemetry.access_log import (
    LOGGER,
    AccessBuffer,
    LineKind,
    LineTemplate,
    are_plain,
    get_kind,
    list_fields,
    list_secret_bearing_texts,
    render_message,
)
from tornado_gate.telemetry.entries import Entry
from tornado_gate.telemetry.redaction import FIELD_CHARACTERS, MESSAGE_CHARACTERS, Scrubber

__all__ = ["Logging", "Scrubber", "configure", "get_scrubber", "log_access"]

QUEUE_RECORDS = 10_000
BATCH_SECONDS = 0.1
BATCH_LINES = 500
LEVEL_OFF = logging.CRITICAL + 1
_SECONDS_TO_FLUSH = 5.0

log = logging.getLogger(__name__)
_access_log = logging.getLogger(LOGGER)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN_VALUE = re.compile(r"[^\s\"=]+")


def log_access(entry: Entry) -> None:
    """Log one request, unless the access log is off. Call it from the event loop only.

    It becomes a `logging` record if `configure` was not called, or if the logger "tornado_gate.access" has a handler or a
    filter.
    """
    if not _access_log.isEnabledFor(logging.INFO):
        return
    lines = None if _installed is None else _installed.lines
    if lines is None or _access_log.handlers or _access_log.filters:
        path = entry.path.partition("?")[0]
        _access_log.info("%s %s %d", entry.method, path, entry.status, extra={"fields": list_fields(entry)})
    else:
        lines.add(entry)


class _Formatter(logging.Formatter):
    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self.scrubber = scrubber
        self._second, self._second_text = -1, ""
        self._milliseconds, self._time = -1, ""

    def format(self, record: logging.LogRecord) -> str:
        traces = {"exception": record.exc_text, "stack": record.stack_info}
        return self.render(
            datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            record.levelname.lower(),
            record.name,
            self.scrubber.scrub_text(record.getMessage()),
            self.scrubber.scrub_fields(getattr(record, "fields", None) or {}),
            {name: self.scrubber.scrub_text(text) for name, text in traces.items() if text},
        )

    def format_lines(self, batch: Sequence[Entry]) -> str:
        """Format access log lines as `format` would.

        Lines of one kind are filled into one template. All are searched for secrets together; single lines only after a
        hit.
        """
        templates: dict[LineKind, LineTemplate] = {}
        chosen: list[LineTemplate] = []
        for entry in batch:
            kind = get_kind(entry)
            template = templates.get(kind)
            if template is None:
                template = templates[kind] = LineTemplate(entry)
            chosen.append(template)
        ids = [entry.request_id for entry in batch]
        texts = [template.secret_bearing_texts for template in templates.values()]
        is_harmless = are_plain(ids) and self.scrubber.is_clean("\n".join([*texts, *ids]))
        if not is_harmless:
            return "\n".join(map(self._format_line, batch)) + "\n"
        for template in templates.values():
            template.prepare(self._render_line)
        written = [
            template.fill(self._format_time(entry.ended), entry) if template.is_usable else self._format_line(entry)
            for entry, template in zip(batch, chosen, strict=True)
        ]
        return "\n".join(written) + "\n"

    def _format_line(self, entry: Entry) -> str:
        message, fields, text = render_message(entry), list_fields(entry), list_secret_bearing_texts(entry)
        if len(text) > FIELD_CHARACTERS or not self.scrubber.is_clean(text):
            message, fields = self.scrubber.scrub_text(message), self.scrubber.scrub_fields(fields)
        return self._render_line(self._format_time(entry.ended), message, fields)

    def _render_line(self, moment: str, message: str, fields: dict[str, Any]) -> str:
        return self.render(moment, "info", LOGGER, message, fields, {})

    def _format_time(self, moment: int) -> str:
        """Format microseconds since 1970 as `format` does; cached per millisecond."""
        milliseconds = moment // 1000
        if milliseconds != self._milliseconds:
            self._milliseconds = milliseconds
            second, rest = divmod(milliseconds, 1000)
            if second != self._second:
                self._second, self._second_text = second, datetime.fromtimestamp(second, UTC).isoformat()[:-6]
            self._time = f"{self._second_text}.{rest:03d}Z"
        return self._time

    def render(
        self, moment: str, level: str, logger: str, message: str, fields: dict[str, Any], traces: dict[str, str]
    ) -> str:
        """Return the final text of a redacted record."""
        raise NotImplementedError


class _JsonFormatter(_Formatter):
    def render(
        self, moment: str, level: str, logger: str, message: str, fields: dict[str, Any], traces: dict[str, str]
    ) -> str:
        if not _OWN_NAMES.isdisjoint(fields):
            fields = {name if name not in _OWN_NAMES else f"field_{name}": value for name, value in fields.items()}
        line = {"time": moment, "level": level, "logger": logger, "message": message, **fields, **traces}
        try:
            return orjson.dumps(line).decode()
        except TypeError:  # an integer beyond 64 bits, half a surrogate pair: rare, and the json module accepts them
            return json.dumps(line)


_OWN_NAMES = frozenset(("time", "level", "logger", "message", "exception", "stack"))


class _TextFormatter(_Formatter):
    def render(
        self, moment: str, level: str, logger: str, message: str, fields: dict[str, Any], traces: dict[str, str]
    ) -> str:
        words = [moment, level.upper().ljust(7), logger, _escape_control_characters(message)]
        words += [f"{_escape_control_characters(name)}={_format_value(value)}" for name, value in fields.items()]
        lines = [" ".join(words)]
        for text in traces.values():
            lines += ["    " + _escape_control_characters(line) for line in text.splitlines()]
        return "\n".join(lines)


def _escape_control_characters(text: str) -> str:
    """Escape control characters, so that callers cannot start a log line or control the terminal."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda sign: sign.group().encode("unicode_escape").decode(), text)


def _format_value(value: Any) -> str:
    if type(value) is int:
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if _PLAIN_VALUE.fullmatch(text) and text.isprintable() else json.dumps(text)


def _get_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()[: MESSAGE_CHARACTERS * 2]
    except Exception:  # __str__ of an argument may raise anything; a log call must not fail
        return f"{record.msg} (its arguments do not fit)"


class _Output(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO, formatter: _Formatter) -> None:
        super().__init__(stream)
        self.setFormatter(formatter)
        self._lines = formatter.format_lines

    def write_lines(self, batch: Sequence[Entry]) -> None:
        """Write access log lines in one call. Never raises, because the writer thread must continue."""
        try:
            text = self._lines(batch)
            self.acquire()
            try:
                self.stream.write(text)
                self.flush()
            finally:
                self.release()
        except Exception:
            """Ignored: logging itself has failed, so the failure cannot be logged."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Do nothing: the standard handler would print the record before redaction, to a stream that has just failed."""


class _Queue(QueueHandler):
    """The event loop's end of the queue. `emit` never blocks."""

    def __init__(self) -> None:
        super().__init__(queue.Queue(QUEUE_RECORDS))
        self._dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Convert values to text if they may change before writing, or would keep a request's memory alive."""
        prepared = logging.LogRecord.__new__(logging.LogRecord)  # copy.copy takes six times as long
        prepared.__dict__.update(record.__dict__)
        prepared.msg, prepared.args = _get_message(record), None
        prepared.__dict__["fields"] = dict(getattr(record, "fields", None) or {})
        if record.exc_info:
            text = record.exc_text or logging.Formatter().formatException(record.exc_info)
            prepared.exc_text, prepared.exc_info = text[: MESSAGE_CHARACTERS * 2], None
        return prepared

    def enqueue(self, record: logging.LogRecord) -> None:
        """Put a record or count it as dropped. Called with the handler's lock held, which makes the count exact."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def handleError(self, record: logging.LogRecord) -> None:
        """Count a record that cannot be prepared as dropped. The standard handler would print it with its secrets."""
        self._dropped += 1

    def take_dropped(self) -> int:
        """Return the number of dropped records since the last call."""
        if not self._dropped:
            return 0
        self.acquire()
        try:
            dropped, self._dropped = self._dropped, 0
        finally:
            self.release()
        return dropped


_WAKE_RECORD = logging.makeLogRecord({})
"""A mark for access log lines in the queue; it is never written."""


class _Writer(QueueListener):
    """The thread's end. Records are written immediately, access log lines when the oldest has waited for `BATCH_SECONDS`."""

    def __init__(self, source: _Queue, lines: AccessBuffer, output: _Output) -> None:
        super().__init__(source.queue, output)
        self._source = source
        self._lines = lines
        self._output = output
        self._due: float | None = None

    def dequeue(self, block: bool) -> Any:
        """Return the next record, or None at the end; older access log lines are written before."""
        records: Any = self.queue
        while True:
            try:
                record = records.get(block, self._seconds_left())
            except queue.Empty:
                self._write_lines()
                continue
            if record is not _WAKE_RECORD:
                self._write_lines(None if record is None else int(record.created * 1e6))
                return record

    def _seconds_left(self) -> float | None:
        if not self._lines:
            self._lines.request_wake()
            if not self._lines:  # check again: a line added before `request_wake` has not woken the thread
                self._due = None
                return None
        now = time.monotonic()
        self._due = self._due or now + BATCH_SECONDS
        return max(0.0, self._due - now)

    def _write_lines(self, until: int | None = None) -> None:
        if until is None:
            self._due = None
        while batch := self._lines.take_lines(BATCH_LINES, until):
            self._output.write_lines(batch)
            self._report_dropped()

    def handle(self, record: logging.LogRecord) -> None:
        super().handle(record)
        self._report_dropped()

    def _report_dropped(self) -> None:
        if dropped := self._source.take_dropped() + self._lines.take_dropped():
            text = f"{dropped} log records were dropped because the log queue was full"
            super().handle(logging.LogRecord(log.name, logging.WARNING, __file__, 0, text, None, None))

    def enqueue_sentinel(self) -> None:
        self.queue.put(self._sentinel, timeout=_SECONDS_TO_FLUSH)  # type: ignore[attr-defined]  # typeshed omits it

    def finish(self) -> None:
        """Write queued records and stop. If the stream blocks, stop after some seconds."""
        thread: threading.Thread | None = self._thread
        if thread is None:
            return
        try:
            self.enqueue_sentinel()
        except queue.Full:
            return
        thread.join(_SECONDS_TO_FLUSH)


class Logging:
    """The installed logging. `close` writes queued records; later records are written synchronously."""

    def __init__(self, output: _Output, scrubber: Scrubber) -> None:
        self.scrubber = scrubber
        self.lines: AccessBuffer | None = None
        self._output = output
        self._queue = _Queue()

    def start(self) -> None:
        logging.getLogger().addHandler(self._queue)
        self._start_writer()

    def _start_writer(self) -> None:
        self.lines = AccessBuffer(QUEUE_RECORDS, self._wake_writer)
        self._writer = _Writer(self._queue, self.lines, self._output)
        self._writer.start()

    def _wake_writer(self) -> None:
        try:
            self._queue.queue.put_nowait(_WAKE_RECORD)
        except queue.Full:
            """The queue is full: the writer runs, and checks for lines after each record."""

    def restart_after_fork(self) -> None:
        """Empty the queue and start a new thread: a fork copies queued records, which the parent writes, but not the thread."""
        self._queue.queue = queue.Queue(QUEUE_RECORDS)
        self._queue.take_dropped()
        if self.lines is not None:
            self._start_writer()

    def close(self) -> None:
        root = logging.getLogger()
        self.lines = None
        if self._queue in root.handlers:
            root.removeHandler(self._queue)
            root.addHandler(self._output)
            self._writer.finish()

    def remove(self) -> None:
        self.close()
        logging.getLogger().removeHandler(self._output)


_installed: Logging | None = None


def configure(
    level: str,
    format: Literal["json", "text"],
    secrets: Iterable[str] = (),
    *,
    access_log: bool = True,
    stream: TextIO | None = None,
) -> Logging:
    """Send all log records of this process to stderr (or `stream`), replacing earlier configuration.

    `level` is debug, info, warning or error; access log lines depend on `access_log` only. After a reload, call
    ``.scrubber.replace(secrets)`` of the result.
    """
    global _installed  # noqa: PLW0603  logging is global to the process
    if _installed is None:
        atexit.register(_close)
        os.register_at_fork(after_in_child=_restart)
    else:
        _installed.remove()
    scrubber = Scrubber(secrets)
    formatter = _JsonFormatter(scrubber) if format == "json" else _TextFormatter(scrubber)
    output = _Output(stream or sys.stderr, formatter)
    logging.getLogger().setLevel(level.upper())
    logging.getLogger("tornado.access").setLevel(LEVEL_OFF)
    _access_log.setLevel(logging.INFO if access_log else LEVEL_OFF)
    _installed = Logging(output, scrubber)
    _installed.start()
    return _installed


def get_scrubber() -> Scrubber:
    """Return the scrubber with the known secrets of this process, for plugins that send log records elsewhere."""
    return Scrubber() if _installed is None else _installed.scrubber


def _close() -> None:
    if _installed is not None:
        _installed.close()


def _restart() -> None:
    if _installed is not None:
        _installed.restart_after_fork()
