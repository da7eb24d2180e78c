"""The price of an upstream model: the price in conf, else the default one. `costs.py` computes the cost of a request."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Protocol

from tornado_gate.config.globs import matches_model
from tornado_gate.config.model import Config
from tornado_gate.config.prices import PriceEntry, Rates
from tornado_gate.ledger.costs import FREE, Price, TokenRates, compute_cost, format_usd
from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.value import replace

__all__ = ["FREE", "DefaultPrices", "FreeModels", "Price", "PriceTable", "compute_cost", "format_usd"]

FEMTO = 10**15
MILLION = 10**6
MAX_FOUND = 20_000
"""The number of models whose prices are kept."""

KINDS = Rates.__struct_fields__
STAND_INS = (
    ("cached_input", "input"),
    ("cache_write", "input"),
    ("cache_write_1h", "cache_write"),
    ("reasoning", "output"),
    ("cached_audio_input", "audio_input"),
    ("image_input", "input"),
    ("cached_image_input", "image_input"),
    ("image_output", "output"),
    ("video_input", "input"),
    ("video_output", "output"),
)
"""Pairs (kind of token, kind whose rate replaces a missing one), in the order in which they are resolved. Audio has no
stand-in.
"""


Schedule = Mapping[str, Mapping[int, int]]
"""Rates by kind, then by the number of tokens that the prompt exceeds; 0: the usual rate. Kinds without a rate are
absent.
"""


def make_price(entry: PriceEntry) -> Price:
    """Return the price of an entry of conf, as integers."""
    schedule = _make_schedule(entry)
    by_time = entry.per_second or entry.per_minute is not None or entry.per_hour is not None
    by_use = bool(by_time or entry.per_image or entry.per_million_characters is not None)
    return Price(
        rates=_resolve_rates(schedule, 0) if schedule else None,
        above=_resolve_thresholds(schedule),
        service_tiers={name: _make_tier_price(entry, tier) for name, tier in entry.service_tiers.items()},
        per_image={name: _count_femto(amount) for name, amount in entry.per_image.items()},
        per_second={name: _count_femto(amount) for name, amount in entry.per_second.items()},
        per_hour=_count_femto_per_hour(entry),
        per_character=_count_femto_if_given(entry.per_million_characters, per=MILLION),
        per_web_search=_count_femto_if_given(entry.per_web_search),
        per_request=_count_femto_if_given(entry.per_request),
        is_metered=by_use or bool(schedule),
        has_only_rates=bool(schedule) and not by_use and entry.per_request is None,
    )


def _make_tier_price(entry: PriceEntry, tier: PriceEntry) -> Price:
    """Return the price of `entry` with the rates of one of its service tiers."""
    schedule = {**_make_schedule(entry), **_make_schedule(tier)}
    price = make_price(replace(entry, service_tiers={}))
    return replace(price, rates=_resolve_rates(schedule, 0), above=_resolve_thresholds(schedule))


def _make_schedule(entry: PriceEntry) -> dict[str, dict[int, int]]:
    schedule: dict[str, dict[int, int]] = {}
    for tokens, rates in [(0, entry.rates), *sorted(entry.above.items())]:
        for kind in KINDS:
            amount = getattr(rates, kind)
            if amount is not None:
                schedule.setdefault(kind, {})[tokens] = _count_femto(amount, per=MILLION)
    return schedule


def _resolve_thresholds(schedule: Schedule) -> tuple[tuple[int, TokenRates], ...]:
    thresholds = {tokens for by_tokens in schedule.values() for tokens in by_tokens if tokens}
    return tuple((tokens, _resolve_rates(schedule, tokens)) for tokens in sorted(thresholds, reverse=True))


def _resolve_rates(schedule: Schedule, tokens: int) -> TokenRates:
    """Return the rates above a number of tokens, with stand-ins for missing rates (`docs/how-to/prices.md`)."""
    rates = {kind: _find_rate(schedule.get(kind, {}), tokens) for kind in KINDS}
    for kind, other in STAND_INS:
        if rates[kind] is None:
            rates[kind] = rates[other]
    return TokenRates(**rates)


def _find_rate(by_tokens: Mapping[int, int], tokens: int) -> int | None:
    """Return the rate of the highest threshold up to `tokens`."""
    return max(((threshold, rate) for threshold, rate in by_tokens.items() if threshold <= tokens), default=(0, None))[
        1
    ]


def _count_femto(amount: Decimal, *, per: int = 1) -> int:
    """Convert US dollars for `per` units to femto-dollars for one. Exact, because an amount has at most 9 decimals."""
    return int(amount * (FEMTO // per))


def _count_femto_if_given(amount: Decimal | None, *, per: int = 1) -> int | None:
    return None if amount is None else _count_femto(amount, per=per)


def _count_femto_per_hour(entry: PriceEntry) -> int | None:
    if entry.per_minute is not None:
        return _count_femto(entry.per_minute) * 60
    return _count_femto_if_given(entry.per_hour)


class PriceTable:
    """The prices by model. The prices of a provider entry come first, then the section ``prices``, then the defaults."""

    def __init__(self, config: Config, free: Iterable[str] = ()) -> None:
        """Build the prices of conf. `free` are the provider entries whose requests are free unless conf sets a price."""
        self._patterns = PricePatterns(config.prices)
        self._of_providers = {
            name: PricePatterns(entry.prices) for name, entry in config.providers.items() if entry.prices
        }
        self._defaults: dict[str, DefaultPrices] = dict.fromkeys(free, FreeModels())
        self._found: dict[tuple[str, str], tuple[float | None, Price | None]] = {}

    def add_defaults(self, defaults: Mapping[str, DefaultPrices]) -> None:
        """Use `defaults`, by provider entry, for models without a price in conf."""
        self._defaults |= defaults
        self._found.clear()

    def find_price(self, provider: str, upstream_model: str) -> Price | None:
        """Return the current price of a model at a provider entry; None if the model has no price. The result is kept
        for the next call.
        """
        kept = self._found.get((provider, upstream_model))
        if kept is not None:
            until, price = kept
            if until is None or time.time() < until:
                return price
        if len(self._found) >= MAX_FOUND:  # callers choose the names that match a wildcard
            self._found.clear()
        until, price = self._search_price(provider, upstream_model, time.time())
        self._found[provider, upstream_model] = None if until == math.inf else until, price
        return price

    def find_context(self, provider: str, upstream_model: str) -> int | None:
        """Return the number of tokens that a model reads, by the package of the default prices; None if unknown."""
        defaults = self._defaults.get(provider)
        return defaults.find_context(upstream_model) if defaults else None

    def _search_price(self, provider: str, model: str, now: float) -> tuple[float, Price | None]:
        """Return (the time from which the price may change, the price)."""
        own = self._of_providers.get(provider)
        price = (own.find_price(model) if own else None) or self._patterns.find_price(model)
        if price is not None:
            return math.inf, price
        defaults = self._defaults.get(provider)
        return defaults.find_price(model, now) if defaults else (math.inf, None)


class DefaultPrices(Protocol):
    """The default prices of one provider's models, for models without a price in conf."""

    def find_price(self, model: str, now: float) -> tuple[float, Price | None]:
        """Return (the time from which the price may change, the price). Times are Unix seconds."""

    def find_context(self, model: str) -> int | None:
        """Return the number of tokens that a model reads; None if unknown."""


class FreeModels:
    """The default prices of a provider that charges nothing: all models are free."""

    def find_price(self, model: str, now: float) -> tuple[float, Price | None]:
        return math.inf, FREE

    def find_context(self, model: str) -> int | None:
        return None


class PricePatterns:
    """Prices by pattern. The exact name comes first, then its other spellings, then the longest glob that matches.

    Of several globs with the same length, the first applies.
    """

    def __init__(self, entries: Mapping[str, PriceEntry]) -> None:
        prices = {pattern: make_price(entry) for pattern, entry in entries.items()}
        self._exact = {pattern: price for pattern, price in prices.items() if "*" not in pattern}
        self._other_spellings: dict[str, Price] = {}
        for pattern, price in self._exact.items():
            self._other_spellings.setdefault(canonicalize_name(pattern), price)
        globs = [(pattern, price) for pattern, price in prices.items() if "*" in pattern]
        self._globs = sorted(globs, key=lambda pair: -len(pair[0]))

    def find_price(self, model: str) -> Price | None:
        exact = self._exact.get(model) or self._other_spellings.get(canonicalize_name(model))
        if exact is not None:
            return exact
        return next((price for pattern, price in self._globs if matches_model((pattern,), model)), None)
