"""``tools`` and ``tool_choice``, in both directions. Pure.

A tool of another type than "custom" (the vendor's server tools, bash, …) is a `VendorTool`. `parallel_tool_calls` is the
inverse of ``tool_choice.disable_parallel_tool_use``.

Source: anthropic-python 2.11, types/tool_union_param.py and types/tool_choice_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Tool, ToolChoice, VendorTool
from tornado_gate.wire.prompt_cache import select_losses
from tornado_gate.wire.valid_schema import make_valid
from tornado_gate_anthropic.wire.closed_schema import restrict_schema
from tornado_gate_anthropic.wire.messages.cache_markers import MarkerWriter
from tornado_gate_anthropic.wire.messages.json_values import WIRE_FORMAT, add_extra, drop_none, select_unknown
from tornado_gate_anthropic.wire.messages.model_features import ModelFeatures
from tornado_gate_anthropic.wire.messages.server_tools import parse_server_tool, render_server_tool

DISABLE_PARALLEL: Final = "disable_parallel_tool_use"
_TOOL_MEMBERS: Final = ("type", "name", "description", "input_schema", "strict")
_MODES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required", "none": "none"}
_TYPE_OF_MODE: Final = {mode: word for word, mode in _MODES.items()}


def parse_tool(value: Mapping[str, Any]) -> Tool | VendorTool:
    """The tool of one entry in a validated body."""
    match value:
        case {"name": str(name), "input_schema": dict(schema)} if value.get("type") in (None, "custom"):
            return Tool(
                name=name,
                description=value.get("description"),
                parameters=schema,
                strict=value.get("strict"),
                extra=select_unknown(value, *_TOOL_MEMBERS),
            )
        case _:
            return VendorTool(wire_format=WIRE_FORMAT, value=value, server=parse_server_tool(value))


def parse_tool_choice(
    value: Mapping[str, Any] | None, tools: Sequence[Tool | VendorTool] = ()
) -> tuple[ToolChoice | None, bool | None, dict[str, Any]]:
    """The tool choice, whether parallel calls are allowed, and the other members under dotted names.

    The choice of one of the vendor's own `tools`, which is no function, is a vendor choice.
    """
    if value is None:
        return None, None, {}
    disable = value.get(DISABLE_PARALLEL)
    own = [tool.value.get("name") for tool in tools if isinstance(tool, VendorTool)]
    match value:
        case {"type": "tool", "name": str(name)} if name not in own:
            choice = ToolChoice(mode="tool", name=name)
        case {"type": "auto"}:
            choice = ToolChoice(mode="auto")
        case {"type": "any"}:
            choice = ToolChoice(mode="required")
        case {"type": "none"}:
            choice = ToolChoice(mode="none")
        case _:
            return ToolChoice(mode="vendor", vendor=value), None, {}
    unknown = select_unknown(value, "type", "name", DISABLE_PARALLEL)
    extra = {f"tool_choice.{name}": member for name, member in unknown.items()}
    return choice, None if disable is None else not disable, extra


def forces_a_tool(request: ChatRequest) -> bool:
    """Return whether the model must call a tool; forced tool calls and thinking exclude each other."""
    choice = request.tool_choice
    return choice is not None and (
        choice.mode in ("required", "tool") or (choice.mode == "allowed" and choice.required)
    )


def render_tools(call: Call, request: ChatRequest, abilities: ModelFeatures, markers: MarkerWriter) -> dict[str, Any]:
    """``tools`` and ``tool_choice``; each is left out when unset. Reports unsupported fields to `call.drop_field`."""
    own = request.wire_format == WIRE_FORMAT
    allowed = request.tool_choice.names if request.tool_choice and request.tool_choice.mode == "allowed" else None
    values: list[dict[str, Any]] = []
    for index, tool in enumerate(request.tools):
        path = request.tool_path(index)
        if isinstance(tool, VendorTool):
            if tool.wire_format == WIRE_FORMAT:
                values.append(dict(tool.value))
            elif (value := render_server_tool(call, tool, path, abilities.server_tool_types)) is not None:
                values.append(value)
        elif allowed is None or tool.name in allowed:
            values.append(value := _render_tool(call, tool, own, path, abilities))
            if tool.extra and not own:
                markers.mark([value], tool.extra, partial(str, path))
    if not values and not own:
        if request.tool_choice is not None and request.tools:
            call.drop_field(request.field_name("tool_choice"))
        return {}
    return drop_none(tools=values or None, tool_choice=_render_choice(call, request, own, abilities))


def _render_tool(call: Call, tool: Tool, own: bool, path: str, abilities: ModelFeatures) -> dict[str, Any]:
    schema, strict = dict(tool.parameters or {}), tool.strict
    if strict and not own and "response_format" in abilities.drops:  # both came with structured outputs
        call.drop_field(f"{path}.strict")
        strict = None
    if not own:
        schema.setdefault("type", "object")  # required by the vendor, optional in other formats
        limit = restrict_schema if strict and abilities.schema == "closed" else make_valid
        schema = dict(limit(schema, lambda place: call.drop_field(f"{path}.parameters.{place}".rstrip("."))))
    value = drop_none(name=tool.name, description=tool.description, input_schema=schema, strict=strict)
    if own:
        return add_extra(value, tool.extra)
    for name in select_losses(tool.extra, marked=True):
        call.drop_field(f"{path}.{name}")
    return value


def _render_choice(call: Call, request: ChatRequest, own: bool, abilities: ModelFeatures) -> dict[str, Any] | None:
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    value: dict[str, Any] | None = None
    if choice is None:
        value = {"type": "auto"} if parallel is False else None
    elif choice.mode == "vendor":
        if own:
            return dict(choice.vendor or {})
        value = _render_forced_server_tool(request, choice)
        if value is None:
            call.drop_field(request.field_name("tool_choice"))
        else:
            for name in select_unknown(choice.vendor or {}, "type"):
                call.drop_field(f"{request.field_name('tool_choice')}.{name}")
    elif choice.mode == "tool":
        value = {"type": "tool", "name": choice.name or ""}
    elif choice.mode == "allowed":  # `render_tools` has removed the other tools
        value = {"type": "any" if choice.required else "auto"}
    else:
        value = {"type": _TYPE_OF_MODE[choice.mode]}
    if value is not None and value["type"] in ("any", "tool") and not own and abilities.forced_tools == "never":
        call.drop_field(request.field_name("tool_choice"))
        value = {"type": "auto"}
    if value is not None and parallel is not None and value["type"] != "none" and (own or not parallel):
        value[DISABLE_PARALLEL] = not parallel
    return value


def _render_forced_server_tool(request: ChatRequest, choice: ToolChoice) -> dict[str, Any] | None:
    """The choice of a server tool of another format, whose type names the tool; None for any other choice."""
    tool_type = (choice.vendor or {}).get("type")
    for tool in request.tools:
        if isinstance(tool, VendorTool) and tool.server is not None and tool_type is not None:
            kind = tool.server.kind
            if tool_type == tool.value.get("type") or (kind == "web_search" and str(tool_type).startswith(kind)):
                return {"type": "tool", "name": kind}
    return None
