"""``POST /v1/chat/completions``: what the vendor refuses beyond its schema.

Sources: messages with tool calls: jeremychone/rust-genai#112 and FoundationAgents/OpenManus#744; ids of 40 characters:
vercel/ai#5171; json_object: mem0ai/mem0#3008; parallel_tool_calls: openai/swarm#30; metadata: looplj/axonhub#1380
(2026-04-12); tools with an effort: pipecat-ai/pipecat#4043 and BerriAI/litellm#34569; stream_options, logprobs, audio:
openai-python 3.52, completion_create_params.py; reasoning: teabranch/open-responses-server#41; prediction:
developers.openai.com/api/docs/guides/predicted-outputs, "Limitations".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from qa.imitations.openai import media_rules as media
from qa.imitations.openai import shared_rules as shared
from qa.imitations.openai.json_rules import check_response_schema
from qa.imitations.openai.models import Model, find_model
from qa.imitations.openai.refusals import (
    Refusal,
    invalid_value,
    out_of_range,
    too_long_array,
    unsupported_parameter,
    unsupported_value,
    wrong_pattern,
)
from qa.imitations.openai.schemas import CHAT, check_schema

Body = Mapping[str, Any]

_SAMPLING: Final = ("temperature", "top_p")
_PENALTIES: Final = ("presence_penalty", "frequency_penalty", "logit_bias")
_LONGEST_CALL_ID: Final = 40


def check_chat(body: Body) -> Model:
    """The model of an accepted request. Raises Refusal."""
    check_schema(CHAT, body)
    model = find_model(body["model"])
    if "chat" not in model.apis:
        message = "This model is only supported in v1/responses and not in v1/chat/completions."
        raise Refusal(message, "model", status=404)
    shared.check_members(body)
    shared.check_not_empty(body["messages"], "messages")
    _check_parameters(model, body)
    _check_tools(model, body)
    _check_format(body)
    for number, message_ in enumerate(body["messages"]):
        _check_message(model, message_, f"messages[{number}]")
    _check_order(body["messages"])
    _check_modalities(model, body)
    return model


def _check_parameters(model: Model, body: Body) -> None:
    effort = body.get("reasoning_effort")
    if effort is not None and not model.reasons:
        raise Refusal("Unrecognized request argument supplied: reasoning_effort", None)
    shared.check_effort(model, effort, "reasoning_effort")
    shared.check_verbosity(model, body.get("verbosity"), "verbosity")
    if effort == "max":  # BerriAI/litellm-docs#1173: max at /responses only
        raise unsupported_value("reasoning_effort", effort, [one for one in model.efforts if one != "max"])
    if model.reasons and body.get("max_tokens") is not None:
        message = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        raise Refusal(message, "max_tokens", "unsupported_parameter")
    for name in ("max_tokens", "max_completion_tokens"):
        limit = body.get(name)
        if limit is not None and limit < 1:
            raise out_of_range(name, ">= 1", limit)
        if limit is not None and limit > model.most:
            message = (
                f"max_tokens is too large: {limit}. This model supports at most {model.most} completion tokens, "
                f"whereas you provided {limit}."
            )
            raise Refusal(message, "max_tokens", "invalid_value")
    _check_sampling(model, body, effort)
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > 4:
        raise too_long_array("stop", 4, len(stop))
    if stop is not None and not model.stop:
        raise unsupported_parameter("stop")
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    if body.get("metadata") is not None and not body.get("store"):
        raise Refusal("The 'metadata' parameter is only allowed when 'store' is enabled.", "metadata")
    if body.get("prediction") is not None:
        _check_prediction(model, body)


def _check_sampling(model: Model, body: Body, effort: Any) -> None:
    if not shared.may_sample(model, effort):
        for name in _SAMPLING:
            if body.get(name) not in (None, 1):
                message = (
                    f"Unsupported value: '{name}' does not support {body[name]} with this model. "
                    "Only the default (1) value is supported."
                )
                raise Refusal(message, name, "unsupported_value")
        for name in ("logprobs", "top_logprobs"):
            if body.get(name):
                raise unsupported_parameter(name)
    if not model.penalties:
        for name in _PENALTIES:
            if body.get(name):
                raise unsupported_parameter(name)
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        message = "Invalid value for 'top_logprobs': 'top_logprobs' is only allowed when 'logprobs' is true."
        raise Refusal(message, "top_logprobs")


def _check_prediction(model: Model, body: Body) -> None:
    others = [name for name in ("tools", "logprobs", "max_completion_tokens", "audio") if body.get(name)]
    if model.reasons or others or (body.get("n") or 1) > 1:
        raise unsupported_parameter("prediction")


def _check_tools(model: Model, body: Body) -> None:
    tools = body.get("tools")
    shared.check_not_empty(tools, "tools")
    for name in ("tool_choice", "parallel_tool_calls"):
        if tools is None and body.get(name) is not None:
            message = f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            raise Refusal(message, name)
    if body.get("parallel_tool_calls") is not None and not model.parallel:
        raise unsupported_parameter("parallel_tool_calls")
    if tools is None:
        return
    shared.check_tool_count(tools)
    shared.check_custom_tools(model, [tool["type"] for tool in tools])
    for number, tool in enumerate(tools):
        if tool["type"] == "function":
            shared.check_function(
                tool["function"], f"tools[{number}].function", strict=bool(tool["function"].get("strict"))
            )
        else:
            shared.check_name(tool["custom"]["name"], f"tools[{number}].custom.name")
    _check_tool_choice(body["tools"], body.get("tool_choice"))
    _check_tools_with_effort(model, body.get("reasoning_effort"))


def _check_tool_choice(tools: Sequence[Body], choice: Any) -> None:
    names = [tool[tool["type"]]["name"] for tool in tools]
    wanted: list[Any] = []
    if isinstance(choice, dict):
        wanted = choice["allowed_tools"]["tools"] if choice["type"] == "allowed_tools" else [choice]
    for one in wanted:
        name = one.get(one.get("type"), {}).get("name")
        if name not in names:
            message = f"Invalid value for 'tool_choice': tool '{name}' is not specified in 'tools'."
            raise Refusal(message, "tool_choice", "invalid_value")


def _check_tools_with_effort(model: Model, effort: Any) -> None:
    refused = {
        "always": False,
        "unset": effort not in (None, "none"),
        "none": effort != "none",
        "never": True,
    }[model.chat_tools]
    if refused:
        message = (
            f"Function tools with reasoning_effort are not supported for {model.name} in /v1/chat/completions. "
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        )
        raise Refusal(message, "reasoning_effort")


def _check_format(body: Body) -> None:
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_object":
        texts = [message.get("content") for message in body["messages"]]
        if not shared.has_word_json(texts):
            message = (
                "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
            )
            raise Refusal(message, "messages")
    if wanted.get("type") == "json_schema":
        schema = wanted["json_schema"]
        shared.check_name(schema["name"], "response_format.json_schema.name")
        check_response_schema(schema.get("schema"), schema["name"], "response_format", bool(schema.get("strict")))


def _check_message(model: Model, message: Body, param: str) -> None:
    name = message.get("name")
    if name is not None and not re.fullmatch(r"[^\s<|\\/>]+", name):
        raise wrong_pattern(f"{param}.name", r"^[^\s<|\\/>]+$")
    shared.check_length(name, f"{param}.name", 64)
    content = message.get("content")
    shared.check_not_empty(content, f"{param}.content")
    for number, part in enumerate(content if isinstance(content, list) else ()):
        _check_part(model, part, f"{param}.content[{number}]")
    if message["role"] == "assistant":
        _check_assistant(message, param)
    elif content is None:
        raise Refusal("Invalid value for 'content': expected a string, got null.", f"{param}.content")


def _check_part(model: Model, part: Body, param: str) -> None:
    match part["type"]:
        case "image_url":
            media.check_image(model, part["image_url"]["url"], f"{param}.image_url.url")
        case "file":
            media.check_chat_file(part["file"], f"{param}.file")
        case "input_audio":
            media.check_audio(model, part["input_audio"], f"{param}.input_audio")


def _check_assistant(message: Body, param: str) -> None:
    calls = message.get("tool_calls")
    shared.check_not_empty(calls, f"{param}.tool_calls")
    others = [message.get(name) for name in ("refusal", "function_call", "audio")]
    if message.get("content") is None and not calls and all(other is None for other in others):
        raise Refusal("Invalid value for 'content': expected a string, got null.", f"{param}.content")
    for number, call in enumerate(calls or ()):
        shared.check_length(call["id"], f"{param}.tool_calls[{number}].id", _LONGEST_CALL_ID)
        shared.check_name(call[call["type"]]["name"], f"{param}.tool_calls[{number}].{call['type']}.name")


def _check_order(messages: Sequence[Body]) -> None:
    """Every tool call is answered directly after its message, and nothing else is answered."""
    waiting: set[str] = set()
    calls: set[str] = set()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            shared.check_length(message["tool_call_id"], f"messages[{number}].tool_call_id", _LONGEST_CALL_ID)
            if message["tool_call_id"] not in calls:
                text = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
                raise Refusal(f"{text}.", f"messages.[{number}].role")
            waiting.discard(message["tool_call_id"])
            continue
        _refuse_waiting(waiting)
        calls = {call["id"] for call in message.get("tool_calls") or ()}
        waiting = set(calls)
    _refuse_waiting(waiting)


def _refuse_waiting(waiting: set[str]) -> None:
    if waiting:
        message = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(sorted(waiting))}"
        )
        raise Refusal(message, "messages")


def _check_modalities(model: Model, body: Body) -> None:
    wanted = body.get("modalities") or ["text"]
    if "audio" in wanted and not model.audio:
        raise invalid_value("modalities", "audio", ["text"])
    if ("audio" in wanted) != (body.get("audio") is not None):
        raise Refusal("The 'audio' parameter is required when 'modalities' has 'audio'.", "audio")
