"""``web_search_options``, the only server tool of chat, and the tool of other formats, in both directions. No I/O.

In a `ChatRequest` it is the last of the tools; its path is the member's own name.

Source: openai-python 3.52, types/chat/completion_create_params.py, ``WebSearchOptions`` (2026-11-22).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, ServerTool, VendorTool
from tornado_gate.wire.server_tools import list_other_places, list_others, read_location, take_server_tool
from tornado_gate_openai.wire.chat.parts import WIRE_FORMAT

OPTIONS: Final = "web_search_options"


def parse_options(value: Any) -> VendorTool:
    """The tool of the member's value, which is an object."""
    options: Mapping[str, Any] = value
    location = options.get("user_location")
    location = location if isinstance(location, Mapping) else {}
    place = location.get("approximate")
    size = options.get("search_context_size")
    server = ServerTool(
        kind="web_search",
        location=read_location(place),
        context_size=size if isinstance(size, str) else None,
        names={"location": "user_location", "context_size": "search_context_size"},
        others=list_others(options, "user_location", "search_context_size")
        + tuple(f"user_location.{name}" for name in list_others(location, "type", "approximate"))
        + list_other_places(place, "user_location.approximate"),
    )
    return VendorTool(wire_format=WIRE_FORMAT, value={OPTIONS: options}, server=server)


def render_options(call: Call, request: ChatRequest) -> Mapping[str, Any] | None:
    """The member's value, for a tool of any format; None without such a tool.

    Reports settings without an equivalent to `call.drop_field`.
    """
    options: Mapping[str, Any] | None = None
    for index, tool in enumerate(request.tools):
        if not isinstance(tool, VendorTool):
            continue
        if OPTIONS in tool.value:
            options = tool.value[OPTIONS]
        elif tool.wire_format != WIRE_FORMAT:
            options = _render(call, tool, request.tool_path(index)) if options is None and _is_search(tool) else options
            if not _is_search(tool):
                call.drop_field(request.tool_path(index))
    return options


def _is_search(tool: VendorTool) -> bool:
    return tool.server is not None and tool.server.kind == "web_search"


def _render(call: Call, tool: VendorTool, path: str) -> Mapping[str, Any]:
    server = take_server_tool(call, tool, path, "location", "context_size")
    assert server is not None, "the tool is a web search"
    value: dict[str, Any] = {}
    if server.context_size is not None:
        value["search_context_size"] = server.context_size
    if server.location:
        value["user_location"] = {"type": "approximate", "approximate": dict(server.location)}
    return value
