"""Custom tools, whose input is free text, as functions for models that only have functions, and the way back. Pure.

The function has one required string, ``input``. Its description is the tool's, followed by the grammar of the input, which such
a model cannot enforce. Calls in the history become calls of the function; a call by the model becomes a call of the tool.

Source: openai-python 3.52, types/responses/custom_tool_param.py, types/responses/tool_choice_custom_param.py,
types/chat/chat_completion_custom_tool_param.py and types/chat/chat_completion_named_tool_choice_custom_param.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.types import Call, ChatRequest, Message, Part, Tool, ToolCall, ToolChoice, VendorTool
from tornado_gate.types.value import replace
from tornado_gate.wire import conversation_formats as formats

_INPUT: Final = "input"
_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {_INPUT: {"type": "string", "description": "The input of the tool: free text."}},
    "required": [_INPUT],
}
_FORMATS: Final = (formats.OPENAI_CHAT, formats.OPENAI_RESPONSES)
_WORDS_OF_SYNTAX: Final = {"lark": "this Lark grammar", "regex": "this regular expression"}
_MEMBERS: Final = ("type", "name", "description", "format")


def list_custom_tools(request: ChatRequest) -> Iterator[str]:
    """The names of the request's custom tools."""
    for tool in request.tools:
        if isinstance(tool, VendorTool) and (value := _find_definition(tool)) is not None:
            yield value["name"]


def replace_custom_tools(call: Call, request: ChatRequest) -> ChatRequest:
    """`request` with functions in place of custom tools, also in its history and its tool choice.

    Reports the grammars, which are not enforced, and unknown members to `call.drop_field`.
    """
    tools = tuple(
        _make_function(call, tool, request.tool_path(number)) if isinstance(tool, VendorTool) else tool
        for number, tool in enumerate(request.tools)
    )
    messages = tuple(_replace_calls(message) for message in request.messages)
    choice = request.tool_choice and _read_choice(request.tool_choice)
    if tools == request.tools and messages == request.messages and choice is request.tool_choice:
        return request
    return replace(request, tools=tools, messages=messages, tool_choice=choice)


def _find_definition(tool: VendorTool) -> Mapping[str, Any] | None:
    """The object with the tool's name: the tool itself, or its member ``custom``; None for a tool of another type."""
    if tool.wire_format not in _FORMATS or tool.value.get("type") != "custom":
        return None
    value = tool.value.get("custom", tool.value)
    return value if isinstance(value, Mapping) and isinstance(value.get("name"), str) else None


def _make_function(call: Call, tool: VendorTool, path: str) -> Tool | VendorTool:
    value = _find_definition(tool)
    if value is None:
        return tool
    if value is not tool.value:
        path += ".custom"
    description = value.get("description") or ""
    style = value.get("format")
    grammar = _read_grammar(style)
    if grammar or (isinstance(style, Mapping) and style.keys() - {"type"}):
        call.drop_field(f"{path}.format")
    if grammar:
        description = f"{description}\n\n{grammar}".strip()
    for name, member in value.items():
        if name not in _MEMBERS and member is not None:
            call.drop_field(f"{path}.{name}")
    return Tool(name=value["name"], description=description or None, parameters=_PARAMETERS)


def _read_grammar(value: Any) -> str:
    """The sentence about the grammar of a ``format``; "" for free text. Chat puts the grammar in a member of that name."""
    if not isinstance(value, Mapping) or value.get("type") != "grammar":
        return ""
    inner = value.get("grammar")
    grammar = inner if isinstance(inner, Mapping) else value
    words = _WORDS_OF_SYNTAX.get(str(grammar.get("syntax")), "this grammar")
    return f"The input must match {words}:\n{grammar.get('definition') or ''}"


