"""Schemas of generate bodies. Values are not converted, unknown members are accepted, and null means "not set".

Bodies are converted to camelCase and then checked; an error names the path as the caller spelled it. Enumerations that the
vendor extends (levels, resolutions, modalities) accept any string, because upstreams differ.

Source of the limits: google-genai 3.4, types.GenerateContentConfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import need_object, raise_invalid, refuse_value
from tornado_gate.codec.fields import (
    MAX_TOKENS,
    Array,
    BodySchema,
    Boolean,
    FunctionField,
    Integer,
    Number,
    Object,
    String,
    check,
)
from tornado_gate.errors import InvalidField
from tornado_gate_gemini.fields.message_checks import check_contents, check_system
from tornado_gate_gemini.fields.tool_checks import ToolConfigSchema, check_tools
from tornado_gate_gemini.wire.generate import convert_to_camel_case, restore_spelling

_ASPECT_RATIO: Final = re.compile(r"[1-9][0-9]{0,3}:[1-9][0-9]{0,3}")
_MAX_STOPS: Final = 16  # the vendor accepts 5, other upstreams more; excess ones are reported as dropped


class _PrebuiltVoiceSchema(BodySchema):
    voiceName = String(allow_none=True)


class _VoiceConfigSchema(BodySchema):
    prebuiltVoiceConfig = Object(_PrebuiltVoiceSchema, allow_none=True)
    replicatedVoiceConfig = Object(allow_none=True)
    voice = String(allow_none=True)


class _SpeakerSchema(BodySchema):
    speaker = String(required=True)
    voiceConfig = Object(_VoiceConfigSchema, required=True)


class _SpeakersSchema(BodySchema):
    speakerVoiceConfigs = Array(Object(_SpeakerSchema), allow_none=True)


class _SpeechSchema(BodySchema):
    voiceConfig = Object(_VoiceConfigSchema, allow_none=True)
    multiSpeakerVoiceConfig = Object(_SpeakersSchema, allow_none=True)
    languageCode = String(allow_none=True)


class _ImageSchema(BodySchema):
    aspectRatio = String(allow_none=True)
    imageSize = String(allow_none=True)
    personGeneration = String(allow_none=True)


class _ThinkingConfigSchema(BodySchema):
    includeThoughts = Boolean(allow_none=True)
    thinkingBudget = Integer(least=-1, allow_none=True)
    thinkingLevel = String(allow_none=True)


class GenerationConfigSchema(BodySchema):
    """``generationConfig``."""

    candidateCount = Integer(least=1, most=8, allow_none=True)
    maxOutputTokens = Integer(least=1, most=MAX_TOKENS, allow_none=True)
    temperature = Number(least=0, most=2, allow_none=True)
    topP = Number(least=0, most=1, allow_none=True)
    topK = Number(least=0, allow_none=True)
    stopSequences = Array(String(), most=_MAX_STOPS, allow_none=True)
    seed = Integer(allow_none=True)
    presencePenalty = Number(least=-2, most=2, allow_none=True)
    frequencyPenalty = Number(least=-2, most=2, allow_none=True)
    responseLogprobs = Boolean(allow_none=True)
    logprobs = Integer(least=0, most=20, allow_none=True)
    responseMimeType = String(allow_none=True)
    responseSchema = Object(allow_none=True)
    responseJsonSchema = Object(allow_none=True)
    responseModalities = Array(String(), allow_none=True)
    speechConfig = Object(_SpeechSchema, allow_none=True)
    imageConfig = Object(_ImageSchema, allow_none=True)
    mediaResolution = String(allow_none=True)
    thinkingConfig = Object(_ThinkingConfigSchema, allow_none=True)
    audioTimestamp = Boolean(allow_none=True)
    enableAffectiveDialog = Boolean(allow_none=True)
    enableEnhancedCivicAnswers = Boolean(allow_none=True)


class _SafetySettingSchema(BodySchema):
    category = String(required=True)
    threshold = String(required=True)
    method = String(allow_none=True)


def _check_labels(labels: Any) -> None:
    for name, value in need_object(labels, "labels").items():
        if not isinstance(value, str):
            raise_invalid(f"labels.{name}", "must be a string")


class GenerateBodySchema(BodySchema):
    """The body of ``:generateContent`` and ``:streamGenerateContent``."""

    contents = FunctionField(check_contents, required=True)
    systemInstruction = FunctionField(check_system, allow_none=True)
    generationConfig = Object(GenerationConfigSchema, allow_none=True)
    tools = FunctionField(check_tools, allow_none=True)
    toolConfig = Object(ToolConfigSchema, allow_none=True)
    safetySettings = Array(Object(_SafetySettingSchema), allow_none=True)
    cachedContent = String(allow_none=True)
    labels = FunctionField(_check_labels, allow_none=True)
    model = String(allow_none=True)
    serviceTier = String(allow_none=True)
    store = Boolean(allow_none=True)


_GENERATE_SCHEMA: Final = GenerateBodySchema()


def check_generate(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body in camelCase. Raises InvalidField for the first member that is invalid or conflicts with another."""
    return check_with_caller_paths(body, body, _check_generate)


def check_count(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the generate body inside a ``:countTokens`` body, unchanged. Raises InvalidField as `check_generate` does."""
    names = [name for name in ("generateContentRequest", "generate_content_request") if body.get(name) is not None]
    if not names:
        check_with_caller_paths(body, body, _check_generate)
        return body
    name = names[0]
    if body.get("contents") is not None:
        raise InvalidField(name, f"'{name}' cannot be combined with 'contents'. Send one of them.")
    inner = need_object(body[name], name)
    try:
        check_generate(inner)
    except InvalidField as error:
        raise _replace_path(error, f"{name}.{error.param}") from None
    return inner


def check_with_caller_paths(
    body: Mapping[str, Any], inner: Mapping[str, Any], checker: Callable[[Any], None]
) -> Mapping[str, Any]:
    """Return `inner` in camelCase after `checker` accepted it. An InvalidField has the path as spelled in `body`."""
    wire: dict[str, Any] = convert_to_camel_case(dict(inner))
    try:
        checker(wire)
    except InvalidField as error:
        path = restore_spelling(body, error.param)
        if path == error.param:
            raise
        raise _replace_path(error, path) from None
    return wire


def _replace_path(error: InvalidField, path: str) -> InvalidField:
    message = error.message.replace(f"'{error.param}'", f"'{path}'", 1)
    return InvalidField(path, message, code=error.code)


def _check_generate(body: Mapping[str, Any]) -> None:
    check(_GENERATE_SCHEMA, body)
    config = body.get("generationConfig") or {}
    _check_image(config.get("imageConfig") or {})
    if config.get("logprobs") is not None and config.get("responseLogprobs") is not True:
        path = "generationConfig.logprobs"
        raise InvalidField(path, f"'{path}' requires 'generationConfig.responseLogprobs' to be true.")
    if config.get("responseSchema") is not None and config.get("responseJsonSchema") is not None:
        path = "generationConfig.responseJsonSchema"
        raise InvalidField(path, f"'{path}' cannot be combined with 'responseSchema'. Send one of them.")


def _check_image(config: Mapping[str, Any]) -> None:
    ratio, size = config.get("aspectRatio"), config.get("imageSize")
    if ratio is not None and _ASPECT_RATIO.fullmatch(ratio) is None:
        refuse_value(
            "generationConfig.imageConfig.aspectRatio", f"must be WIDTH:HEIGHT, such as '16:9', not '{ratio[:50]}'"
        )
    if size == "":
        raise_invalid("generationConfig.imageConfig.imageSize", "must not be empty")
