"""Convert items of ``input`` to messages, and record the caller's path of each. No I/O.

Consecutive items of the model (messages, tool calls, reasoning) become one message of role "assistant", as in other formats.
Ids and statuses of items are dropped, because models do not use them; ``call_id`` links a call and its result. An item of an
unknown type becomes a `VendorPart` of a message whose `plain` is True.

Source: openai-python 3.52, types/responses/response_input_item_param.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult, VendorPart
from tornado_gate.types.value import State, field
from tornado_gate_openai.wire.responses.parts import WIRE_FORMAT, parse_content, select_unknown_non_null
from tornado_gate_openai.wire.responses.server_tools import parse_made_item
from tornado_gate_openai.wire.responses.tools import parse_tools

_BOOKKEEPING_MEMBERS: Final = ("id", "status", "type")
_NON_MODEL_ITEM_TYPES: Final = frozenset(
    ("additional_tools", "compaction_trigger", "item_reference", "mcp_approval_response")
)


def get_item_type(item: Mapping[str, Any]) -> str:
    """Return the type of an item, which messages and references may omit."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    return "message" if "role" in item else "item_reference"


def read_items(value: str | Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return ``input`` as a list of items; a string becomes a user message."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    return [dict(item) for item in value]


class ParsedConversation(State):
    """The messages of a request, and the caller's paths that differ from the default paths of `ChatRequest.path`."""

    messages: list[Message] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, message: Message, message_path: str, parts: Sequence[str] | None = None) -> None:
        """Add a message with the path `message_path`; `parts` are the paths of its parts, None for the default paths."""
        number = len(self.messages)
        self.messages.append(message)
        if message_path != f"input.{number}":
            self.names[f"messages.{number}"] = message_path
        for index, path in enumerate(parts or ()):
            if path != f"{message_path}.content.{index}":
                self.names[f"messages.{number}.content.{index}"] = path


