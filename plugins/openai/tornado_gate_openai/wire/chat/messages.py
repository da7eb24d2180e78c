"""Convert messages to the common types and back. No I/O.

Unknown fields of a message (including ``function_call`` and ``reasoning_content``) are kept in its `extra`. The legacy role
``function`` becomes a message of role "tool" whose result has no call id; ``extra["role"]`` keeps the original role.

Source: openai-python 3.52, types/chat/chat_completion_*_message_param.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tornado_gate.types import (
    Audio,
    Call,
    ChatRequest,
    File,
    Image,
    Message,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    VendorPart,
)
from tornado_gate.types.value import State
from tornado_gate.wire.empty_conversations import empty_conversation_error
from tornado_gate.wire.part_texts import get_part_text
from tornado_gate.wire.prompt_cache import CacheMarkers, add_marker, mark_content, select_losses
from tornado_gate_openai.wire.chat.parts import (
    add_extra,
    drop_none,
    parse_parts,
    render_part,
    select_unknown,
    select_unknown_members,
)


def parse_message(value: Mapping[str, Any]) -> Message:
    """Return one message of a validated body."""
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
        extra=select_unknown(value, "role", "content", "name"),
    )


def _parse_assistant(value: Mapping[str, Any]) -> Message:
    content, refusal, audio = value.get("content"), value.get("refusal"), value.get("audio")
    parts = [*parse_parts(content)]
    if refusal is not None:
        parts.append(Refusal(text=refusal))
    if audio is not None:
        parts.append(Audio(reference=audio.get("id"), extra=select_unknown(audio, "id")))
    parts += [parse_tool_call(call) for call in value.get("tool_calls") or ()]
    extra = select_unknown(value, "role", "content", "name", "refusal", "audio", "tool_calls")
    if extra.get("function_call", ...) is None:
        del extra["function_call"]  # null in messages that an SDK serialized from a response
    if extra.get("annotations", ...) == []:
        del extra["annotations"]  # so are its empty annotations
    return Message(
        role="assistant",
        parts=tuple(parts),
        name=value.get("name"),
        plain=not (isinstance(content, list) and content),
        extra=extra,
    )


def _parse_tool(value: Mapping[str, Any]) -> Message:
    content = value.get("content")
    extra = select_unknown(value, "role", "content", "name", "tool_call_id")
    if value["role"] == "function":
        extra["role"] = "function"
    result = ToolResult(call_id=value.get("tool_call_id") or "", name=value.get("name"), parts=parse_parts(content))
    return Message(role="tool", parts=(result,), plain=not isinstance(content, list), extra=extra)


def parse_tool_call(value: Mapping[str, Any]) -> ToolCall:
    """Return one entry of ``tool_calls`` in a request. A call of an unknown type is kept entirely in `extra`."""
    match value:
        case {"id": str(call_id), "type": "function", "function": {"name": str(name), "arguments": str(arguments)}}:
            extra = select_unknown_members(value, "id", "type", inside="function", inner=("name", "arguments"))
            return ToolCall(id=call_id, name=name, arguments=arguments, extra=extra)
        case {"id": str(call_id), "type": "custom", "custom": {"name": str(name), "input": str(text)}}:
            extra = select_unknown_members(value, "id", "type", inside="custom", inner=("name", "input"))
            return ToolCall(id=call_id, name=name, arguments=text, kind="custom", extra=extra)
        case _:
            extra = select_unknown(value, "id", "type")
            return ToolCall(id=value.get("id") or "", name="", arguments="", kind=value["type"], extra=extra)


def render_tool_call(call: ToolCall) -> dict[str, Any]:
    """Return one entry of ``tool_calls``, without `extra`."""
    if call.kind == "function":
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    if call.kind == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {"id": call.id, "type": call.kind}


def map_part_names(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the body's paths of parts that are not in ``content`` (refusal, audio, tool calls), for `ChatRequest.path`."""
    names: dict[str, str] = {}
    for number, value in enumerate(messages):
        content = value.get("content")
        if value["role"] == "tool" and isinstance(content, list):
            path = f"messages.{number}.content"
            names |= {f"{path}.0.content.{index}": f"{path}.{index}" for index in range(len(content))}
        if value["role"] != "assistant":
            continue
        position = len(content) if isinstance(content, list) else int(content is not None)
        for name in ("refusal", "audio"):
            if value.get(name) is not None:
                names[f"messages.{number}.content.{position}"] = f"messages.{number}.{name}"
                position += 1
        for index, _ in enumerate(value.get("tool_calls") or ()):
            names[f"messages.{number}.content.{position + index}"] = f"messages.{number}.tool_calls.{index}"
    return names


