"""Usage reports and error events. No I/O.

Source: openai-python 3.52, types/realtime/realtime_response_usage.py and realtime_error.py; the same in both dialects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.counts import read_count
from tornado_gate.errors import GateError
from tornado_gate.types import RealtimeDialect, Usage
from tornado_gate_openai.wire.realtime.names import make_id

_TOP_MEMBERS: Final = ("input_tokens", "output_tokens", "total_tokens", "input_token_details", "output_token_details")
_SHARE_MEMBERS: Final = ("cached_tokens", "image_tokens")


def parse_usage(event: Mapping[str, Any]) -> Usage | None:
    """Return the usage of a ``response.done``; None if it has no token count, and for other events.

    Details, including the details of audio tokens, are in ``extra["input_token_details"]`` and
    ``extra["output_token_details"]``.
    """
    response = event.get("response") if event.get("type") == "response.done" else None
    value = response.get("usage") if isinstance(response, Mapping) else None
    if not isinstance(value, Mapping):
        return None
    input_tokens, output_tokens = _read_count(value, "input_tokens"), _read_count(value, "output_tokens")
    if input_tokens is None and output_tokens is None:
        return None
    inside, outside = _read_object(value, "input_token_details"), _read_object(value, "output_token_details")
    cached = _read_object(inside, "cached_tokens_details")
    extra: dict[str, Any] = {name: member for name, member in value.items() if name not in _TOP_MEMBERS}
    if shares := {name: member for name, member in inside.items() if name not in _SHARE_MEMBERS}:
        extra["input_token_details"] = shares
    if outside:
        extra["output_token_details"] = dict(outside)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=_read_count(inside, "cached_tokens"),
        image_tokens=_read_count(inside, "image_tokens"),
        audio_input_tokens=_read_count(inside, "audio_tokens"),
        audio_output_tokens=_read_count(outside, "audio_tokens"),
        cached_audio_tokens=_read_count(cached, "audio_tokens"),
        cached_image_tokens=_read_count(cached, "image_tokens"),
        extra=extra,
    )


def _read_count(value: Mapping[str, Any], name: str) -> int | None:
    return read_count(value.get(name))


def _read_object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = value.get(name)
    return member if isinstance(member, Mapping) else {}


def make_error_event(error: GateError, event_id: str | None, dialect: RealtimeDialect) -> dict[str, Any]:
    """Return the ``error`` event for `error`; `event_id` is the id of the client event that caused it, or None.

    Its shape is the same in both dialects and equals the error body of the contract.
    """
    return {"type": "error", "event_id": make_id("event"), "error": {**error.body(), "event_id": event_id or None}}
