"""Entries of requests that have ended, for tests."""

from __future__ import annotations

import time
from typing import Any

from tornado_gate.telemetry.entries import NO_CALLER, Entry
from tornado_gate.types import NO_TARGET, Caller, Charge, Meter, Progress, Target, Usage


def make_entry(**changes: Any) -> Entry:
    """An entry of a request that reached nothing; `changes` are its fields."""
    values: dict[str, Any] = {
        **{"ended": time.time_ns() // 1000, "request_id": "r", "caller": NO_CALLER, "target": NO_TARGET, "model": ""},
        **{"operation": "", "format": "", "status": 200, "error_code": "", "outcome": "complete", "meter": Meter()},
        **{"progress": Progress(), "charge": Charge(), "total_ms": 1.0, "headers": {}},
    }
    return Entry(**{**values, **changes})


def make_logged_entry(
    *,
    caller: str = "",
    provider: str = "",
    upstream_model: str = "",
    usage: Usage | None = None,
    attempts: int = 0,
    images: int = 0,
    **changes: Any,
) -> Entry:
    """An entry with the values that an access log line has."""
    return make_entry(
        caller=Caller(id=caller, account=""),
        target=Target(provider=provider, plugin="", model="", upstream_model=upstream_model),
        meter=Meter(usage=usage, images=images),
        progress=Progress(attempts=attempts),
        **{"method": "POST", "path": "/v1/chat/completions", "total_ms": 1.5, **changes},
    )


def make_counted_entry(
    model: str = "gpt", provider: str = "openai", first_event_seconds: float | None = None, **changes: Any
) -> Entry:
    """An entry of a chat with the values that metrics count. `seconds` and `usage` are those of the response."""
    seconds, usage = changes.pop("seconds", 0.3), changes.pop("usage", None)
    is_streamed, cached = changes.pop("is_streamed", False), changes.pop("cached", None)
    return make_entry(
        target=Target(provider=provider, plugin="", model=model, upstream_model=""),
        model_label=model,
        meter=Meter(usage=usage),
        progress=Progress(first_event_seconds=first_event_seconds, is_streamed=is_streamed, cached=cached),
        total_ms=seconds * 1000,
        **{"format": "format-openai", "operation": "chat", **changes},
    )
