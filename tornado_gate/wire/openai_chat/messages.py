"""Messages, to the vocabulary and back. Pure.

Fields of a message that are unknown here (``function_call`` and ``reasoning_content`` too) stay in its `extra`. The
legacy role ``function`` is a message of role "tool" whose result has no call id, and ``extra["role"]`` remembers it.

Source: openai-python 3.52, types/chat/chat_completion_*_message_param.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tornado_gate.types import (
    Audio,
    Call,
    File,
    Image,
    Message,
    Part,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    VendorPart,
)
from tornado_gate.wire.openai_chat.parts import given, parse_parts, render_part, rest, unknown_members, with_extra


def parse_message(value: Mapping[str, Any]) -> Message:
    """One message of a body that was checked."""
    role = value["role"]
    if role == "assistant":
        return _parse_assistant(value)
    if role in ("tool", "function"):
        return _parse_tool(value)
    content = value.get("content")
    return Message(
        role=role,
        parts=parse_parts(content),
        name=value.get("name"),
        plain=not isinstance(content, list),
        extra=rest(value, "role", "content", "name"),
    )


def _parse_assistant(value: Mapping[str, Any]) -> Message:
    content, refusal, audio = value.get("content"), value.get("refusal"), value.get("audio")
    parts = [*parse_parts(content)]
    if refusal is not None:
        parts.append(Refusal(text=refusal))
    if audio is not None:
        parts.append(Audio(reference=audio.get("id"), extra=rest(audio, "id")))
    parts += [parse_tool_call(call) for call in value.get("tool_calls") or ()]
    extra = rest(value, "role", "content", "name", "refusal", "audio", "tool_calls")
    if extra.get("function_call", ...) is None:
        del extra["function_call"]  # an SDK's dump of an answer has it as null
    return Message(
        role="assistant",
        parts=tuple(parts),
        name=value.get("name"),
        plain=not (isinstance(content, list) and content),
        extra=extra,
    )


def _parse_tool(value: Mapping[str, Any]) -> Message:
    content = value.get("content")
    extra = rest(value, "role", "content", "name", "tool_call_id")
    if value["role"] == "function":
        extra["role"] = "function"
    result = ToolResult(call_id=value.get("tool_call_id") or "", name=value.get("name"), parts=parse_parts(content))
    return Message(role="tool", parts=(result,), plain=not isinstance(content, list), extra=extra)


def parse_tool_call(value: Mapping[str, Any]) -> ToolCall:
    """One entry of ``tool_calls`` in a request. A call of a type unknown here keeps all of it in `extra`."""
    match value:
        case {"id": str(call_id), "type": "function", "function": {"name": str(name), "arguments": str(arguments)}}:
            extra = unknown_members(value, "id", "type", inside="function", inner=("name", "arguments"))
            return ToolCall(id=call_id, name=name, arguments=arguments, extra=extra)
        case {"id": str(call_id), "type": "custom", "custom": {"name": str(name), "input": str(text)}}:
            extra = unknown_members(value, "id", "type", inside="custom", inner=("name", "input"))
            return ToolCall(id=call_id, name=name, arguments=text, kind="custom", extra=extra)
        case _:
            extra = rest(value, "id", "type")
            return ToolCall(id=value.get("id") or "", name="", arguments="", kind=value["type"], extra=extra)


def render_tool_call(call: ToolCall) -> dict[str, Any]:
    """One entry of ``tool_calls``, without `extra`."""
    if call.kind == "function":
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    if call.kind == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {"id": call.id, "type": call.kind}


def render_messages(call: Call, messages: Iterable[Message], own: bool) -> list[dict[str, Any]]:
    """The array ``messages``; `own` when they came in this format. What cannot be said is reported to `call.lose`."""
    values: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        values.extend(_Renderer(call, f"messages.{number}", own).render(message))
    return values


@dataclass(frozen=True, slots=True)
class _Renderer:
    """Renders the message at `path`."""

    call: Call
    path: str
    own: bool

    def render(self, message: Message) -> Iterator[dict[str, Any]]:
        """One message object, or several: every result of a tool is a message of its own, before what else was said."""
        others: list[tuple[int, Part]] = []
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                value = self._render_result(message, index, part)
                yield self._finished(value, message)
            else:
                others.append((index, part))
        if others or message.role != "tool":
            yield self._finished(self._render_turn(message, others), message)

    def _finished(self, value: dict[str, Any], message: Message) -> dict[str, Any]:
        if self.own:
            if "role" in message.extra:
                value["role"] = message.extra["role"]
            return with_extra(value, message.extra)
        self._lose_extra(self.path, message.extra)
        return value

    def _lose_extra(self, path: str, extra: Mapping[str, Any]) -> None:
        for name, value in extra.items():
            if value is not None:
                self.call.lose(f"{path}.{name}")

    def _render_result(self, message: Message, index: int, result: ToolResult) -> dict[str, Any]:
        path = f"{self.path}.content.{index}"
        if result.is_error:
            self.call.lose(f"{path}.is_error")
        parts = []
        for number, part in enumerate(result.parts):
            if self.own or isinstance(part, Text):
                parts.append((number, part))
            else:  # the vendor takes text alone here
                self.call.lose(f"{path}.content.{number}")
        value: dict[str, Any] = {"role": "tool", "content": self._content(message.plain, parts, f"{path}.content")}
        if "role" not in message.extra:
            value["tool_call_id"] = result.call_id
        value |= given(name=result.name)
        if self.own:
            return with_extra(value, result.extra)
        self._lose_extra(path, result.extra)
        return value

    def _render_turn(self, message: Message, parts: Sequence[tuple[int, Part]]) -> dict[str, Any]:
        if message.role == "assistant":
            return self._render_assistant(message, parts)
        content = self._content(message.plain, parts, f"{self.path}.content")
        return {"role": message.role, "content": content} | given(name=message.name)

    def _render_assistant(self, message: Message, parts: Sequence[tuple[int, Part]]) -> dict[str, Any]:
        said: list[tuple[int, Part]] = []
        fields: dict[str, Any] = given(name=message.name)
        calls: list[dict[str, Any]] = []
        for index, part in parts:
            path = f"{self.path}.content.{index}"
            match part:
                case ToolCall(kind=kind) if self.own or kind in ("function", "custom"):
                    calls.append(self._with_extra(render_tool_call(part), part.extra, path, inside=kind))
                case Audio(reference=str(reference)):
                    fields["audio"] = self._with_extra({"id": reference}, part.extra, path)
                case Refusal(text=text) if message.plain and "refusal" not in fields:
                    fields["refusal"] = text
                case Image() | File() | Audio() if not self.own:  # the vendor takes them from users alone
                    self.call.lose(path)
                case _:
                    said.append((index, part))
        if calls:
            fields["tool_calls"] = calls
        content = self._content(message.plain, said, f"{self.path}.content") if said else None
        if not content:  # null is for a turn that says something else
            content = "" if isinstance(content, str) or not (self.own or fields) else None
        return {"role": "assistant", "content": content, **fields}

    def _with_extra(
        self, value: dict[str, Any], extra: Mapping[str, Any], path: str, inside: str = ""
    ) -> dict[str, Any]:
        if self.own:
            return with_extra(value, extra, inside)
        self._lose_extra(path, extra)
        return value

    def _content(self, plain: bool, parts: Iterable[tuple[int, Part]], path: str) -> str | list[dict[str, Any]]:
        """A string for a plain message of one text, else an array. `path` is that of the content."""
        values: list[dict[str, Any]] = []
        for index, part in parts:
            value = render_part(part, self.own)
            if value is None:
                self.call.lose(f"{path}.{index}")
                continue
            values.append(value)
            if not self.own and not isinstance(part, VendorPart):
                self._lose_extra(f"{path}.{index}", part.extra)
        if not plain:
            return values
        if len(values) == 1 and values[0].keys() == {"type", "text"}:
            return str(values[0]["text"])
        return values or ""
