"""The vendors' published examples: what they say a request costs is what the gateway computes from the usage they report.

Each example has the prices of its time, as conf writes them, and the page that it is from. What the default prices are today is
in test_default_prices.py.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from tornado_gate.config.price_keys import PriceSchema, build_price
from tornado_gate.ledger.prices import compute_cost, make_price
from tornado_gate.types.quantities import Quantities


class Example(NamedTuple):
    """US dollars that a page states, or that follow from the rates that it states."""

    name: str
    source: str
    price: dict[str, Any]
    used: dict[str, Any]
    usd: str


CLAUDE = "https://platform.claude.com/docs/en/about-claude/pricing"
OPUS = {"input": 5, "cache_write": 6.25, "cache_write_1h": 10, "cached_input": 0.5, "output": 25}
SONNET = {
    **{"input": 3, "cache_write": 3.75, "cache_write_1h": 6, "cached_input": 0.3, "output": 15, "per_web_search": 0.01},
    "above": {"200000": {"input": 6, "cache_write": 7.5, "cache_write_1h": 12, "cached_input": 0.6, "output": 22.5}},
    "service_tiers": {"batch": {"input": 1.5, "output": 7.5}},
}
GPT_4O = {"input": 2.5, "cached_input": 1.25, "output": 10}
REALTIME = {
    **{"input": 4, "cached_input": 0.4, "output": 16, "audio_input": 32, "cached_audio_input": 0.4},
    **{"audio_output": 64, "image_input": 5, "cached_image_input": 0.5},
}
GPT_IMAGE = {"input": 5, "cached_input": 1.25, "image_input": 10, "cached_image_input": 2.5, "output": 40}
GEMINI = "https://ai.google.dev/gemini-api/docs/pricing"
GEMINI_PRO = {
    **{"input": 1.25, "cached_input": 0.125, "output": 10},
    "above": {"200000": {"input": 2.5, "cached_input": 0.25, "output": 15}},
}
GEMINI_FLASH = {"input": 0.3, "cached_input": 0.03, "audio_input": 1, "cached_audio_input": 0.1, "output": 2.5}
OPENAI = "https://platform.openai.com/docs"

EXAMPLES = [
    # A coding session of an hour: 50,000 input tokens x $5 = $0.25, 15,000 output tokens x $25 = $0.375; runtime is another bill.
    Example("Opus, 50,000 in, 15,000 out", CLAUDE, OPUS, {"input_tokens": 50_000, "output_tokens": 15_000}, "0.625"),
    # The same with 40,000 of the input tokens read from the cache: $0.05 + $0.02 + $0.375.
    Example(
        "Opus, 40,000 cached",
        CLAUDE,
        OPUS,
        {"input_tokens": 50_000, "cached_input_tokens": 40_000, "output_tokens": 15_000},
        "0.445",
    ),
    # Multipliers: 5-minute writes x 1.25, 1-hour writes x 2, reads x 0.1 of the input price.
    Example(
        "Sonnet, cache writes",
        "https://platform.claude.com/docs/en/build-with-claude/prompt-caching",
        SONNET,
        {
            **{"input_tokens": 2048 + 1800 + 248, "cached_input_tokens": 1800, "cache_write_tokens": 248},
            **{"cache_write_1h_tokens": 100, "output_tokens": 503},
        },
        "0.015384",
    ),
    # More than 200,000 input tokens, cached ones included: all tokens of the request at the higher price.
    Example("Sonnet, long context", CLAUDE, SONNET, {"input_tokens": 200_001, "output_tokens": 1000}, "1.222506"),
    Example("Sonnet, not long", CLAUDE, SONNET, {"input_tokens": 200_000, "output_tokens": 1000}, "0.615"),
    # The batch API at half the price.
    Example(
        "Sonnet, batch",
        CLAUDE,
        SONNET,
        {"input_tokens": 100_000, "output_tokens": 10_000, "service_tier": "batch"},
        "0.225",
    ),
    # $10 for 1,000 searches beside the tokens; usage: input_tokens 105, output_tokens 6039, web_search_requests 1.
    Example(
        "Sonnet, web search", CLAUDE, SONNET, {"input_tokens": 105, "output_tokens": 6039, "web_searches": 1}, "0.1009"
    ),
    # The usage of the guide: prompt_tokens 2006, of which cached_tokens 1920; completion_tokens 300.
    Example(
        "gpt-4o, prompt caching",
        f"{OPENAI}/guides/prompt-caching",
        GPT_4O,
        {"input_tokens": 2006, "cached_input_tokens": 1920, "output_tokens": 300},
        "0.005615",
    ),
    # output_tokens 1186, of which reasoning_tokens 1024: reasoning is billed as output.
    Example(
        "o1, reasoning",
        f"{OPENAI}/guides/reasoning",
        {"input": 15, "cached_input": 7.5, "output": 60},
        {"input_tokens": 75, "output_tokens": 1186, "reasoning_tokens": 1024},
        "0.072285",
    ),
    # The usage of response.done: 132 input tokens (119 text, 13 audio), 64 of them cached text; 30 text and 91 audio tokens out.
    Example(
        "gpt-realtime, audio",
        "https://developers.openai.com/api/docs/guides/realtime-costs",
        REALTIME,
        {
            **{"input_tokens": 132, "cached_input_tokens": 64, "audio_input_tokens": 13},
            **{"output_tokens": 121, "audio_output_tokens": 91},
        },
        "0.0069656",
    ),
    # 272, 1056 and 4160 output tokens for a square image: $0.011, $0.042 and $0.167 before rounding.
    Example(
        "gpt-image-1, low",
        f"{OPENAI}/guides/image-generation",
        GPT_IMAGE,
        {"input_tokens": 0, "output_tokens": 272},
        "0.01088",
    ),
    Example(
        "gpt-image-1, medium",
        f"{OPENAI}/guides/image-generation",
        GPT_IMAGE,
        {"input_tokens": 0, "output_tokens": 1056},
        "0.04224",
    ),
    Example(
        "gpt-image-1, high, with a prompt of 50 tokens and an image of 194",
        f"{OPENAI}/guides/image-generation",
        GPT_IMAGE,
        {"input_tokens": 244, "image_input_tokens": 194, "output_tokens": 4160, "image_output_tokens": 4160},
        "0.16859",
    ),
    # dall-e-3: $0.04 standard, $0.08 HD for a square image, $0.08 and $0.12 for larger ones.
    *[
        Example(
            f"dall-e-3, {quality} {size}",
            f"{OPENAI}/pricing",
            {
                "per_image": {
                    **{"standard 1024x1024": 0.04, "standard 1024x1792": 0.08, "standard 1792x1024": 0.08},
                    **{"hd 1024x1024": 0.08, "hd 1024x1792": 0.12, "hd 1792x1024": 0.12},
                }
            },
            {"images": 1, "size": size, "quality": quality},
            usd,
        )
        for quality, size, usd in (
            ("standard", "1024x1024", "0.04"),
            ("standard", "1792x1024", "0.08"),
            ("hd", "1024x1024", "0.08"),
            ("hd", "1024x1792", "0.12"),
        )
    ],
    # sora-2-pro: $0.30 a second at 720x1280 and 1280x720, $0.50 at 1024x1792 and 1792x1024.
    *[
        Example(
            f"sora-2-pro, {seconds} s at {size}",
            f"{OPENAI}/pricing",
            {"per_second": {"720p": 0.3, "1024p": 0.5}},
            {"seconds": seconds, "size": size},
            usd,
        )
        for seconds, size, usd in ((4, "720x1280", "1.2"), (8, "1280x720", "2.4"), (12, "1792x1024", "6"))
    ],
    # whisper-1: $0.006 a minute; tts-1: $15 per million characters.
    Example("whisper-1, 7 minutes and 30 s", f"{OPENAI}/pricing", {"per_minute": 0.006}, {"seconds": 450}, "0.045"),
    Example(
        "tts-1, 4,096 characters", f"{OPENAI}/pricing", {"per_million_characters": 15}, {"characters": 4096}, "0.06144"
    ),
    Example("text-embedding-3-small", f"{OPENAI}/pricing", {"input": 0.02}, {"input_tokens": 8191}, "0.00016382"),
    # Prompts of up to 200,000 tokens at $1.25 and $10, longer ones at $2.50 and $15.
    Example("Gemini Pro, not long", GEMINI, GEMINI_PRO, {"input_tokens": 200_000, "output_tokens": 8000}, "0.33"),
    Example("Gemini Pro, long context", GEMINI, GEMINI_PRO, {"input_tokens": 250_000, "output_tokens": 8000}, "0.745"),
    Example(
        "Gemini Pro, long and cached",
        GEMINI,
        GEMINI_PRO,
        {"input_tokens": 250_000, "cached_input_tokens": 200_000, "output_tokens": 8000},
        "0.295",
    ),
    # Audio at $1, text at $0.30; 32 tokens for a second of audio (ai.google.dev/gemini-api/docs/tokens): one minute is 1,920.
    Example(
        "Gemini Flash, a minute of audio",
        GEMINI,
        GEMINI_FLASH,
        {"input_tokens": 1920 + 80, "audio_input_tokens": 1920, "output_tokens": 400, "reasoning_tokens": 100},
        "0.002944",
    ),
    # An image of up to 1024x1024 pixels is 1,290 output tokens at $30: $0.0387, which the page rounds to $0.039.
    Example(
        "Gemini Flash Image",
        GEMINI,
        {"input": 0.3, "output": 2.5, "image_output": 30},
        {"input_tokens": 0, "output_tokens": 1290, "image_output_tokens": 1290},
        "0.0387",
    ),
    # Imagen 4: $0.04 an image; Veo 3.1: $0.40 a second with audio at 720p and 1080p, $0.60 at 4k.
    Example("Imagen 4, four images", GEMINI, {"per_image": 0.04}, {"images": 4}, "0.16"),
    Example(
        "Veo 3.1, 8 s at 1080p",
        GEMINI,
        {"per_second": {"720p": 0.4, "1080p": 0.4, "2160p": 0.6}},
        {"seconds": 8, "size": "1920x1080"},
        "3.2",
    ),
    # prompt_tokens 125, of which 98 are cached; completion_tokens 48.
    Example(
        "Grok 4, cached tokens",
        "https://docs.x.ai/developers/advanced-api-usage/prompt-caching/usage-and-pricing",
        {"input": 3, "cached_input": 0.75, "output": 15},
        {"input_tokens": 125, "cached_input_tokens": 98, "output_tokens": 48},
        "0.0008745",
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_published_example_costs_what_its_page_says(example: Example) -> None:
    price = make_price(build_price(PriceSchema().load(example.price)))
    assert compute_cost(price, Quantities(**example.used)) == int(Decimal(example.usd) * 10**9)
