"""Structured logs without secrets, on the standard library. Knows nothing of requests but `AccessLine`.

The event loop only puts a record on a bounded queue; a thread scrubs, formats and writes. A queue that is full loses
records and says later how many: a slow terminal must not slow a request. Lines of requests, which are nearly all there
is, are no records: they wait in a buffer of their own and are written many at once, `BATCH_SECONDS` later at most.

One JSON object a line: ``time`` (ISO 8601, UTC, milliseconds), ``level``, ``logger``, ``message``, whatever was logged
with ``extra={"fields": {...}}``, and ``exception`` or ``stack`` where there is one. As text, the same as ``key=value``.
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

from tornado_gate.telemetry.access_log import LOGGER, AccessBuffer, AccessLine, StampedLine
from tornado_gate.telemetry.redaction import FIELD_CHARACTERS, MESSAGE_CHARACTERS, Scrubber

__all__ = ["AccessLine", "Logging", "Scrubber", "configure", "log_access"]

QUEUE_RECORDS = 10_000
BATCH_SECONDS = 0.1
BATCH_LINES = 250
LEVEL_OFF = logging.CRITICAL + 1
_SECONDS_TO_FLUSH = 5.0

log = logging.getLogger(__name__)
_access_log = logging.getLogger(LOGGER)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN_VALUE = re.compile(r"[^\s\"=]+")


def log_access(line: AccessLine) -> None:
    """Log one request, unless `configure` was told not to. Call it from the event loop only.

    It becomes a record of `logging` where `configure` was not called, and for whoever has put a handler or a filter on
    the logger "tornado_gate.access".
    """
    if not _access_log.isEnabledFor(logging.INFO):
        return
    lines = None if _installed is None else _installed.lines
    if lines is None or _access_log.handlers or _access_log.filters:
        path = line.path.partition("?")[0]
        _access_log.info("%s %s %d", line.method, path, line.status, extra={"fields": line.fields()})
    else:
        lines.add(line)


class _Formatter(logging.Formatter):
    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self.scrubber = scrubber
        self._second, self._second_text = -1, ""

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

    def format_lines(self, batch: Sequence[StampedLine]) -> str:
        """What `format` would make of lines of requests. All are searched for secrets at once, and each only if need be."""
        texts = [line.secret_bearing_texts() for _, line in batch]
        harmless = self.scrubber.is_clean("\n".join(texts))
        written: list[str] = []
        for (moment, line), text in zip(batch, texts, strict=True):
            message, fields = line.message(), line.fields()
            if len(text) > FIELD_CHARACTERS or not (harmless or self.scrubber.is_clean(text)):
                message, fields = self.scrubber.scrub_text(message), self.scrubber.scrub_fields(fields)
            written.append(self.render(self._format_time(moment), "info", LOGGER, message, fields, {}))
        return "\n".join(written) + "\n"

    def _format_time(self, moment: int) -> str:
        """Nanoseconds since 1970 as `format` writes a time; nearly every line is of the same second as the one before."""
        second, rest = divmod(moment, 1_000_000_000)
        if second != self._second:
            self._second, self._second_text = second, datetime.fromtimestamp(second, UTC).isoformat()[:-6]
        return f"{self._second_text}.{rest // 1_000_000:03d}Z"

    def render(
        self, moment: str, level: str, logger: str, message: str, fields: dict[str, Any], traces: dict[str, str]
    ) -> str:
        """A record as it is written: scrubbed, with nothing left to compute."""
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
        except TypeError:  # an integer beyond 64 bits, half a surrogate pair: rare, and json takes them
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
    """No caller may start a log line of its own, or speak to the terminal."""
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
    except Exception:  # whatever an argument's own __str__ raises: a fault in a log call is no reason to fail
        return f"{record.msg} (its arguments do not fit)"


class _Output(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO, formatter: _Formatter) -> None:
        super().__init__(stream)
        self.setFormatter(formatter)
        self._lines = formatter.format_lines

    def write_lines(self, batch: Sequence[StampedLine]) -> None:
        """Write lines of requests at once. Never raises: the thread that calls this must live."""
        try:
            text = self._lines(batch)
            self.acquire()
            try:
                self.stream.write(text)
                self.flush()
            finally:
                self.release()
        except Exception:
            """There is nobody to tell: what fails is where faults are told."""

    def handleError(self, record: logging.LogRecord) -> None:
        """The standard one prints the record as it was before it was scrubbed, to a stream that has just failed."""


class _Queue(QueueHandler):
    """The event loop's end. `emit` never waits."""

    def __init__(self) -> None:
        super().__init__(queue.Queue(QUEUE_RECORDS))
        self._dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """What may have changed by the time of writing, or would keep a request's memory alive, is made text now."""
        prepared = logging.LogRecord.__new__(logging.LogRecord)  # copy.copy takes six times as long
        prepared.__dict__.update(record.__dict__)
        prepared.msg, prepared.args = _get_message(record), None
        prepared.__dict__["fields"] = dict(getattr(record, "fields", None) or {})
        if record.exc_info:
            text = record.exc_text or logging.Formatter().formatException(record.exc_info)
            prepared.exc_text, prepared.exc_info = text[: MESSAGE_CHARACTERS * 2], None
        return prepared

    def enqueue(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held, which is what makes the count true."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def handleError(self, record: logging.LogRecord) -> None:
        """A record that cannot be prepared is a lost one; the standard handler would print it with its secrets."""
        self._dropped += 1

    def take_dropped(self) -> int:
        """How many were lost since this was asked last."""
        if not self._dropped:
            return 0
        self.acquire()
        try:
            dropped, self._dropped = self._dropped, 0
        finally:
            self.release()
        return dropped


_WAKE_RECORD = logging.makeLogRecord({})
"""Stands in the queue for lines of requests that have come; itself never written."""


class _Writer(QueueListener):
    """The thread's end. Records are written as they come, lines of requests when the oldest has waited for a while."""

    def __init__(self, source: _Queue, lines: AccessBuffer, output: _Output) -> None:
        super().__init__(source.queue, output)
        self._source = source
        self._lines = lines
        self._output = output
        self._due: float | None = None

    def dequeue(self, block: bool) -> Any:
        """The next record, or None at the end; what requests said before it is written by then."""
        records: Any = self.queue
        while True:
            try:
                record = records.get(block, self._seconds_left())
            except queue.Empty:
                self._write_lines()
                continue
            if record is not _WAKE_RECORD:
                self._write_lines(None if record is None else int(record.created * 1e9))
                return record

    def _seconds_left(self) -> float | None:
        if not self._lines:
            self._lines.request_wake()
            if not self._lines:  # still: one that came before `rest` has woken nobody
                self._due = None
                return None
        now = time.monotonic()
        self._due = self._due or now + BATCH_SECONDS
        return max(0.0, self._due - now)

    def _write_lines(self, until: int | None = None) -> None:
        if until is None:
            self._due = None
        while batch := self._lines.take(BATCH_LINES, until):
            self._output.write_lines(batch)
            self._report_dropped()

    def handle(self, record: logging.LogRecord) -> None:
        super().handle(record)
        self._report_dropped()

    def _report_dropped(self) -> None:
        if dropped := self._source.take_dropped() + self._lines.take_dropped():
            text = f"{dropped} log records were dropped: they came faster than they could be written"
            super().handle(logging.LogRecord(log.name, logging.WARNING, __file__, 0, text, None, None))

    def enqueue_sentinel(self) -> None:
        self.queue.put(self._sentinel, timeout=_SECONDS_TO_FLUSH)  # type: ignore[attr-defined]  # typeshed omits it

    def finish(self) -> None:
        """Write what is queued, and end; give up on a terminal that takes nothing for some seconds."""
        thread: threading.Thread | None = self._thread
        if thread is None:
            return
        try:
            self.enqueue_sentinel()
        except queue.Full:
            return
        thread.join(_SECONDS_TO_FLUSH)


class Logging:
    """What `configure` installed. `close` writes what is queued; what is logged after it is written at once."""

    def __init__(self, output: _Output, scrubber: Scrubber) -> None:
        self.scrubber = scrubber
        self.lines: AccessBuffer | None = None
        self._output = output
        self._queue = _Queue()

    def start(self) -> None:
        logging.getLogger().addHandler(self._queue)
        self._start_writer()

    def _start_writer(self) -> None:
        self.lines = AccessBuffer(QUEUE_RECORDS, self._wake)
        self._writer = _Writer(self._queue, self.lines, self._output)
        self._writer.start()

    def _wake(self) -> None:
        try:
            self._queue.queue.put_nowait(_WAKE_RECORD)
        except queue.Full:
            """The writer has records to write, and looks for lines after each."""

    def restart_after_fork(self) -> None:
        """A fork copies what is queued but not the thread: it is the parent's to write."""
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
    """Send every log record of this process to stderr (or `stream`), in place of what was configured before.

    `level` is debug, info, warning or error; lines of requests are governed by `access_log` alone. On a reload call
    ``.scrubber.replace(secrets)`` of what this returns.
    """
    global _installed  # noqa: PLW0603  logging is the process's own: there is one of it
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


def _close() -> None:
    if _installed is not None:
        _installed.close()


def _restart() -> None:
    if _installed is not None:
        _installed.restart_after_fork()
