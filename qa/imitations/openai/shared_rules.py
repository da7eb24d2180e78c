"""Rules that chat completions and responses share: lengths, tools, and what a model supports.

Sources are beside the messages in `refusals` and beside the models in models.yaml; the others are named here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from qa.imitations.openai.json_rules import check_parameters
from qa.imitations.openai.models import Model
from qa.imitations.openai.refusals import (
    Refusal,
    out_of_range,
    too_long_array,
    too_long_text,
    unsupported_parameter,
    unsupported_value,
    wrong_pattern,
)

# prompt_cache_key and user: AnswerDotAI/fastllm#45 and its kin; safety_identifier: openai-python 3.52, response_create_params.py
_LONGEST: Final = {"user": 64, "prompt_cache_key": 64, "safety_identifier": 128}
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "top_logprobs": (0, 20),
    "n": (1, 128),
}
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NAME_PATTERN: Final = "^[a-zA-Z0-9_-]+$"
MOST_TOOLS: Final = 128


def check_members(body: Mapping[str, Any]) -> None:
    """Lengths and ranges of members at the top level."""
    for name, longest in _LONGEST.items():
        check_length(body.get(name), name, longest)
    for name, (least, most) in _RANGES.items():
        given = body.get(name)
        if given is not None and given < least:
            raise out_of_range(name, f">= {least:g}", given)
        if given is not None and given > most:
            raise out_of_range(name, f"<= {most:g}", given)
    metadata = body.get("metadata") or {}
    if len(metadata) > 16:
        message = f"Invalid 'metadata': object has too many properties. Expected at most 16, but got {len(metadata)}."
        raise Refusal(message, "metadata", "object_above_max_properties")
    for name, value in metadata.items():
        check_length(name, f"metadata.{name}", 64)
        check_length(value, f"metadata.{name}", 512)


def check_length(value: Any, param: str, most: int) -> None:
    if isinstance(value, str) and len(value) > most:
        raise too_long_text(param, most, len(value))


def check_name(name: str, param: str) -> None:
    """The name of a tool: openai-python 3.52, types/shared_params/function_definition.py."""
    check_length(name, param, 64)
    if not _NAME.fullmatch(name):
        raise wrong_pattern(param, _NAME_PATTERN)


def check_not_empty(values: Any, param: str) -> None:
    if isinstance(values, list) and not values:
        message = (
            f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        raise Refusal(message, param, "empty_array")


def check_function(function: Mapping[str, Any], param: str, strict: bool) -> None:
    check_name(function["name"], f"{param}.name")
    check_parameters(function.get("parameters"), function["name"], f"{param}.parameters", strict)


def check_tool_count(tools: Sequence[Any]) -> None:
    if len(tools) > MOST_TOOLS:
        raise too_long_array("tools", MOST_TOOLS, len(tools))


def check_custom_tools(model: Model, kinds: Sequence[str]) -> None:
    if "custom" in kinds and not model.custom_tools:
        raise Refusal(f"Custom tools are not supported with {model.name}.", "tools", "unsupported_value")


def check_effort(model: Model, effort: Any, param: str) -> None:
    if effort is not None and not model.reasons:
        raise unsupported_parameter(param)
    if effort is not None and effort not in model.efforts:
        raise unsupported_value(param, effort, model.efforts)


def check_verbosity(model: Model, verbosity: Any, param: str) -> None:
    if verbosity is not None and verbosity not in model.verbosity:
        raise unsupported_value(param, verbosity, model.verbosity)


def may_sample(model: Model, effort: Any) -> bool:
    """Whether temperature, top_p and logprobs are accepted with this effort."""
    return model.sampling == "always" or (model.sampling == "none" and (effort or model.default) == "none")


def has_word_json(texts: Any) -> bool:
    return "json" in str(texts).lower()
