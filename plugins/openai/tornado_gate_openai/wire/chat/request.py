"""Chat requests: body to `ChatRequest` (server half), and back (client half). No I/O.

Members that `ChatRequest` has no field for are in `extra` under their wire names. The legacy ``functions`` and ``function_call``
become tools. ``extra["stream_options"]`` has the members of ``stream_options`` except ``include_usage``.

Source: openai-python 3.52, types/chat/completion_create_params.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Reasoning, ResponseFormat, Tool, ToolChoice, VendorTool
from tornado_gate.types.value import replace
from tornado_gate.wire.prompt_cache import CacheMarkers, add_marker, select_losses
from tornado_gate.wire.reasoning import find_effort
from tornado_gate_openai.wire.chat.legacy_functions import (
    FIELD_NAMES,
    LEGACY_CALL,
    downgrade,
    is_legacy,
    is_legacy_body,
    upgrade,
)
from tornado_gate_openai.wire.chat.messages import map_part_names, parse_message, render_messages
from tornado_gate_openai.wire.chat.parts import (
    WIRE_FORMAT,
    add_extra,
    drop_none,
    select_unknown,
    select_unknown_members,
)
from tornado_gate_openai.wire.chat.web_search import OPTIONS, parse_options, render_options
from tornado_gate_openai.wire.schema import render_json_schema

_SHARED_FIELDS: Final = (
    "n",
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "parallel_tool_calls",
    "audio",
    "user",
    "metadata",
)
"""Fields with the same name and shape in the body and in `ChatRequest`, where None means absent."""
_read_shared_fields: Final = attrgetter(*_SHARED_FIELDS)
_NO_SHARED_FIELDS: Final = (None,) * len(_SHARED_FIELDS)
FIELD_OF_MEMBER: Final[Mapping[str, str]] = {"max_completion_tokens": "max_tokens", "reasoning_effort": "reasoning"}
"""By member of the body: the field of `ChatRequest`, where the names differ."""

_KNOWN_MEMBERS: Final = frozenset(
    (
        *_SHARED_FIELDS,
        "model",
        "messages",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "tools",
        "tool_choice",
        "response_format",
        "reasoning_effort",
        "modalities",
    )
)

_TOOL_MODES: Final = ("auto", "none", "required")
_SCHEMA_MEMBERS: Final = ("name", "description", "schema", "strict")


def parse_request(body: Mapping[str, Any]) -> ChatRequest:
    """Return the common request for a validated body. Wrong types in it raise arbitrary Python errors."""
    if is_legacy_body(body):
        request = parse_request(upgrade(body))
        names = {at: path.replace(".tool_calls.0", f".{LEGACY_CALL}") for at, path in request.names.items()}
        return replace(request, names={**names, **FIELD_NAMES})
    stop = body.get("stop")
    options = body.get("stream_options") or {}
    extra = {name: value for name, value in body.items() if name not in _KNOWN_MEMBERS}
    names = map_part_names(body["messages"])
    tools = tuple(_parse_tool(tool) for tool in body.get("tools") or ())
    if isinstance(extra.get(OPTIONS), Mapping):
        names[f"tools.{len(tools)}"] = OPTIONS
        tools = (*tools, parse_options(extra.pop(OPTIONS)))
    if unsaid := select_unknown(options, "include_usage"):
        extra["stream_options"] = unsaid
    max_tokens = body.get("max_tokens")
    if body.get("max_completion_tokens") is not None:
        if max_tokens is not None:
            extra["max_tokens"] = max_tokens
        max_tokens = body["max_completion_tokens"]
        names["max_tokens"] = "max_completion_tokens"
    effort = body.get("reasoning_effort")
    if effort is not None:
        names["reasoning"] = "reasoning_effort"
    return ChatRequest(
        model=body["model"],
        messages=tuple(parse_message(message) for message in body["messages"]),
        wire_format=WIRE_FORMAT,
        stream=bool(body.get("stream")),
        include_usage=options.get("include_usage"),
        max_tokens=max_tokens,
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        tools=tools,
        tool_choice=_parse_tool_choice(body.get("tool_choice")),
        response_format=_parse_response_format(body.get("response_format")),
        reasoning=None if effort is None else Reasoning(effort=effort),
        modalities=tuple(body.get("modalities") or ()),
        extra=extra,
        names=names,
        **{name: body.get(name) for name in _SHARED_FIELDS},
    )


def _parse_tool(value: Mapping[str, Any]) -> Tool | VendorTool:
    match value:
        case {"type": "function", "function": {"name": str(name)} as function}:
            return Tool(
                name=name,
                description=function.get("description"),
                parameters=function.get("parameters"),
                strict=function.get("strict"),
                extra=select_unknown_members(
                    value, "type", inside="function", inner=("name", "description", "parameters", "strict")
                ),
            )
        case _:
            return VendorTool(wire_format=WIRE_FORMAT, value=value)


def _parse_tool_choice(value: Any) -> ToolChoice | None:
    if value is None:
        return None
    if value in _TOOL_MODES:
        return ToolChoice(mode=value)
    match value:
        case {"type": "function", "function": {"name": str(name)}} if value == _render_forced_tool(name):
            return ToolChoice(mode="tool", name=name)
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(tools)}}:
            names = tuple(_get_function_name(tool) for tool in tools)
            if value == _render_allowed_tools(names, mode == "required"):
                return ToolChoice(mode="allowed", names=names, required=mode == "required")
    return ToolChoice(mode="vendor", vendor=value)


def _get_function_name(tool: Any) -> str:
    match tool:
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return ""


def _render_forced_tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _render_allowed_tools(names: Iterable[str], required: bool) -> dict[str, Any]:
    allowed = {"mode": "required" if required else "auto", "tools": [_render_forced_tool(name) for name in names]}
    return {"type": "allowed_tools", "allowed_tools": allowed}


def _parse_response_format(value: Any) -> ResponseFormat | None:
    if value is None:
        return None
    kind = value["type"]
    if kind != "json_schema":
        return ResponseFormat(kind=kind, extra=select_unknown(value, "type"))
    schema = value["json_schema"]
    return ResponseFormat(
        kind=kind,
        name=schema.get("name"),
        description=schema.get("description"),
        schema=schema.get("schema"),
        strict=schema.get("strict"),
        extra=select_unknown_members(value, "type", inside="json_schema", inner=_SCHEMA_MEMBERS),
    )


def render_request(
    call: Call,
    request: ChatRequest,
    *,
    max_tokens_name: str = "max_completion_tokens",
    reasoning_content: bool = False,
    cache_markers: CacheMarkers = "none",
) -> dict[str, Any]:
    """Return the body for an upstream with this format. Unsupported fields are reported with `call.drop_field`.

    `max_tokens_name` is the upstream's name for the limit; a request that came in this format keeps the name it used.
    `reasoning_content`: the upstream needs the thinking before tool calls. `cache_markers`: the markers that it accepts. A
    stream always requests usage, because the meter needs it.
    """
    own = request.wire_format == WIRE_FORMAT
    if own:
        max_tokens_name = request.field_name("max_tokens")
    body: dict[str, Any] = {
        "model": call.target.upstream_model,
        "messages": render_messages(call, request, own, reasoning_content, cache_markers),
    }
    shared = _read_shared_fields(request)
    if shared != _NO_SHARED_FIELDS:
        body |= {name: value for name, value in zip(_SHARED_FIELDS, shared, strict=True) if value is not None}
    if request.max_tokens is not None:
        body[max_tokens_name] = request.max_tokens
    if request.tools and (options := render_options(call, request)) is not None:
        body[OPTIONS] = options
    if request.stop:
        body["stop"] = list(request.stop)
    if request.tools and (tools := _render_tools(call, request, own, cache_markers)):
        body["tools"] = tools
    if request.tool_choice is not None and (choice := _render_tool_choice(call, request, own)) is not None:
        body["tool_choice"] = choice
    if request.response_format is not None:
        body["response_format"] = _render_response_format(call, request, request.response_format, own)
    if request.reasoning is not None and (effort := _render_reasoning(call, request, request.reasoning)) is not None:
        body["reasoning_effort"] = effort
    if request.modalities:
        body["modalities"] = list(request.modalities)
    if request.top_k is not None:
        call.drop_field(request.field_name("top_k"))
    if request.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    _render_extra(call, request, own, body, cache_markers)
    return downgrade(body) if own and is_legacy(request) else body


def _render_extra(
    call: Call, request: ChatRequest, own: bool, body: dict[str, Any], cache_markers: CacheMarkers
) -> None:
    if own:
        add_extra(body, request.extra, inside="stream_options" if request.stream else "")
        return
    is_marked = cache_markers == "cache_control" and add_marker(body, request.extra, cache_markers)
    for name in select_losses(request.extra, marked=is_marked):
        call.drop_field(name)


def _render_tools(call: Call, request: ChatRequest, own: bool, cache_markers: CacheMarkers) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = []
    for index, tool in enumerate(request.tools):
        path = request.tool_path(index)
        if isinstance(tool, VendorTool):
            if tool.wire_format == WIRE_FORMAT and OPTIONS not in tool.value:
                values.append(dict(tool.value))
            continue
        function = drop_none(
            name=tool.name, description=tool.description, parameters=tool.parameters, strict=tool.strict
        )
        value: dict[str, Any] = {"type": "function", "function": function}
        is_marked = not own and cache_markers == "cache_control" and add_marker(value, tool.extra, cache_markers)
        values.append(_add_extra(call, own, value, tool.extra, path, marked=is_marked))
    return values


def _add_extra(
    call: Call, own: bool, value: dict[str, Any], extra: Mapping[str, Any], path: str, *, marked: bool = False
) -> dict[str, Any]:
    if own:
        return add_extra(value, extra, inside=value["type"])
    for name in select_losses(extra, marked=marked):
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


def _render_response_format(
    call: Call, request: ChatRequest, response_format: ResponseFormat, own: bool
) -> dict[str, Any]:
    value: dict[str, Any] = {"type": response_format.kind}
    if response_format.kind == "json_schema":
        value["json_schema"] = render_json_schema(request, response_format)
    return _add_extra(call, own, value, response_format.extra, request.field_name("response_format"))


def _render_reasoning(call: Call, request: ChatRequest, reasoning: Reasoning) -> str | None:
    name = request.field_name("reasoning")
    effort = reasoning.effort
    if reasoning.budget_tokens is not None:
        if effort is not None:
            call.drop_field(request.member_name("reasoning", "budget_tokens"))
        elif reasoning.budget_tokens > 0:
            effort = find_effort(reasoning.budget_tokens)
    if reasoning.summary is not None:
        call.drop_field(request.member_name("reasoning", "summary"))
    if effort is None and (reasoning.enabled is False or reasoning.budget_tokens == 0):
        return "none"
    if effort is None and reasoning.enabled:
        call.drop_field(name)  # no value means "enabled without a limit"; reasoning models reason by default
    return effort
