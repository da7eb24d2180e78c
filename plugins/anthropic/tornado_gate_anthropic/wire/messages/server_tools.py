"""The vendor's server tools and the blocks about their use, in both directions. Pure.

A use of a tool is two blocks, ``server_tool_use`` and its result. Those that the gateway makes for other vendors have ids with
the prefix `FOREIGN_ID_PREFIX`; `is_foreign_block` recognises them in a later request, because the vendor would reject them.

Source: anthropic-python 2.11, types/tool_union_param.py, types/server_tool_use_block.py, *_tool_result_block.py (2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.types import Call, Citation, ServerTool, ServerToolKind, ServerToolUse, VendorPart, VendorTool
from tornado_gate.types.value import replace
from tornado_gate.wire.server_tools import (
    list_other_places,
    list_others,
    read_domains,
    read_location,
    take_server_tool,
)
from tornado_gate_anthropic.wire.messages.citations import FOREIGN_MARK
from tornado_gate_anthropic.wire.messages.json_values import WIRE_FORMAT, drop_none, dump_compact, read_string

FOREIGN_ID_PREFIX: Final = f"srvtoolu{FOREIGN_MARK}"
FOREIGN_CONTENT: Final = f"{FOREIGN_MARK}content"
"""``encrypted_content`` of search results of other vendors, which is required and which only the vendor can make."""

_TYPE: Final = re.compile(r"(web_search|web_fetch|code_execution)_\d{8}")
_KNOWN_MEMBERS: Final = ("type", "name", "max_uses", "allowed_domains", "blocked_domains", "user_location")
_KIND_OF_NAME: Final[Mapping[str, ServerToolKind]] = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
_RESULT_SUFFIX: Final = "_tool_result"
_DIRECT: Final = {"type": "direct"}
"""``caller``: the model itself, not code that it runs."""


def parse_server_tool(value: Mapping[str, Any]) -> ServerTool | None:
    """Return the server tool for a tool of a validated body; None for a tool that only this vendor has."""
    match = _TYPE.fullmatch(read_string(value.get("type")))
    if match is None:
        return None
    uses = value.get("max_uses")
    return ServerTool(
        kind=_KIND_OF_NAME[match[1]],
        max_uses=uses if type(uses) is int else None,
        allowed_domains=read_domains(value.get("allowed_domains")),
        blocked_domains=read_domains(value.get("blocked_domains")),
        location=read_location(value.get("user_location")),
        names={"location": "user_location"},
        others=list_others(value, *_KNOWN_MEMBERS) + list_other_places(value.get("user_location"), "user_location"),
    )


def render_server_tool(call: Call, tool: VendorTool, path: str, types: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the tool for another format's tool.

    Returns None and reports the tool if the vendor has no equivalent. `types` are the model's types, by kind.

    The vendor accepts allowed or blocked domains, not both: blocked ones are then reported.
    """
    fields = ("max_uses", "allowed_domains", "blocked_domains", "location")
    kind = tool.server.kind if tool.server is not None else ""
    supported = {"web_search": fields, "web_fetch": fields[:3]}.get(kind, ())
    if tool.server is not None and tool.server.allowed_domains:
        supported = tuple(name for name in supported if name != "blocked_domains")
    server = take_server_tool(call, tool, path, *supported)
    if server is None:
        return None
    value: dict[str, Any] = {"type": types[server.kind], "name": server.kind}
    if "max_uses" in supported and server.max_uses is not None:
        value["max_uses"] = server.max_uses
    for name in ("allowed_domains", "blocked_domains"):
        if name in supported and getattr(server, name):
            value[name] = list(getattr(server, name))
    if "location" in supported and server.location:
        value["user_location"] = {"type": "approximate", **server.location}
    return value


def parse_vendor_block(block: Mapping[str, Any]) -> VendorPart:
    """The part of a response block of a type without a common equivalent."""
    return VendorPart(wire_format=WIRE_FORMAT, value=block, server=_parse_use(block))


def _parse_use(block: Mapping[str, Any]) -> ServerToolUse | None:
    kind = read_string(block.get("type"))
    if kind == "server_tool_use":
        return _parse_call(block)
    name = kind.removesuffix(_RESULT_SUFFIX)
    if name == kind or name not in _KIND_OF_NAME:
        return None
    content = block.get("content")
    inner = content if isinstance(content, Mapping) else {}
    return ServerToolUse(
        id=read_string(block.get("tool_use_id")),
        kind=_KIND_OF_NAME[name],
        step="result",
        output=read_string(inner.get("stdout")) + read_string(inner.get("stderr")),
        sources=_parse_sources(content if isinstance(content, list) else [content]),
        error=read_string(inner.get("error_code")),
    )


