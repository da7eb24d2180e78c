"""Minimal shape checks for upstream responses that are forwarded verbatim."""

from __future__ import annotations

from typing import Any

from tornado_gate.errors import UpstreamError


def is_array_of_objects(value: Any) -> bool:
    return type(value) is list and all(type(item) is dict for item in value)


def wrong_format_error() -> UpstreamError:
    """Return the error for JSON with status 200 that is not a response of this format; SDKs would fail on it silently."""
    return UpstreamError(
        "The upstream returned JSON that is not a response of the expected wire format.",
        advice="Check the provider's base_url.",
    )
