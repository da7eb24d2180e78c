"""Requests: body to `ChatRequest` (server half), and `ChatRequest` to body (client half). Pure.

The model and the stream flag are in the URL path, not in the body. Members without a common field are in `extra` under their
path in the caller's spelling: ``safetySettings``, ``generation_config.media_resolution``.

Source: google-genai 3.4, models.py (_GenerateContentParameters_to_mldev) and types.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest
from tornado_gate.wire.prompt_cache import select_losses
from tornado_gate_gemini.wire.generate.generation_config import (
    MEMBER_NAMES,
    SCHEMA_MEMBERS,
    parse_config,
    render_config,
)
from tornado_gate_gemini.wire.generate.json_values import read_object, select_unknown
from tornado_gate_gemini.wire.generate.messages import list_part_paths, parse_system, parse_turns, render_contents
from tornado_gate_gemini.wire.generate.model_features import MODERN_FEATURES, GeminiModelFeatures
from tornado_gate_gemini.wire.generate.names import WIRE_FORMAT, convert_name, convert_to_camel_case, restore_spelling
from tornado_gate_gemini.wire.generate.tools import parse_tool_choice, parse_tools, render_tool_choice, render_tools
from tornado_gate_gemini.wire.generate.turns import group_contents

_KNOWN_MEMBERS: Final = ("model", "contents", "systemInstruction", "generationConfig", "tools", "toolConfig")
_NESTED_MEMBERS: Final = ("generationConfig", "toolConfig")
_THINKING_NAMES: Final[Mapping[str, str]] = {
    "summary": "generationConfig.thinkingConfig.includeThoughts",
    "budget_tokens": "generationConfig.thinkingConfig.thinkingBudget",
    "effort": "generationConfig.thinkingConfig.thinkingLevel",
}
_CALLING_CONFIG: Final = "toolConfig.functionCallingConfig"


def parse_request(
    body: Mapping[str, Any],
    *,
    model: str,
    stream: bool = False,
    camel_body: Mapping[str, Any] | None = None,
    reply_state: Any = None,
) -> ChatRequest:
    """The `ChatRequest` of a validated body. A member of a wrong type raises Python's own error, e.g. TypeError.

    `camel_body` is the body in camelCase, if already converted; `reply_state` is stored on the request.
    """
    wire = convert_to_camel_case(dict(body)) if camel_body is None else camel_body
    config = read_object(wire.get("generationConfig"))
    tool_config = read_object(wire.get("toolConfig"))
    fields, unsaid = parse_config(config)
    system = parse_system(wire.get("systemInstruction"))
    instruction = restore_spelling(body, "systemInstruction") if system else ""
    turns = group_contents(wire["contents"])
    messages = parse_turns(turns)
    extra = select_unknown(wire, *_KNOWN_MEMBERS)
    extra |= {f"generationConfig.{name}": value for name, value in unsaid.items()}
    extra |= {
        f"toolConfig.{name}": value for name, value in select_unknown(tool_config, "functionCallingConfig").items()
    }
    return ChatRequest(
        model=model,
        reply_state=reply_state,
        messages=(system, *messages) if system else messages,
        wire_format=WIRE_FORMAT,
        stream=stream,
        tools=parse_tools(wire.get("tools")),
        tool_choice=parse_tool_choice(read_object(tool_config.get("functionCallingConfig"))),
        extra={restore_spelling(body, name): value for name, value in extra.items()},
        names=_map_names(body, fields, config, tool_config) | list_part_paths(turns, instruction),
        **fields,
    )


def _map_names(
    body: Mapping[str, Any], fields: Mapping[str, Any], config: Mapping[str, Any], tool_config: Mapping[str, Any]
) -> dict[str, str]:
    names = {
        name: f"generationConfig.{MEMBER_NAMES[name]}" for name in MEMBER_NAMES if fields.get(name) not in (None, ())
    }
    if "response_format" in names:  # a lost format is reported as its schema, if it has one
        members = (name for name in SCHEMA_MEMBERS if config.get(name) is not None)
        names["response_format"] = f"generationConfig.{next(members, MEMBER_NAMES['response_format'])}"
        names["response_format.schema"] = names["response_format"]
    if fields.get("reasoning") is not None:
        thinking = fields["reasoning"]
        names |= {
            f"reasoning.{member}": path
            for member, path in _THINKING_NAMES.items()
            if getattr(thinking, member) is not None
        }
    if "functionCallingConfig" in tool_config:
        names["tool_choice"] = _CALLING_CONFIG
    return {name: restore_spelling(body, path) for name, path in names.items()}


def render_request(
    call: Call, request: ChatRequest, *, dialect: GeminiModelFeatures = MODERN_FEATURES
) -> dict[str, Any]:
    """The body for an upstream of this format. Reports unsupported fields to `call.drop_field`."""
    own = request.wire_format == WIRE_FORMAT
    contents, system = render_contents(call, request, own, dialect)
    body: dict[str, Any] = {"contents": contents}
    choice = render_tool_choice(call, request, own)
    optional = {
        "systemInstruction": system,
        "tools": render_tools(call, request, own, dialect),
        "toolConfig": {"functionCallingConfig": choice} if choice is not None else None,
        "generationConfig": render_config(call, request, dialect),
    }
    body |= {name: value for name, value in optional.items() if value}
    _drop_unknown(call, request)
    _render_extra(call, request, own, body)
    return body


def render_count(
    call: Call, request: ChatRequest, *, model: str, dialect: GeminiModelFeatures = MODERN_FEATURES
) -> dict[str, Any]:
    """The body of a token count: the prompt only. Fields that affect only the response are not reported as dropped.

    `model` is the resource name, ``models/NAME``, which the request inside the body requires.
    """
    prompt = ChatRequest(
        model=request.model,
        messages=request.messages,
        wire_format=request.wire_format,
        tools=request.tools,
        tool_choice=request.tool_choice,
        names=request.names,
    )
    body = render_request(call, prompt, dialect=dialect)
    if body.keys() == {"contents"}:
        return body
    return {"generateContentRequest": {"model": model, **body}}


def _drop_unknown(call: Call, request: ChatRequest) -> None:
    for name in ("logit_bias", "user", "metadata"):
        if getattr(request, name):
            call.drop_field(request.field_name(name))
    if request.parallel_tool_calls is False:
        call.drop_field(request.field_name("parallel_tool_calls"))


def _render_extra(call: Call, request: ChatRequest, own: bool, body: dict[str, Any]) -> None:
    if not own:
        for name in select_losses(request.extra):
            call.drop_field(name)
        return
    for name, value in request.extra.items():
        if value is None:
            continue
        outer, dot, inner = name.partition(".")
        if dot and convert_name(outer) in _NESTED_MEMBERS:
            _put_member(body.setdefault(convert_name(outer), {}), convert_name(inner), value)
        else:
            body.setdefault(convert_name(name), value)


def _put_member(config: dict[str, Any], name: str, value: Any) -> None:
    known = config.get(name)
    config[name] = {**value, **known} if isinstance(known, dict) and isinstance(value, Mapping) else value
