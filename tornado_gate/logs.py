"""Structured logs without secrets, on the standard library. Knows nothing of requests but `AccessLine`.

The event loop only puts a record on a bounded queue; a thread scrubs, formats and writes. A queue that is full loses
records and says later how many: a slow terminal must not slow a request.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Literal, TextIO
from urllib.parse import quote

import orjson

from tornado_gate.types import Usage

QUEUE_RECORDS = 10_000
MESSAGE_CHARACTERS = 16_384
FIELD_CHARACTERS = 2_048
FIELD_ITEMS = 64
FIELD_DEPTH = 4
SHORTEST_SECRET = 8
"""Anything shorter would blot out ordinary words; a key of that length protects nothing anyway."""

MASK = "***"
OFF = logging.CRITICAL + 1
_SECONDS_TO_FLUSH = 5.0

log = logging.getLogger(__name__)
_access_log = logging.getLogger("tornado_gate.access")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer)\s{1,4}[^\s\"',;]+"), rf"\1 {MASK}"),
    (re.compile(r"(?i)\b((?:x-|x-goog-)?api[-_]?key[\"']?\s{0,4}[:=]\s{0,4}[\"']?)[^\s\"',;&]+"), rf"\1{MASK}"),
    (re.compile(r"([?&](?:key|token|access_token)=)[^&\s\"'#]+"), rf"\1{MASK}"),
    (re.compile(r"\b(openai-insecure-api-key\.)[^\s\"',;]+"), rf"\1{MASK}"),
    (re.compile(r"\b(sk-|tg-|xai-|gsk_|AIza)[A-Za-z0-9_\-]{8,}"), rf"\1{MASK}"),
)
_SUSPECT = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr]|[Kk][Ee][Yy][\"' :=.]|token=|sk-|tg-|xai-|gsk_|AIza")
"""Whatever a pattern matches holds one of these. Nearly no text does, and one search is cheaper than five."""

_SECRET_FIELDS = frozenset(
    ("authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api_key", "key", "password", "cookie")
)
_OWN_FIELDS = frozenset(
    (
        *("method", "path", "status", "milliseconds", "request_id", "caller", "model", "provider"),
        *("bytes_out", "attempts", "input_tokens", "output_tokens"),
    )
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN_VALUE = re.compile(r"[^\s\"=]+")


class Scrubber:
    """Puts ``***`` in the place of known secrets and of whatever looks like a key. May be called from any thread.

    Its cost is bounded: text is cut to a given length, structures to a depth and a number of items.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self._longest = 0
        self.replace(secrets)

    def replace(self, secrets: Iterable[str]) -> None:
        """Know these values and no others. Their spellings inside an address and inside JSON are known too."""
        known: set[str] = set()
        for secret in map(str, secrets):
            if len(secret) >= SHORTEST_SECRET:
                known |= {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}
        self._secrets = tuple(sorted(known, key=len, reverse=True))
        self._longest = max(map(len, self._secrets), default=0)

    def text(self, text: str, longest: int = MESSAGE_CHARACTERS) -> str:
        """`text` without secrets, of at most `longest` characters."""
        margin = self._longest
        cut = len(text) > longest + margin
        if cut:
            text = text[: longest + margin]
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        if _SUSPECT.search(text) is not None:
            for pattern, mask in _PATTERNS:
                text = pattern.sub(mask, text)
        if cut:
            # A secret that the cut went through ends the text, and is shorter than the margin.
            text = text[: len(text) - margin]
        return text[:longest] + "…" if cut or len(text) > longest else text

    def value(self, value: Any, depth: int = FIELD_DEPTH) -> Any:
        """A field's value without secrets, made of what JSON knows."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self.text(value, FIELD_CHARACTERS)
        if depth and isinstance(value, Mapping):
            return self.fields(value, depth - 1)
        if depth and isinstance(value, (list, tuple, set, frozenset)):
            return [self.value(item, depth - 1) for item in list(value)[:FIELD_ITEMS]]
        return self.text(str(value), FIELD_CHARACTERS)

    def fields(self, fields: Mapping[Any, Any], depth: int = FIELD_DEPTH) -> dict[str, Any]:
        """A mapping without secrets; a value whose very name says that it is one is masked whatever it looks like."""
        clean: dict[str, Any] = {}
        for name, value in list(fields.items())[:FIELD_ITEMS]:
            shown = name if name in _OWN_FIELDS else self.text(str(name), FIELD_CHARACTERS)
            clean[shown] = MASK if value and shown.lower() in _SECRET_FIELDS else self.value(value, depth)
        return clean


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLine:
    """What is said of one request. `caller` is the key's id, `usage` counts tokens, `bytes_out` the body's bytes."""

    method: str
    path: str
    status: int
    milliseconds: float
    request_id: str
    caller: str = ""
    model: str = ""
    provider: str = ""
    bytes_out: int = 0
    usage: Usage | None = None
    attempts: int = 0


def access(line: AccessLine) -> None:
    """Log one request, unless `configure` was told not to. Whatever `line.path` holds, its query is not logged."""
    if not _access_log.isEnabledFor(logging.INFO):
        return
    path = line.path.partition("?")[0]
    fields: dict[str, Any] = {
        "method": line.method,
        "path": path,
        "status": line.status,
        "milliseconds": round(line.milliseconds, 2),
        "request_id": line.request_id,
        "caller": line.caller,
        "model": line.model,
        "provider": line.provider,
        "bytes_out": line.bytes_out,
        "attempts": line.attempts,
    }
    if line.usage is not None:
        fields["input_tokens"] = line.usage.input_tokens
        fields["output_tokens"] = line.usage.output_tokens
    said = {name: value for name, value in fields.items() if value not in ("", None)}
    _access_log.info("%s %s %d", line.method, path, line.status, extra={"fields": said})


@dataclass(frozen=True, slots=True)
class _Entry:
    """A record as it is written: scrubbed, with nothing left to compute."""

    time: str
    level: str
    logger: str
    message: str
    fields: dict[str, Any]
    traces: dict[str, str]


class _Formatter(logging.Formatter):
    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self.scrubber = scrubber

    def format(self, record: logging.LogRecord) -> str:
        traces = {"exception": record.exc_text, "stack": record.stack_info}
        return self.render(
            _Entry(
                time=datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
                level=record.levelname.lower(),
                logger=record.name,
                message=self.scrubber.text(record.getMessage()),
                fields=self.scrubber.fields(getattr(record, "fields", None) or {}),
                traces={name: self.scrubber.text(text) for name, text in traces.items() if text},
            )
        )

    def render(self, entry: _Entry) -> str:
        raise NotImplementedError


class _JsonFormatter(_Formatter):
    def render(self, entry: _Entry) -> str:
        line = {
            "time": entry.time,
            "level": entry.level,
            "logger": entry.logger,
            "message": entry.message,
            **{name if name not in _OWN_NAMES else f"field_{name}": value for name, value in entry.fields.items()},
            **entry.traces,
        }
        try:
            return orjson.dumps(line).decode()
        except TypeError:  # an integer beyond 64 bits, half a surrogate pair: rare, and json takes them
            return json.dumps(line)


_OWN_NAMES = frozenset(("time", "level", "logger", "message", "exception", "stack"))


class _TextFormatter(_Formatter):
    def render(self, entry: _Entry) -> str:
        words = [entry.time, entry.level.upper().ljust(7), entry.logger, _one_line(entry.message)]
        words += [f"{_one_line(name)}={_shown(value)}" for name, value in entry.fields.items()]
        lines = [" ".join(words)]
        for text in entry.traces.values():
            lines += ["    " + _one_line(line) for line in text.splitlines()]
        return "\n".join(lines)


def _one_line(text: str) -> str:
    """No caller may start a log line of its own, or speak to the terminal."""
    return _CONTROL.sub(lambda sign: sign.group().encode("unicode_escape").decode(), text)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if _PLAIN_VALUE.fullmatch(text) and text.isprintable() else json.dumps(text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()[: MESSAGE_CHARACTERS * 2]
    except Exception:  # whatever an argument's own __str__ raises: a fault in a log call is no reason to fail
        return f"{record.msg} (its arguments do not fit)"


class _Output(logging.StreamHandler[TextIO]):
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
        prepared.msg, prepared.args = _message(record), None
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


class _Writer(QueueListener):
    """The thread's end."""

    def __init__(self, source: _Queue, handler: logging.Handler) -> None:
        super().__init__(source.queue, handler)
        self._source = source

    def handle(self, record: logging.LogRecord) -> None:
        super().handle(record)
        if dropped := self._source.take_dropped():
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

    def __init__(self, output: logging.Handler, scrubber: Scrubber) -> None:
        self.scrubber = scrubber
        self._output = output
        self._queue = _Queue()
        self._writer = _Writer(self._queue, output)

    def start(self) -> None:
        logging.getLogger().addHandler(self._queue)
        self._writer.start()

    def restart_after_fork(self) -> None:
        """A fork copies the queue but not the thread: what is in the queue is the parent's to write."""
        self._queue.queue = queue.Queue(QUEUE_RECORDS)
        self._queue.take_dropped()
        self._writer = _Writer(self._queue, self._output)
        self._writer.start()

    def close(self) -> None:
        root = logging.getLogger()
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
    output = _Output(stream or sys.stderr)
    output.setFormatter(_JsonFormatter(scrubber) if format == "json" else _TextFormatter(scrubber))
    logging.getLogger().setLevel(level.upper())
    logging.getLogger("tornado.access").setLevel(OFF)
    _access_log.setLevel(logging.INFO if access_log else OFF)
    _installed = Logging(output, scrubber)
    _installed.start()
    return _installed


def _close() -> None:
    if _installed is not None:
        _installed.close()


def _restart() -> None:
    if _installed is not None:
        _installed.restart_after_fork()
