"""``generationConfig``: how a response is generated.

Enumerations that the vendor extends (levels, resolutions) accept any string, because upstreams differ.

Source of the limits and modalities: google-genai 3.4, types.GenerateContentConfig and types.Modality.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from tornado_gate.codec.checks import raise_invalid, refuse_value
from tornado_gate.codec.fields import MAX_TOKENS, Array, Boolean, Integer, Number, Object, String, Unchecked
from tornado_gate.errors import InvalidField
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import DATA, WORD, words
from tornado_gate.wire.text_shapes import SCHEMA
from tornado_gate_gemini.fields.spellings import GeminiSchema

_ASPECT_RATIO: Final = re.compile(r"[1-9][0-9]{0,3}:[1-9][0-9]{0,3}")
_MODALITIES: Final = ("TEXT", "IMAGE", "AUDIO", "VIDEO", "MODALITY_UNSPECIFIED")
_MAX_STOPS: Final = 16  # the vendor accepts 5, other upstreams more; excess ones are reported as dropped


class _Modality(String):
    """A modality in any case: Google's documentation also writes ``Text`` and ``Image``."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> str:
        super()._deserialize(value.upper() if isinstance(value, str) else value, attr, data, **rest)
        return cast(str, value)


class _PrebuiltVoiceSchema(GeminiSchema):
    voiceName = String(allow_none=True, text=WORD)


class _ReplicatedVoiceSchema(GeminiSchema):
    voiceSampleAudio = Unchecked(text=DATA)


class _VoiceConfigSchema(GeminiSchema):
    prebuiltVoiceConfig = Object(_PrebuiltVoiceSchema, allow_none=True)
    replicatedVoiceConfig = Object(_ReplicatedVoiceSchema, allow_none=True)
    voice = String(allow_none=True, text=WORD)


class _SpeakerSchema(GeminiSchema):
    speaker = String(required=True, text=WORD)
    voiceConfig = Object(_VoiceConfigSchema, required=True)


class _SpeakersSchema(GeminiSchema):
    speakerVoiceConfigs = Array(Object(_SpeakerSchema), allow_none=True)


class SpeechSchema(GeminiSchema):
    """``speechConfig``. The Interactions API has a list of such objects with members of its own."""

    texts = text_maps.Object(kind="other", members=words("language", "voice", "speaker"))

    voiceConfig = Object(_VoiceConfigSchema, allow_none=True)
    multiSpeakerVoiceConfig = Object(_SpeakersSchema, allow_none=True)
    languageCode = String(allow_none=True, text=WORD)


class _ImageSchema(GeminiSchema):
    texts = text_maps.Object(kind="other", members=words("outputMimeType"))

    aspectRatio = String(allow_none=True, text=WORD)
    imageSize = String(allow_none=True, text=WORD)
    personGeneration = String(allow_none=True, text=WORD)


class _ThinkingConfigSchema(GeminiSchema):
    includeThoughts = Boolean(allow_none=True)
    thinkingBudget = Integer(least=-1, allow_none=True)
    thinkingLevel = String(allow_none=True, text=WORD)


class GenerationConfigSchema(GeminiSchema):
    """``generationConfig``."""

    texts = text_maps.Object(
        kind="other", members=words("thinkingLevel", "thinkingSummaries", "toolChoice", "outputMimeType")
    )

    candidateCount = Integer(least=1, most=8, allow_none=True, example=2)
    maxOutputTokens = Integer(
        least=1, most=MAX_TOKENS, allow_none=True, description="The most tokens of the response.", example=2
    )
    temperature = Number(least=0, most=2, allow_none=True, example=0.5)
    topP = Number(least=0, most=1, allow_none=True, example=0.5)
    topK = Number(least=0, allow_none=True, example=40)
    stopSequences = Array(String(), most=_MAX_STOPS, allow_none=True, description="Texts at which the response ends.")
    seed = Integer(allow_none=True, example=7)
    presencePenalty = Number(least=-2, most=2, allow_none=True, example=0.5)
    frequencyPenalty = Number(least=-2, most=2, allow_none=True, example=0.5)
    responseLogprobs = Boolean(allow_none=True, example=True)
    logprobs = Integer(least=0, most=20, allow_none=True)
    responseMimeType = String(allow_none=True, text=WORD)
    responseSchema = Object(allow_none=True, text=SCHEMA, opaque=True)
    responseJsonSchema = Object(allow_none=True, text=SCHEMA, opaque=True)
    responseModalities = Array(_Modality(choices=_MODALITIES), allow_none=True, text=WORD)
    speechConfig = Object(SpeechSchema, allow_none=True)
    imageConfig = Object(_ImageSchema, allow_none=True, example={"aspectRatio": "16:9"})
    mediaResolution = String(allow_none=True, text=WORD, example="MEDIA_RESOLUTION_LOW")
    thinkingConfig = Object(_ThinkingConfigSchema, allow_none=True)
    audioTimestamp = Boolean(allow_none=True, example=True)
    enableAffectiveDialog = Boolean(allow_none=True, example=True)
    enableEnhancedCivicAnswers = Boolean(allow_none=True, example=True)
    audioTranscriptionConfig = Unchecked(example={"sourceText": "my-words"})
    translationConfig = Unchecked(example={"targetLanguageCode": "my-language"})
    responseFormat = Unchecked(example={"text": {"mimeType": "my-type"}})
    routingConfig = Unchecked(example={"manualMode": {"modelName": "my-model"}})
    modelSelectionConfig = Unchecked(example={"featureSelectionPreference": "my-preference"})
    continuationToken = Unchecked(example="my-token")


def check_config(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for a member of ``generationConfig`` that conflicts with another, or lacks one."""
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