def render_messages(
    call: Call,
    request: ChatRequest,
    own: bool,
    reasoning_content: bool = False,
    cache_markers: CacheMarkers = "none",
) -> list[dict[str, Any]]:
    """Return the array ``messages``. `own` is True if the request came in this format.

    With `reasoning_content` the thinking before tool calls is sent as this member, which some upstreams require.
    `cache_markers` are the markers that the upstream accepts in requests of other formats.

    Unsupported parts are reported with `call.drop_field`. The vendor accepts only text in tool results: an image, audio or file
    in a tool result of another format moves to a user message after the results of that turn. It is reported too. Raises
    InvalidField if nothing is left to send.
    """
    values: list[dict[str, Any]] = []
    moved: list[dict[str, Any]] = []
    renderer: _MessageRenderer | None = None
    for number, message in enumerate(request.messages):
        if not moved and (text := _read_plain_text(message)) is not None:
            values.append({"role": message.role, "content": text})
            continue
        if renderer is None:
            renderer = _MessageRenderer(
                call,
                request,
                own,
                request.wire_format.startswith("openai"),
                moved,
                reasoning_content=reasoning_content,
                cache_markers=cache_markers,
            )
        for value in renderer.render(number, message):
            if moved and value["role"] != "tool":
                values.append(_make_tool_images_message(moved))
            values.append(value)
    if renderer is None:
        return values
    if moved:
        values.append(_make_tool_images_message(moved))
    if not values:
        raise empty_conversation_error(request.field_name("messages"))
    return values


def _read_plain_text(message: Message) -> str | None:
    """Return the text of a message that has nothing else, as most have; None for any other message."""
    if (
        message.plain
        and message.role != "tool"
        and len(message.parts) == 1
        and not message.extra
        and message.name is None
    ):
        part = message.parts[0]
        if type(part) is Text and not part.extra:
            return part.text
    return None


def _make_tool_images_message(moved: list[dict[str, Any]]) -> dict[str, Any]:
    content = [{"type": "text", "text": "Returned by the tool:"}, *moved]
    moved.clear()
    return {"role": "user", "content": content}


