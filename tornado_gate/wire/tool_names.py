"""Maps tool names that a model rejects to names that it accepts, and back in its response. Pure.

The mapping depends only on the name and the model's rule: it is computed for the request and again for the response, and is the
same in every turn of a conversation. A mapped name keeps what is allowed of the original and ends with a digest of it, so
that two names stay distinct.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import lru_cache
from typing import Final

from tornado_gate.streams.stages import Step, add_step
from tornado_gate.types import (
    ChatRequest,
    Message,
    Part,
    PartStart,
    StreamEvent,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from tornado_gate.types.value import replace
from tornado_gate.wire.model_features import ChatFeatures

_DIGEST_LENGTH: Final = 10


def map_tool_names(request: ChatRequest, features: ChatFeatures) -> dict[str, str]:
    """The accepted name of each tool name in the request that the model rejects; {} when it accepts all."""
    if features.longest_tool_name is None:
        return {}
    accepts = _compile_rule(features.longest_tool_name, features.tool_name_signs, features.tool_name_letter_first)
    return {
        name: _make_accepted_name(name, features) for name in _iterate_names(request) if not accepts.fullmatch(name)
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


def restore_tool_names(events: AsyncIterator[StreamEvent], names: Mapping[str, str]) -> AsyncIterator[StreamEvent]:
    """`events` with the caller's names of tools. `names` is the result of `map_tool_names`."""
    return add_step(events, _RestoredNames({sent: own for own, sent in names.items()})) if names else events


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


def _iterate_names(request: ChatRequest) -> Iterator[str]:
    for tool in request.tools:
        if isinstance(tool, Tool):
            yield tool.name
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
    return replace(choice, name=name, names=tuple(names.get(one, one) for one in choice.names))
