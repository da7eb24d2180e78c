"""``tools`` and ``toolConfig``, in both directions. Pure.

Source: google-genai 3.4, types.Tool, FunctionDeclaration, FunctionCallingConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Tool, ToolChoice, VendorTool
from tornado_gate.wire.json_schema import inline_references, simplify_schema
from tornado_gate.wire.prompt_cache import select_losses
from tornado_gate.wire.valid_schema import make_valid
from tornado_gate_gemini.wire.generate.json_values import drop_none, read_object, read_objects, select_unknown
from tornado_gate_gemini.wire.generate.model_features import GeminiModelFeatures
from tornado_gate_gemini.wire.generate.names import WIRE_FORMAT
from tornado_gate_gemini.wire.generate.schema import convert_to_json_schema
from tornado_gate_gemini.wire.generate.server_tools import parse_server_tool, render_server_tool

_DECLARATION_MEMBERS: Final = ("name", "description", "parameters", "parametersJsonSchema")


def parse_tools(tools: Any) -> tuple[Tool | VendorTool, ...]:
    """A `Tool` for each function declaration, and a `VendorTool` for each other tool."""
    parsed: list[Tool | VendorTool] = []
    for entry in read_objects(tools):
        for name, value in entry.items():
            if name == "functionDeclarations":
                parsed += [_parse_function(declaration) for declaration in read_objects(value)]
            elif value is not None:
                server = parse_server_tool(name, value)
                parsed.append(VendorTool(wire_format=WIRE_FORMAT, value={name: value}, server=server))
    return tuple(parsed)


def _parse_function(value: Mapping[str, Any]) -> Tool:
    parameters = value.get("parametersJsonSchema")
    if parameters is None and value.get("parameters") is not None:
        parameters = convert_to_json_schema(value["parameters"])
    return Tool(
        name=value["name"],
        description=value.get("description"),
        parameters=parameters,
        extra=select_unknown(value, *_DECLARATION_MEMBERS),
    )


def parse_tool_choice(config: Mapping[str, Any]) -> ToolChoice | None:
    """The choice of a ``functionCallingConfig``. VALIDATED has no common equivalent and is kept as a vendor choice."""
    mode, names = config.get("mode"), tuple(config.get("allowedFunctionNames") or ())
    known = config.keys() <= {"mode", "allowedFunctionNames"}
    match mode:
        case None | "MODE_UNSPECIFIED" | "AUTO" if known and not names:
            return ToolChoice(mode="auto") if mode == "AUTO" else None
        case "NONE" if known and not names:
            return ToolChoice(mode="none")
        case "ANY" if known and len(names) == 1:
            return ToolChoice(mode="tool", name=names[0])
        case "ANY" if known:
            return ToolChoice(mode="allowed", names=names, required=True) if names else ToolChoice(mode="required")
        case "VALIDATED" if known and names:
            return ToolChoice(mode="allowed", names=names)
    return ToolChoice(mode="vendor", vendor=config) if config else None


def render_tools(call: Call, request: ChatRequest, own: bool, dialect: GeminiModelFeatures) -> list[dict[str, Any]]:
    """All functions in one entry, as the vendor requires, then the other tools.

    Server tools of other formats are dropped beside functions: the vendor accepts both only if the caller returns parts of this
    format about them.
    """
    functions = any(isinstance(tool, Tool) for tool in request.tools)
    declarations: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for index, tool in enumerate(request.tools):
        path = request.tool_path(index)
        if isinstance(tool, Tool):
            declarations.append(_render_function(call, tool, path, own, dialect))
        elif tool.wire_format == WIRE_FORMAT:
            others.append(dict(tool.value))
        elif functions:
            call.drop_field(path)
        elif (entry := render_server_tool(call, tool, path)) is not None and entry not in others:
            others.append(entry)
    return [{"functionDeclarations": declarations}, *others] if declarations else others


def _render_function(call: Call, tool: Tool, path: str, own: bool, dialect: GeminiModelFeatures) -> dict[str, Any]:
    if tool.strict is not None:
        call.drop_field(f"{path}.strict")
    value = drop_none(name=tool.name, description=tool.description)
    if tool.parameters:

        def report(place: str) -> None:
            call.drop_field(_join_path(f"{path}.parameters", place))

        if dialect.schema == "inlined" and not own:
            value["parametersJsonSchema"] = inline_references(make_valid(tool.parameters, report), report)
        elif dialect.schema != "openapi":
            value["parametersJsonSchema"] = tool.parameters
        else:
            levelled = simplify_schema(tool.parameters, report)
            if levelled.get("type") != "OBJECT" or levelled.get(
                "properties"
            ):  # the vendor rejects an object without properties
                value["parameters"] = levelled
    for name, member in tool.extra.items() if own else ():
        value.setdefault(name, member)
    for name in select_losses(tool.extra) if not own else ():
        call.drop_field(f"{path}.{name}")
    return value


def _join_path(path: str, inner: str) -> str:
    return f"{path}.{inner}" if inner else path


def render_tool_choice(call: Call, request: ChatRequest, own: bool) -> dict[str, Any] | None:
    """A ``functionCallingConfig``; None when the request has no tool choice."""
    choice = request.tool_choice
    if choice is None:
        return None
    match choice.mode:
        case "auto":
            return {"mode": "AUTO"}
        case "none":
            return {"mode": "NONE"}
        case "required":
            return {"mode": "ANY"}
        case "tool":
            return {"mode": "ANY", "allowedFunctionNames": [choice.name or ""]}
        case "allowed":
            return {"mode": "ANY" if choice.required else "VALIDATED", "allowedFunctionNames": list(choice.names)}
    if own:
        return dict(read_object(choice.vendor))
    call.drop_field(request.field_name("tool_choice"))
    return None
