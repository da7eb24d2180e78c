"""What requests reserve of tokens and money before they are sent."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate.admission.estimates import estimate_request
from tornado_gate.ledger.costs import NANO, Price, TokenRates, estimate_cost
from tornado_gate.types import Route

ROUTE = Route("POST", "/plain", "chat")


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"most": 100}, 100),
        ({"most": 100, "n": 8}, 800),
        ({"most": 100, "n": 2, "options": {"samples": 5}}, 500),
        ({"options": {"most": 100, "samples": 4}}, 400),
        ({"most": -1, "options": {"most": 100}}, 100),
        ({"most": 100, "n": 0}, 100),
        ({"most": 100, "n": -3}, 100),
        ({"most": 100, "n": True}, 100),
        ({"most": 100, "n": None}, 100),
        ({"most": 100, "options": None}, 100),
    ],
)
def test_each_of_several_responses_may_be_as_long_as_the_limit(body: Any, tokens: int) -> None:
    limits, counts = ("most", "options.most"), ("n", "options.samples")
    route = Route("POST", "/plain", "chat", answer_limits=limits, answer_counts=counts)
    estimate = estimate_request("chat", route, body, 7)
    assert [each.output_tokens for each in estimate.list_quantities(1000)] == [tokens, tokens]


@pytest.mark.parametrize("operation", ["chat", "images", "image_edits", "speech", "transcription"])
def test_a_response_without_a_limit_has_the_usual_length(operation: str) -> None:
    least, most = estimate_request(operation, ROUTE, {}, 7).list_quantities(4000)
    assert (least.output_tokens, most.output_tokens) == (0, 4000)


def test_embeddings_have_no_response_tokens() -> None:
    assert [each.output_tokens for each in estimate_request("embeddings", ROUTE, {}, 7).list_quantities(4000)] == [0, 0]


VARIANTS = {"1024x1024": 40, "hd 1024x1024": 80, "hd 1792x1024": 120}


@pytest.mark.parametrize(
    ("body", "cents"),
    [
        ({"size": "1792x1024", "quality": "hd", "n": 2}, 24),
        ({"size": "1024x1024"}, 4),
        ({"size": "1024x1024", "n": "3"}, 12),  # a form
        ({"size": "auto", "quality": "low"}, 4),
        ({"n": 2}, 8),
    ],
)
def test_an_image_has_the_price_of_its_size_or_else_the_lowest_price(body: Any, cents: int) -> None:
    price = Price(per_image={name: milli * 10**12 for name, milli in VARIANTS.items()})
    estimate = estimate_request("images", ROUTE, body, 7)
    assert estimate_cost(price, estimate.quantities) == cents * NANO // 100
    assert estimate_cost(None, estimate.quantities) == 0


def test_an_unknown_cost_reserves_no_money() -> None:
    rates = TokenRates(**dict.fromkeys(TokenRates.__struct_fields__))
    assert estimate_cost(Price(rates=rates), estimate_request("chat", ROUTE, {}, 7).quantities) == 0
