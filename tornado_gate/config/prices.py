"""The prices of conf: US dollars, as exact decimals."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from tornado_gate.types.value import Value, field

ANY_VARIANT = "default"
"""In a price by size and quality: the key for all other sizes and qualities."""


class Rates(Value, frozen=True, kw_only=True):
    """US dollars per million tokens, by kind; None: not set. `docs/how-to/prices.md` describes the value that is used instead."""

    input: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    output: Decimal | None = None
    reasoning: Decimal | None = None
    audio_input: Decimal | None = None
    cached_audio_input: Decimal | None = None
    audio_output: Decimal | None = None
    image_input: Decimal | None = None
    cached_image_input: Decimal | None = None
    image_output: Decimal | None = None
    video_input: Decimal | None = None
    video_output: Decimal | None = None


class PriceEntry(Value, frozen=True, kw_only=True):
    """The price of the models that a pattern matches, in US dollars.

    `above` are the rates of a request whose prompt has more tokens than the key. A missing rate is the rate of the next
    lower threshold. `service_tiers` are the rates of requests that an upstream served in another tier; missing rates
    are the usual ones. `per_image` and `per_second` are by size, quality, both, or ``default``.
    """

    rates: Rates = Rates()
    above: Mapping[int, Rates] = field(default_factory=dict)
    service_tiers: Mapping[str, PriceEntry] = field(default_factory=dict)
    per_image: Mapping[str, Decimal] = field(default_factory=dict)
    per_second: Mapping[str, Decimal] = field(default_factory=dict)
    per_minute: Decimal | None = None
    per_hour: Decimal | None = None
    per_million_characters: Decimal | None = None
    per_web_search: Decimal | None = None
    per_request: Decimal | None = None
