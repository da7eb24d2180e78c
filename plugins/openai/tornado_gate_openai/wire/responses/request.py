"""Requests: body to `ChatRequest` (server half), and back (client half). No I/O.

Members that `ChatRequest` has no field for are in `extra` under their wire names, including ``store``,
``previous_response_id`` and ``include``; a format plugin that implements them removes them. For ``text``, ``reasoning`` and
``include``, `extra` has only the members and values that `ChatRequest` has no field for.

Source: openai-python 3.52, types/responses/response_create_params.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Message, Reasoning, ResponseFormat, Text, ToolChoice, VendorTool
from tornado_gate.wire.prompt_cache import CacheMarkers, select_losses
from tornado_gate.wire.reasoning import find_effort
from tornado_gate_openai.wire.chat.parts import add_extra, drop_none, select_unknown
from tornado_gate_openai.wire.responses.message_parser import ParsedConversation, iterate_paths, parse_input
from tornado_gate_openai.wire.responses.message_renderer import render_input
from tornado_gate_openai.wire.responses.parts import WIRE_FORMAT, select_unknown_non_null
from tornado_gate_openai.wire.responses.server_tools import list_includes, render_server_tool
from tornado_gate_openai.wire.responses.tools import parse_tool
from tornado_gate_openai.wire.schema import render_json_schema

INCLUDE_LOGPROBS: Final = "message.output_text.logprobs"
INCLUDE_ENCRYPTED: Final = "reasoning.encrypted_content"

FIELD_NAMES: Final[Mapping[str, str]] = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "logprobs": "include",
}
"""Names of `ChatRequest` fields in this format, where they differ."""

_SHARED_FIELDS: Final = ("temperature", "top_p", "top_logprobs", "parallel_tool_calls", "user", "metadata")
_KNOWN_MEMBERS: Final = frozenset(
    (
        *_SHARED_FIELDS,
        "model",
        "input",
        "instructions",
        "stream",
        "max_output_tokens",
        "tools",
        "tool_choice",
        "text",
        "reasoning",
        "include",
    )
)
_UNSUPPORTED_FIELDS: Final = (
    "top_k",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "audio",
)
_TOOL_MODES: Final = ("auto", "none", "required")
_FORMAT_MEMBERS: Final = ("type", "name", "description", "schema", "strict")


def parse_request(body: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]] = ()) -> ChatRequest:
    """Return the common request for a validated body. Wrong types in it raise arbitrary Python errors.

    `earlier` are the items of the turns that ``previous_response_id`` refers to; they precede the items of ``input``.
    """
    text, reasoning, include = body.get("text") or {}, body.get("reasoning"), body.get("include") or []
    extra = {name: value for name, value in body.items() if name not in _KNOWN_MEMBERS}
    tools = tuple(parse_tool(tool, include) for tool in body.get("tools") or ())
    results = list_includes(tools)
    leftovers = {
        "text": select_unknown_non_null(text, "format"),
        "reasoning": select_unknown_non_null(reasoning or {}, "effort", "summary"),
        "include": [name for name in include if name != INCLUDE_LOGPROBS and name not in results],
    }
    extra |= {name: left for name, left in leftovers.items() if left}
    same: dict[str, Any] = {name: body.get(name) for name in _SHARED_FIELDS}
    conversation = ParsedConversation()
    if (instructions := body.get("instructions")) is not None:
        system = Message(role="system", parts=(Text(text=instructions),))
        conversation.add(system, "instructions", ["instructions"])
    parse_input(conversation, iterate_paths(body["input"], earlier))
    return ChatRequest(
        model=body["model"],
        messages=tuple(conversation.messages),
        wire_format=WIRE_FORMAT,
        stream=bool(body.get("stream")),
        max_tokens=body.get("max_output_tokens"),
        logprobs=True if INCLUDE_LOGPROBS in include or body.get("top_logprobs") else None,
        tools=tools,
        tool_choice=_parse_tool_choice(body.get("tool_choice")),
        response_format=_parse_format(text.get("format")),
        reasoning=_parse_reasoning(reasoning),
        extra=extra,
        names={**FIELD_NAMES, **conversation.names},
        **same,
    )


def _parse_reasoning(value: Mapping[str, Any] | None) -> Reasoning | None:
    if value is None or (value.get("effort") is None and value.get("summary") is None):
        return None
    return Reasoning(effort=value.get("effort"), summary=value.get("summary"))


def _parse_tool_choice(value: Any) -> ToolChoice | None:
    if value is None:
        return None
    if value in _TOOL_MODES:
        return ToolChoice(mode=value)
    match value:
        case {"type": "function", "name": str(name)} if value == _render_forced_tool(name):
            return ToolChoice(mode="tool", name=name)
        case {"type": "allowed_tools", "mode": mode, "tools": list(tools)}:
            names = tuple(str(tool.get("name")) if isinstance(tool, Mapping) else "" for tool in tools)
            if value == _render_allowed_tools(names, mode == "required"):
                return ToolChoice(mode="allowed", names=names, required=mode == "required")
    return ToolChoice(mode="vendor", vendor=value)


def _render_forced_tool(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


def _render_allowed_tools(names: Iterable[str], required: bool) -> dict[str, Any]:
    mode = "required" if required else "auto"
    return {"type": "allowed_tools", "mode": mode, "tools": [_render_forced_tool(name) for name in names]}


def _parse_format(value: Mapping[str, Any] | None) -> ResponseFormat | None:
    if value is None:
        return None
    if value["type"] != "json_schema":
        return ResponseFormat(kind=value["type"], extra=select_unknown(value, "type"))
    return ResponseFormat(
        kind="json_schema",
        name=value.get("name"),
        description=value.get("description"),
        schema=value.get("schema"),
        strict=value.get("strict"),
        extra=select_unknown_non_null(value, *_FORMAT_MEMBERS),
    )


def render_request(call: Call, request: ChatRequest, *, cache_markers: CacheMarkers = "none") -> dict[str, Any]:
    """Return the body for an upstream with this format. Unsupported fields are reported with `call.drop_field`.

    `cache_markers` are the markers that the upstream accepts in requests of other formats.
    """
    own = request.wire_format == WIRE_FORMAT
    instructions, items = render_input(call, request, own, cache_markers)
    body: dict[str, Any] = {"model": call.target.upstream_model, "input": items}
    body |= drop_none(**{name: getattr(request, name) for name in _SHARED_FIELDS})
    body |= drop_none(
        instructions=instructions,
        max_output_tokens=request.max_tokens,
        tools=_render_tools(call, request, own) or None,
        tool_choice=_render_tool_choice(call, request, own),
        text=_render_text(call, request, own),
        reasoning=_render_reasoning(call, request, own),
        include=_render_include(request, own) or None,
        max_tool_calls=None if own else _find_most_calls(request),
    )
    if request.stream:
        body["stream"] = True
    _drop_unsupported(call, request)
    if own:
        return add_extra(body, select_unknown(request.extra, "text", "reasoning", "include"))
    for name in select_losses(request.extra):
        call.drop_field(name)
    return body


def _drop_unsupported(call: Call, request: ChatRequest) -> None:
    lost = [name for name in _UNSUPPORTED_FIELDS if getattr(request, name) is not None]
    lost += ["stop"] if request.stop else []
    lost += ["n"] if (request.n or 1) > 1 else []
    lost += ["modalities"] if any(modality != "text" for modality in request.modalities) else []
    for name in lost:
        call.drop_field(request.field_name(name))


def _render_tools(call: Call, request: ChatRequest, own: bool) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = []
    for index, tool in enumerate(request.tools):
        path = request.tool_path(index)
        if isinstance(tool, VendorTool):
            if tool.wire_format == WIRE_FORMAT:
                values.append(dict(tool.value))
            elif (rendered := render_server_tool(call, tool, path)) is not None:
                values.append(rendered)
            continue
        strict = tool.strict if own else bool(tool.strict)  # null means strict here, and not strict in other formats
        value = {"type": "function", "name": tool.name, "parameters": tool.parameters, "strict": strict}
        value |= drop_none(description=tool.description)
        values.append(_add_extra(call, own, value, tool.extra, path))
    return values


def _find_most_calls(request: ChatRequest) -> int | None:
    """The sum of the ``max_uses`` of server tools of another format; None unless all of them have one."""
    servers = [tool.server for tool in request.tools if isinstance(tool, VendorTool) and tool.server is not None]
    uses = [server.max_uses for server in servers if server.max_uses is not None]
    return sum(uses) if uses and len(uses) == len(servers) else None


def _add_extra(call: Call, own: bool, value: dict[str, Any], extra: Mapping[str, Any], path: str) -> dict[str, Any]:
    if own:
        return add_extra(value, extra)
    for name in select_losses(extra):
        call.drop_field(f"{path}.{name}")
    return value


def _render_tool_choice(call: Call, request: ChatRequest, own: bool) -> Any:
    choice = request.tool_choice
    if choice is None:
        return None
    match choice.mode:
        case "tool":
            return _render_forced_tool(choice.name or "")
        case "allowed":
            return _render_allowed_tools(choice.names, choice.required)
        case "vendor" if own:
            return choice.vendor
        case "vendor":
            call.drop_field(request.field_name("tool_choice"))
            return None
        case mode:
            return mode


def _render_text(call: Call, request: ChatRequest, own: bool) -> dict[str, Any] | None:
    response_format = request.response_format
    unsaid = dict(request.extra.get("text") or {}) if own else {}
    if response_format is None:
        return unsaid or None
    value: dict[str, Any] = {"type": response_format.kind}
    if response_format.kind == "json_schema":
        value |= render_json_schema(request, response_format)
        if not own:
            value.setdefault("strict", False)  # the default is true here, and false in chat
    value = _add_extra(call, own, value, response_format.extra, request.field_name("response_format"))
    return {"format": value, **unsaid}


def _render_reasoning(call: Call, request: ChatRequest, own: bool) -> dict[str, Any] | None:
    reasoning = request.reasoning or Reasoning()
    unsaid = dict(request.extra.get("reasoning") or {}) if own else {}
    effort = _render_effort(call, request, reasoning)
    shown = "auto" if reasoning.visible and effort != "none" else None
    return {**drop_none(effort=effort, summary=reasoning.summary or shown), **unsaid} or None


def _render_effort(call: Call, request: ChatRequest, reasoning: Reasoning) -> str | None:
    """Return the reasoning effort, converted from a budget if needed."""
    effort, budget = reasoning.effort, reasoning.budget_tokens
    if effort is not None:
        if budget is not None:
            call.drop_field(request.member_name("reasoning", "budget_tokens"))
        return effort
    if reasoning.enabled is False or budget == 0:
        return "none"
    if budget is not None and budget > 0:
        return find_effort(budget)
    if reasoning.enabled:
        # no value means "enabled without a limit"; reasoning models reason by default
        call.drop_field(request.field_name("reasoning"))
    return None


def _render_include(request: ChatRequest, own: bool) -> list[str]:
    names = (list(request.extra.get("include") or []) if own else []) + list_includes(request.tools)
    return [*names, INCLUDE_LOGPROBS] if request.logprobs else names
