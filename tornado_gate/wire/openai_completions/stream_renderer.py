"""Events to the chunks of a stream. Pure.

Source: openai-python 3.52, types/completion.py, whose object is a chunk's too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from tornado_gate.streams import stages
from tornado_gate.types import Finish, PartDelta, PartStart, ResponseStart, StreamError, StreamEvent, Usage, UsageReport
from tornado_gate.types.value import State, field
from tornado_gate.wire import openai_chat
from tornado_gate.wire.openai_completions.response import answer_id, finish_reason

_SPOKEN: Final = ("text", "refusal", "audio")


def render_chunks(
    events: AsyncIterator[StreamEvent], *, id: str, model: str, created: int, include_usage: bool, echo: str = ""
) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a stream, without the ``[DONE]`` that ends it. Raises the error of a StreamError.

    `echo` is what each choice begins with. With `include_usage` the last chunk has usage and no choice, and every other
    one ``usage: null``.
    """
    return stages.then(events, _Chunks(_Writer(id, model, created, include_usage, echo)))


class _Chunks(stages.Step[StreamEvent, dict[str, Any]]):
    __slots__ = ("_writer",)

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer

    def take(self, items: list[StreamEvent], out: list[dict[str, Any]]) -> None:
        for event in items:
            out.extend(self._writer.write(event))

    def end(self, out: list[dict[str, Any]]) -> None:
        writer = self._writer
        if writer.include_usage and writer.usage is not None:
            out.append({**writer.envelope(), "choices": [], "usage": openai_chat.render_usage(writer.usage)})


class _Writer(State):
    id: str
    model: str
    created: int
    include_usage: bool
    echo: str
    usage: Usage | None = None
    _choice_of: dict[int, int] = field(default_factory=dict)
    _begun: set[int] = field(default_factory=set)

    def write(self, event: StreamEvent) -> Iterator[dict[str, Any]]:
        """The chunks of one event: usually one, or none."""
        match event:
            case PartDelta(index=index) if index in self._choice_of:
                text = event.transcript or event.data
                yield from self._say(self._choice_of[index], text if isinstance(text, str) else "")
            case PartStart(kind=kind) if kind in _SPOKEN and event.part is None:
                self._choice_of[event.index] = event.choice
            case Finish():
                yield from self._say(event.choice, "")
                yield self._chunk(event.choice, "", finish_reason(event.reason))
            case UsageReport(usage=usage):
                self.usage = usage
            case ResponseStart():
                self.id = answer_id(event.id, self.id)
                self.created = event.created or self.created
            case StreamError(error=error):
                raise error

    def envelope(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}

    def _say(self, choice: int, text: str) -> Iterator[dict[str, Any]]:
        if choice not in self._begun:
            self._begun.add(choice)
            text = self.echo + text
        if text:
            yield self._chunk(choice, text)

    def _chunk(self, choice: int, text: str, reason: str | None = None) -> dict[str, Any]:
        entry = {"text": text, "index": choice, "logprobs": None, "finish_reason": reason}
        chunk = {**self.envelope(), "choices": [entry]}
        return chunk | {"usage": None} if self.include_usage else chunk
