"""JSON mode for models without it: an instruction, and a response without anything around the JSON. Pure.

OpenAI's ``response_format: {"type": "json_object"}`` and Google's ``responseMimeType: application/json`` have no schema. A vendor
that only enforces schemas has nothing for them: a schema of any object is either rejected or allows only an empty object. So the
model is instructed, and the text around its first JSON value, such as a Markdown fence, is removed from the response.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

from tornado_gate.streams.stages import Step, add_step
from tornado_gate.types import ChatRequest, PartDelta, PartEnd, PartStart, StreamEvent
from tornado_gate.types.value import replace

_INSTRUCTION: Final = (
    "Respond with one valid JSON {} and nothing else: no text before or after it, and no Markdown code fence."
)
_TOKEN: Final = re.compile(r'\\.|\\\Z|["{}\[\]]', re.DOTALL)
_FENCES: Final = ("", "```", "```json")
_MOST_HELD: Final = 4096
"""Characters before a JSON value that are held back; a longer introduction is returned as it is."""


def wants_json(request: ChatRequest) -> bool:
    """Return whether the response must be JSON, of any schema."""
    response_format = request.response_format
    return response_format is not None and response_format.kind != "text" and response_format.schema is None


def make_json_instruction(request: ChatRequest) -> str:
    """The instruction for the model. OpenAI's JSON mode returns objects, Google's any value."""
    return _INSTRUCTION.format("object" if request.wire_format.startswith("openai") else "value")


def keep_json(events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    """`events` whose texts are only the JSON object or array in them. A text without one is not changed."""
    return add_step(events, _KeepJsonStep())


class _KeepJsonStep(Step[StreamEvent, StreamEvent]):
    __slots__ = ("_readers",)

    def __init__(self) -> None:
        self._readers: dict[int, JsonReader] = {}

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        for event in items:
            match event:
                case PartStart(kind="text", index=index):
                    self._readers[index] = JsonReader()
                case PartDelta(index=index, data=str(data)) if index in self._readers:
                    text = self._readers[index].feed(data)
                    if text or event.logprobs:
                        out.append(event if text == data else replace(event, data=text))
                    continue
                case PartEnd(index=index) if index in self._readers:
                    if text := self._readers.pop(index).finish():
                        out.append(PartDelta(index=index, data=text))
            out.append(event)


class JsonReader:
    """The finder of the JSON object or array in a text that arrives in chunks of any size."""

    __slots__ = ("_depth", "_escaped", "_held", "_plain", "_quoted", "_started")

    def __init__(self) -> None:
        self._held = ""
        self._plain = False
        self._started = False
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def feed(self, piece: str) -> str:
        """The part of the value that `piece` adds; "" before its start and after its end."""
        if self._plain:
            return piece
        if not self._started:
            self._held += piece
            start = self._find_start()
            if start < 0:
                self._plain = len(self._held) > _MOST_HELD
                return self._release() if self._plain else ""
            piece, self._held, self._started = self._held[start:], "", True
        elif self._depth == 0:
            return ""
        return piece[: self._find_end(piece)]

    def finish(self) -> str:
        """The whole text if it has no JSON object or array, else ""."""
        return self._release()

    def _release(self) -> str:
        text, self._held = self._held, ""
        return text

    def _find_start(self) -> int:
        """The place of the value's first character, or -1. A bracket in a sentence before the value does not begin it."""
        array = self._held.find("[")
        if array >= 0 and self._held[:array].strip() in _FENCES:
            return array
        return self._held.find("{")

    def _find_end(self, piece: str) -> int:
        """The place after the end of the value, or the length of `piece`."""
        start, self._escaped = int(self._escaped), False
        for match in _TOKEN.finditer(piece, start):
            token = match[0]
            if token == '"':
                self._quoted = not self._quoted
            elif token == "\\":
                self._escaped = True
            elif not self._quoted and token in "{[":
                self._depth += 1
            elif not self._quoted and token in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return match.end()
        return len(piece)
