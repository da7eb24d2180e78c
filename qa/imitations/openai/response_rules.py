"""``POST /v1/responses``: what the vendor refuses beyond its schema.

Sources: outputs without a call and calls without an output: continuedev/continue#10092 and bytedance/trae-agent#245; reasoning
without its following item: continuedev/continue#8933, and the reverse: continuedev/continue#11994; encrypted content:
openai/codex#8145, and at models that do not reason: pydantic/pydantic-ai#2865; ids that the vendor has not issued, also of
whole items: jrkropp/open-webui-developer-toolkit#715, langchain-ai/langchain#38372; assistant content:
jeremychone/rust-genai#119; call ids of 64 characters: AnswerDotAI/fastllm#45; json_object: BigDawnGhost/wenyi#66
(the instructions do not count); tool_choice: lablup/mlxcel#1581; at least 16 tokens: earendil-works/pi#6265;
logprobs: UKGovernmentBEIS/inspect_ai#2739.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from qa.imitations.openai import media_rules as media
from qa.imitations.openai import shared_rules as shared
from qa.imitations.openai.json_rules import check_response_schema
from qa.imitations.openai.models import Model, find_model
from qa.imitations.openai.refusals import (
    Refusal,
    invalid_value,
    missing_parameter,
    out_of_range,
    too_long_text,
    unsupported_parameter,
)
from qa.imitations.openai.schemas import RESPONSES, check_schema

Body = Mapping[str, Any]

_PREFIXES: Final = {"message": "msg", "function_call": "fc", "reasoning": "rs", "custom_tool_call": "ctc"}
_OUTPUTS: Final = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_LONGEST_ARGUMENTS: Final = 1_048_576
LEAST_OUTPUT: Final = 16


@dataclass
class Issued:
    """What the vendor has issued: encrypted reasoning, stored responses and items, the ids of all items, and the reasoning
    before each item.
    """

    encrypted: set[str] = field(default_factory=set)
    responses: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    items: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    reasoning_of: dict[str, str] = field(default_factory=dict)


def check_response(body: Body, issued: Issued) -> Model:
    """The model of an accepted request. Raises Refusal."""
    check_schema(RESPONSES, body)
    if body.get("model") is None:
        raise missing_parameter("model")
    model = find_model(body["model"])
    if "responses" not in model.apis:
        raise Refusal(f"The model `{model.name}` is not supported in v1/responses.", "model", status=404)
    shared.check_members(body)
    _check_parameters(model, body)
    _check_reasoning(model, body)
    _check_tools(model, body)
    items = list_items(body, issued)
    _check_format(body)
    for number, item in enumerate(items):
        _check_item(model, item, f"input[{number}]", issued)
    _check_calls(items)
    _check_reasoning_order(items, issued)
    return model


def list_items(body: Body, issued: Issued) -> list[dict[str, Any]]:
    """The items of the conversation, with those of the previous response first."""
    value = body.get("input")
    if value is None:
        raise missing_parameter("input")
    previous = body.get("previous_response_id")
    if not value and not any(body.get(name) for name in ("previous_response_id", "prompt", "conversation")):
        message = "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided."
        raise Refusal(message, None, "missing_required_parameter")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else list(value)
    if previous is not None:
        if previous not in issued.responses:
            message = f"Previous response with id '{previous}' not found."
            raise Refusal(message, "previous_response_id", "previous_response_not_found")
        items = [*issued.responses[previous], *items]
    return items


def _check_parameters(model: Model, body: Body) -> None:
    limit = body.get("max_output_tokens")
    if limit is not None and limit < LEAST_OUTPUT:
        raise out_of_range("max_output_tokens", f">= {LEAST_OUTPUT}", limit)
    if limit is not None and limit > model.most:
        raise out_of_range("max_output_tokens", f"<= {model.most}", limit)
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    shared.check_verbosity(model, (body.get("text") or {}).get("verbosity"), "text.verbosity")
    if not shared.may_sample(model, (body.get("reasoning") or {}).get("effort")):
        for name in ("temperature", "top_p", "top_logprobs"):
            if body.get(name) is not None:
                raise unsupported_parameter(name)
        if "message.output_text.logprobs" in (body.get("include") or ()):
            raise Refusal("logprobs are not supported with reasoning models.", "include", "unsupported_parameter")


def _check_reasoning(model: Model, body: Body) -> None:
    reasoning = body.get("reasoning") or {}
    shared.check_effort(model, reasoning.get("effort"), "reasoning.effort")
    for name, value in reasoning.items():
        if value is not None and not model.reasons:
            raise unsupported_parameter(f"reasoning.{name}")
    if "reasoning.encrypted_content" in (body.get("include") or ()) and not model.reasons:
        raise Refusal("Encrypted content is not supported with this model.", "include")


def _check_tools(model: Model, body: Body) -> None:
    tools = body.get("tools") or []
    shared.check_tool_count(tools)
    shared.check_custom_tools(model, [tool["type"] for tool in tools])
    for number, tool in enumerate(tools):
        if tool["type"] == "function":
            # strict: null and an absent strict both mean the default, true
            shared.check_function(tool, f"tools[{number}]", strict=tool.get("strict") is not False)
        elif tool["type"] == "custom":
            shared.check_name(tool["name"], f"tools[{number}].name")
    _check_tool_choice(tools, body.get("tool_choice"))


def _check_tool_choice(tools: Sequence[Body], choice: Any) -> None:
    if choice in (None, "auto", "none"):
        return
    if not tools:
        kind = choice if isinstance(choice, str) else choice["type"]
        raise Refusal(f"Tool choice '{kind}' must be specified with 'tools' parameter.", "tool_choice")
    if not isinstance(choice, dict):
        return
    for one in choice["tools"] if choice["type"] == "allowed_tools" else [choice]:
        if one.get("type") in ("function", "custom"):
            named = [tool for tool in tools if (tool["type"], tool.get("name")) == (one["type"], one.get("name"))]
            if not named:
                raise Refusal(f"Tool choice '{one['type']}' not found in 'tools' parameter.", "tool_choice")


def _check_format(body: Body) -> None:
    wanted = (body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_object" and not shared.has_word_json(body["input"]):
        message = (
            "Response input messages must contain the word 'json' in some form to use 'text.format' of type "
            "'json_object'."
        )
        raise Refusal(message, "input")
    if wanted.get("type") == "json_schema":
        shared.check_name(wanted["name"], "text.format.name")
        strict = wanted.get("strict") is not False  # the default is true
        check_response_schema(wanted.get("schema"), wanted["name"], "text.format.schema", strict)


def _check_item(model: Model, item: Body, param: str, issued: Issued) -> None:
    kind = item.get("type") or "message"
    _check_item_id(kind, item, param, issued)
    for name in ("call_id", "name"):
        shared.check_length(item.get(name), f"{param}.{name}", 64)
    if kind in ("function_call", "custom_tool_call"):
        shared.check_name(item["name"], f"{param}.name")
        if len(item.get("arguments", "")) > _LONGEST_ARGUMENTS:
            raise too_long_text(f"{param}.arguments", _LONGEST_ARGUMENTS, len(item["arguments"]))
    if kind == "message":
        _check_content(model, item.get("content"), f"{param}.content", item["role"] == "assistant")
    elif kind in _OUTPUTS:
        _check_content(model, item["output"], f"{param}.output", False)
    elif kind == "reasoning":
        _check_encrypted(item, issued)


def _check_item_id(kind: str, item: Body, param: str, issued: Issued) -> None:
    prefix, item_id = _PREFIXES.get(kind), item.get("id")
    if prefix is None or item_id is None or item.get("role") not in (None, "assistant"):
        return
    if not str(item_id).startswith(prefix):
        message = f"Invalid '{param}.id': '{item_id}'. Expected an ID that begins with '{prefix}'."
        raise Refusal(message, f"{param}.id", "invalid_value")
    if item_id not in issued.ids:
        raise _item_not_found(item_id)


def _item_not_found(item_id: Any) -> Refusal:
    message = f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false."
    return Refusal(message, "input", status=404)


def _check_encrypted(item: Body, issued: Issued) -> None:
    encrypted = item.get("encrypted_content")
    if encrypted is not None and encrypted not in issued.encrypted:
        message = f"The encrypted content {encrypted[:4]}...{encrypted[-4:]} could not be verified."
        raise Refusal(message, None, "invalid_encrypted_content")
    if encrypted is None and item.get("id") not in issued.items:
        raise _item_not_found(item.get("id"))


def _check_content(model: Model, content: Any, param: str, answered: bool) -> None:
    shared.check_not_empty(content, param)
    for number, part in enumerate(content if isinstance(content, list) else ()):
        place = f"{param}[{number}]"
        kind = part["type"]
        if answered and kind not in ("output_text", "refusal"):
            raise invalid_value(place, kind, ["output_text", "refusal"])
        if kind == "input_image":
            if part.get("file_id") is not None:
                media.check_file_id(part["file_id"], f"{place}.file_id")
            else:
                media.check_image(model, part.get("image_url"), f"{place}.image_url")
        elif kind == "input_file":
            media.check_response_file(part, place)


def _check_calls(items: Sequence[Body]) -> None:
    calls: dict[str, str] = {}
    for item in items:
        kind = item.get("type") or "message"
        if kind in _OUTPUTS:
            if calls.pop(str(item["call_id"]), None) != _OUTPUTS[kind]:
                words = _OUTPUTS[kind].replace("_", " ")
                message = f"No tool call found for {words} output with call_id {item['call_id']}."
                raise Refusal(message, "input")
        elif kind in _OUTPUTS.values():
            calls[item["call_id"]] = kind
    for call_id, kind in calls.items():
        raise Refusal(f"No tool output found for {kind.replace('_', ' ')} {call_id}.", "input")


def _check_reasoning_order(items: Sequence[Body], issued: Issued) -> None:
    """Reasoning is followed by what it led to, and an item with an id by the reasoning that it had."""
    for number, item in enumerate(items):
        if item.get("type") == "reasoning":
            rest = [one for one in items[number + 1 :] if one.get("type") != "reasoning"]
            follower = rest[0] if rest else {}
            made = follower.get("type") in ("function_call", "custom_tool_call") or follower.get("role") == "assistant"
            if not made:
                message = (
                    f"Item '{item.get('id', 'rs_')}' of type 'reasoning' was provided without its required following "
                    "item."
                )
                raise Refusal(message, "input")
        before = items[number - 1] if number else {}
        needed = issued.reasoning_of.get(str(item.get("id")))
        if needed is not None and before.get("id", needed) != needed:
            message = (
                f"Item '{item['id']}' of type '{item.get('type', 'message')}' was provided without its required "
                f"'reasoning' item: '{needed}'."
            )
            raise Refusal(message, "input")
