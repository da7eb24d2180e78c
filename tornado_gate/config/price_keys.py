"""The keys of ``prices:`` and their values: amounts in US dollars, as exact decimals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from marshmallow import Schema, ValidationError, fields, validates_schema

from tornado_gate.config.environment import EnvironmentText
from tornado_gate.config.prices import ANY_VARIANT, PriceEntry, Rates
from tornado_gate.config.values import Section, Table, describe_type, number_of

MAX_PRICE = 1_000_000
MAX_DECIMALS = 9
"""Digits after the point: a price per million tokens is then a whole number of femto-dollars (1e-15 USD) per token."""

_THRESHOLD = re.compile(r"[1-9][0-9_]{0,11}")
_TIER = re.compile(r"[a-z][a-z0-9_-]{0,49}")
_VARIANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:x-]{0,49}( [A-Za-z0-9][A-Za-z0-9_.:x-]{0,49})?")


KINDS = Rates.__struct_fields__
TIME_PRICES = ("per_second", "per_minute", "per_hour")


class Dollars(fields.Field[Any]):
    """An amount in US dollars, 0 or more, with at most `MAX_DECIMALS` digits after the point."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Decimal:
        converted = number_of(value)
        if isinstance(converted, bool) or not isinstance(converted, (int, float)):
            raise ValidationError(f"must be a number of US dollars, not {describe_type(value)}")
        if not 0 <= converted <= MAX_PRICE:
            shown = describe_type(value) if isinstance(value, EnvironmentText) else f"{converted:g}"
            raise ValidationError(f"must be from 0 to {MAX_PRICE} US dollars, not {shown}")
        amount = Decimal(str(converted))
        if amount != round(amount, MAX_DECIMALS):
            raise ValidationError(f"must have at most {MAX_DECIMALS} digits after the point")
        return amount


class Variants(fields.Field[Any]):
    """An amount, or a mapping of sizes and qualities to amounts."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        self.amount = Dollars()
        self.table = Table(Dollars(), check_name=check_variant)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if not isinstance(value, dict):
            return {ANY_VARIANT: self.amount.deserialize(value)}
        if not value:
            raise ValidationError("must not be empty; give an amount, or amounts by size such as {1024x1024: 0.04}")
        return {name.lower(): amount for name, amount in self.table.deserialize(value).items()}


def check_variant(name: str) -> None:
    if not _VARIANT.fullmatch(name):
        raise ValidationError("must be a size, a quality, or both, such as 1024x1024, 1080p, hd or 'hd 1024x1024'")


def check_threshold(text: str) -> None:
    if not _THRESHOLD.fullmatch(text):
        raise ValidationError("must be a number of tokens above 0, such as 200000")


def check_tier(name: str) -> None:
    if not _TIER.fullmatch(name):
        raise ValidationError("must be the name of a service tier, such as batch, flex or priority")


def check_pattern(pattern: str) -> None:
    """Check a pattern of upstream models, in which every ``*`` matches any text."""
    if not 0 < len(pattern) <= 200 or not pattern.isprintable() or any(map(str.isspace, pattern)):
        raise ValidationError("must be an upstream model's name of up to 200 characters without spaces, or a glob")


class RatesSchema(Schema):
    """US dollars per million tokens."""

    input = Dollars()
    cached_input = Dollars()
    cache_write = Dollars()
    cache_write_1h = Dollars()
    output = Dollars()
    reasoning = Dollars()
    audio_input = Dollars()
    cached_audio_input = Dollars()
    audio_output = Dollars()
    image_input = Dollars()
    cached_image_input = Dollars()
    image_output = Dollars()
    video_input = Dollars()
    video_output = Dollars()


class TierSchema(RatesSchema):
    above = Table(Section(RatesSchema, example="{input: 2.5, output: 15}"), check_name=check_threshold)


class PriceSchema(TierSchema):
    service_tiers = Table(Section(TierSchema, example="{input: 1.25, output: 5}"), check_name=check_tier)
    per_image = Variants()
    per_second = Variants()
    per_minute = Dollars()
    per_hour = Dollars()
    per_million_characters = Dollars()
    per_web_search = Dollars()
    per_request = Dollars()

    @validates_schema
    def check_together(self, data: dict[str, Any], **rest: Any) -> None:
        if not data:
            raise ValidationError(
                "has no price; give one at least, such as {input: 2.5, output: 10} or {per_request: 0}"
            )
        names = [name for name in TIME_PRICES if name in data]
        if len(names) > 1:
            raise ValidationError(f"cannot be combined with {names[0]}; remove one of the two", names[1])


def make_prices_field() -> Table:
    """Return the field of a mapping of patterns to prices."""
    return Table(Section(PriceSchema, example="{input: 2.5, output: 10}"), check_name=check_pattern)


def build_prices(data: Mapping[str, Any]) -> dict[str, PriceEntry]:
    """Return the price of each pattern, from values that the schema has loaded."""
    return {pattern: build_price(entry) for pattern, entry in data.items()}


def build_price(entry: Mapping[str, Any]) -> PriceEntry:
    rest = {name: value for name, value in entry.items() if name not in KINDS}
    rest["above"] = {int(tokens): Rates(**rates) for tokens, rates in entry.get("above", {}).items()}
    rest["service_tiers"] = {name: build_price(tier) for name, tier in entry.get("service_tiers", {}).items()}
    return PriceEntry(rates=Rates(**{kind: entry[kind] for kind in KINDS if kind in entry}), **rest)
