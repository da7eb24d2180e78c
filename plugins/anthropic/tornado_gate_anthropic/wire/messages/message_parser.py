"""``system`` and ``messages`` of a request body as common messages. Pure.

``system`` becomes a first message of role "system". The tool results in a user message become a message of role "tool"; its
other content becomes a message of role "user" after it. A tool result is `plain` when its content was one string.

Source: anthropic-python 2.11, types/message_param.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tornado_gate.types import Message, Text, ToolResult
from tornado_gate_anthropic.wire.messages.json_values import select_unknown
from tornado_gate_anthropic.wire.messages.parts import parse_content


def parse_conversation(body: Mapping[str, Any]) -> tuple[tuple[Message, ...], dict[str, str]]:
    """The messages of a validated body, and the caller's path of each message and part whose position differs there."""
    messages: list[Message] = []
    names: dict[str, str] = {}
    if (system := body.get("system")) is not None:
        parts = parse_content(system)
        messages.append(Message(role="system", parts=parts, plain=isinstance(system, str)))
        names["messages.0"] = "system"
        if isinstance(system, list):
            names |= {f"messages.0.content.{position}": f"system.{position}" for position in range(len(parts))}
    for number, value in enumerate(body["messages"]):
        content = value.get("content")
        if type(content) is str and len(value) == 2:  # `role` and a text, as in most messages
            if (ours := len(messages)) != number:
                names[f"messages.{ours}"] = f"messages.{number}"
            messages.append(Message(role=value["role"], parts=(Text(text=content),)))
            continue
        for places, message in _parse_message(value):
            ours = len(messages)
            if ours != number:
                names[f"messages.{ours}"] = f"messages.{number}"
            for index, position in enumerate(places):
                if index != position:
                    names[f"messages.{ours}.content.{index}"] = f"messages.{number}.content.{position}"
            messages.append(message)
    return tuple(messages), names


def _parse_message(value: Mapping[str, Any]) -> Iterator[tuple[Sequence[int], Message]]:
    """The common messages of one wire message, each with the block indexes of its parts; () when part i is block i."""
    role, content = value["role"], value.get("content")
    parts = parse_content(content)
    extra = select_unknown(value, "role", "content")
    results = (
        [position for position, part in enumerate(parts) if isinstance(part, ToolResult)] if role == "user" else []
    )
    if not results:
        yield (), Message(role=role, parts=parts, plain=isinstance(content, str), extra=extra)
        return
    others = [position for position in range(len(parts)) if position not in results]
    yield (
        results,
        Message(
            role="tool",
            parts=tuple(parts[position] for position in results),
            plain=_are_plain_results(content),
            extra={} if others else extra,
        ),
    )
    if others:
        yield (
            others,
            Message(role="user", parts=tuple(parts[position] for position in others), plain=False, extra=extra),
        )


def _are_plain_results(content: Any) -> bool:
    blocks = [block for block in content if block["type"] == "tool_result"]
    return not any(isinstance(block.get("content"), list) for block in blocks)
