"""What an answer must at least look like before it passes on as it came, whatever else it holds."""

from __future__ import annotations

from typing import Any

from tornado_gate.errors import UpstreamError


def is_array_of_objects(value: Any) -> bool:
    return type(value) is list and all(type(item) is dict for item in value)


def wrong_format_error() -> UpstreamError:
    """For JSON with status 200 that is no answer of this format: a caller's SDK would fail on it without a word."""
    return UpstreamError("The upstream's answer is JSON, but not an answer of this wire format.")
