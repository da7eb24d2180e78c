"""Requests: body to `ChatRequest` (server half), and back (client half). Pure.

What `ChatRequest` has no field for is in `extra` under its wire name: ``store``, ``previous_response_id`` and ``include``
too, which a format plugin that honours them takes out. Of ``text``, ``reasoning`` and ``include`` only what the vocabulary
has no word for is there.

Source: openai-python 3.52, types/responses/response_create_params.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Message, Reasoning, ResponseFormat, Text, Tool, ToolChoice, VendorTool
from tornado_gate.wire.openai_chat.parts import given, rest, with_extra
from tornado_gate.wire.openai_responses.message_parser import Conversation, parse_input, paths_of
from tornado_gate.wire.openai_responses.message_renderer import render_input
from tornado_gate.wire.openai_responses.parts import WIRE_FORMAT, said
from tornado_gate.wire.reasoning import effort_of

LOGPROBS: Final = "message.output_text.logprobs"
ENCRYPTED: Final = "reasoning.encrypted_content"

NAMES: Final[Mapping[str, str]] = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "logprobs": "include",
}
"""This format's words for fields of `ChatRequest`, where they differ."""

_SAME: Final = ("temperature", "top_p", "top_logprobs", "parallel_tool_calls", "user", "metadata")
_KNOWN: Final = frozenset(
    (
        *_SAME,
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
_UNSAYABLE: Final = (
    "top_k",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "audio",
)
_MODES: Final = ("auto", "none", "required")
_TOOL_MEMBERS: Final = ("type", "name", "description", "parameters", "strict")
_FORMAT_MEMBERS: Final = ("type", "name", "description", "schema", "strict")


def parse_request(body: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]] = ()) -> ChatRequest:
    """The common request in a body that was checked before; a wrong type in it raises whatever Python raises.

    `earlier` are the items of the turns that ``previous_response_id`` names, which come before those of ``input``.
    """
    text, reasoning, include = body.get("text") or {}, body.get("reasoning"), body.get("include") or []
    extra = {name: value for name, value in body.items() if name not in _KNOWN}
    leftovers = {
        "text": said(text, "format"),
        "reasoning": said(reasoning or {}, "effort", "summary"),
        "include": [name for name in include if name != LOGPROBS],
    }
    extra |= {name: left for name, left in leftovers.items() if left}
    same: dict[str, Any] = {name: body.get(name) for name in _SAME}
    conversation = Conversation()
    if (instructions := body.get("instructions")) is not None:
        system = Message(role="system", parts=(Text(text=instructions),))
        conversation.add(system, "instructions", ["instructions"])
    parse_input(conversation, paths_of(body["input"], earlier))
    return ChatRequest(
        model=body["model"],
        messages=tuple(conversation.messages),
        wire_format=WIRE_FORMAT,
        stream=bool(body.get("stream")),
        max_tokens=body.get("max_output_tokens"),
        logprobs=True if LOGPROBS in include or body.get("top_logprobs") else None,
        tools=tuple(_parse_tool(tool) for tool in body.get("tools") or ()),
        tool_choice=_parse_tool_choice(body.get("tool_choice")),
        response_format=_parse_format(text.get("format")),
        reasoning=_parse_reasoning(reasoning),
        extra=extra,
        names={**NAMES, **conversation.names},
        **same,
    )


def _parse_reasoning(value: Mapping[str, Any] | None) -> Reasoning | None:
    if value is None or (value.get("effort") is None and value.get("summary") is None):
        return None
    return Reasoning(effort=value.get("effort"), summary=value.get("summary"))


def _parse_tool(value: Mapping[str, Any]) -> Tool | VendorTool:
    match value:
        case {"type": "function", "name": str(name)}:
            return Tool(
                name=name,
                description=value.get("description"),
                parameters=value.get("parameters"),
                strict=value.get("strict"),
                extra=said(value, *_TOOL_MEMBERS),
            )
        case _:
            return VendorTool(wire_format=WIRE_FORMAT, value=value)


def _parse_tool_choice(value: Any) -> ToolChoice | None:
    if value is None:
        return None
    if value in _MODES:
        return ToolChoice(mode=value)
    match value:
        case {"type": "function", "name": str(name)} if value == _forced(name):
            return ToolChoice(mode="tool", name=name)
        case {"type": "allowed_tools", "mode": mode, "tools": list(tools)}:
            names = tuple(str(tool.get("name")) if isinstance(tool, Mapping) else "" for tool in tools)
            if value == _allowed(names, mode == "required"):
                return ToolChoice(mode="allowed", names=names, required=mode == "required")
    return ToolChoice(mode="vendor", vendor=value)


