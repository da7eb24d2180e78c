"""Message requests: body to `ChatRequest` (server half), and `ChatRequest` to body (client half). Pure.

Fields that `ChatRequest` does not have are in `extra` under their wire names; members of known objects under dotted names
such as ``metadata.team`` or ``thinking.display``.

Source: anthropic-python 2.11, types/message_create_params.py. The SDK no longer has ``temperature``, ``top_p`` and
``top_k``; models before 4.7 accept them with API versions before 2026-10-21.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, ResponseFormat
from tornado_gate.wire.fitting import CONTINUE, make_opaque_user, report_begun_answer
from tornado_gate.wire.json_schema import close_objects
from tornado_gate.wire.prompt_cache import refuses_caching, select_losses
from tornado_gate.wire.reasoning import BUDGET_OF_EFFORT
from tornado_gate_anthropic.wire.closed_schema import restrict_schema
from tornado_gate_anthropic.wire.json_mode import make_json_instruction, wants_json
from tornado_gate_anthropic.wire.messages.cache_markers import MarkerWriter, add_rolling_markers
from tornado_gate_anthropic.wire.messages.grammar_limits import fit_grammar
from tornado_gate_anthropic.wire.messages.json_values import WIRE_FORMAT, add_extra, drop_none, select_unknown
from tornado_gate_anthropic.wire.messages.message_parser import parse_conversation
from tornado_gate_anthropic.wire.messages.message_renderer import render_conversation
from tornado_gate_anthropic.wire.messages.model_features import ModelFeatures
from tornado_gate_anthropic.wire.messages.thinking import allow_unbound_thinking, parse_reasoning, render_reasoning
from tornado_gate_anthropic.wire.messages.tools import DISABLE_PARALLEL, parse_tool, parse_tool_choice, render_tools

_PHONE_NUMBER: Final = re.compile(r"\+?[\d\s().-]{7,}")

_KNOWN_MEMBERS: Final = frozenset(
    (
        "model",
        "messages",
        "system",
        "stream",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "metadata",
    )
)
_NAMES: Final = {
    "stop": "stop_sequences",
    "user": "metadata.user_id",
    "response_format": "output_config.format",
    "parallel_tool_calls": f"tool_choice.{DISABLE_PARALLEL}",
}
"""By field of `ChatRequest`: its place in the body, where they differ."""
_NESTED_MEMBERS: Final = ("metadata", "output_config", "output_config.format", "thinking", "tool_choice")
_UNSUPPORTED_FIELDS: Final = (
    "seed",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "audio",
)


def parse_request(body: Mapping[str, Any]) -> ChatRequest:
    """The `ChatRequest` of a validated body. A member of a wrong type raises Python's own error, e.g. KeyError."""
    messages, names = parse_conversation(body)
    reasoning, reasoning_name, extra = parse_reasoning(body)
    tools = tuple(map(parse_tool, body.get("tools") or ()))
    tool_choice, parallel, choice_extra = parse_tool_choice(body.get("tool_choice"), tools)
    response_format, output_extra = _parse_output(body.get("output_config") or {})
    metadata = body.get("metadata") or {}
    extra |= choice_extra
    extra |= output_extra
    if metadata:
        extra |= {f"metadata.{name}": value for name, value in select_unknown(metadata, "user_id").items()}
    if not _KNOWN_MEMBERS.issuperset(body):
        extra |= {name: value for name, value in body.items() if name not in _KNOWN_MEMBERS}
    names |= _NAMES
    if reasoning_name:
        names["reasoning"] = reasoning_name
    if reasoning is not None and (reasoning.summary or reasoning.visible):
        names["reasoning.summary"] = "thinking.display"
    return ChatRequest(
        model=body["model"],
        messages=messages,
        wire_format=WIRE_FORMAT,
        stream=bool(body.get("stream")),
        max_tokens=body.get("max_tokens"),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        top_k=body.get("top_k"),
        stop=tuple(body.get("stop_sequences") or ()),
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel,
        response_format=response_format,
        reasoning=reasoning,
        user=metadata.get("user_id"),
        extra=extra,
        names=names,
    )


def _parse_output(config: Mapping[str, Any]) -> tuple[ResponseFormat | None, dict[str, Any]]:
    if not config:
        return None, {}
    extra = {f"output_config.{name}": value for name, value in select_unknown(config, "effort", "format").items()}
    match config.get("format"):
        case None:
            return None, extra
        case {"type": "json_schema", "schema": dict(schema)} as wanted:
            extra |= {
                f"output_config.format.{name}": value
                for name, value in select_unknown(wanted, "type", "schema").items()
            }
            return ResponseFormat(kind="json_schema", schema=schema), extra
        case unknown:
            return None, extra | {"output_config.format": unknown}


