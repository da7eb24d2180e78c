"""The headers that tell what is left of the caller's limits per minute.

Source: the vendor's page "Rate limits", "Response headers" (2026-11): ``anthropic-ratelimit-requests-limit``, ``-remaining`` and
``-reset``, the same for tokens; times are RFC 3339.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

from tornado_gate.types import LimitLevels


def render_limit_headers(levels: LimitLevels) -> dict[str, str]:
    """The headers, for the limits that the caller has."""
    headers: dict[str, str] = {}
    for kind, level in (("requests", levels.requests), ("tokens", levels.tokens)):
        if level is not None:
            resets = datetime.fromtimestamp(math.ceil(time.time() + level.reset), UTC)
            headers[f"anthropic-ratelimit-{kind}-limit"] = str(level.limit)
            headers[f"anthropic-ratelimit-{kind}-remaining"] = str(level.remaining)
            headers[f"anthropic-ratelimit-{kind}-reset"] = resets.strftime("%Y-%m-%dT%H:%M:%SZ")
    return headers
