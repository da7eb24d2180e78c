"""Newline-delimited JSON: one JSON value in each line. No I/O and no wire format.

Source: https://github.com/ndjson/ndjson-spec: a line ends with LF, and a CR before it is ignored; a parser may ignore empty
lines. Some upstreams omit the LF of the last line.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.streams import stages
from tornado_gate.streams.event_bound import HeldEvent
from tornado_gate.streams.passthrough import StreamAdapter
from tornado_gate.types.wire import ResponseReader, check_json_values, describe_provider

MEDIA_TYPE: Final = "application/x-ndjson"


class LineSplitter:
    """A splitter of a byte stream into lines, each with its LF. Also a `Splitter` of `passthrough.StreamAdapter`."""

    def __init__(self, reader: ResponseReader | None = None) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._event = HeldEvent(reader)

    def count_in(self, reader: ResponseReader | None) -> None:
        """Count the memory of a large incomplete line in the reader of its response."""
        self._event.reader = reader

    def take(self, chunk: bytes) -> bytes:
        """Return the lines that `chunk` completes, joined and unchanged. Raises UpstreamError for a line that is too large."""
        end = chunk.rfind(b"\n") + 1
        ready = b""
        if end:
            ready = b"".join([*self._held, chunk[:end]])
            check_json_values(ready)
            self._held, self._size = [], 0
            chunk = chunk[end:]
        if chunk:
            self._held.append(chunk)
            self._size += len(chunk)
        self._event.check(self._size)
        return ready

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without empty ones. Raises the UpstreamError of `take`."""
        lines = self.take(chunk).split(b"\n")
        return [line + b"\n" for line in lines if line and not line.isspace()]

    def flush(self) -> list[bytes]:
        """Return the line after the last LF, at the end of the stream; [] without one."""
        rest = b"".join(self._held)
        self._held, self._size = [], 0
        return [rest] if rest.strip() else []


def read_json_lines(chunks: AsyncIterator[bytes], provider: str = "") -> AsyncIterator[Any]:
    """Yield the JSON value of each line, for any chunk sizes.

    `provider` is its name for error messages: ``incoming.provider``. Raises UpstreamError for a line that is not JSON or is above
    ``limits.event_bytes``.
    """
    return stages.add_step(chunks, _JsonLineStep(provider, stages.find_reader(chunks)))


class _JsonLineStep(stages.Step[bytes, Any]):
    __slots__ = ("_provider", "_splitter")

    def __init__(self, provider: str, reader: ResponseReader | None) -> None:
        self._provider = provider
        self._splitter = LineSplitter(reader)

    def take(self, items: list[bytes], out: list[Any]) -> None:
        for chunk in items:
            if ready := self._splitter.take(chunk):
                self._append(ready.split(b"\n"), out)

    def end(self, out: list[Any]) -> None:
        self._append(self._splitter.flush(), out)

    def _append(self, lines: list[bytes], out: list[Any]) -> None:
        for line in lines:
            if line and not line.isspace():
                try:
                    out.append(orjson.loads(line))
                except orjson.JSONDecodeError as error:
                    raise UpstreamError(
                        f"{describe_provider(self._provider)} sent a line that is not valid JSON."
                    ) from error


class LineAdapter(StreamAdapter):
    """The base class of adapters of the verbatim lane whose frames are lines of JSON."""

    stream_type = MEDIA_TYPE
    keep_alive = b"\n"

    def splitter(self, meter: Any) -> LineSplitter:
        return LineSplitter()

    def has_data(self, raw: bytes) -> bool:
        return True

    def parse_frame(self, raw: bytes) -> Any:
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            return None


def render_json(value: Any) -> bytes:
    """Return one line with `value` as JSON."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
