"""Usage and stop reasons, in both directions. Pure.

On the wire, ``input_tokens`` excludes tokens read from or written to the cache. In `Usage`, it counts the whole prompt.

Source: anthropic-python 2.11, types/usage.py, types/message_delta_usage.py and types/stop_reason.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tornado_gate.codec.counts import read_count
from tornado_gate.http.upstream_errors import response_failed
from tornado_gate.types import FinishReason, Usage
from tornado_gate_anthropic.wire.messages.json_values import drop_null, select_unknown

_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "pause_turn": "length",  # unfinished: the vendor has paused its own tools, and the client must ask again
}
_STOP_REASONS: Final[Mapping[FinishReason, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "other": "end_turn",
}
_CACHE_READ: Final = "cache_read_input_tokens"
_CACHE_WRITE: Final = "cache_creation_input_tokens"
_HOUR_WRITE: Final = "ephemeral_1h_input_tokens"
_DETAILS: Final = "output_tokens_details"
_EXTRA_MEMBERS: Final = ("cache_creation", "server_tool_use", "service_tier", "inference_geo", "speed")
_PER_RESPONSE_MEMBERS: Final = ("cache_creation", "service_tier", "inference_geo", "speed")
"""The members that only ``message_start`` contains."""

_NULLABLE_MEMBERS: Final = (
    "cache_creation",
    "inference_geo",
    _DETAILS,
    "server_tool_use",
    "service_tier",
    "speed",
)
"""Members that are required, and null without a value."""
_NO_MEMBERS: Final[Mapping[str, Any]] = dict.fromkeys(_NULLABLE_MEMBERS)


def parse_stop_reason(raw: str, calls_tools: bool = False) -> FinishReason:
    """The finish reason of a stop reason. Without one it is "tool_calls" or "stop", by `calls_tools`."""
    return _FINISH_REASONS.get(raw, "other") if raw else ("tool_calls" if calls_tools else "stop")


def render_stop_reason(reason: FinishReason, raw: str = "", stop_sequence: str | None = None) -> str:
    """The stop reason of a finish reason.

    Raises UpstreamError for "error", because no stop reason of the format marks a failed response.
    """
    if reason == "error":
        raise response_failed(raw)
    if _FINISH_REASONS.get(raw) == reason:
        return raw
    return "stop_sequence" if reason == "stop" and stop_sequence is not None else _STOP_REASONS[reason]


def render_stop(
    reason: FinishReason, raw: str, stop_sequence: str | None, explanation: str, refused: bool
) -> dict[str, Any]:
    """``stop_reason``, ``stop_sequence`` and ``stop_details``. Raises as `render_stop_reason`.

    `refused`: the model refused in the text `explanation`, which is a refusal in this format too.
    """
    if refused and reason in ("stop", "content_filter"):
        reason, raw = "content_filter", ""
    details = None
    if explanation and reason == "content_filter":
        details = {"type": "refusal", "category": None, "explanation": explanation}
    return {
        "stop_reason": render_stop_reason(reason, raw, stop_sequence),
        "stop_sequence": stop_sequence,
        "stop_details": details,
    }


def add_server_tool_uses(value: dict[str, Any], counts: Iterable[Mapping[str, int]]) -> dict[str, Any]:
    """The rendered usage `value` with the counted uses of server tools, unless the upstream reported them."""
    total: dict[str, int] = {}
    for count in counts:
        for name, number in count.items():
            total[name] = total.get(name, 0) + number
    if total and value.get("server_tool_use") is None:
        value["server_tool_use"] = {"web_search_requests": 0, "web_fetch_requests": 0, **total}
    return value


def parse_usage(value: Any) -> Usage | None:
    """The usage an upstream reports; None for a value without token counts."""
    if not isinstance(value, dict):
        return None
    fresh, output = _read_count(value, "input_tokens"), _read_count(value, "output_tokens")
    read, written = _read_count(value, _CACHE_READ), _read_count(value, _CACHE_WRITE)
    counts = [count for count in (fresh, read, written) if count is not None]
    if not counts and output is None:
        return None
    details, created = value.get(_DETAILS), value.get("cache_creation")
    details = details if isinstance(details, dict) else {}
    extra = drop_null(select_unknown(value, "input_tokens", "output_tokens", _CACHE_READ, _CACHE_WRITE, _DETAILS))
    if deeper := select_unknown(details, "thinking_tokens"):
        extra[_DETAILS] = deeper
    return Usage(
        input_tokens=sum(counts) if counts else None,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=(_read_count(created, _HOUR_WRITE) if isinstance(created, dict) else None) or None,
        reasoning_tokens=_read_count(details, "thinking_tokens"),
        extra=extra,
    )


def _read_count(value: Mapping[str, Any], name: str) -> int | None:
    return read_count(value.get(name))


def render_usage(usage: Usage | None) -> dict[str, Any]:
    """The usage object with all members that the vendor's types require; unknown members are null.

    Clients add up the three input counts; a missing one would make the sum NaN. The sum is the upstream's count of the whole
    prompt, even if its reads and writes overlap. Source: @anthropic-ai/sdk 1.11, resources/messages/messages.d.ts, `Usage`.
    """
    usage = usage or Usage()
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    if usage.input_tokens is not None:
        read = None if read is None else min(read, usage.input_tokens)
        written = None if written is None else min(written, usage.input_tokens - (read or 0))
    value = {
        **_NO_MEMBERS,
        "input_tokens": max(0, (usage.input_tokens or 0) - (read or 0) - (written or 0)),
        _CACHE_WRITE: written,
        _CACHE_READ: read,
        "output_tokens": usage.output_tokens or 0,
    }
    if extra := usage.extra:
        if isinstance(details := extra.get(_DETAILS), Mapping) and details:
            value[_DETAILS] = dict(details)
        value |= {name: extra[name] for name in _EXTRA_MEMBERS if extra.get(name) is not None}
    if usage.reasoning_tokens is not None:
        value[_DETAILS] = (value[_DETAILS] or {}) | {"thinking_tokens": usage.reasoning_tokens}
    return value


def render_delta_usage(usage: Usage | None) -> dict[str, Any]:
    """The usage object of ``message_delta``. ``input_tokens`` is null when it is unknown."""
    value = render_usage(usage)
    if usage is None or usage.input_tokens is None:
        value["input_tokens"] = None
    return {name: count for name, count in value.items() if name not in _PER_RESPONSE_MEMBERS}