def _forced(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


def _allowed(names: Iterable[str], required: bool) -> dict[str, Any]:
    mode = "required" if required else "auto"
    return {"type": "allowed_tools", "mode": mode, "tools": [_forced(name) for name in names]}


def _parse_format(value: Mapping[str, Any] | None) -> ResponseFormat | None:
    if value is None:
        return None
    if value["type"] != "json_schema":
        return ResponseFormat(kind=value["type"], extra=rest(value, "type"))
    return ResponseFormat(
        kind="json_schema",
        name=value.get("name"),
        description=value.get("description"),
        schema=value.get("schema"),
        strict=value.get("strict"),
        extra=said(value, *_FORMAT_MEMBERS),
    )


def render_request(call: Call, request: ChatRequest) -> dict[str, Any]:
    """The body for an upstream that speaks this format. What it cannot say is reported to `call.lose`."""
    own = request.wire_format == WIRE_FORMAT
    instructions, items = render_input(call, request, own)
    body: dict[str, Any] = {"model": call.target.upstream_model, "input": items}
    body |= given(**{name: getattr(request, name) for name in _SAME})
    body |= given(
        instructions=instructions,
        max_output_tokens=request.max_tokens,
        tools=_render_tools(call, request, own) or None,
        tool_choice=_render_tool_choice(call, request, own),
        text=_render_text(call, request, own),
        reasoning=_render_reasoning(call, request, own),
        include=_render_include(request, own) or None,
    )
    if request.stream:
        body["stream"] = True
    _lose_the_unsayable(call, request)
    if own:
        return with_extra(body, rest(request.extra, "text", "reasoning", "include"))
    for name, value in request.extra.items():
        if value is not None:
            call.lose(name)
    return body


def _lose_the_unsayable(call: Call, request: ChatRequest) -> None:
    lost = [name for name in _UNSAYABLE if getattr(request, name) is not None]
    lost += ["stop"] if request.stop else []
    lost += ["n"] if (request.n or 1) > 1 else []
    lost += ["modalities"] if any(modality != "text" for modality in request.modalities) else []
    for name in lost:
        call.lose(request.field_name(name))


def _render_tools(call: Call, request: ChatRequest, own: bool) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = []
    for index, tool in enumerate(request.tools):
        path = f"{request.field_name('tools')}.{index}"
        if isinstance(tool, VendorTool):
            if tool.wire_format == WIRE_FORMAT:
                values.append(dict(tool.value))
            else:
                call.lose(path)
            continue
        value = {"type": "function", "name": tool.name, "parameters": tool.parameters, "strict": tool.strict}
        value |= given(description=tool.description)
        values.append(_with_extra(call, own, value, tool.extra, path))
    return values


def _with_extra(call: Call, own: bool, value: dict[str, Any], extra: Mapping[str, Any], path: str) -> dict[str, Any]:
    if own:
        return with_extra(value, extra)
    for name, member in extra.items():
        if member is not None:
            call.lose(f"{path}.{name}")
    return value


def _render_tool_choice(call: Call, request: ChatRequest, own: bool) -> Any:
    choice = request.tool_choice
    if choice is None:
        return None
    match choice.mode:
        case "tool":
            return _forced(choice.name or "")
        case "allowed":
            return _allowed(choice.names, choice.required)
        case "vendor" if own:
            return choice.vendor
        case "vendor":
            call.lose(request.field_name("tool_choice"))
            return None
        case mode:
            return mode


def _render_text(call: Call, request: ChatRequest, own: bool) -> dict[str, Any] | None:
    wanted = request.response_format
    unsaid = dict(request.extra.get("text") or {}) if own else {}
    if wanted is None:
        return unsaid or None
    value: dict[str, Any] = {"type": wanted.kind}
    if wanted.kind == "json_schema":  # other formats give schemas no name, this one wants one
        value |= given(
            name=wanted.name or "response",
            description=wanted.description,
            schema=wanted.schema,
            strict=wanted.strict,
        )
    value = _with_extra(call, own, value, wanted.extra, request.field_name("response_format"))
    return {"format": value, **unsaid}


def _render_reasoning(call: Call, request: ChatRequest, own: bool) -> dict[str, Any] | None:
    reasoning = request.reasoning or Reasoning()
    unsaid = dict(request.extra.get("reasoning") or {}) if own else {}
    effort = _effort(call, reasoning, request.field_name("reasoning"))
    return {**given(effort=effort, summary=reasoning.summary), **unsaid} or None


def _effort(call: Call, reasoning: Reasoning, name: str) -> str | None:
    """The word for how long to think, for a budget too; `name` is the caller's for all of it."""
    effort, budget = reasoning.effort, reasoning.budget_tokens
    if effort is not None:
        if budget is not None:
            call.lose(f"{name}.budget_tokens")
        return effort
    if reasoning.enabled is False or budget == 0:
        return "none"
    if budget is not None and budget > 0:
        return effort_of(budget)
    if reasoning.enabled:
        call.lose(name)  # "think as long as you like": a model that reasons does so unasked, another cannot be told to
    return None


def _render_include(request: ChatRequest, own: bool) -> list[str]:
    names = list(request.extra.get("include") or []) if own else []
    return [*names, LOGPROBS] if request.logprobs else names