def render_request(
    call: Call,
    request: ChatRequest,
    *,
    abilities: ModelFeatures | None = None,
    default_max_tokens: int | None = None,
    auto_cache: bool = False,
) -> dict[str, Any]:
    """The body for an upstream of this format. Reports unsupported fields to `call.drop_field`.

    `default_max_tokens` replaces the model's default for a request without a limit; the tokens for thinking are added to it.
    With `auto_cache` a request of another format gets cache markers, unless it has some or refuses them.
    """
    abilities = abilities or ModelFeatures()
    markers = MarkerWriter(call=call)
    own = request.wire_format == WIRE_FORMAT
    body: dict[str, Any] = {"model": call.target.upstream_model, "max_tokens": request.max_tokens}
    body |= render_conversation(call, request, abilities, markers)
    if not own:
        if wants_json(request):
            body["system"] = _join_system(body.get("system"), make_json_instruction(request))
        _end_with_user_turn(call, request, abilities, body["messages"])
    limit = request.max_tokens if request.max_tokens is not None else _get_known_limit(call)
    reasoning = render_reasoning(call, request, abilities, body["messages"], limit)
    thinking = reasoning.pop("thinking", None)
    if request.max_tokens is None:
        effort = reasoning.get("effort")
        body["max_tokens"] = choose_max_tokens(call, thinking, effort, abilities, default_max_tokens)
    body |= _render_sampling(call, request, abilities, thinking)
    body |= render_tools(call, request, abilities, markers)
    body |= drop_none(
        stop_sequences=_render_stop(call, request, own) or None,
        thinking=thinking,
        output_config=(reasoning | _render_output(call, request, abilities)) or None,
        metadata=drop_none(user_id=_render_user(request, abilities)) or None,
    )
    if not own:
        fit_grammar(call, request, body)
        if (bound := allow_unbound_thinking(thinking, abilities, body["messages"])) is not None:
            body["thinking"] = bound
    if request.stream:
        body["stream"] = True
    _drop_unsupported(call, request)
    _render_extra(call, request, own, body)
    if not own:
        markers.mark_body(body, request.extra)
        if auto_cache and not markers.names and not refuses_caching(request.extra):
            add_rolling_markers(body)
        markers.settle(body)
    return body


def _end_with_user_turn(
    call: Call, request: ChatRequest, abilities: ModelFeatures, turns: list[dict[str, Any]]
) -> None:
    """Add a user turn after a last assistant turn, where the model does not continue one: at most models, and never as JSON."""
    response_format = request.response_format
    has_schema = response_format is not None and response_format.schema is not None
    if (has_schema or not abilities.prefill) and turns and turns[-1]["role"] == "assistant":
        report_begun_answer(call, request)
        turns.append({"role": "user", "content": CONTINUE})


def _join_system(system: str | list[dict[str, Any]] | None, text: str) -> str | list[dict[str, Any]]:
    """The system prompt with `text` at its end. The vendor joins blocks without white space."""
    if isinstance(system, list):
        return [*system, {"type": "text", "text": f"\n\n{text}"}]
    return f"{system}\n\n{text}" if system else text


def _render_user(request: ChatRequest, abilities: ModelFeatures) -> str | None:
    user = request.user
    personal = user is not None and request.wire_format != WIRE_FORMAT and _is_personal(user)
    return make_opaque_user(user) if user is not None and personal and abilities.opaque_user else user


def _is_personal(user: str) -> bool:
    """Return whether the vendor rejects a user id, or documents that it may: an e-mail address or a phone number."""
    is_email = "@" in user[1:-1] and user.split() == [user]
    return is_email or _PHONE_NUMBER.fullmatch(user) is not None


def choose_max_tokens(
    call: Call, thinking: Any, effort: Any, abilities: ModelFeatures, configured: int | None = None
) -> int:
    """``max_tokens`` for a request without one: the target's configured output limit, else a default with room for thinking.

    The default is `configured` or the model's. `thinking` and `effort` are members of the outgoing body. A budget must be below
    ``max_tokens``; adaptive thinking gets the budget that corresponds to its effort.
    """
    known = _get_known_limit(call)
    if known is not None:
        return known
    total = (configured or abilities.default_output) + _estimate_thinking(thinking, effort, abilities)
    return total if abilities.max_output is None else min(total, abilities.max_output)


