"""The conversion of a turn to a chat request, for a `VoiceModel` that uses a chat model.

In a voice conversation the result of a function call may follow other messages, or be missing. A chat requires it directly
after the call. So each result is moved behind its call, and a call without a result gets a placeholder text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tornado_gate.http.fetch.pictures import parse_image_source
from tornado_gate.types import (
    ChatRequest,
    FileReference,
    Image,
    Message,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from tornado_gate_openai.voice.items import AudioPart, ImagePart, Item, TextPart
from tornado_gate_openai.voice.voice_model import Turn

AudioRenderer = Callable[[AudioPart], Part | None]
"""Returns the part of the chat request for a caller's audio; None to omit the audio."""

NO_RESULT: Final = "There is no result of this call yet."
UNKNOWN_CALL: Final = "A function answered"
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}


def make_chat_request(turn: Turn, model: str, sound: AudioRenderer, *, stream: bool = True) -> ChatRequest:
    """Return the turn as a request to the chat model `model`."""
    return ChatRequest(
        model=model,
        messages=tuple(iterate_messages(turn, sound)),
        stream=stream,
        include_usage=True if stream else None,
        tools=turn.tools,
        tool_choice=turn.tool_choice if turn.tools else None,
        parallel_tool_calls=turn.parallel_tool_calls if turn.tools else None,
        max_tokens=turn.max_tokens,
        temperature=turn.temperature,
    )


def iterate_messages(turn: Turn, sound: AudioRenderer) -> Iterator[Message]:
    """Yield the instructions, then the messages of every item that is not empty."""
    if turn.instructions:
        yield Message(role="system", parts=(Text(text=turn.instructions),))
    results = {item.call_id: item for item in turn.items if item.kind == "function_call_output"}
    called = {item.call_id for item in turn.items if item.kind == "function_call"}
    calls: list[Item] = []
    for item in turn.items:
        if item.kind == "function_call":
            calls.append(item)
            continue
        if item.kind == "function_call_output" and item.call_id in called:
            continue  # placed after its call
        yield from _iterate_call_messages(calls, results)
        calls = []
        yield from _iterate_item_messages(item, sound)
    yield from _iterate_call_messages(calls, results)


def _iterate_call_messages(calls: Iterable[Item], results: dict[str, Item]) -> Iterator[Message]:
    """Yield one message with calls that were made together, then the result of each."""
    made = [ToolCall(id=item.call_id, name=item.name, arguments=item.arguments or "{}") for item in calls]
    if not made:
        return
    yield Message(role="assistant", parts=tuple(made), plain=False)
    for call in made:
        result = results.get(call.id)
        text = NO_RESULT if result is None else result.output
        answer = ToolResult(call_id=call.id, name=call.name, parts=(Text(text=text),))
        yield Message(role="tool", parts=(answer,), plain=False)


def _iterate_item_messages(item: Item, sound: AudioRenderer) -> Iterator[Message]:
    if item.kind == "function_call_output":
        yield Message(role="user", parts=(Text(text=f"{UNKNOWN_CALL} ({item.call_id}): {item.output}"),))
        return
    parts = tuple(_iterate_parts(item, sound))
    if parts:
        plain = len(parts) == 1 and isinstance(parts[0], Text)
        yield Message(role=_ROLES[item.role], parts=parts, plain=plain)


def _iterate_parts(item: Item, sound: AudioRenderer) -> Iterator[Part]:
    for index, part in enumerate(item.parts):
        match part:
            case TextPart(text=text):
                if text:
                    yield Text(text=text)
            case ImagePart(url=url, detail=detail):
                source = parse_image_source(url, f"item.content.{index}.image_url")
                assert not isinstance(source, FileReference)
                yield Image(source=source, detail=detail)
            case AudioPart(output=True):
                if part.heard_words:
                    yield Text(text=part.heard_words)
            case AudioPart():
                shown = sound(part)
                if shown is not None:
                    yield shown
