"""The vendor's server tools and the items about their use, in both directions. No I/O.

A use of a tool is one item, with its result. The page that a model opened is an action of the web search.

Source: openai-python 3.52, types/responses/web_search_tool.py, web_search_preview_tool.py, tool.py (``CodeInterpreter``),
response_function_web_search.py and response_code_interpreter_tool_call.py (2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from tornado_gate.types import Call, Citation, ServerTool, ServerToolUse, Tool, VendorPart, VendorTool
from tornado_gate.types.value import replace
from tornado_gate.wire.server_tools import (
    list_other_places,
    list_others,
    read_domains,
    read_location,
    take_server_tool,
)
from tornado_gate_openai.wire import formats

CALL_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "web_search": ("web_search_call", "ws"),
    "web_fetch": ("web_search_call", "ws"),
    "code_execution": ("code_interpreter_call", "ci"),
}
"""By kind of tool: the type of the items, and the prefix of their ids."""

MADE_HERE: Final = "_gate"
"""The end of the ids of items that the gateway made for responses of other vendors. The id of the use precedes this end."""

_OWN_ID: Final = re.compile(r"[a-z]+_[0-9a-f]{36}_([A-Za-z0-9_-]{1,128})_gate")
_USE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")

RUNNING: Final[Mapping[str, str]] = {"web_search_call": "searching", "code_interpreter_call": "interpreting"}
"""By type of item: the event between ``in_progress`` and ``completed``."""

_SEARCH: Final = ("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11")
_INTERPRETER: Final = "code_interpreter"
_INCLUDES: Final[Mapping[str, str]] = {
    "web_search": "web_search_call.action.sources",
    "code_execution": "code_interpreter_call.outputs",
}
_AUTOMATIC: Final = {"type": "auto"}
_NAMES: Final = {
    "allowed_domains": "filters.allowed_domains",
    "location": "user_location",
    "context_size": "search_context_size",
}


def parse_server_tool(value: Mapping[str, Any], include: Collection[str] = ()) -> ServerTool | None:
    """Return the server tool for a tool of a validated body; None for a tool that only this vendor has.

    `include` is the body's member.
    """
    kind = value.get("type")
    if kind == _INTERPRETER:
        known = ("type", "container") if value.get("container") in (None, _AUTOMATIC) else ("type",)
        results = _INCLUDES["code_execution"] in include
        return ServerTool(kind="code_execution", results=results, others=list_others(value, *known))
    if kind not in _SEARCH:
        return None
    filters, size = value.get("filters"), value.get("search_context_size")
    filters = filters if isinstance(filters, Mapping) else {}
    others = list_others(value, "type", "filters", "user_location", "search_context_size")
    return ServerTool(
        kind="web_search",
        allowed_domains=read_domains(filters.get("allowed_domains")),
        location=read_location(value.get("user_location")),
        context_size=size if isinstance(size, str) else None,
        results=_INCLUDES["web_search"] in include,
        names=_NAMES,
        others=tuple(name for name in others if (name, value[name]) != ("external_web_access", True))
        + tuple(f"filters.{name}" for name in list_others(filters, "allowed_domains"))
        + list_other_places(value.get("user_location"), "user_location"),
    )


def render_server_tool(call: Call, tool: VendorTool, path: str) -> dict[str, Any] | None:
    """Return the tool for another format's tool. Returns None and reports the tool if the vendor has no equivalent.

    ``max_uses`` is not a member of the tool but ``max_tool_calls`` of the request. A search without a location gets an empty one,
    because the vendor localizes it to the United States otherwise.
    """
    if tool.server is not None and tool.server.kind == "web_fetch":
        call.drop_field(path)
        return None
    server = take_server_tool(call, tool, path, "max_uses", "allowed_domains", "location", "context_size")
    if server is None:
        return None
    if server.kind == "code_execution":
        return {"type": _INTERPRETER, "container": dict(_AUTOMATIC)}
    value: dict[str, Any] = {"type": "web_search", "user_location": {"type": "approximate", **server.location}}
    if server.allowed_domains:
        value["filters"] = {"allowed_domains": list(server.allowed_domains)}
    if server.context_size is not None:
        value["search_context_size"] = server.context_size
    return value


def list_includes(tools: Iterable[Tool | VendorTool]) -> list[str]:
    """The values of ``include`` that request the results of server tools.

    Tools of other formats always return these results.
    """
    servers = [tool.server for tool in tools if isinstance(tool, VendorTool) and tool.server is not None]
    kinds = {server.kind for server in servers if server.results}
    return [_INCLUDES[kind] for kind in sorted(kinds) if kind in _INCLUDES]


def parse_vendor_item(item: Mapping[str, Any]) -> VendorPart:
    """The part of an output item of a type without a common equivalent."""
    return VendorPart(wire_format=formats.OPENAI_RESPONSES, value=item, server=_parse_use(item))


def _parse_use(item: Mapping[str, Any]) -> ServerToolUse | None:
    identity = item.get("id")
    identity = identity if isinstance(identity, str) else ""
    failed = "failed" if item.get("status") == "failed" else ""
    match item:
        case {"type": "web_search_call", "action": {"type": "search"} as action}:
            queries = [
                value for value in read_list(action.get("queries")) or [action.get("query")] if isinstance(value, str)
            ]
            urls = [value.get("url") for value in read_list(action.get("sources")) if isinstance(value, Mapping)]
            sources = tuple(Citation(url=url) for url in urls if isinstance(url, str))
            return ServerToolUse(id=identity, kind="web_search", queries=tuple(queries), sources=sources, error=failed)
        case {"type": "web_search_call", "action": {"url": str(url)}}:
            return ServerToolUse(id=identity, kind="web_fetch", url=url, error=failed)
        case {"type": "code_interpreter_call"}:
            logs = [value.get("logs") for value in read_list(item.get("outputs")) if isinstance(value, Mapping)]
            output = "".join(value for value in logs if isinstance(value, str))
            code = item.get("code")
            return ServerToolUse(id=identity, kind="code_execution", code=str(code or ""), output=output, error=failed)
    return None


def read_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def make_item_id(made: str, use: ServerToolUse) -> str:
    """The id of the item of a use in another format; `made` is one of the response's item ids."""
    return f"{made}_{use.id}{MADE_HERE}" if _USE_ID.fullmatch(use.id) else made + MADE_HERE