def parse_input(conversation: ParsedConversation, items: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Add the messages of validated items to `conversation`; each item comes with its path, see `iterate_paths`."""
    turn = _AssistantTurn()
    for path, item in items:
        if not turn.take(path, item):
            turn.end(conversation)
            turn = _AssistantTurn()
            _add_other(conversation, path, item)
    turn.end(conversation)


def iterate_paths(
    value: str | Sequence[Mapping[str, Any]], earlier: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the items of a conversation with their paths; `earlier` are the items of ``previous_response_id``."""
    yield from (("previous_response_id", item) for item in earlier)
    if isinstance(value, str):
        yield "input", {"role": "user", "content": value}
    else:
        yield from ((f"input.{number}", item) for number, item in enumerate(value))


def _join_path(item_path: str, name: str) -> str:
    """Return the path of `name` below `item_path`, or `item_path` for an item that is not in the caller's ``input`` array."""
    return f"{item_path}.{name}" if item_path.startswith("input.") else item_path


class _AssistantTurn(State):
    """Consecutive items of the model. `paths` are the paths of `parts`."""

    parts: list[Part] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    place: str = ""

    def take(self, path: str, item: Mapping[str, Any]) -> bool:
        """Add an item of the model with the path `path`. Returns False if the item is not the model's."""
        kind = get_item_type(item)
        match kind:
            case "message":
                if item.get("role") != "assistant":
                    return False
                self._take_message(path, item)
            case "function_call" | "custom_tool_call":
                self._take_part(path, parse_call(item))
            case "reasoning":
                self._take_part(path, parse_reasoning(item))
            case _ if kind.endswith("_output") or kind in _NON_MODEL_ITEM_TYPES:
                return False
            case _:
                self._take_part(path, VendorPart(wire_format=WIRE_FORMAT, value=item, server=parse_made_item(item)))
        return True

    def _take_message(self, item_path: str, item: Mapping[str, Any]) -> None:
        parts = parse_content(item.get("content"))
        self.parts += parts
        self.paths += [_join_path(item_path, f"content.{number}") for number in range(len(parts))]
        if extra := select_unknown_non_null(item, *_BOOKKEEPING_MEMBERS, "role", "content"):
            self.extra |= extra
            self.place = item_path  # the path of the item whose extra fields the message has
        self.place = self.place or item_path

    def _take_part(self, item_path: str, part: Part) -> None:
        self.parts.append(part)
        self.paths.append(item_path)
        self.place = self.place or item_path

    def end(self, conversation: ParsedConversation) -> None:
        """Add the message to `conversation` unless the turn is empty."""
        if not self.parts and not self.extra:
            return
        texts = sum(isinstance(part, Text) for part in self.parts)
        message = Message(role="assistant", parts=tuple(self.parts), plain=texts <= 1, extra=self.extra)
        conversation.add(message, self.place, self.paths)


def parse_call(item: Mapping[str, Any]) -> ToolCall:
    """Return the tool call of a ``function_call`` or ``custom_tool_call`` item."""
    kind, text_name = ("custom", "input") if item.get("type") == "custom_tool_call" else ("function", "arguments")
    return ToolCall(
        id=item.get("call_id") or "",
        name=item.get("name") or "",
        arguments=item.get(text_name) or "",
        kind=kind,
        extra=select_unknown_non_null(item, *_BOOKKEEPING_MEMBERS, "call_id", "name", text_name),
    )


def parse_reasoning(item: Mapping[str, Any]) -> Thinking:
    """Return the thinking part of a ``reasoning`` item. Without summary and text it is redacted: only encrypted content."""
    pieces = _read_texts(item.get("summary")) or _read_texts(item.get("content"))
    encrypted = item.get("encrypted_content")
    return Thinking(
        text="\n\n".join(pieces),
        signature=Opaque(issuer="", value=encrypted) if encrypted else None,
        redacted=not pieces,
        extra=select_unknown_non_null(item, *_BOOKKEEPING_MEMBERS, "summary", "content", "encrypted_content"),
    )


def _read_texts(values: Any) -> list[str]:
    pieces = (value.get("text") for value in (values if isinstance(values, list) else ()) if isinstance(value, Mapping))
    return [piece for piece in pieces if isinstance(piece, str)]


def _add_other(conversation: ParsedConversation, item_path: str, item: Mapping[str, Any]) -> None:
    """Add one message for an item that is not the model's. Unknown fields of a tool result go to the message's `extra`."""
    match get_item_type(item):
        case "message":
            message = _parse_message(item)
            paths = [_join_path(item_path, f"content.{number}") for number in range(len(message.parts))]
            conversation.add(message, item_path, paths)
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            result = ToolResult(
                call_id=item.get("call_id") or "",
                parts=parse_content(output),
                name=item.get("name"),
            )
            extra = select_unknown_non_null(item, *_BOOKKEEPING_MEMBERS, "call_id", "output", "name")
            message = Message(role="tool", parts=(result,), plain=not isinstance(output, list), extra=extra)
            conversation.add(message, item_path, [_join_path(item_path, "output")])
            if isinstance(output, list):
                key = f"messages.{len(conversation.messages) - 1}.content.0.content"
                inner = {f"{key}.{number}": _join_path(item_path, f"output.{number}") for number in range(len(output))}
                conversation.names |= inner
        case _:
            part = VendorPart(wire_format=WIRE_FORMAT, value=item, tools=parse_tools(item.get("tools")))
            message = Message(role="user", parts=(part,))
            conversation.add(message, item_path, [item_path])


def _parse_message(item: Mapping[str, Any]) -> Message:
    content = item.get("content")
    parts = parse_content(content)
    alone = len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].extra
    return Message(
        role=item["role"],
        parts=parts,
        plain=alone or not isinstance(content, list),
        extra=select_unknown_non_null(item, *_BOOKKEEPING_MEMBERS, "role", "content"),
    )
