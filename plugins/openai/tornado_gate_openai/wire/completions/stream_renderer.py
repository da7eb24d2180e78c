"""Render stream events as the chunks of a stream. No I/O.

Source: openai-python 3.52, types/completion.py, which also defines the chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from tornado_gate.streams import stages
from tornado_gate.types import Finish, PartDelta, PartStart, ResponseStart, StreamError, StreamEvent, Usage, UsageReport
from tornado_gate.types.value import State, field
from tornado_gate_openai.wire import chat
from tornado_gate_openai.wire.completions.response import finish_reason, make_response_id

_TEXT_PARTS: Final = ("text", "refusal", "audio")


def render_stream(
    events: AsyncIterator[StreamEvent], *, id: str, model: str, created: int, include_usage: bool, echo: str = ""
) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of a stream, without the final ``[DONE]``. Raises the error of a StreamError.

    Each choice starts with `echo`. With `include_usage` the last chunk has usage and no choice, and every other chunk has
    ``usage: null``.
    """
    return stages.add_step(
        events, _RenderCompletionsChunksStep(_CompletionsStreamRenderer(id, model, created, include_usage, echo))
    )


class _RenderCompletionsChunksStep(stages.Step[StreamEvent, dict[str, Any]]):
    __slots__ = ("_writer",)

    def __init__(self, writer: _CompletionsStreamRenderer) -> None:
        self._writer = writer

    def take(self, items: list[StreamEvent], out: list[dict[str, Any]]) -> None:
        for event in items:
            out.extend(self._writer.write(event))

    def end(self, out: list[dict[str, Any]]) -> None:
        writer = self._writer
        if writer.include_usage and writer.usage is not None:
            out.append({**writer.render_envelope(), "choices": [], "usage": chat.render_usage(writer.usage)})


class _CompletionsStreamRenderer(State):
    id: str
    model: str
    created: int
    include_usage: bool
    echo: str
    usage: Usage | None = None
    _choice_of: dict[int, int] = field(default_factory=dict)
    _begun: set[int] = field(default_factory=set)

    def write(self, event: StreamEvent) -> Iterator[dict[str, Any]]:
        """Yield the chunks of one event, usually one or none. Raises the error of a StreamError."""
        match event:
            case PartDelta(index=index) if index in self._choice_of:
                text = event.transcript or event.data
                yield from self._render_text(self._choice_of[index], text if isinstance(text, str) else "")
            case PartStart(kind=kind) if kind in _TEXT_PARTS and event.part is None:
                self._choice_of[event.index] = event.choice
            case Finish():
                yield from self._render_text(event.choice, "")
                yield self._render_chunk(event.choice, "", finish_reason(event.reason, event.raw))
            case UsageReport(usage=usage):
                self.usage = usage
            case ResponseStart():
                self.id = make_response_id(event.id, self.id)
                self.created = event.created or self.created
            case StreamError(error=error):
                raise error

    def render_envelope(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}

    def _render_text(self, choice: int, text: str) -> Iterator[dict[str, Any]]:
        if choice not in self._begun:
            self._begun.add(choice)
            text = self.echo + text
        if text:
            yield self._render_chunk(choice, text)

    def _render_chunk(self, choice: int, text: str, reason: str | None = None) -> dict[str, Any]:
        entry = {"text": text, "index": choice, "logprobs": None, "finish_reason": reason}
        chunk = {**self.render_envelope(), "choices": [entry]}
        return chunk | {"usage": None} if self.include_usage else chunk
