"""Tools that upstreams run themselves (web search, web fetch, code execution), between wire formats. Pure.

Each format parses its own tools into `ServerTool` and renders the tools of other formats. Tools and fields that only the
caller's format has are reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, ServerTool, ServerToolKind, Tool, VendorTool
from tornado_gate.types.value import replace

_LOCATION_MEMBERS: Final = ("city", "region", "country", "timezone")
_FIELDS: Final = ("max_uses", "allowed_domains", "blocked_domains", "location", "context_size")
_DEFAULT_CONTEXT_SIZE: Final = "medium"
"""Of OpenAI's formats, the only ones with a context size."""


def may_cite(request: ChatRequest) -> bool:
    """Return whether the response may have citations in several texts: whether the upstream may use its own tools."""
    return any(isinstance(tool, VendorTool) for tool in request.tools)


def forget_server_tools(
    tools: tuple[Tool | VendorTool, ...], kinds: tuple[ServerToolKind, ...]
) -> tuple[Tool | VendorTool, ...]:
    """`tools` with the server tools of other kinds as tools that only the caller's format has."""
    if not any(isinstance(tool, VendorTool) and tool.server and tool.server.kind not in kinds for tool in tools):
        return tools
    return tuple(
        replace(tool, server=None)
        if isinstance(tool, VendorTool) and tool.server and tool.server.kind not in kinds
        else tool
        for tool in tools
    )


def take_server_tool(call: Call, tool: VendorTool, path: str, *supported: str) -> ServerTool | None:
    """Return the server tool of another format; None for a tool that the target does not have.

    Reports that tool, or its unknown members and its fields that are not in `supported`, to `call.drop_field`.
    """
    server = tool.server
    if server is None:
        call.drop_field(path)
        return None
    for name in _FIELDS:
        value = getattr(server, name)
        if name not in supported and value and (name, value) != ("context_size", _DEFAULT_CONTEXT_SIZE):
            call.drop_field(f"{path}.{server.names.get(name, name)}")
    for name in server.others:
        call.drop_field(f"{path}.{name}")
    return server


def read_location(value: Any) -> dict[str, str]:
    """The members of a location that are texts."""
    members = value if isinstance(value, Mapping) else {}
    return {name: members[name] for name in _LOCATION_MEMBERS if isinstance(members.get(name), str)}


def list_other_places(value: Any, name: str) -> tuple[str, ...]:
    """The paths of the members of the location `name` that no other vendor knows."""
    return (
        tuple(f"{name}.{member}" for member in list_others(value, "type", *_LOCATION_MEMBERS))
        if isinstance(value, Mapping)
        else ()
    )


def read_domains(value: Any) -> tuple[str, ...]:
    return tuple(domain for domain in value if isinstance(domain, str)) if isinstance(value, list) else ()


def list_others(value: Mapping[str, Any], *known: str) -> tuple[str, ...]:
    """The names of the members of a tool that are set and not in `known`."""
    return tuple(name for name, member in value.items() if name not in known and member not in (None, [], {}))
