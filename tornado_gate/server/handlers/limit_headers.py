"""The headers of a response that show the remaining limits of the caller."""

from __future__ import annotations

from collections.abc import Mapping

from tornado_gate.admission.refusals import render_headers
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.types import Call, LimitLevels


def render_limit_headers(
    formats: Mapping[str, FormatLane], call: Call | None, levels: LimitLevels, format: str = ""
) -> dict[str, str]:
    """Return ``x-ratelimit-*``, and the headers of the caller's wire format."""
    headers = render_headers(levels)
    lane = formats.get(call.format if call is not None else format)
    return headers if lane is None else headers | lane.limit_headers(call, levels)