def _parse_call(block: Mapping[str, Any]) -> ServerToolUse | None:
    name, arguments = read_string(block.get("name")), block.get("input")
    kind = _KIND_OF_NAME.get(name)
    if kind is None:
        return None
    arguments = arguments if isinstance(arguments, Mapping) else {}
    query, url = read_string(arguments.get("query")), read_string(arguments.get("url"))
    code = read_string(arguments.get("code")) or (
        read_string(arguments.get("command")) if name.startswith("bash") else ""
    )
    return ServerToolUse(
        id=read_string(block.get("id")),
        kind=kind,
        step="call",
        queries=(query,) if query and kind == "web_search" else (),
        url=url if kind == "web_fetch" else "",
        code=code or dump_compact(arguments) if kind == "code_execution" else "",
    )


def _parse_sources(values: list[Any]) -> tuple[Citation, ...]:
    return tuple(
        Citation(url=value["url"], title=read_string(value.get("title")))
        for value in values
        if isinstance(value, Mapping) and isinstance(value.get("url"), str)
    )


def render_vendor_blocks(part: VendorPart) -> list[dict[str, Any]]:
    """The blocks of a part about a server tool of another format; [] for any other part.

    Pages that were read are not rendered: their block requires the content of the page, which other vendors do not return.
    """
    use = part.server
    if use is None or use.kind == "web_fetch":
        return []
    identity = FOREIGN_ID_PREFIX + re.sub(r"[^A-Za-z0-9_]", "", use.id or make_unique_id())
    blocks: list[dict[str, Any]] = []
    if use.step != "result":
        arguments = {"code": use.code} if use.kind == "code_execution" else {"query": ", ".join(use.queries)}
        blocks.append(
            {"type": "server_tool_use", "id": identity, "name": use.kind, "input": arguments, "caller": dict(_DIRECT)}
        )
    if use.step != "call":
        content = _render_search_result(use) if use.kind == "web_search" else _render_code_result(use)
        value = {"type": f"{use.kind}{_RESULT_SUFFIX}", "tool_use_id": identity, "content": content}
        blocks.append(value | ({"caller": dict(_DIRECT)} if use.kind == "web_search" else {}))
    return blocks


def _render_search_result(use: ServerToolUse) -> Any:
    if use.error:
        return {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    return [
        {
            "type": "web_search_result",
            "url": source.url,
            "title": source.title or source.url,
            "encrypted_content": FOREIGN_CONTENT,
            "page_age": None,
        }
        for source in use.sources
    ]


def _render_code_result(use: ServerToolUse) -> dict[str, Any]:
    stdout, stderr = ("", use.output) if use.error else (use.output, "")
    return {
        "type": "code_execution_result",
        "stdout": stdout,
        "stderr": stderr,
        "return_code": int(bool(use.error)),
        "content": [],
    }


def parse_foreign_block(block: Mapping[str, Any]) -> ServerToolUse | None:
    """The use that the gateway made a block of, with its own id; None for a block of the vendor's."""
    use = _parse_use(block) if is_foreign_block(block) else None
    return use and replace(use, id=use.id.removeprefix(FOREIGN_ID_PREFIX))


def is_unanswered(blocks: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the blocks of one use are a call without its result, as a paused turn leaves it; the vendor rejects it.

    Source: gsd-build/gsd-2#2870 (2026-03).
    """
    return len(blocks) == 1 and blocks[0].get("type") == "server_tool_use"


def is_foreign_block(block: Any) -> bool:
    """Return whether a block about a server tool was made by the gateway."""
    if not isinstance(block, Mapping):
        return False
    identity = block.get("id") if block.get("type") == "server_tool_use" else block.get("tool_use_id")
    return isinstance(identity, str) and identity.startswith(FOREIGN_ID_PREFIX)


def count_uses(part: Any) -> dict[str, int]:
    """The requests in a part about a server tool of another format, by the members of the usage's ``server_tool_use``."""
    use = part.server if isinstance(part, VendorPart) and part.wire_format != WIRE_FORMAT else None
    if use is None or use.step == "result" or use.kind == "code_execution":
        return {}
    member = "web_search_requests" if use.kind == "web_search" else "web_fetch_requests"
    return drop_none(**{member: max(1, len(use.queries))})