def _estimate_thinking(thinking: Any, effort: Any, abilities: ModelFeatures) -> int:
    kind = thinking.get("type") if isinstance(thinking, Mapping) else None
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        return budget if isinstance(budget, int) else 0
    thinks = abilities.thinking_default if kind is None else kind == "adaptive"
    return BUDGET_OF_EFFORT.get(effort, BUDGET_OF_EFFORT["high"]) if thinks else 0


def _get_known_limit(call: Call) -> int | None:
    limit = call.target.facts.get("output_token_limit")
    return limit if isinstance(limit, int) else None


def _render_sampling(
    call: Call, request: ChatRequest, abilities: ModelFeatures, thinking: Mapping[str, Any] | None
) -> dict[str, Any]:
    """temperature, top_p and top_k. With thinking enabled, models accept only a top_p of 0.95 or more."""
    fields = drop_none(temperature=request.temperature, top_p=request.top_p, top_k=request.top_k)
    if request.wire_format == WIRE_FORMAT:
        return fields
    lost: list[str] = []
    thinks = thinking is not None and thinking["type"] != "disabled"
    if abilities.sampling == "none" or thinks:
        lost = [name for name in fields if name != "top_p" or abilities.sampling == "none" or fields[name] < 0.95]
    elif abilities.sampling == "one" and "temperature" in fields and "top_p" in fields:
        lost = ["temperature"] if fields["temperature"] == 1 else ["top_p"]
    for name in lost:
        if fields.pop(name) != 1 or name == "top_k":  # 1 is the default of temperature and top_p
            call.drop_field(request.field_name(name))
    if fields.get("temperature", 0) > 1:
        call.drop_field(request.field_name("temperature"))
        fields["temperature"] = 1.0
    return fields


def _render_stop(call: Call, request: ChatRequest, own: bool) -> list[str]:
    """The stop sequences that are not only white space. The vendor rejects the others."""
    stops = [stop for stop in request.stop if own or stop.strip()]
    if len(stops) < len(request.stop):
        call.drop_field(request.field_name("stop"))
    return stops


def _render_output(call: Call, request: ChatRequest, abilities: ModelFeatures) -> dict[str, Any]:
    response_format = request.response_format
    if response_format is None or response_format.kind == "text":
        return {}
    name = request.field_name("response_format")
    for member in select_losses(response_format.extra):
        call.drop_field(f"{name}.{member}")
    if response_format.schema is None:  # wants_json
        return {}
    if response_format.description is not None:
        call.drop_field(f"{name}.description")
    if request.wire_format == WIRE_FORMAT:
        schema: Any = response_format.schema
    elif abilities.schema == "closed":
        schema_name = request.member_name("response_format", "schema")
        schema = restrict_schema(
            response_format.schema, lambda place: call.drop_field(f"{schema_name}.{place}".rstrip("."))
        )
    else:
        schema = close_objects(response_format.schema)
    return {"format": {"type": "json_schema", "schema": schema}}


def _drop_unsupported(call: Call, request: ChatRequest) -> None:
    """Report the fields that this format lacks, unless they have their default value."""
    for name in _UNSUPPORTED_FIELDS:
        if getattr(request, name) not in (None, False, 0, 0.0, {}) or (name == "seed" and request.seed == 0):
            call.drop_field(request.field_name(name))
    if request.n not in (None, 1):
        call.drop_field(request.field_name("n"))
    if any(modality != "text" for modality in request.modalities):
        call.drop_field(request.field_name("modalities"))
    if request.metadata:
        call.drop_field(request.field_name("metadata"))


def _render_extra(call: Call, request: ChatRequest, own: bool, body: dict[str, Any]) -> None:
    if own:
        for name, value in request.extra.items():
            _restore_member(body, name, value)
        return
    for name in select_losses(request.extra, marked=True):
        call.drop_field(name)


def _restore_member(body: dict[str, Any], name: str, value: Any) -> None:
    """Put a member of `extra` back at the path where `parse_request` found it."""
    parent, _, member = name.rpartition(".")
    if parent not in _NESTED_MEMBERS:
        add_extra(body, {name: value})
        return
    container = body
    for step in parent.split("."):
        container = container.setdefault(step, {})
    container.setdefault(member, value)
