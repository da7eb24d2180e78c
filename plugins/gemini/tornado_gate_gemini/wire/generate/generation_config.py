"""``generationConfig`` and the fields of a chat request, in both directions. Pure.

Members without a common field are in the request's `extra` under their path, e.g. ``generationConfig.mediaResolution``.

Source: google-genai 3.4, types.GenerationConfig and GenerateContentConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, ResponseFormat
from tornado_gate.wire.json_schema import ReportDrop, inline_references, simplify_schema
from tornado_gate.wire.valid_schema import make_valid
from tornado_gate_gemini.wire.generate.json_values import drop_none, read_object, select_unknown
from tornado_gate_gemini.wire.generate.model_features import GeminiModelFeatures
from tornado_gate_gemini.wire.generate.names import WIRE_FORMAT
from tornado_gate_gemini.wire.generate.schema import convert_to_json_schema
from tornado_gate_gemini.wire.generate.thinking import THINKING_MEMBERS, parse_thinking, render_thinking

MEMBER_NAMES: Final[Mapping[str, str]] = {
    "n": "candidateCount",
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
    "response_format": "responseMimeType",
    "modalities": "responseModalities",
    "reasoning": "thinkingConfig",
}
"""By field of `ChatRequest`: the member of ``generationConfig``."""

_SHARED_FIELDS: Final = ("n", "max_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
SCHEMA_MEMBERS: Final = ("responseSchema", "responseJsonSchema")
_FORMAT_MEMBERS: Final = ("responseMimeType", *SCHEMA_MEMBERS)
_UNSPECIFIED_MODALITY: Final = "MODALITY_UNSPECIFIED"
_JSON_TYPE: Final = "application/json"
_SMALLEST_SEED: Final = -(2**31)
_LARGEST_SEED: Final = 2**31 - 1
"""A seed is an int32: ai.google.dev/api/generate-content (read 2026-11-22)."""


def parse_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(fields of `ChatRequest`, members without a field) of a validated ``generationConfig``."""
    fields: dict[str, Any] = {
        name: config.get(MEMBER_NAMES[name]) for name in (*_SHARED_FIELDS, "logprobs", "top_logprobs")
    }
    extra = select_unknown(config, *MEMBER_NAMES.values(), *_FORMAT_MEMBERS)
    top_k = config.get("topK")
    if top_k is not None and top_k == int(top_k):
        fields["top_k"] = int(top_k)
    elif top_k is not None:
        extra["topK"] = top_k
    fields["stop"] = tuple(config.get("stopSequences") or ())
    modalities = config.get("responseModalities") or ()
    fields["modalities"] = tuple(modality.lower() for modality in modalities if modality != _UNSPECIFIED_MODALITY)
    thinking = read_object(config.get("thinkingConfig"))
    fields["reasoning"] = parse_thinking(thinking)
    if unknown := select_unknown(thinking, *THINKING_MEMBERS):
        extra["thinkingConfig"] = unknown
    fields["response_format"] = _parse_format(config)
    if fields["response_format"] is None:
        extra |= {name: config[name] for name in _FORMAT_MEMBERS if config.get(name) is not None}
    return fields, extra


def _parse_format(config: Mapping[str, Any]) -> ResponseFormat | None:
    """None for formats that only the vendor has, such as ``text/x.enum``."""
    kind, schema = config.get("responseMimeType"), config.get("responseJsonSchema")
    if schema is None and config.get("responseSchema") is not None:
        schema = convert_to_json_schema(config["responseSchema"])
    if kind == _JSON_TYPE:
        return ResponseFormat(kind="json_object" if schema is None else "json_schema", schema=schema)
    return ResponseFormat(kind="text") if kind == "text/plain" and schema is None else None


def render_config(call: Call, request: ChatRequest, dialect: GeminiModelFeatures) -> dict[str, Any]:
    """The complete ``generationConfig``. Reports unsupported fields to `call.drop_field`."""
    config = drop_none(**{MEMBER_NAMES[name]: getattr(request, name) for name in _SHARED_FIELDS})
    if request.wire_format != WIRE_FORMAT and not _SMALLEST_SEED <= (request.seed or 0) <= _LARGEST_SEED:
        call.drop_field(request.field_name("seed"))
        del config["seed"]
    config |= drop_none(
        topK=request.top_k,
        stopSequences=list(request.stop) or None,
        responseLogprobs=request.logprobs,
        logprobs=request.top_logprobs,
        responseModalities=[modality.upper() for modality in request.modalities] or None,
        speechConfig=_render_speech(call, request),
        thinkingConfig=render_thinking(call, request, dialect),
    )
    return config | _render_format(call, request, dialect)


def _make_inlined(schema: Mapping[str, Any], report: ReportDrop) -> Any:
    """`schema` as the vendor reads JSON schemas: valid by the newest draft, and without references."""
    return inline_references(make_valid(schema, report), report)


def _render_speech(call: Call, request: ChatRequest) -> dict[str, Any] | None:
    """The voice. The upstream sends raw samples, so only the formats ``pcm16`` and ``wav`` are available."""
    if request.audio is None:
        return None
    name = request.field_name("audio")
    for member, value in request.audio.items():
        if member != "voice" and value is not None and (member, value) not in (("format", "pcm16"), ("format", "wav")):
            call.drop_field(f"{name}.{member}")
    voice = request.audio.get("voice")
    if voice is not None and not isinstance(voice, str):
        call.drop_field(f"{name}.voice")
    return {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": voice}}} if isinstance(voice, str) else None


def _render_format(call: Call, request: ChatRequest, dialect: GeminiModelFeatures) -> dict[str, Any]:
    response_format = request.response_format
    if response_format is None:
        return {}
    name = request.field_name("response_format")
    if response_format.kind == "text":
        return {"responseMimeType": "text/plain"}
    if request.tools and not dialect.tools_with_format:
        call.drop_field(name)
        return {}
    config: dict[str, Any] = {"responseMimeType": _JSON_TYPE}
    schema_name = request.member_name("response_format", "schema")
    if response_format.schema is not None:
        schema = dict(response_format.schema)
        if response_format.description is not None:
            schema.setdefault("description", response_format.description)
        own = request.wire_format == WIRE_FORMAT
        if dialect.schema == "openapi":
            config["responseSchema"] = simplify_schema(schema, lambda place: call.drop_field(f"{schema_name}.{place}"))
        elif dialect.schema == "inlined" and not own:
            config["responseJsonSchema"] = _make_inlined(
                schema, lambda place: call.drop_field(f"{schema_name}.{place}")
            )
        else:
            config["responseJsonSchema"] = schema
    for member, value in response_format.extra.items():
        if value is not None:
            call.drop_field(f"{name}.{member}")
    return config
