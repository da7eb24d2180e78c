"""The rules for ``generationConfig``, ``tools`` and ``toolConfig``.

Messages as quoted in public issues: candidates googleapis/js-genai#1609, penalties google-gemini/cookbook#1290, budgets
earendil-works/pi#3460, names of functions cline/cline#7339, log probabilities googleapis/python-genai#1921. Others by the
vendor's pages /docs/thinking, /docs/function-calling and /api/generate-content (read 2026-11-22), in words of this imitation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from qa.imitations.gemini.models import Model
from qa.imitations.gemini.refusal import refuse
from qa.imitations.gemini.schemas import check_json_schema, check_schema

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_JSON: Final = ("application/json", "text/x.enum")
_RANGES: Final = {"temperature": (0, 2), "topP": (0, 1), "topK": (1, 2**31), "logprobs": (0, 20)}


def check_settings(body: Mapping[str, Any], model: Model) -> None:
    """Raise `Refusal` for a parameter that the model does not accept."""
    config = body.get("generationConfig") or {}
    _check_config(config, model)
    _check_thinking(config.get("thinkingConfig") or {}, model)
    functions = _check_tools(body, model)
    _check_format(config, bool(functions), model)
    _check_choice(body, functions)
    if body.get("cachedContent") and (body.get("systemInstruction") or body.get("tools") or body.get("toolConfig")):
        refuse(
            "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config."
        )


def _check_config(config: Mapping[str, Any], model: Model) -> None:
    for name, (least, most) in _RANGES.items():
        if config.get(name) is not None and not least <= float(config[name]) <= most:
            refuse(f"* GenerateContentRequest.generation_config.{name}: must be in the range [{least}, {most}]")
    if (config.get("candidateCount") or 1) > model.candidates:
        refuse("Multiple candidates is not enabled for this model")
    if any(config.get(name) is not None for name in ("presencePenalty", "frequencyPenalty")) and not model.penalties:
        refuse("Penalty is not enabled for this model")
    limit = config.get("maxOutputTokens")
    if limit is not None and not 1 <= limit <= model.most_output:
        refuse(
            f"Unable to submit request because it has a maxOutputTokens value of {limit} but the supported range is from 1 "
            f"(inclusive) to {model.most_output + 1} (exclusive)."
        )
    if len(config.get("stopSequences") or ()) > 5:
        refuse("* GenerateContentRequest.generation_config.stop_sequences: at most 5 stop sequences are allowed")
    if any(not stop for stop in config.get("stopSequences") or ()):
        refuse("* GenerateContentRequest.generation_config.stop_sequences: must not be empty")
    if config.get("responseLogprobs") and not model.logprobs:
        refuse("Logprobs is not enabled for this model")
    if config.get("logprobs") is not None and not config.get("responseLogprobs"):
        refuse("* GenerateContentRequest.generation_config.logprobs: only with response_logprobs")
    if any(modality != "TEXT" for modality in config.get("responseModalities") or ()):
        refuse("This model only supports text output.")


def list_ignored(model: Model) -> tuple[str, ...]:
    """The paths that the vendor accepts and ignores."""
    names = ("temperature", "topP", "topK") if model.newest else ()
    return tuple(f"generationConfig.{name}" for name in names)


def _check_thinking(config: Mapping[str, Any], model: Model) -> None:
    level, budget = config.get("thinkingLevel"), config.get("thinkingBudget")
    if config and not model.levels and model.budgets is None:
        refuse("Thinking is not supported for this model.")
    if level is not None and budget is not None:
        refuse("You can only set only one of thinking budget and thinking level.")
    if level is not None and level not in model.levels:
        refuse(f"Thinking level {level} is not supported for this model.")
    if budget is None or budget == -1:
        return
    if model.budgets is None:
        refuse("Thinking budget is not supported for this model. Use thinking_level.")
    if budget == 0 and not model.off:
        refuse("Budget 0 is invalid. This model only works in thinking mode.")
    least, most = model.budgets
    if budget != 0 and not least <= budget <= most:
        refuse(f"The thinking budget {budget} is invalid. Please choose a value between {least} and {most}.")


def _check_tools(body: Mapping[str, Any], model: Model) -> list[str]:
    """The names of the functions."""
    names: list[str] = []
    others = False
    for number, tool in enumerate(body.get("tools") or ()):
        others = others or any(name != "functionDeclarations" for name in tool)
        for place, function in enumerate(tool.get("functionDeclarations") or ()):
            path = f"tools[{number}].function_declarations[{place}]"
            if not _NAME.fullmatch(function.get("name") or ""):
                refuse(
                    f"* GenerateContentRequest.{path}.name: Invalid function name. Must start with a letter or an underscore. "
                    "Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum "
                    "length of 64."
                )
            if function["name"] in names:
                refuse(f"Duplicate function declaration found: {function['name']}")
            names.append(function["name"])
            if function.get("parameters") is not None and function.get("parametersJsonSchema") is not None:
                refuse(f"* GenerateContentRequest.{path}: parameters and parameters_json_schema are mutually exclusive")
            if function.get("parameters") is not None:
                check_schema(function["parameters"], f"{path}.parameters")
            if function.get("parametersJsonSchema") is not None:
                check_json_schema(function["parametersJsonSchema"], f"{path}.parameters_json_schema")
    if names and others and not model.third:
        refuse("Tool use with function calling is unsupported")
    return names


def _check_format(config: Mapping[str, Any], has_functions: bool, model: Model) -> None:
    kind = config.get("responseMimeType")
    schema, json_schema = config.get("responseSchema"), config.get("responseJsonSchema")
    if schema is not None and json_schema is not None:
        refuse(
            "* GenerateContentRequest.generation_config: response_schema and response_json_schema are mutually exclusive"
        )
    if (schema is not None or json_schema is not None) and kind not in _JSON:
        refuse("Response schema is only supported with response mime type application/json or text/x.enum")
    if kind in _JSON and has_functions and not model.third:
        refuse(f"Function calling with a response mime type: '{kind}' is unsupported")
    if kind not in (None, "text/plain", *_JSON):
        refuse(
            "* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are `text/plain`, "
            "`application/json`"
        )
    if schema is not None:
        check_schema(schema, "generation_config.response_schema")
    if json_schema is not None:
        check_json_schema(json_schema, "generation_config.response_json_schema")


def _check_choice(body: Mapping[str, Any], functions: list[str]) -> None:
    config = (body.get("toolConfig") or {}).get("functionCallingConfig")
    if config is None:
        return
    mode, allowed = config.get("mode"), config.get("allowedFunctionNames") or []
    if not functions:
        refuse("Function calling config is set without function_declarations.")
    if allowed and mode not in ("ANY", "VALIDATED"):
        refuse("Function calling config: allowed_function_names should only be set when mode is ANY")
    for name in allowed:
        if name not in functions:
            refuse(f"allowed_function_names[0]: '{name}' is not in function_declarations")
