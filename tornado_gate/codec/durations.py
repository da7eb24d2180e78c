"""Durations and moments as people write them: ``90s``, ``5m``, ``2h``, ``30d``, ``1w``, ``2027-01-31``."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

DURATION_EXAMPLES = "90s, 5m, 2h, 30d or 1w"
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s?([smhdwSHDW])", re.ASCII)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
LATEST_MOMENT = 253_402_300_799.0
"""The end of the year 9999, the last year that a date can have."""


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``5m`` (minutes), ``2h``, ``1.5h``, ``30d`` or ``1w``.

    ``M`` is refused, because it could mean months. Raises ValueError with a message for the user.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{_shorten(text)}' is not a duration such as {DURATION_EXAMPLES}")
    return float(match[1]) * _UNIT_SECONDS[match[2].lower()]


def parse_moment(text: str, now: float | None = None) -> float:
    """Return the Unix time of a duration from now, or of a date such as ``2027-01-01`` (00:00 UTC).

    Raises ValueError with a message for the user, for example for a moment that is not in the future.
    """
    now = time.time() if now is None else now
    try:
        moment = now + parse_duration(text)
    except ValueError:
        moment = _parse_date(text)
    if moment <= now:
        raise ValueError(f"'{_shorten(text)}' is not in the future; use a later time")
    if moment > LATEST_MOMENT:
        raise ValueError(f"'{_shorten(text)}' is after the year 9999; use an earlier time")
    return moment


def _parse_date(text: str) -> float:
    try:
        date = datetime.fromisoformat(text.strip())
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        message = f"'{_shorten(text)}' is neither a duration such as {DURATION_EXAMPLES} nor a date such as 2027-01-01"
        raise ValueError(message) from None


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"
