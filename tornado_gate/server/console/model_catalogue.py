"""What a model costs and how much it reads, for the lists of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.admin.views import ModelView
from tornado_gate.server.console.languages.catalogues import mark, translate
from tornado_gate.server.console.usage_chart import format_short
from tornado_gate.server.console.words import format_usd

ABILITIES: Final = {
    "tools": mark("tools"),
    "reasoning": mark("reasoning"),
    "images": mark("reads images"),
    "audio": mark("hears audio"),
    "video": mark("sees videos"),
    "files": mark("reads files"),
}
FEMTO_OF_MILLION: Final = 10**9
"""Femto-dollars for one token that are one US dollar for a million tokens."""


def describe_price(snapshot: Snapshot, model: ModelView) -> str:
    """Return the price at the first target in words; "" for a pattern, because its models have different prices."""
    if model.wildcard or not model.targets:
        return ""
    target = model.targets[0]
    price = snapshot.prices.find_price(target.provider, target.upstream_model)
    if price is None:
        return translate("unknown")
    if price.is_free:
        return translate("free")
    rates = price.rates
    if rates is None or rates.input is None or rates.output is None:
        return translate("by use")
    text = translate("{input} in, {output} out per million tokens")
    return text.format(
        input=format_usd(rates.input / FEMTO_OF_MILLION), output=format_usd(rates.output / FEMTO_OF_MILLION)
    )


def describe_context(model: ModelView) -> str:
    """Return the number of tokens that the model reads, if conf or the default prices say it: ``200 k``."""
    limit = model.context_tokens
    return format_short(limit).replace(" ", "\u00a0") if limit else ""


def describe_abilities(abilities: Sequence[str]) -> str:
    """Return the abilities of a chat model in words: ``tools, reasoning, reads images``."""
    return ", ".join(translate(ABILITIES[name]) if name in ABILITIES else name for name in abilities)
