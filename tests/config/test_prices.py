"""The section ``prices``: exact amounts, and every fault with its line."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.config.support import Conf
from tornado_gate.config.prices import PriceEntry, Rates

AMOUNT = "must be from 0 to 1000000 US dollars, not"
A_SIZE = "must be a size, a quality, or both, such as 1024x1024, 1080p, hd or 'hd 1024x1024'"

FAULTS = [
    ("input: -2.5", "input", f"{AMOUNT} -2.5"),
    ("input: .nan", "input", f"{AMOUNT} nan"),
    ("input: .inf", "input", f"{AMOUNT} inf"),
    ("input: 10000000", "input", f"{AMOUNT} 1e+07"),
    ("input: '2.5'", "input", "must be a number of US dollars, not a string"),
    ("input: true", "input", "must be a number of US dollars, not a boolean"),
    ("input: ~", "input", "has no value; give it one, or leave the key out"),
    ("input: 1.0e-10", "input", "must have at most 9 digits after the point"),
    ("inputs: 1", "inputs", "unknown key; did you mean 'input'?"),
    ("above: {many: {input: 1}}", "above.many", "must be a number of tokens above 0, such as 200000"),
    ("above: {0: {input: 1}}", "above.0", "must be a number of tokens above 0, such as 200000"),
    (
        "above: {9: {per_image: 1}}",
        "above.9.per_image",
        "unknown key; 'per_image' belongs to prices.NAME, …",
    ),
    (
        "service_tiers: {Batch: {input: 1}}",
        "service_tiers.Batch",
        "must be the name of a service tier, such as batch, flex or priority",
    ),
    ("service_tiers: {batch: {inptu: 1}}", "service_tiers.batch.inptu", "unknown key; did you mean 'input'?"),
    ("per_image: {}", "per_image", "must not be empty; give an amount, or amounts by size such as {1024x1024: 0.04}"),
    ("per_image: {a b c: 1}", "per_image.a b c", A_SIZE),
    ("per_image: {hd: -1}", "per_image.hd", f"{AMOUNT} -1"),
    ("per_second: 1, per_hour: 3600", "per_hour", "cannot be combined with per_second; remove one of the two"),
]


@pytest.mark.parametrize(("price", "key", "message"), FAULTS, ids=[price for price, _, _ in FAULTS])
def test_each_fault_of_a_price_has_its_line_and_says_what_is_allowed(
    conf: Conf, price: str, key: str, message: str
) -> None:
    (fault,) = conf.report(f"server: {{port: 8080}}\nprices:\n  m: {{{price}}}\n")
    line, _, rest = fault.partition(f": prices.m.{key}: ")
    assert line == "FILE:3"
    assert rest.startswith(message.removesuffix(", …"))


def test_a_price_without_an_amount_is_a_fault(conf: Conf) -> None:
    hint = "has no price; give one at least, such as {input: 2.5, output: 10} or {per_request: 0}"
    assert conf.report("prices: {m: {}}") == [f"FILE:1: prices.m: {hint}"]


@pytest.mark.parametrize("pattern", ["''", "a b", f"{'x' * 201}", '"a\\0"'])
def test_a_pattern_is_a_name_or_a_glob(conf: Conf, pattern: str) -> None:
    (fault,) = conf.report(f"prices: {{{pattern}: {{input: 1}}}}")
    assert fault.endswith("must be an upstream model's name of up to 200 characters without spaces, or a glob")


def test_amounts_are_exact_decimals(conf: Conf) -> None:
    loaded = conf.load(
        "prices: {'gpt-*': {input: 0.1, output: '${OUTPUT}', above: {200_000: {input: 2.5e-1}}}}", {"OUTPUT": "0.30"}
    )
    entry = loaded.prices["gpt-*"]
    assert entry.rates == Rates(input=Decimal("0.1"), output=Decimal("0.3"))
    assert entry.above == {200_000: Rates(input=Decimal("0.25"))}


def test_an_amount_for_all_and_amounts_by_size(conf: Conf) -> None:
    loaded = conf.load("prices: {a: {per_image: 0.04}, b: {per_image: {HD 1024x1024: 0.08}}}")
    assert loaded.prices["a"] == PriceEntry(per_image={"default": Decimal("0.04")})
    assert loaded.prices["b"] == PriceEntry(per_image={"hd 1024x1024": Decimal("0.08")})


def test_a_provider_has_prices_of_its_own(conf: Conf) -> None:
    text = "plugins: {p: true}\nproviders:\n  p: {plugin: p, price_provider: '', prices: {m: {per_request: 1}}}\n"
    provider = conf.load(text).providers["p"]
    assert provider.prices == {"m": PriceEntry(per_request=Decimal(1))}
    assert provider.price_provider == ""
    assert provider.settings == {}
    (fault,) = conf.report(text.replace("per_request", "per_requests"))
    assert fault == "FILE:3: providers.p.prices.m.per_requests: unknown key; did you mean 'per_request'?"


def test_the_switches_have_defaults_and_refuse_other_words(conf: Conf) -> None:
    loaded = conf.load("server: {port: 1}")
    assert (loaded.unpriced, loaded.default_prices) == ("allow", True)
    assert conf.report("unpriced: dny") == ["FILE:1: unpriced: must be 'allow' or 'deny', not 'dny'"]
    assert conf.report("default_prices: none") == ["FILE:1: default_prices: must be true or false, not a string"]
