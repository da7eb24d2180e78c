"""``system`` and ``messages``, to the vocabulary. Pure.

``system`` becomes a first message of role "system". The results of tools in a user's message become a message of role
"tool", what else it holds a message of role "user" after it. A tool's result is `plain` when it was one bare string.

Source: anthropic-python 2.11, types/message_param.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tornado_gate.types import Message, ToolResult
from tornado_gate.wire.anthropic_messages.blocks import parse_content
from tornado_gate.wire.anthropic_messages.members import rest


def parse_conversation(body: Mapping[str, Any]) -> tuple[tuple[Message, ...], dict[str, str]]:
    """The messages of a body that was checked, and the caller's path of each message and part that stands elsewhere there."""
    messages: list[Message] = []
    names: dict[str, str] = {}
    for path, places, message in _pathed(body):
        ours = f"messages.{len(messages)}"
        if ours != path:
            names[ours] = path
        for index, place in enumerate(places):
            said = f"system.{place}" if path == "system" else f"{path}.content.{place}"
            if index != place or path == "system":
                names[f"{ours}.content.{index}"] = said
        messages.append(message)
    return tuple(messages), names


def _pathed(body: Mapping[str, Any]) -> Iterator[tuple[str, list[int], Message]]:
    """Each message, where it stood, and which of the blocks there are its parts."""
    system = body.get("system")
    if isinstance(system, str):
        yield "system", [], Message(role="system", parts=parse_content(system))
    elif system is not None:
        parts = parse_content(system)
        yield "system", list(range(len(parts))), Message(role="system", parts=parts, plain=False)
    for number, value in enumerate(body["messages"]):
        for places, message in _parse_message(value):
            yield f"messages.{number}", places, message


def _parse_message(value: Mapping[str, Any]) -> Iterator[tuple[list[int], Message]]:
    content = value.get("content")
    plain = isinstance(content, str)
    parts = parse_content(content)
    extra = rest(value, "role", "content")
    results = [place for place, part in enumerate(parts) if isinstance(part, ToolResult)]
    if value["role"] != "user" or not results:
        yield [], Message(role=value["role"], parts=parts, plain=plain, extra=extra)
        return
    others = [place for place in range(len(parts)) if place not in results]
    yield (
        results,
        Message(
            role="tool",
            parts=tuple(parts[place] for place in results),
            plain=_plain_results(content),
            extra={} if others else extra,
        ),
    )
    if others:
        yield others, Message(role="user", parts=tuple(parts[place] for place in others), plain=False, extra=extra)


def _plain_results(content: Any) -> bool:
    blocks = [block for block in content if block["type"] == "tool_result"]
    return not any(isinstance(block.get("content"), list) for block in blocks)
