"""Items of ``input`` to messages, and what a caller calls them. Pure.

Everything that the model said in a row (messages, calls of tools, reasoning) is one message of role "assistant", as other
formats have it. Ids and states of items say nothing to a model and are dropped; a call and its result find each other by
``call_id``. An item of a type that is not known here is a `VendorPart` of a message whose `plain` is True.

Source: openai-python 3.52, types/responses/response_input_item_param.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult, VendorPart
from tornado_gate.types.value import State, field
from tornado_gate.wire.openai_responses.parts import WIRE_FORMAT, parse_content, select_unknown_non_null

_BOOKKEEPING_MEMBERS: Final = ("id", "status", "type")
_NON_MODEL_ITEM_TYPES: Final = frozenset(
    ("additional_tools", "compaction_trigger", "item_reference", "mcp_approval_response")
)


def get_item_type(item: Mapping[str, Any]) -> str:
    """The type of an item. It may be left out of messages and of references."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    return "message" if "role" in item else "item_reference"


def read_items(value: str | Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """``input`` as a list of items: a string is what the user says."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    return [dict(item) for item in value]


class ParsedConversation(State):
    """The messages of a request, and the caller's paths of what does not stand where `ChatRequest.path` looks unasked."""

    messages: list[Message] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, message: Message, place: str, parts: Sequence[str] | None = None) -> None:
        """Add a message that stands at `place`; `parts` are the paths of its parts where they are not in its ``content``."""
        number = len(self.messages)
        self.messages.append(message)
        if place != f"input.{number}":
            self.names[f"messages.{number}"] = place
        for index, path in enumerate(parts or ()):
            if path != f"{place}.content.{index}":
                self.names[f"messages.{number}.content.{index}"] = path


def parse_input(conversation: ParsedConversation, items: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Add the messages of items that were checked, each with its path; see `paths_of`."""
    turn = _AssistantTurn()
    for place, item in items:
        if not turn.take(place, item):
            turn.end(conversation)
            turn = _AssistantTurn()
            _add_other(conversation, place, item)
    turn.end(conversation)


def iterate_paths(
    value: str | Sequence[Mapping[str, Any]], earlier: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The items of a conversation with their paths: those `earlier` came by ``previous_response_id``."""
    yield from (("previous_response_id", item) for item in earlier)
    if isinstance(value, str):
        yield "input", {"role": "user", "content": value}
    else:
        yield from ((f"input.{number}", item) for number, item in enumerate(value))


def _join_path(place: str, name: str) -> str:
    """The path of what is below `place`. A caller sees nothing of an item that is only known by an id."""
    return f"{place}.{name}" if place.startswith("input.") else place


class _AssistantTurn(State):
    """What the model said in a row, item by item. `paths` are those of the parts."""

    parts: list[Part] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    place: str = ""

    def take(self, place: str, item: Mapping[str, Any]) -> bool:
        """Add an item of the model's that stands at `place`; False when it is somebody else's."""
        kind = get_item_type(item)
        match kind:
            case "message":
                if item.get("role") != "assistant":
                    return False
                self._take_message(place, item)
            case "function_call" | "custom_tool_call":
                self._take_part(place, parse_call(item))
            case "reasoning":
                self._take_part(place, parse_reasoning(item))
            case _ if kind.endswith("_output") or kind in _NON_MODEL_ITEM_TYPES:
                return False
            case _:
                self._take_part(place, VendorPart(wire_format=WIRE_FORMAT, value=item))
        return True

    def _take_message(self, place: str, item: Mapping[str, Any]) -> None:
        parts = parse_content(item.get("content"))
        self.parts += parts
        self.paths += [_join_path(place, f"content.{number}") for number in range(len(parts))]
        if extra := select_unknown_non_null(item, *_BOOKKEEPING_MEMBERS, "role", "content"):
            self.extra |= extra
            self.place = place  # of all items of the turn, the one whose fields the message carries
        self.place = self.place or place

    def _take_part(self, place: str, part: Part) -> None:
        self.parts.append(part)
        self.paths.append(place)
        self.place = self.place or place

    def end(self, conversation: ParsedConversation) -> None:
        """Add the message, when anything was said."""
        if not self.parts and not self.extra:
            return
        texts = sum(isinstance(part, Text) for part in self.parts)
        message = Message(role="assistant", parts=tuple(self.parts), plain=texts <= 1, extra=self.extra)
        conversation.add(message, self.place, self.paths)


def parse_call(item: Mapping[str, Any]) -> ToolCall:
    """A ``function_call`` or a ``custom_tool_call``."""
    kind, text_name = ("custom", "input") if item.get("type") == "custom_tool_call" else ("function", "arguments")
    return ToolCall(
        id=item.get("call_id") or "",
        name=item.get("name") or "",
        arguments=item.get(text_name) or "",
        kind=kind,
        extra=select_unknown_non_null(item, *_BOOKKEEPING_MEMBERS, "call_id", "name", text_name),
    )


def parse_reasoning(item: Mapping[str, Any]) -> Thinking:
    """A ``reasoning`` item. One without any summary or text is redacted: all that it has is its encrypted content."""
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


def _add_other(conversation: ParsedConversation, place: str, item: Mapping[str, Any]) -> None:
    """What is not the model's: one message for each item. A result's own fields are the message's `extra`."""
    match get_item_type(item):
        case "message":
            message = _parse_message(item)
            paths = [_join_path(place, f"content.{number}") for number in range(len(message.parts))]
            conversation.add(message, place, paths)
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            result = ToolResult(
                call_id=item.get("call_id") or "",
                parts=parse_content(output),
                name=item.get("name"),
            )
            extra = select_unknown_non_null(item, *_BOOKKEEPING_MEMBERS, "call_id", "output", "name")
            message = Message(role="tool", parts=(result,), plain=not isinstance(output, list), extra=extra)
            conversation.add(message, place, [_join_path(place, "output")])
        case _:
            message = Message(role="user", parts=(VendorPart(wire_format=WIRE_FORMAT, value=item),))
            conversation.add(message, place, [place])


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
