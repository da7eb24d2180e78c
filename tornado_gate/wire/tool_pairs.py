"""Tool calls and their results in a translated history: each call has one result, and each result its call. Pure.

Every vendor rejects any other history, with an error about paths in its own format that the caller has never written. So a
history is checked before it is rendered. A deviation with only one meaning is repaired: a result that does not directly follow
its call is moved there, as for responses, whose outputs may come anywhere; a result without an id belongs to the first call of
its name; an equal repetition of a result is left out. Everything else is a 400 with the caller's path. A missing result is not
invented, because only the caller can find out whether the tool has run.

Source: the vendors' rules as reported in anthropics/claude-code#8210, google-gemini/gemini-cli#7410,
FoundationAgents/OpenManus#744 and continuedev/continue#10092.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

from tornado_gate.errors import InvalidField
from tornado_gate.types import ChatRequest, Message, ToolCall, ToolResult
from tornado_gate.types.value import State, field, replace
from tornado_gate.wire import conversation_formats as formats

Place = tuple[int, int]
"""The indexes of a message and of its part."""

_LEGACY_TOOLS: Final = "functions"
_OF_ITEMS: Final = "input."
_OF_MESSAGES: Final = "messages."


def pair_tool_results(request: ChatRequest) -> ChatRequest:
    """`request` with each tool result directly after its call. Raises InvalidField for a history that no vendor accepts."""
    messages = request.messages
    if not has_tools(messages):
        return request
    pairs = _Pairs(request)
    for number, message in enumerate(messages):
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                pairs.add((number, index), part)
            elif isinstance(part, ToolResult):
                pairs.close((number, index), part)
    if pairs.open:
        _raise_missing(request, *next(iter(pairs.open.values())))
    return pairs.arrange()


def has_tools(messages: Sequence[Message]) -> bool:
    """Return whether a message has a call or a result.

    Loops, because most chats have none, and generators take three times as long.
    """
    for message in messages:
        if message.role == "tool":
            return True
        if message.role == "assistant":
            for part in message.parts:
                if isinstance(part, ToolCall):
                    return True
    return False


class _Pairs(State):
    """The findings of a walk through the messages. `open` are calls without a result, in order; `answered` the results by id.

    `of_ids` and `of_names` have the numbers of open calls by id and name; numbers of calls that are not open any more may remain.
    `owners` maps messages of results to the message of their calls, `named` maps results without an id to the id of their call.
    `repeated` are messages that repeat a result.
    """

    request: ChatRequest
    open: dict[int, tuple[Place, ToolCall]] = field(default_factory=dict)
    of_ids: dict[str, deque[int]] = field(default_factory=dict)
    of_names: dict[str, deque[int]] = field(default_factory=dict)
    count: int = 0
    answered: dict[str, ToolResult] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    named: dict[Place, str] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)

    def add(self, position: Place, call: ToolCall) -> None:
        """Note a call, which has no result yet."""
        self.open[self.count] = position, call
        self.of_ids.setdefault(call.id, deque()).append(self.count)
        self.of_names.setdefault(call.name, deque()).append(self.count)
        self.count += 1

    def _take_call(self, result: ToolResult) -> tuple[Place, ToolCall] | None:
        """Return the first open call with the id of a result, or with its name if it has no id."""
        if result.call_id:
            numbers = self.of_ids.get(result.call_id)
        else:
            numbers = None if result.name is None else self.of_names.get(result.name)
        while numbers:
            taken = self.open.pop(numbers.popleft(), None)
            if taken is not None:
                return taken
        return None

    def close(self, position: Place, result: ToolResult) -> None:
        """Find the call of a result."""
        if (taken := self._take_call(result)) is not None:
            opened, call = taken
            self.owners[position[0]] = max(opened[0], self.owners.get(position[0], 0))
            self.answered[call.id] = result
            if not result.call_id:
                self.named[position] = call.id
            return
        earlier = self.answered.get(result.call_id)
        alone = len(self.request.messages[position[0]].parts) == 1
        if earlier is not None and alone and (earlier.parts, earlier.is_error) == (result.parts, result.is_error):
            self.repeated.add(position[0])
        elif earlier is not None:
            _raise_repeated(self.request, position, result)
        else:
            _raise_unknown(self.request, position, result)

    def arrange(self) -> ChatRequest:
        """The request with its messages in the order that every vendor accepts."""
        messages = list(self.request.messages)
        for (number, index), call_id in self.named.items():
            parts = list(messages[number].parts)
            parts[index] = replace(parts[index], call_id=call_id)
            messages[number] = replace(messages[number], parts=tuple(parts))
        order = self._find_order()
        if order == list(range(len(messages))):
            return replace(self.request, messages=tuple(messages)) if self.named else self.request
        arranged = tuple(messages[number] for number in order)
        return replace(self.request, messages=arranged, names=_move_names(self.request, order))

    def _find_order(self) -> list[int]:
        """The numbers of the messages, with results after the run of assistant messages that has their calls."""
        messages = self.request.messages
        run_ends = list(range(len(messages)))  # of the run of assistant messages that follows each message
        for number in range(len(messages) - 2, -1, -1):
            if messages[number + 1].role == "assistant":
                run_ends[number] = run_ends[number + 1]
        ends: dict[int, list[int]] = {}
        for number, owner in self.owners.items():
            ends.setdefault(run_ends[owner], []).append(number)
        order: list[int] = []
        for number in range(len(messages)):
            if number not in self.owners and number not in self.repeated:
                order.append(number)
            order += sorted(ends.get(number, ()))
        return order


def _move_names(request: ChatRequest, order: Sequence[int]) -> dict[str, str]:
    """`ChatRequest.names` for messages in another order."""
    names: dict[str, str] = {}
    parts: dict[str, list[tuple[str, str]]] = {}
    for name, path in request.names.items():
        if not name.startswith(_OF_MESSAGES):
            names[name] = path
            continue
        number, _, rest = name.removeprefix(_OF_MESSAGES).partition(".")
        if rest:
            parts.setdefault(number, []).append((rest, path))
    for index, before in enumerate(order):
        names[f"messages.{index}"] = request.path(before)
        names |= {f"messages.{index}.{rest}": path for rest, path in parts.get(str(before), ())}
    return names


def _raise_missing(request: ChatRequest, position: Place, call: ToolCall) -> NoReturn:
    path = _find_path(_CALL_PATHS, request, position)
    raise InvalidField(
        path,
        f"The call of the tool '{call.name[:100]}' at '{path}' has no result. Send its result after it, or remove the call.",
        code="tool_result_missing",
    )


def _raise_unknown(request: ChatRequest, position: Place, result: ToolResult) -> NoReturn:
    path = _find_path(_RESULT_PATHS, request, position)
    raise InvalidField(
        path,
        f"The tool result at '{path}' belongs to no call{_quote(result)} before it. Send the call too, or remove the result.",
        code="tool_call_missing",
    )


def _raise_repeated(request: ChatRequest, position: Place, result: ToolResult) -> NoReturn:
    path = _find_path(_RESULT_PATHS, request, position)
    raise InvalidField(
        path,
        f"The tool result at '{path}' is a second one for the call{_quote(result)}. Send one result for each call.",
        code="tool_result_repeated",
    )


def _quote(result: ToolResult) -> str:
    name = result.call_id or result.name or ""
    return f" '{name[:100]}'" if name else ""


PathMaker = Callable[[ChatRequest, Place], str]


def _find_path(makers: Mapping[str, PathMaker], request: ChatRequest, position: Place) -> str:
    make = makers.get(request.wire_format)
    return request.path(*position) if make is None else make(request, position)


def _find_chat_call(request: ChatRequest, position: Place) -> str:
    if request.names.get("tools") == _LEGACY_TOOLS:
        return f"{request.path(position[0])}.function_call"
    return f"{request.path(*position)}.id"


def _find_chat_result(request: ChatRequest, position: Place) -> str:
    legacy = (
        request.messages[position[0]].extra.get("role") == "function" or request.names.get("tools") == _LEGACY_TOOLS
    )
    return f"{request.path(position[0])}.{'name' if legacy else 'tool_call_id'}"


def _find_response_call(request: ChatRequest, position: Place) -> str:
    path = request.path(*position)
    return f"{path}.call_id" if path.startswith(_OF_ITEMS) else path


def _find_response_result(request: ChatRequest, position: Place) -> str:
    path = request.path(position[0])
    return f"{path}.call_id" if path.startswith(_OF_ITEMS) else path


_CALL_PATHS: Final[Mapping[str, PathMaker]] = {
    formats.OPENAI_CHAT: _find_chat_call,
    formats.OPENAI_RESPONSES: _find_response_call,
    formats.ANTHROPIC_MESSAGES: lambda request, position: f"{request.path(*position)}.id",
    formats.GEMINI_GENERATE: lambda request, position: f"{request.path(*position)}.functionCall",
}
_RESULT_PATHS: Final[Mapping[str, PathMaker]] = {
    formats.OPENAI_CHAT: _find_chat_result,
    formats.OPENAI_RESPONSES: _find_response_result,
    formats.ANTHROPIC_MESSAGES: lambda request, position: f"{request.path(*position)}.tool_use_id",
    formats.GEMINI_GENERATE: lambda request, position: f"{request.path(*position)}.functionResponse",
}
"""By wire format: the caller's path of what connects a call and its result."""
