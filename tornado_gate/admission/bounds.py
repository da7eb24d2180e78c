"""The bounds of a request: the amounts that a key, a model or another subject may use.

They limit a minute, a day, a month, and open requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from struct import unpack
from typing import Final

from tornado_gate.types import NO_BUDGET, NO_LIMITS, Bound, Budget, Limits

SUBJECT_KINDS: Final = ("key", "user", "team", "model", "provider", "gateway")
CALLER_KINDS: Final = frozenset({"key", "user", "team"})
GATEWAY: Final = "gateway"
"""The subject of all requests."""

REQUESTS, TOKENS, OPEN, PERIODS = "requests", "tokens", "open", "periods"
"""The families of counters: windows of a minute, open requests, and the usage of a day and a month."""

FAMILIES: Final[Mapping[str, str]] = {
    "requests_per_minute": REQUESTS,
    "tokens_per_minute": TOKENS,
    "concurrent_requests": OPEN,
    "usd_per_day": PERIODS,
    "usd_per_month": PERIODS,
    "tokens_per_day": PERIODS,
    "tokens_per_month": PERIODS,
}
BOUND_NAMES: Final = tuple(FAMILIES)
PERIOD_NAMES: Final = ("usd_per_day", "usd_per_month", "tokens_per_day", "tokens_per_month")
ESTIMATED: Final = frozenset(BOUND_NAMES) - {"requests_per_minute", "concurrent_requests"}
"""The bounds that need an estimate of the request's usage."""
NANO: Final = 10**9
LONGEST_TITLE: Final = 100
NEARLY_USED: Final = 0.8
"""The share of a budget from which people are told."""

_WORDS: Final[Mapping[str, str]] = {
    "key": "the API key '{}'",
    "user": "the user '{}' of this API key",
    "team": "the team '{}' of this API key",
    "model": "the model '{}'",
    "provider": "the provider account '{}'",
    "gateway": "this gateway",
}


@lru_cache(10_000)
def make_counter_id(kind: str, subject: str, family: str) -> tuple[int, int]:
    """Return the id of a counter: two integers of 64 bits."""
    digest = blake2b(f"{family}\0{kind}\0{subject}".encode(), digest_size=16).digest()
    first, second = unpack("<qq", digest)
    return first, second | 1  # 0 marks an empty slot


def make_bound(kind: str, subject: str, name: str, limit: float, title: str = "") -> Bound:
    """Return a bound; US dollars become nano-dollars. `title` is the subject's name for people."""
    amount = round(limit * NANO) if name.startswith("usd") else int(limit)
    family = FAMILIES[name]
    return Bound(kind, subject, name, amount, family, make_counter_id(kind, subject, family), title)


def list_bounds(
    kind: str,
    subject: str,
    limits: Limits | None,
    budget: Budget | None,
    overrides: Mapping[str, float] = {},
    title: str = "",
) -> tuple[Bound, ...]:
    """Return the bounds of a subject. `overrides` are values by name that replace the values of `limits` and `budget`."""
    values: dict[str, float] = {}
    for source in (limits, budget):
        if (
            source is not None and source is not NO_LIMITS and source is not NO_BUDGET
        ):  # fast path: few of 10,000 models have bounds
            values |= {name: value for name in source.__struct_fields__ if (value := getattr(source, name)) is not None}
    values |= overrides
    if not values:
        return ()
    return tuple(make_bound(kind, subject, name, values[name], title) for name in BOUND_NAMES if name in values)


def describe_subject(bound: Bound) -> str:
    """Return the subject of a bound in words, with its name, for messages to callers."""
    return _WORDS[bound.kind].format(get_title(bound))


def get_title(bound: Bound) -> str:
    """Return the name of a bound's subject for people, "" for the gateway.

    A caller may read the names of its key, user and team.
    """
    return (bound.title or bound.subject)[:LONGEST_TITLE]


def needs_estimate(bounds: Iterable[Bound]) -> bool:
    """Return whether the usage of the request must be estimated."""
    return any(bound.name in ESTIMATED for bound in bounds)
