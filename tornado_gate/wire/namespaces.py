"""Tools in namespaces, and tools declared between messages, for models that only have one list of tools, and the way back. Pure.

The responses format groups tools in namespaces (``{"type": "namespace", "name": "functions", "tools": […]}``), and a conversation
may declare tools by an item of the type ``additional_tools``. Codex declares all its tools this way for some models. Here such
tools join the request's list, under the name ``NAMESPACE__NAME``, also in calls of the history; a call by the model gets its
namespace back.

Source: openai-python 3.52, types/responses/namespace_tool_param.py, response_input_item_param.py (AdditionalTools) and
response_function_tool_call_param.py; codex 0.169 (requests recorded on 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import ChatRequest, Message, Part, Tool, ToolCall, ToolResult, VendorPart, VendorTool
from tornado_gate.types.value import replace
from tornado_gate.wire import conversation_formats as formats

NAMESPACE: Final = "namespace"
"""The type of a tool that groups tools, and the member of a call that names the group."""
_ADDITIONAL_TOOLS: Final = "additional_tools"
_SEPARATOR: Final = "__"
_GROUP_MEMBERS: Final = ("type", "name", "description", "tools")


def flatten_namespaces(request: ChatRequest) -> ChatRequest:
    """`request` with all its tools in one list; itself if it has neither namespaces nor tools between messages.

    Unknown members of namespaces join its `extra` under their path.
    """
    if request.wire_format != formats.OPENAI_RESPONSES or not _has_any(request):
        return request
    tools: list[Tool | VendorTool] = []
    paths: dict[str, str] = {}
    for path, value in _iterate_tools(request):
        paths[f"tools.{len(tools)}"] = path
        tools.append(value)
    kept = [number for number, message in enumerate(request.messages) if _read_declaration(message) is None]
    messages = tuple(_qualify_calls(request.messages[number]) for number in kept)
    names = {name: path for name, path in request.names.items() if not name.startswith("messages.")}
    for new_number, number in enumerate(kept):
        names[f"messages.{new_number}"] = request.path(number)
        for index, part in enumerate(request.messages[number].parts):
            key = f"messages.{new_number}.content.{index}"
            names[key] = request.path(number, index)
            for inner in range(len(part.parts)) if isinstance(part, ToolResult) else ():
                names[f"{key}.content.{inner}"] = request.path(number, index, inner)
    extra = {**request.extra, **_list_unknown_members(request)}
    return replace(request, tools=tuple(tools), messages=messages, names=names | paths, extra=extra)


def _list_unknown_members(request: ChatRequest) -> dict[str, Any]:
    """The members of namespaces that no tool in them can have, by path: providers report them as dropped."""
    return {
        f"{path}.{name}": member
        for path, tool in _iterate_declared(request)
        if (group := _get_group(tool)) is not None
        for name, member in group.value.items()
        if name not in _GROUP_MEMBERS
    }


def list_qualified_names(request: ChatRequest) -> dict[str, tuple[str, str]]:
    """(namespace, name) of each tool in a namespace, by its name in the list that `flatten_namespaces` makes."""
    if request.wire_format != formats.OPENAI_RESPONSES or not _has_any(request):
        return {}
    groups = [group for _, tool in _iterate_declared(request) if (group := _get_group(tool)) is not None]
    names = [
        (str(group.value["name"]), member.name if isinstance(member, Tool) else member.value.get("name"))
        for group in groups
        for member in group.members
    ]
    return {_qualify(namespace, name): (namespace, name) for namespace, name in names if isinstance(name, str)}


def _has_any(request: ChatRequest) -> bool:
    grouped = any(isinstance(tool, VendorTool) and tool.value.get("type") == NAMESPACE for tool in request.tools)
    return grouped or any(_read_declaration(message) is not None for message in request.messages)


def _read_declaration(message: Message) -> VendorPart | None:
    """The item of the type ``additional_tools`` that a message consists of, or None."""
    match message.parts:
        case (VendorPart(value={"type": "additional_tools", "tools": list()}) as part,):
            return part
        case _:
            return None


def _iterate_declared(request: ChatRequest) -> Iterator[tuple[str, Tool | VendorTool]]:
    """Path and value of each declared tool: first the request's tools, then the tools between its messages."""
    for number, tool in enumerate(request.tools):
        yield request.tool_path(number), tool
    for number, message in enumerate(request.messages):
        if (declaration := _read_declaration(message)) is not None:
            yield from _iterate_members(f"{request.path(number)}.tools", declaration.value, declaration.tools)


def _iterate_tools(request: ChatRequest) -> Iterator[tuple[str, Tool | VendorTool]]:
    """The same, with the members of namespaces in place of these. A name that is declared again is the same tool."""
    seen: set[str] = set()
    for path, tool in _iterate_declared(request):
        group = _get_group(tool)
        if group is None:
            if isinstance(tool, VendorTool) or tool.name not in seen:
                seen |= {tool.name} if isinstance(tool, Tool) else set()
                yield path, tool
            continue
        for member_path, member in _iterate_members(f"{path}.tools", group.value, group.members):
            qualified = _qualify_member(group.value, member)
            name = _get_name(qualified)
            if name not in seen:
                seen.add(name)
                yield member_path, qualified


def _get_group(tool: Tool | VendorTool) -> VendorTool | None:
    """The tool if it is a namespace, None for any other tool."""
    if isinstance(tool, VendorTool) and tool.value.get("type") == NAMESPACE and isinstance(tool.value.get("name"), str):
        return tool
    return None


def _iterate_members(
    path: str, owner: Mapping[str, Any], members: Sequence[Tool | VendorTool]
) -> Iterator[tuple[str, Tool | VendorTool]]:
    """Path and value of each tool in the array at `path`, which `owner` has; `members` are its objects, parsed."""
    indexes = [index for index, value in enumerate(owner.get("tools") or ()) if isinstance(value, Mapping)]
    for index, member in zip(indexes, members, strict=True):
        yield f"{path}.{index}", member


def _qualify_member(group: Mapping[str, Any], member: Tool | VendorTool) -> Tool | VendorTool:
    """A tool of a namespace. The description of the namespace precedes its own."""
    name = _qualify(str(group["name"]), _get_name(member))
    own = member.description if isinstance(member, Tool) else member.value.get("description")
    description = "\n\n".join(text for text in (group.get("description"), own) if isinstance(text, str) and text)
    if isinstance(member, Tool):
        return replace(member, name=name, description=description or member.description)
    changed = {"name": name, "description": description} if description else {"name": name}
    return replace(member, value={**member.value, **changed})


def _get_name(tool: Tool | VendorTool) -> str:
    return tool.name if isinstance(tool, Tool) else str(tool.value.get("name"))


def _qualify_calls(message: Message) -> Message:
    if message.role != "assistant":
        return message
    parts = tuple(_qualify_call(part) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _qualify_call(part: Part) -> Part:
    if not isinstance(part, ToolCall) or not isinstance(namespace := part.extra.get(NAMESPACE), str):
        return part
    extra = {name: value for name, value in part.extra.items() if name != NAMESPACE}
    return replace(part, name=_qualify(namespace, part.name), extra=extra)


def _qualify(namespace: str, name: str) -> str:
    """The name in one list: two underscores, because all vendors accept them in names."""
    return f"{namespace}{_SEPARATOR}{name}"
