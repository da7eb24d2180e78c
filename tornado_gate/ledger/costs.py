"""Compute the cost of a request in exact integers.

Rates are in femto-dollars (1e-15 USD) per unit, costs in nano-dollars (1e-9 USD). A cost is rounded once, half up,
after all its parts are added, so that the sum of any number of costs is exact. None is an unknown cost, never 0. This
module depends neither on vendors nor on requests.
"""

from __future__ import annotations

from collections.abc import Mapping

from tornado_gate.config.prices import ANY_VARIANT
from tornado_gate.types import Meter, Usage
from tornado_gate.types.quantities import Quantities
from tornado_gate.types.value import Value, field, replace

NANO = 10**9
FEMTO_PER_NANO = 10**6
MICROSECONDS = 10**6
MAX_SECONDS = 1e9
MAX_COST = 10**15
"""A million US dollars. An absurd count of an upstream must not exceed the 64 bits of sums of many requests."""
PRICED_APART = frozenset({"batch", "flex", "priority", "fast"})
"""Service tiers whose prices differ from the usual ones. If such a tier has no price, the cost is unknown."""


class TokenRates(Value, frozen=True, kw_only=True):
    """Femto-dollars per token by kind, with the rates that stand in for missing ones; None: unknown."""

    input: int | None
    cached_input: int | None
    cache_write: int | None
    cache_write_1h: int | None
    output: int | None
    reasoning: int | None
    audio_input: int | None
    cached_audio_input: int | None
    audio_output: int | None
    image_input: int | None
    cached_image_input: int | None
    image_output: int | None
    video_input: int | None
    video_output: int | None


class Price(Value, frozen=True, kw_only=True):
    """The price of an upstream model, in femto-dollars per unit.

    `above` are pairs (tokens of the prompt, rates), the largest number first. The rates apply to requests with a longer
    prompt. `per_image` and `per_second` are by size and quality. `is_free`: every request is free, whatever it uses.
    `is_metered`: the price depends on the usage of a request. `has_only_rates`: the price depends on tokens alone.
    """

    rates: TokenRates | None = None
    above: tuple[tuple[int, TokenRates], ...] = ()
    service_tiers: Mapping[str, Price] = field(default_factory=dict)
    per_image: Mapping[str, int] = field(default_factory=dict)
    per_second: Mapping[str, int] = field(default_factory=dict)
    per_hour: int | None = None
    per_character: int | None = None
    per_web_search: int | None = None
    per_request: int | None = None
    is_free: bool = False
    is_metered: bool = True
    has_only_rates: bool = False


FREE = Price(is_free=True)
"""The price of models that run in the gateway."""


def count_quantities(usage: Usage, meter: Meter) -> Quantities:
    """Return the usage of a request: its tokens and the counts of its meter."""
    searches = usage.extra.get("server_tool_use")
    tier = usage.extra.get("service_tier")
    prompt = usage.input_tokens
    if prompt is not None and usage.tool_input_tokens:
        prompt += usage.tool_input_tokens
    return Quantities(
        input_tokens=prompt,
        cached_input_tokens=usage.cache_read_tokens or 0,
        cache_write_tokens=usage.cache_write_tokens or 0,
        cache_write_1h_tokens=usage.cache_write_1h_tokens or 0,
        audio_input_tokens=usage.audio_input_tokens or 0,
        cached_audio_input_tokens=usage.cached_audio_tokens or 0,
        image_input_tokens=usage.image_tokens or 0,
        cached_image_input_tokens=usage.cached_image_tokens or 0,
        video_input_tokens=usage.video_input_tokens or 0,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens or 0,
        audio_output_tokens=usage.audio_output_tokens or 0,
        image_output_tokens=usage.image_output_tokens or 0,
        images=meter.images or None,
        seconds=find_seconds(meter, usage) or None,
        characters=meter.characters or None,
        web_searches=_read_searches(searches) if searches else meter.web_searches,
        size=meter.size,
        quality=meter.quality,
        service_tier=tier if isinstance(tier, str) else meter.service_tier,
    )


def _read_searches(value: object) -> int:
    count = value.get("web_search_requests") if isinstance(value, Mapping) else 0
    return count if isinstance(count, int) and count > 0 else 0


def find_seconds(meter: Meter, usage: Usage) -> float:
    """Return the seconds of video or sound: the measured duration, or the duration that the upstream charges for."""
    seconds = meter.seconds or (usage.extra.get("seconds") if usage.extra else None)
    if not seconds:
        return 0.0
    return min(float(seconds), MAX_SECONDS) if isinstance(seconds, (int, float)) and seconds > 0 else 0.0


