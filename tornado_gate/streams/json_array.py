"""The elements of a streamed JSON array: a stream of Gemini without ``alt=sse``. No I/O."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.streams.event_bound import HeldEvent
from tornado_gate.streams.stages import find_reader
from tornado_gate.types.wire import UNCOUNTED_BYTES, JsonValueCounter, ResponseReader

_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_IN_STRING: Final = re.compile(rb'["\\]')
_SEPARATORS: Final = b" \t\r\n,["


class ArraySplitter:
    """A splitter that takes bytes and returns the unchanged text of each complete object.

    `closed` is True after the end of the array.
    """

    def __init__(self, reader: ResponseReader | None = None) -> None:
        self._buffer = b""
        self._seen = 0
        self._depth = 0
        self._in_string = False
        self._counter = JsonValueCounter()
        self._event = HeldEvent(reader)
        self.closed = False

    def count_in(self, reader: ResponseReader | None) -> None:
        """Count the memory of a large incomplete object in the reader of its response."""
        self._event.reader = reader

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the objects that `chunk` completes.

        Raises UpstreamError for an oversized object and for other JSON than objects.
        """
        self._buffer += chunk
        if len(self._buffer) > UNCOUNTED_BYTES:
            self._counter.add(chunk, begins=self._buffer)
        objects: list[bytes] = []
        while not self.closed and (element := self._take_object()) is not None:
            objects.append(element)
            self._counter = JsonValueCounter()
        self._event.check(len(self._buffer))
        return objects

    def _take_object(self) -> bytes | None:
        if self._depth == 0 and not self._find_object_start():
            return None
        while (match := (_IN_STRING if self._in_string else _STRUCTURE).search(self._buffer, self._seen)) is not None:
            if match.group() == b"\\":
                if match.end() == len(self._buffer):  # an escape sequence continues in the next chunk
                    self._seen = match.start()
                    return None
                self._seen = match.end() + 1
                continue
            self._seen = match.end()
            if self._track_nesting(match.group()) and self._depth == 0:
                element, self._buffer, self._seen = self._buffer[: self._seen], self._buffer[self._seen :], 0
                return element
        self._seen = len(self._buffer)
        return None

    def _find_object_start(self) -> bool:
        """Skip separators up to the next object; False when no object starts in the buffer."""
        self._buffer = self._buffer.lstrip(_SEPARATORS)
        self._seen = 0
        if self._buffer.startswith(b"]"):
            self.closed = True
            return False
        if self._buffer and not self._buffer.startswith(b"{"):
            raise UpstreamError(
                "The upstream's stream is not a JSON array of objects.", advice="Check the provider's base_url."
            )
        return bool(self._buffer)

    def _track_nesting(self, character: bytes) -> bool:
        """Count one quote or bracket; True for a closing bracket."""
        if character == b'"':
            self._in_string = not self._in_string
            return False
        self._depth += 1 if character in b"{[" else -1
        return character in b"}]"


async def iterate_elements(chunks: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    """Yield the objects of a streamed array, or a single object. Raises UpstreamError for invalid JSON."""
    splitter = ArraySplitter(find_reader(chunks))
    async for chunk in chunks:
        for element in splitter.feed(chunk):
            try:
                yield orjson.loads(element)
            except orjson.JSONDecodeError as error:
                raise UpstreamError(
                    "The upstream sent a stream event that is not valid JSON. Retry the request."
                ) from error
