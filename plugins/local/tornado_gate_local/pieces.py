"""The answer as a stream: the lines that this provider "sends", and the stream events parsed from them.

The provider's own wire format is one JSON array a line, ``[choice, part, text, last]``: the next piece of part `part`
of choice `choice`, and whether it completes that part. The lines of several choices alternate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import orjson

from tornado_gate.types import (
    ChatResult,
    Choice,
    Finish,
    Part,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    UsageReport,
)
from tornado_gate.types.value import Value
from tornado_gate_local.words import split_tokens


class AnswerPlan(Value, frozen=True):
    """A chat result and how it is sent: token by token with pauses of `pace_seconds`, or each part in one piece."""

    result: ChatResult
    streamed: bool
    pace_seconds: float


async def stream_lines(plan: AnswerPlan) -> AsyncIterator[bytes]:
    """The answer as lines of the provider's wire format. Gives control to the event loop after each line."""
    turns = [_iterate_pieces(number, choice, plan.streamed) for number, choice in enumerate(plan.result.choices)]
    pause_seconds = plan.pace_seconds if plan.streamed else 0
    first = True
    while turns:
        for pieces in list(turns):
            line = next(pieces, None)
            if line is None:
                turns.remove(pieces)
                continue
            if not first:
                await asyncio.sleep(pause_seconds)
            first = False
            yield line


def _iterate_pieces(number: int, choice: Choice, streamed: bool) -> Iterator[bytes]:
    for position, part in enumerate(choice.parts):
        texts = (split_tokens(get_streamed_text(part)) if streamed else [get_streamed_text(part)]) or [""]
        for index, text in enumerate(texts):
            yield orjson.dumps([number, position, text, index == len(texts) - 1]) + b"\n"


def get_streamed_text(part: Part) -> str:
    """The text of a part that is sent in pieces. Raises AssertionError for a part that an answer cannot have."""
    match part:
        case Text(text=text) | Thinking(text=text):
            return text
        case ToolCall(arguments=arguments):
            return arguments
        case _:
            raise AssertionError(f"an answer of local-chat cannot have a part of type {type(part).__name__}")


async def parse_events(plan: AnswerPlan, chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamEvent]:
    """The stream events of an answer. Each item of `chunks` is one line."""
    result = plan.result
    yield ResponseStart(model=result.model, id=result.id, created=result.created)
    indexes: dict[tuple[int, int], int] = {}
    async for line in chunks:
        number, position, text, last = orjson.loads(line)
        key = (number, position)
        if key not in indexes:
            indexes[key] = len(indexes)
            yield _make_start(indexes[key], number, result.choices[number].parts[position])
        if text:
            yield PartDelta(index=indexes[key], data=text)
        if last:
            yield PartEnd(index=indexes[key])
    if result.usage is not None:
        yield UsageReport(usage=result.usage)
    for number, choice in enumerate(result.choices):
        yield Finish(reason=choice.reason, choice=number, stop_sequence=choice.stop_sequence)


def _make_start(index: int, choice: int, part: Part) -> PartStart:
    match part:
        case ToolCall():
            return PartStart(index=index, choice=choice, kind="tool_call", id=part.id, name=part.name)
        case Thinking():
            return PartStart(index=index, choice=choice, kind="thinking")
        case _:
            return PartStart(index=index, choice=choice, kind="text")
