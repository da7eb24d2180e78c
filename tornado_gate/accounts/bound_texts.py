"""Limits and budgets as people write them: ``requests=60/m,tokens=100k/m,concurrent=10`` and ``5/d,100/mo,tokens=1M/d``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from tornado_gate.accounts.key_checks import check_budget, check_limits

LIMIT_EXAMPLE: Final = "requests=60/m,tokens=100000/m,concurrent=10"
BUDGET_EXAMPLE: Final = "5/d,100/mo,tokens=1000000/d"

_PARTS = re.compile(r"(?:([a-z]{1,20})\s?=)?\s?\$?([0-9.]{1,20})\s?([kM]?)\s?(?:/\s?([a-z]{1,10}))?")
_FACTORS = {"": 1, "k": 1000, "M": 1_000_000}
_MINUTE = ("m", "min", "minute")
_DAY = ("d", "day")
_MONTH = ("mo", "month")
_LIMITS = {
    **{("requests", unit): "requests_per_minute" for unit in _MINUTE},
    **{("tokens", unit): "tokens_per_minute" for unit in _MINUTE},
    ("concurrent", ""): "concurrent_requests",
}
_BUDGETS = {
    **{(kind, unit): "usd_per_day" for kind in ("", "usd") for unit in _DAY},
    **{(kind, unit): "usd_per_month" for kind in ("", "usd") for unit in _MONTH},
    **{("tokens", unit): "tokens_per_day" for unit in _DAY},
    **{("tokens", unit): "tokens_per_month" for unit in _MONTH},
}


def parse_limits(text: str) -> dict[str, int]:
    """Return the limits in a text such as LIMIT_EXAMPLE, as `StoredKey.limits` has them.

    Numbers may end with ``k`` (thousand) or ``M`` (million). Raises ValueError with a message for the user, or AccountError.
    """
    return check_limits(_parse_bounds(text, _LIMITS, LIMIT_EXAMPLE))


def parse_budget(text: str) -> dict[str, float | int]:
    """Return the budget in a text such as BUDGET_EXAMPLE, as `StoredKey.budget` has it. A number without a unit is US
    dollars.

    Raises as `parse_limits`.
    """
    return check_budget(_parse_bounds(text, _BUDGETS, BUDGET_EXAMPLE))


def _parse_bounds(text: str, names: Mapping[tuple[str, str], str], example: str) -> dict[str, float | int]:
    bounds: dict[str, float | int] = {}
    for word in text.split(","):
        match = _PARTS.fullmatch(word.strip())
        name = None if match is None else names.get((match[1] or "", match[4] or ""))
        if match is None or name is None:
            raise ValueError(f"{_quote_word(word)} is not understood; write for example {example}")
        if name in bounds:
            raise ValueError(f"{_quote_word(word)} is the second value of {name}; give one")
        convert: Callable[[str], float | int] = float if name.startswith("usd") else int
        try:
            bounds[name] = convert(match[2]) * _FACTORS[match[3]]
        except ValueError:
            kind = "a number" if convert is float else "a whole number"
            raise ValueError(f"{_quote_word(word)} needs {kind}, such as in {example}") from None
    return bounds


def _quote_word(word: str) -> str:
    shown = word.strip()[:60]
    return f"'{shown}'" if shown.isprintable() else ascii(shown)