def _replace_calls(message: Message) -> Message:
    if message.role != "assistant":
        return message
    parts = tuple(_replace_call(part) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _replace_call(part: Part) -> Part:
    if not isinstance(part, ToolCall) or part.kind != "custom":
        return part
    return replace(part, kind="function", arguments=orjson.dumps({_INPUT: part.arguments}).decode())


def _read_choice(choice: ToolChoice) -> ToolChoice:
    """The choice of a function for the choice of a custom tool, even if it is one of the allowed tools."""
    value = choice.vendor or {}
    if value.get("type") == "custom":
        name = _read_name(value) if _is_plain(value) else None
        return choice if name is None else ToolChoice(mode="tool", name=name)
    if value.get("type") != "allowed_tools":
        return choice
    inner = value.get("allowed_tools")
    allowed = inner if isinstance(inner, Mapping) else value
    tools = allowed.get("tools") or ()
    names = tuple(name for tool in tools if (name := _read_name(tool)) is not None)
    if len(names) < len(tools) or all(tool["type"] != "custom" for tool in tools):
        return choice
    return ToolChoice(mode="allowed", names=names, required=allowed.get("mode") == "required")


def _is_plain(value: Mapping[str, Any]) -> bool:
    """Return whether a choice of a custom tool has no other members than the tool's name."""
    inner = value.get("custom")
    return value.keys() <= {"type", "name", "custom"} and (not isinstance(inner, Mapping) or inner.keys() <= {"name"})


def _read_name(value: Any) -> str | None:
    """The name in an entry of a tool choice; None for a tool that is no custom tool and no function."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    inner = value.get(kind, value) if kind in ("custom", "function") else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else None


_HEX: Final = "[0-9a-fA-F]"
_HIGH: Final = rf"\\u[dD][89abAB]{_HEX}{{2}}"
_LOW: Final = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_OPENING: Final = re.compile(rf'\s*\{{\s*"{_INPUT}"\s*:\s*"')
_TOKEN: Final = re.compile(rf'[^"\\]+|"|{_HIGH}{_LOW}|\\u{_HEX}{{4}}|\\.', re.DOTALL)
_UNFINISHED: Final = re.compile(rf"\\(?:u{_HEX}{{0,3}})?|{_HIGH}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?")


class InputReader:
    """The reader of the text in the arguments ``{"input": "…"}`` of one call, which arrive in chunks of any size.

    The text is returned as it arrives. Arguments of another form are held to their end; they are the input themselves unless
    they are an object with a string ``input``. Inside the string, control characters and unknown escapes are taken literally,
    and the end of the arguments ends it.
    """

    __slots__ = ("_closed", "_held", "_opened")

    def __init__(self) -> None:
        self._held = ""
        self._opened = False
        self._closed = False

    def feed(self, piece: str) -> str:
        """The text that `piece` completes; "" until a text is complete."""
        if self._closed:
            return ""
        self._held += piece
        if self._opened:
            return self._decode()
        opening = _OPENING.match(self._held)
        if opening is None:
            return ""
        self._opened, self._held = True, self._held[opening.end() :]
        return self._decode()

    def finish(self) -> str:
        """The remaining text after the last piece."""
        return "" if self._opened else _read_whole(self._held)

    def _decode(self) -> str:
        text, offset, out = self._held, 0, []
        while offset < len(text):
            if text[offset] == "\\" and _UNFINISHED.fullmatch(text, offset):
                break
            match = _TOKEN.match(text, offset)
            assert match is not None, "each character begins a token"
            token, offset = match[0], match.end()
            if token == '"':
                self._closed, offset = True, len(text)
                break
            out.append(_unescape(token) if token[0] == "\\" else token)
        self._held = text[offset:]
        return "".join(out)


def _unescape(token: str) -> str:
    try:
        return str(orjson.loads(f'"{token}"'))
    except orjson.JSONDecodeError:  # half of a surrogate pair, or no escape of JSON
        return "\ufffd" if len(token) > 2 else token


def _read_whole(arguments: str) -> str:
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    text = value.get(_INPUT) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments
