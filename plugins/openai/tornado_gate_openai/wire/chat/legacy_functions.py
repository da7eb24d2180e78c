"""The legacy form of tools: ``functions``, ``function_call``, and messages of role "function". No I/O.

It was replaced by tools in 2023; a turn calls at most one function, and calls have no ids. A body with ``functions`` is
upgraded to tools before it is parsed, so that every provider gets them. It is downgraded again for an upstream of this format.
The id of a call is its position in the conversation, because this position stays the same in later turns.

Source: openai-python 3.52, types/chat/completion_create_params.py, "Deprecated in favor of `tools`".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.streams.stages import Step, add_step
from tornado_gate.types import ChatRequest, Finish, PartStart, StreamEvent
from tornado_gate.types.value import replace

LEGACY_CALL: Final = "function_call"
"""Key in the `extra` of a tool call that is or was a legacy ``function_call``, and the vendor's finish reason for it."""

FUNCTIONS: Final = "functions"
FIELD_NAMES: Final[Mapping[str, str]] = {"tools": FUNCTIONS, "tool_choice": LEGACY_CALL}
"""Names of `ChatRequest` fields in the legacy form."""


def is_legacy_body(body: Mapping[str, Any]) -> bool:
    """Return whether a body has functions and no tools."""
    return bool(body.get(FUNCTIONS)) and not body.get("tools")


def is_legacy(request: ChatRequest) -> bool:
    """Return whether the caller of a request sent functions, and so expects a ``function_call``."""
    return request.names.get("tools") == FUNCTIONS


def upgrade(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same body with tools."""
    upgraded = {name: value for name, value in body.items() if name not in (FUNCTIONS, LEGACY_CALL)}
    upgraded["tools"] = [{"type": "function", "function": function} for function in body[FUNCTIONS]]
    choice = body.get(LEGACY_CALL)
    if choice is not None:
        upgraded["tool_choice"] = {"type": "function", "function": choice} if isinstance(choice, Mapping) else choice
    upgraded["messages"] = _upgrade_messages(body["messages"])
    return upgraded


def _upgrade_messages(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    upgraded: list[Mapping[str, Any]] = []
    call_id = ""
    for number, message in enumerate(messages):
        call = message.get(LEGACY_CALL)
        if message["role"] == "assistant" and isinstance(call, Mapping) and not message.get("tool_calls"):
            call_id = f"call_{number}"
            kept = {name: value for name, value in message.items() if name != LEGACY_CALL}
            upgraded.append(kept | {"tool_calls": [{"id": call_id, "type": "function", "function": call}]})
        elif message["role"] == "function":
            upgraded.append({**message, "role": "tool", "tool_call_id": call_id or f"call_{number}"})
        else:
            upgraded.append(message)
    return upgraded


def downgrade(body: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `upgrade`, for an upstream of this format."""
    legacy = {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
    legacy[FUNCTIONS] = [tool["function"] for tool in body.get("tools", ())]
    choice = body.get("tool_choice")
    if choice is not None:
        legacy[LEGACY_CALL] = choice["function"] if isinstance(choice, Mapping) else choice
    legacy["messages"] = [_downgrade_message(message) for message in body["messages"]]
    return legacy


def _downgrade_message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    if message["role"] == "tool":
        return {"role": "function"} | {
            name: value for name, value in message.items() if name not in ("role", "tool_call_id")
        }
    if not message.get("tool_calls"):
        return message
    kept = {name: value for name, value in message.items() if name != "tool_calls"}
    return kept | {LEGACY_CALL: message["tool_calls"][0]["function"]}


def mark_legacy_call(events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    """`events` with the first tool call of each choice marked, so that it is rendered as a ``function_call``."""
    return add_step(events, _MarkedCalls())


class _MarkedCalls(Step[StreamEvent, StreamEvent]):
    __slots__ = ("_called",)

    def __init__(self) -> None:
        self._called: set[int] = set()

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        out += map(self._mark, items)

    def _mark(self, event: StreamEvent) -> StreamEvent:
        match event:
            case PartStart(kind="tool_call", choice=choice) if choice not in self._called:
                self._called.add(choice)
                return replace(event, extra={**event.extra, LEGACY_CALL: True})
            case Finish(reason="tool_calls", choice=choice) if choice in self._called:
                return replace(event, raw=LEGACY_CALL)
        return event
