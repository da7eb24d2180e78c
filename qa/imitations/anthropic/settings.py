"""The rules for everything but the conversation: which parameters a model accepts, alone and together.

Messages that stand in quotes in the vendor's pages or in public issues are repeated as they are: `thinking.type.*`,
`tool_choice` and adaptive thinking: thinking-troubleshooting and whats-new-opus-5-5 (read 2026-11-22); temperature and top_p:
cloud-apim/otoroshi-llm-extension#140; `temperature` is deprecated: szczyglis-dev/py-gpt#184; tool names:
home-assistant/core#147760; compositions: dearlordylord/huly-mcp#66; user_id: BerriAI/litellm#10106. Budgets and their relation to
max_tokens: anthropic-python 2.11, types/thinking_config_enabled_param.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from qa.imitations.anthropic.models import Model
from qa.imitations.anthropic.refusal import refuse
from qa.imitations.anthropic.schemas import check_input_schema, check_output_schemas

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PERSONAL: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_LEAST_BUDGET: Final = 1024
_LONGEST_USER: Final = 256
_INSTEAD: Final = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'


def check_settings(body: Mapping[str, Any], model: Model) -> None:
    """Raise `Refusal` for a parameter that the model does not accept."""
    if body["max_tokens"] < 0:
        refuse("max_tokens: Input should be greater than or equal to 0")
    if body["max_tokens"] > model.most_output:
        refuse(
            f"max_tokens: {body['max_tokens']} > {model.most_output}, which is the maximum allowed number of output tokens "
            f"for {body['model']}"
        )
    _check_thinking(body, model)
    _check_effort(body, model)
    _check_sampling(body, model)
    _check_tools(body, model)
    for number, stop in enumerate(body.get("stop_sequences") or ()):
        if not stop.strip():
            refuse(f"stop_sequences: each stop sequence must contain non-whitespace (entry {number})")
    user = (body.get("metadata") or {}).get("user_id")
    if user is not None and _PERSONAL.search(user):
        refuse("metadata.user_id: user_id appears to contain an email address")
    if user is not None and len(user) > _LONGEST_USER:
        refuse(f"metadata.user_id: String should have at most {_LONGEST_USER} characters")


def get_thinking_type(body: Mapping[str, Any], model: Model) -> str:
    """The type of thinking in effect."""
    return str((body.get("thinking") or {}).get("type", model.default))


def is_thinking(body: Mapping[str, Any], model: Model) -> bool:
    """Whether the model may think before its answer."""
    return get_thinking_type(body, model) in ("enabled", "adaptive")


def _check_thinking(body: Mapping[str, Any], model: Model) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking["type"]
    if not model.thinking and kind == "disabled":
        return
    if kind not in model.thinking:
        if kind == "adaptive":
            refuse("adaptive thinking is not supported on this model")
        refuse(f'"thinking.type.{kind}" is not supported for this model. {_INSTEAD}')
    effort = (body.get("output_config") or {}).get("effort")
    if kind in ("disabled", "between_tools") and model.off_below and effort in ("xhigh", "max"):
        refuse(f'"thinking.type.{kind}" is not supported at effort "{effort}"')
    if kind == "enabled":
        if thinking["budget_tokens"] < _LEAST_BUDGET:
            refuse(f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_LEAST_BUDGET}")
        if thinking["budget_tokens"] >= body["max_tokens"]:
            refuse("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation")


def _check_effort(body: Mapping[str, Any], model: Model) -> None:
    effort = (body.get("output_config") or {}).get("effort")
    if effort is None:
        return
    if not model.efforts:
        refuse("This model does not support the effort parameter.")
    if effort not in model.efforts:
        refuse(f"output_config.effort: '{effort}' is not supported for this model")


def _check_sampling(body: Mapping[str, Any], model: Model) -> None:
    given = {name: body[name] for name in ("temperature", "top_p", "top_k") if body.get(name) is not None}
    temperature, top_p = given.get("temperature"), given.get("top_p")
    if temperature is not None and not 0 <= temperature <= 1:
        refuse("temperature: range: 0..1")
    if top_p is not None and not 0 <= top_p <= 1:
        refuse("top_p: range: 0..1")
    if "top_k" in given and given["top_k"] < 0:
        refuse("top_k: range: -1..500")
    if model.sampling == "none":
        for name, value in given.items():
            if name == "top_k" or value != 1:
                refuse(f"`{name}` is deprecated for this model.")
    if model.sampling != "all" and temperature is not None and top_p is not None:
        refuse("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    if is_thinking(body, model):
        if temperature not in (None, 1):
            refuse("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
        if top_p is not None and top_p < 0.95:
            refuse("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")
        if "top_k" in given:
            refuse("`top_k` must be unset when thinking is enabled.")


def _check_tools(body: Mapping[str, Any], model: Model) -> None:
    tools = body.get("tools") or ()
    names: list[str] = []
    for number, tool in enumerate(tools):
        if tool.get("type", "custom") != "custom":
            names.append(tool["name"])
            continue
        if not _TOOL_NAME.fullmatch(tool["name"]):
            refuse(f"tools.{number}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool["name"] in names:
            refuse("tools: Tool names must be unique.")
        names.append(tool["name"])
        check_input_schema(tool["input_schema"], f"tools.{number}.custom.input_schema")
        if tool.get("strict") and not model.structured:
            refuse(f"tools.{number}.custom.strict: strict tools are not supported on this model")
    wanted = (body.get("output_config") or {}).get("format")
    if wanted is not None and not model.structured:
        refuse("output_config.format: structured outputs are not supported on this model")
    check_output_schemas(tools, wanted)
    _check_choice(body, model, names)


def _check_choice(body: Mapping[str, Any], model: Model, names: list[str]) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not names:
        refuse("tool_choice: tool_choice may only be specified while providing tools.")
    if choice["type"] == "tool" and choice["name"] not in names:
        refuse(f"tool_choice: Tool '{choice['name']}' not found in provided tools")
    if choice["type"] in ("any", "tool"):
        if model.forced == "no":
            refuse('tool_choice: type "tool" and "any" are not supported for this model.')
        if model.forced == "without thinking" and is_thinking(body, model):
            refuse("Thinking may not be enabled when tool_choice forces tool use.")
