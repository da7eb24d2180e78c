"""What a request costs, to the nano-dollar, and which price applies."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tornado_gate.config.model import Config, ProviderConfig
from tornado_gate.config.price_keys import PriceSchema, build_price
from tornado_gate.config.prices import PriceEntry
from tornado_gate.ledger.prices import FREE, PricePatterns, PriceTable, compute_cost, format_usd, make_price
from tornado_gate.types.quantities import Quantities

NANO = 10**9
CHAT: dict[str, Any] = {"input": 2.5, "cached_input": 1.25, "output": 10}


def cost(price: dict[str, Any], **used: Any) -> int | None:
    return compute_cost(make_price(build_price(PriceSchema().load(price))), Quantities(**used))


def usd(amount: str) -> int:
    return int(Decimal(amount) * NANO)


def table(prices: dict[str, Any], **of_providers: dict[str, Any]) -> PriceTable:
    def build(given: dict[str, Any]) -> dict[str, Any]:
        return {pattern: build_price(PriceSchema().load(price)) for pattern, price in given.items()}

    providers = {name: ProviderConfig(name=name, plugin="p", prices=build(own)) for name, own in of_providers.items()}
    return PriceTable(Config(path=None, prices=build(prices), providers=providers), free=["local"])


# What the parts cost


def test_cached_tokens_are_part_of_the_prompt_and_priced_apart() -> None:
    assert cost(CHAT, input_tokens=1000, cached_input_tokens=600, output_tokens=10) == usd("0.00185")


def test_tokens_without_a_price_of_their_kind_cost_what_the_documentation_says() -> None:
    plain = {"input": 1, "output": 10}
    assert cost(plain, input_tokens=10, cached_input_tokens=4, output_tokens=0) == 10_000
    assert cost(plain, input_tokens=10, cache_write_tokens=4, output_tokens=0) == 10_000
    assert cost(plain, input_tokens=10, image_input_tokens=4, video_input_tokens=1, output_tokens=0) == 10_000
    assert cost(plain, input_tokens=0, output_tokens=10, reasoning_tokens=4, image_output_tokens=3) == 100_000
    short_writes = {**plain, "cache_write": 1.25}
    assert cost(short_writes, input_tokens=4, cache_write_tokens=4, cache_write_1h_tokens=4, output_tokens=0) == 5000


@pytest.mark.parametrize("kind", ["audio_input_tokens", "audio_output_tokens"])
def test_audio_without_a_price_of_its_own_makes_the_cost_unknown(kind: str) -> None:
    assert cost(CHAT, input_tokens=10, output_tokens=10, **{kind: 1}) is None
    assert cost(CHAT, input_tokens=10, output_tokens=10, **{kind: 0}) == 125_000


def test_each_kind_of_token_has_its_rate() -> None:
    price = {
        **CHAT,
        **{"cache_write": 3, "cache_write_1h": 5, "reasoning": 20, "audio_input": 40, "cached_audio_input": 4},
        **{"audio_output": 80, "image_input": 8, "cached_image_input": 2, "image_output": 30},
        **{"video_input": 12, "video_output": 50},
    }
    used = {
        **{"input_tokens": 100, "cached_input_tokens": 30, "cache_write_tokens": 20, "cache_write_1h_tokens": 5},
        **{"audio_input_tokens": 10, "cached_audio_input_tokens": 4, "image_input_tokens": 9, "video_input_tokens": 2},
        **{"cached_image_input_tokens": 1, "output_tokens": 50, "reasoning_tokens": 20, "audio_output_tokens": 10},
        **{"image_output_tokens": 5, "video_output_tokens": 1},
    }
    # The prompt: 34 text, 25 cached text, 15 written, 5 written for an hour, 6 + 4 audio, 8 + 1 image, 2 video.
    prompt = 34 * 2500 + 25 * 1250 + 15 * 3000 + 5 * 5000 + 6 * 40_000 + 4 * 4000 + 8 * 8000 + 1 * 2000 + 2 * 12_000
    output = 14 * 10_000 + 20 * 20_000 + 10 * 80_000 + 5 * 30_000 + 1 * 50_000
    assert cost(price, **used) == prompt + output


def test_images_and_seconds_cost_by_size_and_quality() -> None:
    price = {"per_image": {"default": 0.02, "1024x1024": 0.04, "hd": 0.06, "hd 1024x1024": 0.08}}
    assert cost(price, images=2) == usd("0.04")
    assert cost(price, images=1, size="1024x1024") == usd("0.04")
    assert cost(price, images=1, size="1792x1024", quality="HD") == usd("0.06")
    assert cost(price, images=3, size="1024x1024", quality="hd") == usd("0.24")
    videos = {"per_second": {"720p": 0.3, "1024x1792": 0.5}}
    assert cost(videos, seconds=4, size="720x1280") == usd("1.2")
    assert cost(videos, seconds=4, size="1280x720") == usd("1.2")
    assert cost(videos, seconds=8, size="1024x1792") == usd("4")
    assert cost(videos, seconds=8, size="1080x1920") is None


def test_sound_characters_searches_and_requests_have_prices() -> None:
    assert cost({"per_minute": 0.006}, seconds=90) == usd("0.009")
    assert cost({"per_hour": 0.111}, seconds=10) == 308_333
    assert cost({"per_second": 0.1}, seconds=1.5) == usd("0.15")
    assert cost({"per_million_characters": 15}, characters=1000) == usd("0.015")
    assert cost({"per_request": 0.005}) == usd("0.005")
    assert cost({**CHAT, "per_web_search": 0.01}, input_tokens=0, output_tokens=0, web_searches=3) == usd("0.03")


def test_a_cost_is_rounded_once_half_up() -> None:
    price = {"input": 0.0005, "cached_input": 0.0003, "output": 0}
    assert cost(price, input_tokens=1, output_tokens=0) == 1  # 0.5 nano-dollars
    assert cost(price, input_tokens=1, cached_input_tokens=1, output_tokens=0) == 0  # 0.3
    assert cost(price, input_tokens=3, cached_input_tokens=1, output_tokens=0) == 1  # 1.3: parts are not rounded alone


# What is unknown


def test_what_was_not_reported_makes_the_cost_unknown() -> None:
    assert cost(CHAT) is None
    assert cost(CHAT, input_tokens=5) is None
    assert cost(CHAT, output_tokens=5) is None
    assert cost({"input": 0.02}, input_tokens=5) == 100
    assert cost({"per_image": 0.04}, input_tokens=5, output_tokens=5) is None
    assert cost({**CHAT, "per_request": 1}) is None
    assert cost({"input": 1}, input_tokens=5, output_tokens=5) is None
    assert cost(CHAT, input_tokens=5, output_tokens=5, web_searches=1) is None


def test_a_price_of_zero_needs_no_report_of_its_kind() -> None:
    assert cost({"input": 0.02, "output": 0}, input_tokens=5) == 100
    assert cost({"per_request": 0}, input_tokens=5) == 0
    assert compute_cost(FREE, Quantities()) == 0
    assert compute_cost(None, Quantities(input_tokens=5, output_tokens=5)) is None


def test_counts_that_contradict_each_other_never_make_a_negative_cost() -> None:
    assert cost(CHAT, input_tokens=5, cached_input_tokens=10, output_tokens=0) == 12_500
    assert cost({**CHAT, "reasoning": 10}, input_tokens=0, output_tokens=5, reasoning_tokens=9) == 90_000


# Long prompts and service tiers


def test_a_longer_prompt_prices_the_whole_request_higher() -> None:
    price = {"input": 1.25, "output": 10, "cached_input": 0.125, "above": {"200000": {"input": 2.5, "output": 15}}}
    assert cost(price, input_tokens=200_000, output_tokens=1000) == usd("0.26")
    assert cost(price, input_tokens=200_001, output_tokens=1000) == usd("0.5150025")
    assert cost(price, input_tokens=300_000, cached_input_tokens=300_000, output_tokens=0) == usd("0.0375")


def test_the_highest_threshold_counts_and_lacks_nothing_of_the_lower_one() -> None:
    price = {"input": 1, "output": 1, "above": {"10": {"input": 2, "output": 3}, "20": {"input": 4}}}
    assert cost(price, input_tokens=15, output_tokens=1) == 33_000
    assert cost(price, input_tokens=25, output_tokens=1) == 103_000


def test_a_service_tier_has_its_rates_and_the_rest_of_the_price() -> None:
    price = {**CHAT, "service_tiers": {"batch": {"input": 1.25, "output": 5}}, "per_web_search": 0.01}
    used: dict[str, Any] = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 10}
    assert cost(price, **used, service_tier="batch") == 7500 + 5000 + 50_000
    assert cost(price, **used, service_tier="default") == 15_000 + 5000 + 100_000
    assert cost(price, **used, service_tier="batch", web_searches=1) == 62_500 + usd("0.01")


def test_a_tier_that_costs_something_else_is_unknown_without_its_price() -> None:
    used = {"input_tokens": 10, "output_tokens": 10}
    assert cost(CHAT, **used, service_tier="priority") is None
    assert cost(CHAT, **used, service_tier="flex") is None
    assert cost(CHAT, **used, service_tier="scale") == 125_000


def test_the_thresholds_of_a_tier_are_its_own() -> None:
    price = {
        **{"input": 2, "output": 4, "above": {"100": {"input": 4, "output": 8}}},
        "service_tiers": {"batch": {"input": 1, "above": {"100": {"input": 3}}}},
    }
    assert cost(price, input_tokens=101, output_tokens=1, service_tier="batch") == 303_000 + 8000
    assert cost(price, input_tokens=100, output_tokens=1, service_tier="batch") == 100_000 + 4000


# Exact sums


@given(
    rates=some.tuples(*[some.decimals(0, 1000, places=9)] * 3),
    tokens=some.tuples(*[some.integers(0, 2_000_000)] * 2),
    share=some.integers(0, 100),
)
def test_a_cost_is_the_exact_one_rounded_to_a_nano_dollar(
    rates: tuple[Decimal, ...], tokens: tuple[int, int], share: int
) -> None:
    cached = tokens[0] * share // 100
    entry = build_price(dict(zip(("input", "cached_input", "output"), rates, strict=True)))
    used = Quantities(input_tokens=tokens[0], cached_input_tokens=cached, output_tokens=tokens[1])
    exact = (rates[0] * (tokens[0] - cached) + rates[1] * cached + rates[2] * tokens[1]) / 10**6
    assert compute_cost(make_price(entry), used) == (exact * NANO).to_integral_value("ROUND_HALF_UP")


@pytest.mark.qa
def test_a_million_requests_sum_exactly() -> None:
    price = make_price(build_price(PriceSchema().load({"input": 0.1, "output": 0.3})))
    each = compute_cost(price, Quantities(input_tokens=1, output_tokens=1))
    assert each == 400
    total = sum([compute_cost(price, Quantities(input_tokens=1, output_tokens=1)) or 0 for _ in range(1_000_000)])
    assert format_usd(total) == "0.4"
    assert sum([0.1 / 1e6 + 0.3 / 1e6] * 1_000_000) != 0.4  # what floating-point numbers make of it


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0"),
        (1, "0.000000001"),
        (123_000, "0.000123"),
        (NANO, "1"),
        (12 * NANO + 500_000_000, "12.5"),
        (10**24, "1" + "0" * 15),
    ],
)
def test_a_cost_is_written_as_a_decimal_without_exponent(nano: int, text: str) -> None:
    assert format_usd(nano) == text


# Which price applies


def test_an_exact_name_beats_a_glob_and_a_longer_glob_a_shorter_one() -> None:
    prices = table(
        {
            "*": {"input": 1},
            "gpt-*": {"input": 2},
            "gpt-4o*": {"input": 3},
            "gpt-4o": {"input": 4},
            "*-4o-x": {"input": 5},
        }
    )
    found = {name: prices.find_price("p", name) for name in ("other", "gpt-5", "gpt-4o-mini", "gpt-4o", "gpt-4o-x")}
    rates = {
        name: price.rates.input // 10**9 for name, price in found.items() if price and price.rates and price.rates.input
    }
    assert rates == {"other": 1, "gpt-5": 2, "gpt-4o-mini": 3, "gpt-4o": 4, "gpt-4o-x": 3}


def test_the_prices_of_a_provider_beat_those_of_the_section() -> None:
    prices = table({"gpt-4o": {"per_request": 1}}, azure={"gpt-*": {"per_request": 2}})
    assert compute_cost(prices.find_price("azure", "gpt-4o"), Quantities()) == 2 * NANO
    assert compute_cost(prices.find_price("other", "gpt-4o"), Quantities()) == NANO


def test_models_of_the_gateway_itself_are_free_unless_conf_gives_them_a_price() -> None:
    assert table({}).find_price("local", "local-chat") is FREE
    assert table({}).find_price("elsewhere", "local-chat") is None
    priced = table({"local-*": {"per_request": 0.5}}).find_price("local", "local-chat")
    assert compute_cost(priced, Quantities()) == NANO // 2


def test_names_that_callers_invent_do_not_fill_the_memory() -> None:
    prices = table({"*": {"input": 1}})
    for number in range(20_010):
        prices.find_price("p", f"invented-{number}")
    assert len(prices._found) <= 20_000


def test_every_spelling_of_a_model_has_its_price_and_the_exact_entry_comes_first() -> None:
    entries = {"GPT-P": PriceEntry(per_request=Decimal(1)), "gpt-p": PriceEntry(per_request=Decimal(2))}
    entries |= {"big-*": PriceEntry(per_request=Decimal(3))}
    patterns = PricePatterns(entries)
    expected = {"GPT-P": 1, "gpt-p": 2, "Gpt-P": 1, "models/gpt-p": 1, "BIG-x": 3, "models/Big-x": 3, "small": None}
    found = {name: patterns.find_price(name) for name in expected}
    assert {
        name: price and price.per_request and price.per_request // 10**15 for name, price in found.items()
    } == expected
