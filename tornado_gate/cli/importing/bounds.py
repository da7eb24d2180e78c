"""Limits and budgets with a period of the source, as those of conf: per minute, per UTC day, per UTC month."""

from __future__ import annotations

import re
from typing import Any, Final

from tornado_gate.cli.importing.report import Report
from tornado_gate.cli.importing.texts import parse_count, parse_number, shorten_number

_DURATION: Final = re.compile(r"([0-9]+)\s*(s|m|h|d|w|M|Y)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PERIODS: Final = {60: "minute", 86400: "day", 30 * 86400: "month"}
_NAMES: Final = {
    ("requests", "minute"): "requests_per_minute",
    ("tokens", "minute"): "tokens_per_minute",
    ("tokens", "day"): "tokens_per_day",
    ("tokens", "month"): "tokens_per_month",
    ("usd", "day"): "usd_per_day",
    ("usd", "month"): "usd_per_month",
    ("concurrent", ""): "concurrent_requests",
}


def find_period(duration: Any) -> str:
    """Return minute, day or month for a duration such as ``1d`` or ``1M``; "" for another duration."""
    match = _DURATION.fullmatch(str(duration or "").strip())
    if match is None:
        return ""
    if match[2] in "MY":
        return "month" if match[0] == "1M" else ""
    return _PERIODS.get(int(match[1]) * _SECONDS[match[2]], "")


def convert_bound(kind: str, amount: Any, period: str, where: str, report: Report) -> dict[str, Any]:
    """Return the bound of conf for an amount of requests, tokens, usd or concurrent requests; {} without an amount.

    Report a period that conf does not have.
    """
    number = parse_number(amount) if kind == "usd" else parse_count(amount)
    if number is None:
        return {}
    name = _NAMES.get((kind, period))
    if name is None:
        text = (
            "this period cannot be stated; there are requests and tokens per minute, tokens and usd per UTC day and month; "
            "set one of them"
        )
        report.lose(where, text)
        return {}
    return {name: shorten_number(number) if isinstance(number, float) else number}
