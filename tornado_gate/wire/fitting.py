"""Fits a translated chat request to a model: what the model rejects is mapped, or dropped and reported. Pure.

Only facts that all vendors share; what depends on a wire format is done when the request is rendered.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Tool, ToolCall, VendorTool
from tornado_gate.types.value import replace
from tornado_gate.wire.json_schema import flatten_parameters
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate.wire.neutral_values import NEUTRAL_VALUES
from tornado_gate.wire.server_tools import forget_server_tools
from tornado_gate.wire.tool_pairs import pair_tool_results

_EMPTY: Final[dict[str, Any]] = {"stop": (), "tools": (), "modalities": ()}
CONTINUE: Final = "Continue."
"""The user turn after a begun response, for models that reject a last assistant turn."""


def has_begun_answer(request: ChatRequest) -> bool:
    """Return whether the last message is a response that the model shall continue: one of the assistant that calls no tool."""
    last = request.messages[-1] if request.messages else None
    return last is not None and last.role == "assistant" and not any(isinstance(part, ToolCall) for part in last.parts)


def report_begun_answer(call: Call, request: ChatRequest) -> None:
    """Report the last message as a begun response that the model does not continue."""
    call.drop_field(request.path(len(request.messages) - 1))


def fit_request(call: Call, request: ChatRequest, features: ChatFeatures) -> ChatRequest:
    """`request` without what the model rejects. Reports each loss to `call.drop_field` under the caller's name.

    Raises InvalidField for a history in which a tool call has no result, or a result no call.
    """
    request = pair_tool_results(request)
    changed = find_dropped(call, request, features.drops)
    if features.most_stops is not None and len(request.stop) > features.most_stops:
        for number in range(features.most_stops, len(request.stop)):
            call.drop_field(f"{request.field_name('stop')}.{number}")
        changed.setdefault("stop", request.stop[: features.most_stops])
    if features.most_tools is not None and len(request.tools) > features.most_tools:
        changed.setdefault("tools", _cut_tools(call, request, features.most_tools))
    if features.most_candidates is not None and (request.n or 1) > features.most_candidates:
        call.drop_field(request.field_name("n"))
        changed["n"] = None if features.most_candidates == 1 else features.most_candidates
    if features.max_output is not None and (request.max_tokens or 0) > features.max_output:
        call.drop_field(request.field_name("max_tokens"))
        changed["max_tokens"] = features.max_output
    if features.longest_user is not None and len(request.user or "") > features.longest_user:
        changed.setdefault("user", make_opaque_user(request.user or ""))
    if features.flat_parameters and request.tools:
        changed["tools"] = _flatten_tools(call, request, changed.get("tools", request.tools))
    if request.tools:
        tools = changed.get("tools", request.tools)
        if (known := forget_server_tools(tools, features.server_tools)) is not tools:
            changed["tools"] = known
    return replace(request, **changed) if changed else request


def _flatten_tools(
    call: Call, request: ChatRequest, tools: tuple[Tool | VendorTool, ...]
) -> tuple[Tool | VendorTool, ...]:
    """`tools` without compositions at the top level of their parameters."""
    flat = list(tools)
    for number, tool in enumerate(tools):
        if isinstance(tool, Tool) and tool.parameters:
            lost: list[str] = []
            flattened = flatten_parameters(tool.parameters, lost.append)
            for name in lost:
                call.drop_field(f"{request.tool_path(number)}.parameters.{name}")
            flat[number] = tool if flattened is tool.parameters else replace(tool, parameters=flattened)
    return tuple(flat)


def find_dropped(call: Call, request: ChatRequest, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields in `names` that the request has, with their absent value. Reports fields that change the response."""
    dropped: dict[str, Any] = {}
    for name in names:
        value, absent = getattr(request, name), _EMPTY.get(name)
        if value == absent:
            continue
        dropped[name] = absent
        if value not in NEUTRAL_VALUES.get(name, ()):
            call.drop_field(request.field_name(name))
    return dropped


def _cut_tools(call: Call, request: ChatRequest, most: int) -> tuple[Tool | VendorTool, ...]:
    """The first tools, and always the tool that the request forces."""
    choice = request.tool_choice
    forced = choice.name if choice is not None and choice.mode == "tool" else None
    ranks = sorted(range(len(request.tools)), key=lambda n: getattr(request.tools[n], "name", None) != forced)
    kept = sorted(ranks[:most])
    for number in sorted(ranks[most:]):
        call.drop_field(request.tool_path(number))
    return tuple(request.tools[number] for number in kept)


def make_opaque_user(user: str) -> str:
    """An id of 64 characters that is the same for the same user and does not reveal the user."""
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