def parse_made_item(item: Mapping[str, Any]) -> ServerToolUse | None:
    """The use that the gateway made an item of, with its own id; None for an item of the vendor's."""
    match = _OWN_ID.fullmatch(str(item.get("id")))
    use = _parse_use(item) if match is not None else None
    return replace(use, id=match[1]) if use is not None and match is not None else None


def render_item(
    item_id: str, use: ServerToolUse, include: Collection[str], status: str = "completed"
) -> dict[str, Any]:
    """The item of a use of a server tool of another format, with its result if the request's `include` names it."""
    kind = CALL_TYPES[use.kind][0]
    status = "failed" if use.error else status
    item: dict[str, Any] = {"id": item_id, "type": kind, "status": status}
    if use.kind == "code_execution":
        outputs = [{"type": "logs", "logs": use.output}] if use.output else []
        shown = outputs if _INCLUDES["code_execution"] in include else None
        return item | {"code": use.code, "container_id": "", "outputs": shown}
    if use.kind == "web_fetch":
        return item | {"action": {"type": "open_page", "url": use.url}}
    query = use.queries[0] if use.queries else ""
    action: dict[str, Any] = {"type": "search", "query": query, "queries": list(use.queries)}
    if use.sources and _INCLUDES["web_search"] in include:
        action["sources"] = [{"type": "url", "url": source.url} for source in use.sources]
    return item | {"action": action}


class ServerToolCalls:
    """The uses of server tools in one response whose result has not come yet, by their ids."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Any, ServerToolUse]] = {}

    def start(self, use: ServerToolUse, position: Any) -> None:
        """Note the position of a call's item."""
        self._open[use.id] = (position, use)

    def finish(self, use: ServerToolUse) -> tuple[Any, ServerToolUse] | None:
        """Return the position of a result's call, and both as one use; None for a result without a call."""
        if (started := self._open.pop(use.id, None)) is None:
            return None
        position, call = started
        return position, merge(call, use)

    def drain(self) -> list[tuple[Any, ServerToolUse]]:
        """Return the calls without a result, and remove them."""
        left = list(self._open.values())
        self._open.clear()
        return left


def merge(call: ServerToolUse, result: ServerToolUse) -> ServerToolUse:
    """A call and its result as one use."""
    return ServerToolUse(
        id=call.id,
        kind=call.kind,
        queries=call.queries,
        url=call.url,
        code=call.code,
        output=result.output,
        sources=result.sources,
        error=result.error,
    )
