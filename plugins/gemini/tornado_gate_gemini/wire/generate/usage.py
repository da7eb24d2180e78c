"""Usage and finish reasons, in both directions. Pure.

``candidatesTokenCount`` excludes thoughts, `output_tokens` includes them. A STOP after function calls is parsed as
"tool_calls" and rendered as STOP again, because clients continue with tools only then.

Source: google-genai 3.4, types.GenerateContentResponseUsageMetadata and FinishReason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import FinishReason, Usage
from tornado_gate_gemini.wire.generate.json_values import read_count, read_object, read_objects, select_unknown

_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "ESCALATION": "content_filter",
    "PUP_LIMITED_DISABLED": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "OTHER": "error",
    "IMAGE_OTHER": "error",
    "NO_IMAGE": "error",
    "FINISH_REASON_UNSPECIFIED": "error",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "MALFORMED_RESPONSE": "error",
    "CONTINUATION": "length",
    "FUNCTION_CALL": "tool_calls",  # not documented by the vendor; sent by some compatible upstreams
}
_REASON_WORDS: Final[Mapping[FinishReason, str]] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
    "error": "OTHER",
    "other": "OTHER",
}
_COUNT_MEMBERS: Final = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")
_EXTRA_MEMBERS: Final = (
    "toolUsePromptTokenCount",
    "promptTokensDetails",
    "cacheTokensDetails",
    "candidatesTokensDetails",
    "toolUsePromptTokensDetails",
    "trafficType",
)
MALFORMED_CALL: Final = "MALFORMED_FUNCTION_CALL"


def parse_finish_reason(raw: str, calls_tools: bool = False) -> FinishReason:
    """The common finish reason of the vendor's. An unknown one is "error": only STOP and MAX_TOKENS are ordinary ends."""
    reason = _FINISH_REASONS.get(raw, "error")
    return "tool_calls" if calls_tools and reason == "stop" else reason


def render_finish_reason(reason: FinishReason, raw: str = "") -> str:
    """The vendor's finish reason: `raw` when it is one of the vendor's. STOP is used only for normal ends."""
    if raw != "FUNCTION_CALL" and _FINISH_REASONS.get(raw) == reason:
        return raw
    return _REASON_WORDS[reason]


def render_finish(reason: FinishReason, raw: str, explanation: str, refused: bool) -> dict[str, Any]:
    """``finishReason``, and ``finishMessage`` with the explanation of filtered content.

    `refused`: the model refused in the text `explanation`, which is filtered content in this format.
    """
    if refused and reason in ("stop", "content_filter"):
        reason, raw = "content_filter", ""
    value: dict[str, Any] = {"finishReason": render_finish_reason(reason, raw)}
    if explanation and reason == "content_filter":
        value["finishMessage"] = explanation
    return value


def parse_usage(value: Any) -> Usage | None:
    """The usage an upstream reports; None for a value without token counts."""
    if not isinstance(value, dict):
        return None
    prompt, candidates, thoughts, cached = (read_count(value.get(name)) for name in _COUNT_MEMBERS)
    if prompt is None and candidates is None and thoughts is None:
        return None
    extra = {
        name: member
        for name, member in select_unknown(value, *_COUNT_MEMBERS, "totalTokenCount").items()
        if member is not None
    }
    output = None if candidates is None and thoughts is None else (candidates or 0) + (thoughts or 0)
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=cached,
        image_tokens=_count_modality(value.get("promptTokensDetails"), "IMAGE"),
        reasoning_tokens=thoughts,
        audio_input_tokens=_count_modality(value.get("promptTokensDetails"), "AUDIO"),
        audio_output_tokens=_count_modality(value.get("candidatesTokensDetails"), "AUDIO"),
        image_output_tokens=_count_modality(value.get("candidatesTokensDetails"), "IMAGE"),
        cached_audio_tokens=_count_modality(value.get("cacheTokensDetails"), "AUDIO"),
        cached_image_tokens=_count_modality(value.get("cacheTokensDetails"), "IMAGE"),
        video_input_tokens=_count_modality(value.get("promptTokensDetails"), "VIDEO"),
        tool_input_tokens=read_count(value.get("toolUsePromptTokenCount")),
        extra=extra,
    )


def _count_modality(details: Any, modality: str) -> int | None:
    """The tokens of one modality; None if there are no such tokens."""
    if not details:
        return None
    counts = [
        read_count(entry.get("tokenCount")) or 0 for entry in read_objects(details) if entry.get("modality") == modality
    ]
    return sum(counts) if counts else None


def render_usage(usage: Usage) -> dict[str, Any]:
    """The usage object. Its three totals are always present."""
    prompt, output, thoughts = usage.input_tokens or 0, usage.output_tokens or 0, usage.reasoning_tokens
    tools = read_count(usage.extra.get("toolUsePromptTokenCount")) or 0
    value: dict[str, Any] = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": max(0, output - (thoughts or 0)),
        "totalTokenCount": prompt + output + tools,
    }
    if thoughts is not None:
        value["thoughtsTokenCount"] = thoughts
    if usage.cache_read_tokens is not None:
        value["cachedContentTokenCount"] = usage.cache_read_tokens
    if usage.image_tokens:
        shares = (("TEXT", prompt - usage.image_tokens), ("IMAGE", usage.image_tokens))
        value["promptTokensDetails"] = [{"modality": name, "tokenCount": max(0, share)} for name, share in shares]
    return value | {name: usage.extra[name] for name in _EXTRA_MEMBERS if name in usage.extra}


def find_block_reason(body: Mapping[str, Any]) -> str:
    """The block reason of a prompt, or ""; a blocked prompt has no candidates."""
    reason = read_object(body.get("promptFeedback")).get("blockReason")
    return reason if isinstance(reason, str) else ""
