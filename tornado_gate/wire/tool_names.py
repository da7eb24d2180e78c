"""Maps tools that a model rejects to tools that it accepts, and back in its response: their names, and custom tools. Pure.

The mapping depends only on the name and the model's rule: it is computed for the request and again for the response, and is the
same in every turn of a conversation. A mapped name keeps what is allowed of the original and ends with a digest of it, so
that two names stay distinct. Custom tools are sent as functions to a model without them, see `custom_tools`; tools in namespaces
are sent in one list, see `namespaces`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import lru_cache
from typing import Final

from tornado_gate.streams.stages import Step, add_step
from tornado_gate.types import (
    Call,
    ChatRequest,
    Message,
    Part,
    PartDelta,
    PartEnd,
    PartStart,
    StreamEvent,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from tornado_gate.types.value import replace
from tornado_gate.wire import conversation_formats as formats
from tornado_gate.wire.custom_tools import InputReader, list_custom_tools, replace_custom_tools
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate.wire.namespaces import NAMESPACE, flatten_namespaces, list_qualified_names
from tornado_gate.wire.tool_pairs import has_tools

_DIGEST_LENGTH: Final = 10


def fit_tools(call: Call, request: ChatRequest, features: ChatFeatures) -> ChatRequest:
    """`request` with tools of kinds and names that the model accepts. Reports each loss to `call.drop_field`."""
    if _is_without_tools(request):
        return request
    request = flatten_namespaces(request)
    names = map_tool_names(request, features)
    if not features.custom_tools:
        request = replace_custom_tools(call, request)
    return rename_tools(request, names)


def restore_tools(
    events: AsyncIterator[StreamEvent], request: ChatRequest, features: ChatFeatures
) -> AsyncIterator[StreamEvent]:
    """`events` with the caller's names of tools and its custom tools. `request` is the one before `fit_tools`."""
    if _is_without_tools(request):
        return events
    grouped = list_qualified_names(request)
    request = flatten_namespaces(request)
    own = {sent: name for name, sent in map_tool_names(request, features).items()}
    custom = frozenset() if features.custom_tools else frozenset(list_custom_tools(request))
    if custom:
        events = add_step(events, _RestoredCustomTools(own, custom))
    elif own:
        events = add_step(events, _RestoredNames(own))
    return add_step(events, _RestoredNamespaces(grouped)) if grouped else events


def _is_without_tools(request: ChatRequest) -> bool:
    """Return whether a request has no tools, also in its history, where OpenAI's responses format may declare some."""
    return not (
        request.tools
        or request.tool_choice is not None
        or request.wire_format == formats.OPENAI_RESPONSES
        or has_tools(request.messages)
    )


def map_tool_names(request: ChatRequest, features: ChatFeatures) -> dict[str, str]:
    """The accepted name of each tool name in the request that the model rejects; {} when it accepts all."""
    if features.longest_tool_name is None:
        return {}
    accepts = _compile_rule(features.longest_tool_name, features.tool_name_signs, features.tool_name_letter_first)
    return {
        name: _make_accepted_name(name, features)
        for name in _iterate_names(request, features)
        if not accepts.fullmatch(name)
    }


def rename_tools(request: ChatRequest, names: Mapping[str, str]) -> ChatRequest:
    """`request` with the mapped names in its tools, tool choice, calls and results."""
    if not names:
        return request
    tools = tuple(
        replace(tool, name=names[tool.name]) if isinstance(tool, Tool) and tool.name in names else tool
        for tool in request.tools
    )
    messages = tuple(_rename_in_message(message, names) for message in request.messages)
    choice = request.tool_choice and _rename_choice(request.tool_choice, names)
    return replace(request, tools=tools, messages=messages, tool_choice=choice)


class _RestoredNames(Step[StreamEvent, StreamEvent]):
    __slots__ = ("_own",)

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        out += [
            replace(event, name=self._own[event.name])
            if isinstance(event, PartStart) and event.name in self._own
            else event
            for event in items
        ]


class _RestoredNamespaces(Step[StreamEvent, StreamEvent]):
    __slots__ = ("_grouped",)

    def __init__(self, grouped: Mapping[str, tuple[str, str]]) -> None:
        self._grouped = grouped

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        for event in items:
            if isinstance(event, PartStart) and (qualified := self._grouped.get(event.name)) is not None:
                out.append(replace(event, name=qualified[1], extra={**event.extra, NAMESPACE: qualified[0]}))
            else:
                out.append(event)


class _RestoredCustomTools(Step[StreamEvent, StreamEvent]):
    """The step that restores names. It converts a call of a function that replaces a custom tool to a call of that tool."""

    __slots__ = ("_custom", "_own", "_readers")

    def __init__(self, own: Mapping[str, str], custom: frozenset[str]) -> None:
        self._own = own
        self._custom = custom
        self._readers: dict[int, InputReader] = {}

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        for event in items:
            match event:
                case PartStart(kind="tool_call"):
                    out.append(self._restore_start(event))
                case PartDelta(index=index) if index in self._readers:
                    self._append_text(index, self._readers[index].feed(str(event.data)), out)
                case PartEnd(index=index) if index in self._readers:
                    self._append_text(index, self._readers.pop(index).finish(), out)
                    out.append(event)
                case _:
                    out.append(event)

    @staticmethod
    def _append_text(index: int, text: str, out: list[StreamEvent]) -> None:
        if text:
            out.append(PartDelta(index=index, data=text))

    def _restore_start(self, start: PartStart) -> PartStart:
        name = self._own.get(start.name, start.name)
        if name not in self._custom or start.tool_kind != "function":
            return start if name == start.name else replace(start, name=name)
        self._readers[start.index] = InputReader()
        return replace(start, name=name, tool_kind="custom")


@lru_cache(maxsize=64)
def _compile_rule(longest: int, signs: str, letter_first: bool) -> re.Pattern[str]:
    first = r"(?![^A-Za-z_])" if letter_first else ""
    return re.compile(rf"{first}[A-Za-z0-9{re.escape(signs)}]{{1,{longest}}}")


def _make_accepted_name(name: str, features: ChatFeatures) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    kept = re.sub(rf"[^A-Za-z0-9{re.escape(features.tool_name_signs)}]", "_", name)
    if features.tool_name_letter_first and not (kept[:1].isalpha() or kept[:1] == "_"):
        kept = f"_{kept}"
    longest = features.longest_tool_name or len(kept)
    return f"{kept[: longest - _DIGEST_LENGTH - 1]}_{digest}"


def _iterate_names(request: ChatRequest, features: ChatFeatures) -> Iterator[str]:
    for tool in request.tools:
        if isinstance(tool, Tool):
            yield tool.name
    if not features.custom_tools:
        yield from list_custom_tools(request)
    for message in request.messages:
        if message.role in ("assistant", "tool"):
            for part in message.parts:
                if (isinstance(part, ToolCall) and part.name) or (isinstance(part, ToolResult) and part.name):
                    yield part.name


def _rename_in_message(message: Message, names: Mapping[str, str]) -> Message:
    parts = tuple(_rename_part(part, names) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _rename_part(part: Part, names: Mapping[str, str]) -> Part:
    if isinstance(part, ToolCall | ToolResult) and (name := names.get(part.name or "")) is not None:
        return replace(part, name=name)
    return part


def _rename_choice(choice: ToolChoice, names: Mapping[str, str]) -> ToolChoice:
    name = None if choice.name is None else names.get(choice.name, choice.name)
    return replace(choice, name=name, names=tuple(names.get(tool_name, tool_name) for tool_name in choice.names))