def compute_cost(price: Price | None, used: Quantities) -> int | None:
    """Return the cost of one request in nano-dollars, at most MAX_COST; None if a part has no price or no usage was
    reported.
    """
    if price is None:
        return None
    if price.is_free:
        return 0
    tier = used.service_tier
    if tier:
        priced = price.service_tiers.get(tier)
        if priced is None and tier in PRICED_APART:
            return None
        price = priced or price
    try:
        total = _add_parts(price, used)
    except _Unpriced:
        return None
    return None if total is None else min((total + FEMTO_PER_NANO // 2) // FEMTO_PER_NANO, MAX_COST)


def estimate_cost(price: Price | None, used: Quantities) -> int:
    """Return the lowest possible cost of a request in nano-dollars; 0 if it is unknown.

    The lowest price applies to images and videos whose size and quality the upstream will choose, or that have no
    price.
    """
    cost = compute_cost(price, used)
    if cost is None and price is not None and (price.per_image or price.per_second):
        cost = compute_cost(
            replace(price, per_image=_keep_least(price.per_image), per_second=_keep_least(price.per_second)), used
        )
    return cost or 0


def _keep_least(amounts: Mapping[str, int]) -> Mapping[str, int]:
    return {ANY_VARIANT: min(amounts.values())} if amounts else amounts


class _Unpriced(Exception):
    """The request used something that has no price."""


def _add_parts(price: Price, used: Quantities) -> int | None:
    """Return the cost in femto-dollars; None if the upstream reported no usage that has a price."""
    total: int | None = None
    if price.rates is not None and (used.input_tokens is not None or used.output_tokens is not None):
        rates = _select_rates(price, used.input_tokens or 0) if price.above else price.rates
        total = _price_tokens(rates, used)
    if price.has_only_rates and not used.web_searches:
        return total
    if price.per_image and used.images is not None:
        total = (total or 0) + used.images * _find_variant(price.per_image, used)
    if used.seconds is not None and (price.per_second or price.per_hour is not None):
        total = (total or 0) + _price_seconds(price, used, used.seconds)
    if price.per_character is not None and used.characters is not None:
        total = (total or 0) + used.characters * price.per_character
    if price.per_request is not None and (total is not None or not price.is_metered):
        total = (total or 0) + price.per_request
    if used.web_searches and total is not None:
        total += _multiply_rate(used.web_searches, price.per_web_search)
    return total


def _select_rates(price: Price, prompt_tokens: int) -> TokenRates:
    assert price.rates is not None
    return next((rates for tokens, rates in price.above if prompt_tokens > tokens), price.rates)


def _price_tokens(rates: TokenRates, used: Quantities) -> int:
    """Return the cost of all tokens. It is never negative, even if an upstream reports parts that are larger than the
    whole.
    """
    total = _price_prompt(rates, used)
    output, reasoning = used.output_tokens, used.reasoning_tokens
    if output is None:
        return total + _multiply_rate(None, rates.output or 0)
    special = used.audio_output_tokens + used.image_output_tokens + used.video_output_tokens + reasoning
    if special:
        total += _multiply_rate(used.audio_output_tokens, rates.audio_output)
        total += _multiply_rate(used.image_output_tokens, rates.image_output)
        total += _multiply_rate(used.video_output_tokens, rates.video_output)
        total += _multiply_rate(reasoning, rates.reasoning)
        output -= special
    return total + _multiply_rate(output if output > 0 else 0, rates.output)


def _price_prompt(rates: TokenRates, used: Quantities) -> int:
    tokens, cached = used.input_tokens, used.cached_input_tokens
    if tokens is None:
        return _multiply_rate(None, rates.input)
    total = 0
    if used.audio_input_tokens or used.image_input_tokens or used.video_input_tokens:
        audio, image = used.cached_audio_input_tokens, used.cached_image_input_tokens
        total += _multiply_rate(used.audio_input_tokens - audio, rates.audio_input)
        total += _multiply_rate(audio, rates.cached_audio_input)
        total += _multiply_rate(used.image_input_tokens - image, rates.image_input)
        total += _multiply_rate(image, rates.cached_image_input)
        total += _multiply_rate(used.video_input_tokens, rates.video_input)
        tokens -= used.audio_input_tokens + used.image_input_tokens + used.video_input_tokens
        cached -= audio + image
    if cached > 0:
        total += _multiply_rate(cached, rates.cached_input)
        tokens -= cached
    if used.cache_write_tokens:
        hour = used.cache_write_1h_tokens
        total += _multiply_rate(used.cache_write_tokens - hour, rates.cache_write) + _multiply_rate(
            hour, rates.cache_write_1h
        )
        tokens -= used.cache_write_tokens
    return total + _multiply_rate(tokens if tokens > 0 else 0, rates.input)


def _multiply_rate(count: int | None, rate: int | None) -> int:
    """Return `count` times `rate`. Raises _Unpriced if one of them is unknown and the other is not 0."""
    if count is None or rate is None:
        if count == 0 or rate == 0:
            return 0
        raise _Unpriced
    return count * rate if count > 0 else 0


def _price_seconds(price: Price, used: Quantities, seconds: float) -> int:
    """Return the cost of sound or video. The duration counts to the microsecond."""
    microseconds = round(seconds * MICROSECONDS)
    if price.per_hour is not None:
        return microseconds * price.per_hour // (3600 * MICROSECONDS)
    return microseconds * _find_variant(price.per_second, used) // MICROSECONDS


def _find_variant(amounts: Mapping[str, int], used: Quantities) -> int:
    """Return the amount for a size and a quality. Raises _Unpriced.

    The amounts are tried in this order: size and quality together, size, quality, default.
    """
    if len(amounts) == 1 and ANY_VARIANT in amounts:
        return amounts[ANY_VARIANT]
    sizes, quality = _list_sizes(used.size.lower()), used.quality.lower()
    names = [f"{quality} {size}" for size in sizes] + sizes + [quality, ANY_VARIANT]
    for name in names:
        if name in amounts:
            return amounts[name]
    raise _Unpriced


def _list_sizes(size: str) -> list[str]:
    """Return a size and its other name: 1280x720 and 720x1280 are also 720p."""
    width, cross, height = size.partition("x")
    if cross and width.isascii() and height.isascii() and width.isdigit() and height.isdigit():
        return [size, f"{min(int(width), int(height))}p"]
    return [size]


def format_usd(nano: int) -> str:
    """Format nano-dollars as US dollars: a decimal without exponent and without zeros at its end, such as ``0.000123``."""
    whole, rest = divmod(nano, NANO)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(whole)
