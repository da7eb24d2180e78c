"""From the usage that an upstream reports, in its own words, to what the request costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tornado_gate.config.price_keys import PriceSchema, build_price
from tornado_gate.ledger.costs import compute_cost, count_quantities
from tornado_gate.ledger.prices import make_price
from tornado_gate.pipeline.metering import MeterStep
from tornado_gate.types import Meter, ResponseStart, Usage
from tornado_gate_anthropic.wire.messages.usage import parse_usage as parse_anthropic
from tornado_gate_gemini.wire.generate.usage import parse_usage as parse_gemini
from tornado_gate_openai.wire import realtime
from tornado_gate_openai.wire.chat.meter import note_body as note_chat
from tornado_gate_openai.wire.responses.meter import note_body as note_response

REALTIME = {
    **{"input": 4, "cached_input": 0.4, "output": 16, "audio_input": 32, "cached_audio_input": 0.4, "audio_output": 64},
    **{"image_input": 5, "cached_image_input": 0.5},
}


def cost(price: dict[str, Any], usage: Usage | None, meter: Meter | None = None) -> Decimal | None:
    entry = build_price(PriceSchema().load(price))
    found = compute_cost(make_price(entry), count_quantities(usage or Usage(), meter or Meter()))
    return None if found is None else Decimal(found) / 10**9


def test_cached_sound_of_a_realtime_session_costs_what_cached_sound_costs() -> None:
    usage = {
        **{"total_tokens": 1300, "input_tokens": 1000, "output_tokens": 300},
        "input_token_details": {
            **{"text_tokens": 200, "audio_tokens": 800, "cached_tokens": 640},
            "cached_tokens_details": {"text_tokens": 128, "audio_tokens": 512},
        },
        "output_token_details": {"text_tokens": 60, "audio_tokens": 240},
    }
    parsed = realtime.parse_usage({"type": "response.done", "response": {"usage": usage}})
    exact = 72 * 4 + 128 * Decimal("0.4") + 288 * 32 + 512 * Decimal("0.4") + 60 * 16 + 240 * 64
    assert cost(REALTIME, parsed) == exact / 10**6


def test_the_modalities_of_a_prompt_have_their_prices() -> None:
    usage = {
        **{"promptTokenCount": 1000, "candidatesTokenCount": 100, "thoughtsTokenCount": 50},
        **{"cachedContentTokenCount": 300, "toolUsePromptTokenCount": 40, "totalTokenCount": 1190},
        "promptTokensDetails": [
            {"modality": name, "tokenCount": count} for name, count in (("TEXT", 400), ("AUDIO", 500), ("VIDEO", 100))
        ],
        "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 200}, {"modality": "TEXT", "tokenCount": 100}],
    }
    price = {
        **{"input": 0.3, "cached_input": 0.03, "audio_input": 1, "cached_audio_input": 0.1, "output": 2.5},
        "video_input": 0.6,
    }
    exact = (
        (300 + 40) * Decimal("0.3") + 100 * Decimal("0.03") + 300 + 200 * Decimal("0.1") + 100 * Decimal("0.6")
    ) + 150 * Decimal("2.5")
    assert cost(price, parse_gemini(usage)) == exact / 10**6


def test_cache_writes_of_an_hour_and_searches_are_counted() -> None:
    usage = {
        **{
            "input_tokens": 100,
            "cache_creation_input_tokens": 556,
            "cache_read_input_tokens": 1800,
            "output_tokens": 503,
        },
        "cache_creation": {"ephemeral_5m_input_tokens": 456, "ephemeral_1h_input_tokens": 100},
        **{"server_tool_use": {"web_search_requests": 2}, "service_tier": "standard"},
    }
    price = {
        **{"input": 3, "cache_write": 3.75, "cache_write_1h": 6, "cached_input": 0.3, "output": 15},
        "per_web_search": 0.01,
    }
    exact = 100 * 3 + 456 * Decimal("3.75") + 100 * 6 + 1800 * Decimal("0.3") + 503 * 15
    assert cost(price, parse_anthropic(usage)) == exact / 10**6 + Decimal("0.02")


PRICE = {"input": 2, "output": 10, "service_tiers": {"flex": {"input": 1, "output": 5}}, "per_web_search": 0.01}
CHAT = {
    **{"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]},
    "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
}


@pytest.mark.parametrize(
    ("tier", "usd"), [("flex", "0.00015"), ("default", "0.0003"), ("priority", None), (None, "0.0003")]
)
def test_the_service_tier_of_a_forwarded_chat_decides_its_price(tier: str | None, usd: str | None) -> None:
    meter = Meter()
    note_chat(meter, {**CHAT, "service_tier": tier})
    assert cost(PRICE, meter.usage, meter) == (None if usd is None else Decimal(usd))


def test_the_service_tier_of_a_translated_chat_decides_its_price() -> None:
    meter = Meter()
    MeterStep(meter).take([ResponseStart(model="m", extra={"service_tier": "flex"})], [])
    assert cost(PRICE, Usage(input_tokens=100, output_tokens=10), meter) == Decimal("0.00015")


def test_the_searches_in_a_response_are_counted() -> None:
    meter = Meter()
    items = [{"type": "web_search_call"}, {"type": "message", "content": []}, {"type": "web_search_call"}]
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    note_response(meter, {"output": items, "usage": usage, "status": "completed", "service_tier": "flex"})
    assert cost(PRICE, meter.usage, meter) == Decimal("0.00015") + Decimal("0.02")


@pytest.mark.parametrize("odd", [-5, "many", 1.5, None, [], {"web_search_requests": "2"}, {"web_search_requests": -1}])
def test_nonsense_in_a_usage_is_no_search(odd: Any) -> None:
    usage = Usage(input_tokens=100, output_tokens=10, extra={"server_tool_use": odd})
    assert cost(PRICE, usage) == Decimal("0.0003")
