"""Translation between OpenAI's chat and responses, for members that only these two formats share. Pure.

Members with the same spelling, the verbosity, and custom tools, whose shape differs.

Source: openai-python 3.52, types/chat/completion_create_params.py, types/responses/response_create_params.py,
types/chat/chat_completion_custom_tool_param.py and types/responses/custom_tool_param.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Tool, VendorTool
from tornado_gate.types.value import replace
from tornado_gate_openai.provider.features import OpenAIModelFeatures
from tornado_gate_openai.wire import chat, formats

_CHAT_FORMAT: Final = formats.OPENAI_CHAT
_RESPONSES_FORMAT: Final = formats.OPENAI_RESPONSES

_SHARED_MEMBERS: Final = (
    "moderation",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
)


def render_chat_body(call: Call, request: ChatRequest, features: OpenAIModelFeatures) -> dict[str, Any]:
    """The body of a chat request. Reports unsupported fields to `call.drop_field`."""
    if request.wire_format != _RESPONSES_FORMAT:
        return _render_chat(call, request, features)
    shared, extra = _split_extra(request.extra)
    text = dict(extra.pop("text", None) or {})
    if (verbosity := text.pop("verbosity", None)) is not None:
        shared["verbosity"] = verbosity
    if text:
        extra["text"] = text
    choice = _convert_choice(request, _convert_to_chat_tool)
    request = replace(
        request,
        extra=extra,
        tools=_convert_tools(request, _RESPONSES_FORMAT, _CHAT_FORMAT, _convert_to_chat_tool),
        tool_choice=None if choice else request.tool_choice,
    )
    shared |= choice
    return _render_chat(call, request, features) | shared


def _render_chat(call: Call, request: ChatRequest, features: OpenAIModelFeatures) -> dict[str, Any]:
    return chat.render_request(
        call, request, reasoning_content=features.reasoning_content, cache_markers=features.cache_markers
    )


def render_response_body(call: Call, request: ChatRequest, features: OpenAIModelFeatures) -> dict[str, Any]:
    """The body of a responses request. Reports unsupported fields to `call.drop_field`."""
    from tornado_gate_openai.wire import responses

    if request.wire_format != _CHAT_FORMAT:
        return responses.render_request(call, request, cache_markers=features.cache_markers)
    shared, extra = _split_extra(request.extra)
    verbosity = extra.pop("verbosity", None)
    choice = _convert_choice(request, _convert_to_response_tool)
    request = replace(
        request,
        extra=extra,
        tools=_convert_tools(request, _CHAT_FORMAT, _RESPONSES_FORMAT, _convert_to_response_tool),
        tool_choice=None if choice else request.tool_choice,
    )
    body = responses.render_request(call, request, cache_markers=features.cache_markers) | shared | choice
    if verbosity is not None:
        body["text"] = {**body.get("text", {}), "verbosity": verbosity}
    return body


def _split_extra(extra: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(members that both formats spell alike, the other members)."""
    shared = {name: extra[name] for name in _SHARED_MEMBERS if extra.get(name) is not None}
    return shared, {name: value for name, value in extra.items() if name not in shared}


def _convert_tools(
    request: ChatRequest, wire_format: str, ours: str, reshaped: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> tuple[Tool | VendorTool, ...]:
    return tuple(
        VendorTool(wire_format=ours, value=reshaped(tool.value))
        if isinstance(tool, VendorTool) and tool.wire_format == wire_format and tool.value.get("type") == "custom"
        else tool
        for tool in request.tools
    )


def _convert_choice(
    request: ChatRequest, reshaped: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """``tool_choice`` for the choice of a custom tool, which has the shape of the tool; {} for other choices."""
    vendor = (request.tool_choice and request.tool_choice.vendor) or {}
    return {"tool_choice": reshaped(vendor)} if vendor.get("type") == "custom" else {}


def _convert_to_chat_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A custom tool of responses in the shape of chat."""
    custom = {name: value for name, value in tool.items() if name != "type"}
    match tool.get("format"):
        case {"type": "grammar", **grammar}:
            custom["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": "custom", "custom": custom}


def _convert_to_response_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A custom tool of chat in the shape of responses."""
    custom = dict(tool.get("custom") or {})
    match custom.get("format"):
        case {"type": "grammar", "grammar": dict(grammar)}:
            custom["format"] = {"type": "grammar", **grammar}
    return {"type": "custom", **custom}
