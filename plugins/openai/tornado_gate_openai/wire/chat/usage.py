"""Parse and render usage and finish reasons. No I/O.

Source: openai-python 3.52, types/completion_usage.py and types/chat/chat_completion.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.counts import read_count
from tornado_gate.http.upstream_errors import response_failed
from tornado_gate.types import FinishReason, Usage
from tornado_gate.types.value import replace
from tornado_gate_openai.wire.chat.parts import select_unknown

_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "error": "error",
    # observed from upstreams that are not fully compatible
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}

_DETAIL_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "prompt_tokens_details": {"cached_tokens": "cache_read_tokens", "cache_write_tokens": "cache_write_tokens"},
    "completion_tokens_details": {"reasoning_tokens": "reasoning_tokens"},
}
"""The counts in each details object, and their fields in `Usage`."""

_AUDIO: Final = {"prompt_tokens_details": "audio_input_tokens", "completion_tokens_details": "audio_output_tokens"}
_TOTAL_MEMBERS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
_CACHE_HIT: Final = "prompt_cache_hit_tokens"


def parse_finish_reason(raw: str, calls_tools: bool = False) -> FinishReason:
    """Return the common finish reason. "stop" after tool calls, which a forced ``tool_choice`` causes, is "tool_calls"."""
    reason = _FINISH_REASONS.get(raw, "other")
    return "tool_calls" if calls_tools and reason == "stop" else reason


def render_finish_reason(reason: FinishReason, raw: str = "") -> str:
    """Return the vendor's finish reason.

    Raises UpstreamError for "error", because no finish reason of the vendor marks a failed response.
    """
    if reason == "error":
        raise response_failed(raw)
    if raw == "function_call":
        return raw
    return "stop" if reason == "other" else reason


def parse_usage(value: Any) -> Usage | None:
    """Return the usage that an upstream reports; None if there is no token count."""
    if type(value) is not dict:
        return None
    return parse_plain_usage(value) or parse_any_usage(value)


def parse_plain_usage(value: dict[str, Any]) -> Usage | None:
    """Return the usage of a report in the vendor's shape: integers that add up, and details that are objects or null.

    Returns None for any other report. This fast path covers nearly all reports, returns the same result as
    `parse_any_usage` and takes a quarter of its steps.
    """
    try:
        input_tokens, output_tokens, total = value["prompt_tokens"], value["completion_tokens"], value["total_tokens"]
    except KeyError:
        return None
    if type(input_tokens) is not int or type(output_tokens) is not int or type(total) is not int:
        return None
    if input_tokens < 0 or output_tokens < 0 or total != input_tokens + output_tokens:
        return None
    if len(value) == 3:
        return Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    shares: dict[str, int] = {}
    extra: dict[str, Any] = {}
    for name, member in value.items():
        if member is None or name in _TOTAL_MEMBERS:
            continue
        if name not in _DETAIL_MEMBERS:
            extra[name] = member
        elif type(member) is not dict or not _take_shares(member, _DETAIL_MEMBERS[name], shares, extra, name):
            return None
    if _CACHE_HIT in extra and "cache_read_tokens" not in shares:
        return None
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, extra=extra, **shares, **_count_audio(extra))


def _take_shares(
    details: dict[str, Any], known: Mapping[str, str], shares: dict[str, int], extra: dict[str, Any], name: str
) -> bool:
    """Sort `details` into `shares` and ``extra[name]``. Returns False if a known member is not a count."""
    unknown: dict[str, Any] = {}
    for member, count in details.items():
        if member not in known:
            unknown[member] = count
        elif type(count) is int and count >= 0:
            shares[known[member]] = count
        elif count is not None:
            return False
    if unknown:
        extra[name] = unknown
    return True


def parse_any_usage(value: dict[str, Any]) -> Usage | None:
    """Return the usage of a report in any shape; None if there is no token count."""
    prompt, completion = _get_details(value, "prompt_tokens_details"), _get_details(value, "completion_tokens_details")
    input_tokens = _find_first_count(value, "prompt_tokens", "input_tokens")
    output_tokens = _find_first_count(value, "completion_tokens", "output_tokens")
    if input_tokens is None and output_tokens is None:
        return None
    cached = _find_first_count(prompt, "cached_tokens")
    extra = _select_unknown(value, prompt, completion)
    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=_find_first_count(value, _CACHE_HIT) if cached is None else cached,
        cache_write_tokens=_find_first_count(prompt, "cache_write_tokens"),
        reasoning_tokens=_find_first_count(completion, "reasoning_tokens"),
        extra=extra,
        **_count_audio(extra),
    )
    total = _find_first_count(value, "total_tokens")
    if total is not None and total != usage.total_tokens:  # some upstreams count reasoning only in the total
        return replace(usage, extra={**usage.extra, "total_tokens": total})
    return usage


def _count_audio(extra: Mapping[str, Any]) -> dict[str, int]:
    """The fields of `Usage` for the audio tokens in `extra`, which stay there; none for 0, which most responses report."""
    counts = {field: _find_first_count(_get_details(extra, name), "audio_tokens") for name, field in _AUDIO.items()}
    return {field: count for field, count in counts.items() if count}


def _get_details(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = value.get(name)
    return details if isinstance(details, (dict, Mapping)) else {}


def _find_first_count(value: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        if (count := read_count(value.get(name))) is not None:
            return count
    return None


def _select_unknown(
    value: Mapping[str, Any], prompt: Mapping[str, Any], completion: Mapping[str, Any]
) -> dict[str, Any]:
    extra = {
        name: member
        for name, member in select_unknown(value, *_TOTAL_MEMBERS, *_DETAIL_MEMBERS).items()
        if member is not None
    }
    for name, details in zip(_DETAIL_MEMBERS, (prompt, completion), strict=True):
        if deeper := select_unknown(details, *_DETAIL_MEMBERS[name]):
            extra[name] = deeper
    return extra


def render_usage(usage: Usage) -> dict[str, Any]:
    """Return the vendor's usage object. Its three totals are always present; details only if a count is known."""
    value: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens or 0,
        "completion_tokens": usage.output_tokens or 0,
        "total_tokens": usage.extra.get("total_tokens", usage.total_tokens or 0),
    }
    prompt = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    completion = {"reasoning_tokens": usage.reasoning_tokens}
    for name, known in (("prompt_tokens_details", prompt), ("completion_tokens_details", completion)):
        counts = {member: count for member, count in known.items() if count is not None}
        details = {**_get_details(usage.extra, name), **counts}
        if details:
            value[name] = details
    for name, member in usage.extra.items():
        value.setdefault(name, member)
    return value
