"""The tools of a request. Pure.

Source: openai-python 3.52, types/responses/tool_param.py and namespace_tool_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import Tool, VendorTool
from tornado_gate.wire.namespaces import NAMESPACE
from tornado_gate_openai.wire.responses.parts import WIRE_FORMAT, select_unknown_non_null
from tornado_gate_openai.wire.responses.server_tools import parse_server_tool

_TOOL_MEMBERS: Final = ("type", "name", "description", "parameters", "strict")


def parse_tool(value: Mapping[str, Any], include: Sequence[str] = ()) -> Tool | VendorTool:
    """Return one tool; a `VendorTool` unless it is a function. `include` is the request's member."""
    match value:
        case {"type": "function", "name": str(name)}:
            return Tool(
                name=name,
                description=value.get("description"),
                parameters=value.get("parameters"),
                strict=value.get("strict"),
                extra=select_unknown_non_null(value, *_TOOL_MEMBERS),
            )
        case _:
            members = parse_tools(value.get("tools")) if value.get("type") == NAMESPACE else ()
            server = parse_server_tool(value, include)
            return VendorTool(wire_format=WIRE_FORMAT, value=value, server=server, members=members)


def parse_tools(values: Any) -> tuple[Tool | VendorTool, ...]:
    """Return the tools of a namespace or of an item that declares tools; () unless `values` is an array."""
    return (
        tuple(parse_tool(value) for value in values if isinstance(value, Mapping)) if isinstance(values, list) else ()
    )
