"""Render messages as items of ``input``: the client half. No I/O.

A leading system prompt becomes ``instructions``; every other message becomes an item. An assistant message becomes several:
one for each run of text, each tool call and each reasoning. Reasoning without encrypted content is left out, because the
vendor rejects it.

Source: openai-python 3.52, types/responses/response_input_item_param.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from tornado_gate.types import (
    Call,
    ChatRequest,
    Data,
    File,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    VendorPart,
)
from tornado_gate.types.value import State, field
from tornado_gate.wire.empty_conversations import empty_conversation_error
from tornado_gate.wire.part_texts import get_part_text
from tornado_gate.wire.prompt_cache import CacheMarkers, add_marker, mark_content, select_losses
from tornado_gate_openai.wire.chat.parts import add_extra, drop_none
from tornado_gate_openai.wire.responses.parts import WIRE_FORMAT, render_part
from tornado_gate_openai.wire.responses.stored_items import is_unreadable


class PathGetter(Protocol):
    """A function that returns the caller's path of one message, of the part with the index `part`, or of a part of a tool
    result.
    """

    def __call__(self, part: int | None = None, /) -> str: ...


def render_input(
    call: Call, request: ChatRequest, own: bool, cache_markers: CacheMarkers = "none"
) -> tuple[str | None, list[dict[str, Any]]]:
    """Return ``instructions`` and ``input``. `own` is True if the messages came in this format.

    Unsupported parts and fields are reported with `call.drop_field`, by the caller's path. `cache_markers` are the markers that
    the upstream accepts in messages of other formats. Raises InvalidField if nothing is left to send.
    """
    writer = _InputItemWriter(call, request, own, cache_markers)
    instructions, first = _render_instructions(request.messages)
    items: list[dict[str, Any]] = []
    for number, message in enumerate(request.messages[first:], first):
        items += writer.write(message, partial(request.path, number))
    if not items and instructions is not None:  # the vendor requires an item
        return None, [{"type": "message", "role": "system", "content": instructions}]
    if not items and request.messages:  # without messages, the input is in a stored prompt
        raise empty_conversation_error(request.field_name("messages"))
    return instructions, items


def _render_instructions(messages: Sequence[Message]) -> tuple[str | None, int]:
    """Return the text of ``instructions`` and the number of messages that it replaces (0 or 1)."""
    match messages[0] if len(messages) > 1 else None:
        case Message(role="system", plain=True, name=None, parts=(Text(text=text, extra=extra),)) as first:
            return (None, 0) if extra or first.extra else (text, 1)
        case _:
            return None, 0


class _InputItemWriter(State):
    """The renderer of messages as items. `custom` has the ids of custom tool calls, whose results are items of another type."""

    call: Call
    request: ChatRequest
    own: bool
    cache_markers: CacheMarkers = "none"
    custom: set[str] = field(default_factory=set)

    def write(self, message: Message, path: PathGetter) -> Iterator[dict[str, Any]]:
        """Yield the items of one message."""
        if message.name is not None:
            self.call.drop_field(f"{path()}.name")
        if message.role == "assistant":
            yield from self._write_turn(message, path)
            return
        others: list[tuple[str, Part]] = []
        for number, part in enumerate(message.parts):
            message_path = path(number)
            if isinstance(part, ToolResult):
                yield self._write_result(message, part, partial(path, number))
            elif isinstance(part, VendorPart) and message.plain and part.wire_format == WIRE_FORMAT and self.own:
                yield dict(part.value)
            else:
                others.append((message_path, part))
        if others or not message.parts:
            role = "user" if message.role == "tool" else message.role
            content = self._render_content(others, message.plain)
            value = {"role": role, "content": self._mark(content, message.extra)}
            self._add_extra(value, message.extra, path(), marked=self._is_marked(value["content"]))
            if value["content"] or not self._is_lost(message):
                yield value
        else:
            self._add_extra({}, message.extra, path())

    def _is_lost(self, message: Message) -> bool:
        """Return whether a message without content has lost parts of it: an empty text is sent, as the caller sent it."""
        return not self.own and any(not isinstance(part, Text) for part in message.parts)

    def _mark(self, content: str | list[dict[str, Any]], extra: Mapping[str, Any]) -> str | list[dict[str, Any]]:
        return content if self.own or not extra else mark_content(content, extra, self.cache_markers, "input_text")

    def _is_marked(self, content: str | list[dict[str, Any]]) -> bool:
        return bool(content) and self.cache_markers != "none"

    def _render_content(self, parts: Iterable[tuple[str, Part]], plain: bool) -> str | list[dict[str, Any]]:
        values = [value for part_path, part in parts if (value := self._render_part(part, part_path)) is not None]
        if plain and len(values) == 1 and values[0].keys() == {"type", "text"}:
            return str(values[0]["text"])
        return values or ([] if self.own and not plain else "")

    def _render_part(self, part: Part, path: str, answered: bool = False) -> dict[str, Any] | None:
        stored_here = self.request.wire_format.startswith("openai")
        value = render_part(part, self.own, answered=answered, stored_here=stored_here)
        if value is None:
            if (text := get_part_text(part)) is not None:
                return self._render_part(text, path, answered)
            self.call.drop_field(path)
        elif not self.own and not isinstance(part, VendorPart):
            if isinstance(part, File) and part.name is not None and not isinstance(part.source, Data):
                self.call.drop_field(f"{path}.filename")  # the vendor accepts a name only beside file data
            if part.extra:
                is_marked = not answered and add_marker(value, part.extra, self.cache_markers)
                self._drop_extra(part.extra, path, marked=is_marked)
        return value

    def _write_result(self, message: Message, result: ToolResult, path: PathGetter) -> dict[str, Any]:
        if result.is_error:
            self.call.drop_field(f"{path()}.is_error")
        kind = "custom_tool_call_output" if result.call_id in self.custom else "function_call_output"
        parts = [(path(number), part) for number, part in enumerate(result.parts)]
        value: dict[str, Any] = {
            "type": kind,
            "call_id": result.call_id,
            "output": self._mark(self._render_content(parts, message.plain), {**message.extra, **result.extra}),
        }
        if self.own:
            return add_extra(value | drop_none(name=result.name), {**message.extra, **result.extra})
        return self._add_extra(value, result.extra, path(), marked=self._is_marked(value["output"]))

    def _write_turn(self, message: Message, path: PathGetter) -> Iterator[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        thought: list[tuple[str, dict[str, Any]]] = []  # reasoning that is sent only with the item that follows it
        extra = self._add_extra({}, message.extra, path())
        for number, part in enumerate(message.parts):
            message_path = path(number)
            if isinstance(part, VendorPart) and is_unreadable(part.value):
                self.call.drop_field(message_path)
                continue
            item = self._render_own_item(part, message_path)
            if item is None and not isinstance(part, (Thinking, ToolCall)):
                value = self._render_part(part, message_path, answered=True)
                content += [value] if value is not None else []
            elif item is not None:
                if content:
                    yield from self._write_thought(thought)
                    yield from _render_message_item(content, extra)
                    content, thought = [], []
                if item["type"] == "reasoning":
                    thought.append((message_path, item))
                    continue
                yield from self._write_thought(thought)
                thought = []
                yield item
        yield from self._write_thought(thought, followed=bool(content))
        yield from _render_message_item(content, extra)

    def _write_thought(
        self, thought: Sequence[tuple[str, dict[str, Any]]], *, followed: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Yield reasoning items.

        The vendor rejects a reasoning item that no item of the model follows (continuedev/continue#8933).
        """
        for item_path, item in thought:
            if followed or self.own:
                yield item
            else:
                self.call.drop_field(item_path)

    def _render_own_item(self, part: Part, path: str) -> dict[str, Any] | None:
        """Return the item for a part of an assistant message; None for text, and for parts that were dropped."""
        match part:
            case Thinking(signature=signature) if signature is not None and isinstance(signature.value, str):
                summary = [] if part.redacted else [{"type": "summary_text", "text": part.text}]
                value = {"type": "reasoning", "summary": summary, "encrypted_content": signature.value}
                return self._add_extra(value, part.extra, path)
            case ToolCall(kind="function"):
                value = {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
                return self._add_extra(value, part.extra, path)
            case ToolCall(kind="custom"):
                self.custom.add(part.id)
                value = {"type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": part.arguments}
                return self._add_extra(value, part.extra, path)
            case Thinking() | ToolCall():
                self.call.drop_field(path)
            case VendorPart(wire_format=wire_format, value=vendors) if self.own and wire_format == WIRE_FORMAT:
                return None if str(vendors.get("type")).startswith(("input_", "output_")) else dict(vendors)
        return None

    def _add_extra(
        self, value: dict[str, Any], extra: Mapping[str, Any], path: str, *, marked: bool = False
    ) -> dict[str, Any]:
        if self.own:
            return add_extra(value, extra)
        self._drop_extra(extra, path, marked=marked)
        return value

    def _drop_extra(self, extra: Mapping[str, Any], path: str, *, marked: bool) -> None:
        for name in select_losses(extra, marked=marked):
            self.call.drop_field(f"{path}.{name}")


def _render_message_item(parts: list[dict[str, Any]], extra: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the message item of a run of text; its content is a string if it is a single text without annotations."""
    if not parts:
        return
    only = parts[0]
    bare = len(parts) == 1 and only.keys() == {"type", "text", "annotations"} and not only["annotations"]
    content = only["text"] if bare else parts
    yield {"type": "message", "role": "assistant", "content": content, **extra}
