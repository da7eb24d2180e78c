"""The error of a request that a bound rejects, and the headers with the remaining amounts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from tornado_gate.admission.bounds import OPEN, PERIODS, REQUESTS, TOKENS, describe_subject
from tornado_gate.admission.store import Level
from tornado_gate.errors import RateLimited
from tornado_gate.ledger.costs import format_usd
from tornado_gate.types import Bound, LimitLevel, LimitLevels

NO_LEVELS: Final = LimitLevels()
IMPOSSIBLE: Final = {"x-should-retry": "false"}
"""A header that SDKs read: a request that alone exceeds a bound is always rejected."""


def make_refusal(levels: Sequence[Level], amounts: Mapping[Bound, int], now: float) -> RateLimited:
    """Return the error for a request that these bounds reject. It names the bound with the longest wait."""
    level = max(levels, key=lambda level: (amounts[level.bound] > level.bound.limit, level.wait))
    bound, amount = level.bound, amounts[level.bound]
    owner = describe_subject(bound)
    owner = owner[0].upper() + owner[1:]
    limit, used, requested = (format_amount(bound, value) for value in (bound.limit, level.used, amount))
    exceeded = {"bound": bound.name, "subject": bound.kind, "limit": str(bound.limit), "used": str(level.used)}
    if bound.name.startswith("usd"):
        exceeded |= {"limit": format_usd(bound.limit), "used": format_usd(level.used)}
    wait = max(1, math.ceil(level.wait))
    if bound.family == OPEN:
        message = (
            f"{owner} may have {limit}; {level.used} are open (concurrent_requests). Wait until one has ended, or retry after "
            f"{wait} s."
        )
        return RateLimited(message, retry_after=wait, code="too_many_concurrent", exceeded=exceeded)
    if bound.family == PERIODS:
        resets = datetime.fromtimestamp(now + level.wait, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        message = (
            f"The budget of {owner[0].lower() + owner[1:]} does not allow this: {bound.name} is {limit}, {used} are used or in "
            f"use{f', and the request may use {requested}' if amount else ''}. The budget starts again at {resets}."
        )
        error = RateLimited(message, retry_after=level.wait, code="budget_exceeded", exceeded=exceeded)
    else:
        kind = "requests" if bound.family == REQUESTS else "tokens"
        message = f"{owner} may use {bound.limit} {kind} per minute; {level.used} are used"
        message += f", and the request may use {amount}. " if bound.family == TOKENS and amount else ". "
        message += "Send a smaller request." if amount > bound.limit else f"Retry after {wait} s."
        error = RateLimited(message, retry_after=wait, exceeded=exceeded)
    if amount > bound.limit:
        error.headers = {**error.headers, **IMPOSSIBLE}
    return error


def format_amount(bound: Bound, value: int) -> str:
    """Return an amount with its unit."""
    if bound.name.startswith("usd"):
        return f"${format_usd(value)}"
    if bound.family == OPEN:
        return f"{value} concurrent requests"
    return f"{value} tokens" if bound.name.startswith("tokens") else f"{value} requests"


def find_lowest(levels: Iterable[Level], known: LimitLevels = NO_LEVELS) -> LimitLevels:
    """Return the limits per minute with the smallest remainder, among `levels` and `known`."""
    requests, tokens = known
    for level in levels:
        family = level.bound.family
        if family not in (REQUESTS, TOKENS):
            continue
        remaining = LimitLevel(level.bound.limit, max(0, level.bound.limit - level.used), level.reset or level.wait)
        if family == REQUESTS:
            requests = remaining if requests is None or remaining.remaining < requests.remaining else requests
        else:
            tokens = remaining if tokens is None or remaining.remaining < tokens.remaining else tokens
    return LimitLevels(requests, tokens)


def render_headers(levels: LimitLevels) -> dict[str, str]:
    """Return the headers ``x-ratelimit-*``, which every format has."""
    headers: dict[str, str] = {}
    for kind, level in (("requests", levels.requests), ("tokens", levels.tokens)):
        if level is not None:
            headers[f"x-ratelimit-limit-{kind}"] = str(level.limit)
            headers[f"x-ratelimit-remaining-{kind}"] = str(level.remaining)
            headers[f"x-ratelimit-reset-{kind}"] = format_duration(level.reset)
    return headers


def format_duration(seconds: float) -> str:
    """Return a duration as in ``12ms``, ``1s``, ``7.66s``, ``6m0s`` and ``1h2m3s``."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(math.ceil(seconds * 1000) / 1000, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