class _MessageRenderer(State):
    """The renderer of messages, one by one; `number` is the index of the current message.

    Parts that cannot stay in a tool result are appended to `moved`. Paths are built only when something is reported.
    """

    call: Call
    request: ChatRequest
    own: bool
    stored_here: bool
    moved: list[dict[str, Any]]
    number: int = 0
    reasoning_content: bool = False
    cache_markers: CacheMarkers = "none"

    def get_path(self, part: int | None = None, inner: int | None = None) -> str:
        return self.request.path(self.number, part, inner)

    def render_part(self, part: Part) -> dict[str, Any] | None:
        return render_part(part, self.own, self.stored_here)

    def render(self, number: int, message: Message) -> Iterator[dict[str, Any]]:
        """Yield one or more message objects: one for each tool result, then one for the other parts."""
        self.number = number
        others: list[tuple[int, Part]] = []
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                value = self._render_result(message, index, part)
                yield self._finish_message(value, message)
            else:
                others.append((index, part))
        if others or message.role != "tool":
            value = self._finish_message(self._render_turn(message, others), message)
            if value["content"] or not self._is_lost(message):
                yield value

    def _is_lost(self, message: Message) -> bool:
        """Return whether a message without content has lost parts of it: an empty text is sent, as the caller sent it.

        A turn of the model stays: it separates the turns around it.
        """
        return (
            not self.own and message.role != "assistant" and any(not isinstance(part, Text) for part in message.parts)
        )

    def _finish_message(self, value: dict[str, Any], message: Message) -> dict[str, Any]:
        if self.own:
            if "role" in message.extra:
                value["role"] = message.extra["role"]
            return add_extra(value, message.extra)
        if message.extra:
            self._drop_extra(self.get_path(), message.extra)
        return value

    def _drop_extra(self, path: str, extra: Mapping[str, Any], *, marked: bool = False) -> None:
        for name in select_losses(extra, marked=marked):
            self.call.drop_field(f"{path}.{name}")

    def _render_result(self, message: Message, index: int, result: ToolResult) -> dict[str, Any]:
        def path(part: int) -> str:
            return self.get_path(index, part)

        if result.is_error:
            self.call.drop_field(f"{self.get_path(index)}.is_error")
        parts = []
        for number, part in enumerate(result.parts):
            if self.own or isinstance(part, Text):
                parts.append((number, part))
            elif (text := get_part_text(part)) is not None:
                parts.append((number, text))
            else:
                self.call.drop_field(path(number))
                if (elsewhere := self.render_part(part)) is not None:
                    self.moved.append(elsewhere)
        value: dict[str, Any] = {"role": "tool", "content": self._render_content(message.plain, parts, path)}
        if "role" not in message.extra:
            value["tool_call_id"] = result.call_id
        if result.name is not None:
            value["name"] = result.name
        if self.own:
            return add_extra(value, result.extra)
        if result.extra:
            is_marked = bool(value["content"]) and self.cache_markers != "none"
            self._drop_extra(self.get_path(index), result.extra, marked=is_marked)
            value["content"] = mark_content(value["content"], result.extra, self.cache_markers)
        return value

    def _render_turn(self, message: Message, parts: Sequence[tuple[int, Part]]) -> dict[str, Any]:
        if message.role == "assistant":
            return self._render_assistant(message, parts)
        value = {"role": message.role, "content": self._render_content(message.plain, parts, self.get_path)}
        if message.name is not None:
            value["name"] = message.name
        return value

    def _render_assistant(self, message: Message, parts: Sequence[tuple[int, Part]]) -> dict[str, Any]:
        spoken: list[tuple[int, Part]] = []
        fields: dict[str, Any] = drop_none(name=message.name)
        calls: list[dict[str, Any]] = []
        thought: list[str] = []
        sends_thinking = (
            self.reasoning_content and not self.own and any(isinstance(item, ToolCall) for _, item in parts)
        )
        for index, part in parts:
            match part:
                case Text():
                    spoken.append((index, part))
                case ToolCall(kind=kind) if self.own or kind in ("function", "custom"):
                    calls.append(self._add_extra(render_tool_call(part), part.extra, index, inside=kind))
                case Audio(reference=str(reference)):
                    fields["audio"] = self._add_extra({"id": reference}, part.extra, index)
                case Thinking(text=text, redacted=False) if text and sends_thinking:
                    thought.append(text)
                case Refusal(text=text) if message.plain and "refusal" not in fields:
                    fields["refusal"] = text
                case Image() | File() | Audio() if not self.own:  # the vendor accepts these only from users
                    self.call.drop_field(self.get_path(index))
                case _:
                    spoken.append((index, part))
        if calls:
            fields["tool_calls"] = calls
        if thought:
            fields["reasoning_content"] = "\n\n".join(thought)
        content = self._render_content(message.plain, spoken, self.get_path, "assistant") if spoken else None
        if not content:  # null is valid only if the turn has other fields
            content = "" if isinstance(content, str) or not (self.own or fields) else None
        return {"role": "assistant", "content": content, **fields}

    def _add_extra(
        self, value: dict[str, Any], extra: Mapping[str, Any], part: int, inside: str = ""
    ) -> dict[str, Any]:
        if self.own:
            return add_extra(value, extra, inside)
        if extra:
            self._drop_extra(self.get_path(part), extra)
        return value

    def _render_content(
        self, plain: bool, parts: Sequence[tuple[int, Part]], path: Callable[[int], str], role: str = ""
    ) -> str | list[dict[str, Any]]:
        """Return a string for a plain message of one text, else an array. `path` returns the caller's path of a part.

        The vendor accepts no breakpoint in messages of the `role` "assistant".
        """
        if plain and len(parts) == 1 and isinstance(only := parts[0][1], Text) and not only.extra:
            return only.text
        values: list[dict[str, Any]] = []
        markers = "none" if role == "assistant" and self.cache_markers == "breakpoints" else self.cache_markers
        for index, part in parts:
            value, sent = self.render_part(part), part
            if value is None:
                if (text := get_part_text(part)) is None:
                    self.call.drop_field(path(index))
                    continue
                value, sent = {"type": "text", "text": text.text}, text
            values.append(value)
            if not self.own and not isinstance(sent, VendorPart) and sent.extra:
                self._drop_extra(path(index), sent.extra, marked=add_marker(value, sent.extra, markers))
        if not plain:
            return values or ([] if self.own else "")
        if len(values) == 1 and values[0].keys() == {"type", "text"}:
            return str(values[0]["text"])
        return values or ""
