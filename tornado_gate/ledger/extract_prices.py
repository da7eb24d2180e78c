"""Print the price table of the package ``genai-prices`` as JSON: ``python -m tornado_gate.ledger.extract_prices``.

This is a separate program, because importing the package takes 200 ms and 30 MB, with pydantic and an HTTP client. It
reads the data in the package and makes no connection. `default_prices.py` explains the JSON and keeps it in a file.
"""

from __future__ import annotations

import json
import sys
from typing import Any

KIND_OF_KEY = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
    "cache_write_5m_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "audio_input",
    "cache_audio_read_mtok": "cached_audio_input",
    "output_audio_mtok": "audio_output",
    "input_image_mtok": "image_input",
    "cache_image_read_mtok": "cached_image_input",
    "output_image_mtok": "image_output",
    "input_video_mtok": "video_input",
    "output_video_mtok": "video_output",
    "output_reasoning_mtok": "reasoning",
    "input_audio_hours": "per_hour",
    "audio_hours": "per_hour",
    "input_mchars": "per_million_characters",
    "web_searches_kcount": "per_thousand_web_searches",
    "requests_kcount": "per_thousand_requests",
}
"""Keys of conf by the package's name of a price: one key, or two keys where conf has a price per unit instead of per
thousand.
"""

USED_ONLY_WITH_TOOLS = frozenset({"storage_searches_kcount", "social_searches_kcount", "code_executions_kcount"})
"""Prices of usage that the gateway does not count. A model with any other unknown price is omitted: its cost would be
too low.
"""


def main() -> None:
    from genai_prices.data import providers

    table = {provider.id: _describe_provider(provider) for provider in providers}
    json.dump(table, sys.stdout, separators=(",", ":"))


def _describe_provider(provider: Any) -> dict[str, Any]:
    models = [_describe_model(model) for model in provider.models if _is_countable(model)]
    return {"url": provider.api_pattern, "others": provider.fallback_model_providers or [], "models": models}


def _is_countable(model: Any) -> bool:
    known = KIND_OF_KEY.keys() | USED_ONLY_WITH_TOOLS
    return all(set(_list_prices(price)) <= known for _, price in _list_conditional(model))


def _describe_model(model: Any) -> dict[str, Any]:
    prices = [{**_describe_times(when), "price": _describe_price(price)} for when, price in _list_conditional(model)]
    variants = [
        {**_describe_times(variant.constraint), "when": variant.when, "price": _describe_price(variant.prices)}
        for variant in model.price_variants or ()
    ]
    described = {"match": _describe_match(model.match), "prices": prices, "variants": variants}
    return {**described, "context": model.context_window} if model.context_window else described


def _list_conditional(model: Any) -> list[tuple[Any, Any]]:
    """Return pairs (constraint or None, price). The last price whose constraint holds applies."""
    if isinstance(model.prices, list):
        return [(entry.constraint, entry.prices) for entry in model.prices]
    return [(None, model.prices)]


def _list_prices(price: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(price).items() if value is not None and not key.startswith("_")}


def _describe_times(constraint: Any) -> dict[str, str]:
    """Return ``from``, a date, or ``since`` and ``until``, times of day in UTC."""
    if constraint is None:
        return {}
    if hasattr(constraint, "start_date"):
        return {"from": constraint.start_date.isoformat()}
    return {"since": _format_time(constraint.start_time), "until": _format_time(constraint.end_time)}


def _format_time(moment: Any) -> str:
    if moment.utcoffset():
        raise SystemExit(f"a price depends on a time of day that is not in UTC: {moment}")
    return str(moment.strftime("%H:%M"))


def _describe_price(price: Any) -> dict[str, list[list[Any]]]:
    """Return, by kind, [[0, US dollars], [number of tokens that the prompt exceeds, US dollars], …]."""
    described = {}
    for key, value in _list_prices(price).items():
        if key in KIND_OF_KEY:
            tiers = [[tier.start, str(tier.price)] for tier in getattr(value, "tiers", ())]
            described[KIND_OF_KEY[key]] = [[0, str(getattr(value, "base", value))], *tiers]
    return described


def _describe_match(clause: Any) -> list[Any]:
    """Return [operator, text] or [operator, [clause, …]]."""
    [(name, value)] = vars(clause).items()
    operator = name.rstrip("_")
    return [operator, [_describe_match(inner) for inner in value] if operator in ("or", "and") else value]


if __name__ == "__main__":
    main()
