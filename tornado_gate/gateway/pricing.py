"""Applies prices to requests: loads the default prices of a configuration, and refuses requests whose cost would be unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tornado_gate.errors import NotAllowed
from tornado_gate.gateway.budgets import USUAL_ANSWER_TOKENS
from tornado_gate.ledger.costs import Quantities, compute_cost, count_quantities
from tornado_gate.ledger.default_prices import PricedProvider, load_prices
from tornado_gate.ledger.entries import NO_USAGE, Entry, price_row
from tornado_gate.ledger.estimates import settle_usage
from tornado_gate.types import Call, Target

USUAL_ANSWER: Final = Quantities(input_tokens=0, output_tokens=USUAL_ANSWER_TOKENS)
"""The estimate for realtime sessions and calls between models."""
PRICED_LATER: Final = frozenset({"videos"})
"""Operations whose answers are sent before it is known what they cost: a video costs what its task has made."""

if TYPE_CHECKING:
    from tornado_gate.gateway.gate import Gate
    from tornado_gate.gateway.snapshot import ConfiguredProvider, Snapshot


def load_default_prices(snapshot: Snapshot) -> None:
    """Load the prices of models for which conf has none. Takes 20 ms, and half a second after an update of their package."""
    config = snapshot.config
    if config.default_prices:
        providers = map(_get_priced_provider, snapshot.providers.values())
        snapshot.prices.add_defaults(load_prices(config.server.data_dir / "prices", providers))


def _get_priced_provider(provider: ConfiguredProvider) -> PricedProvider:
    entry, found = provider.entry, provider.capabilities
    if found.costs_nothing or entry.price_provider == "":
        return PricedProvider(name=entry.name)
    base_url = entry.base_url if found.base_url is None else found.base_url
    name = entry.price_provider or found.price_provider
    return PricedProvider(name=entry.name, price_provider=name, base_url=base_url)


def require_prices(
    snapshot: Snapshot, model: str, targets: list[tuple[Target, ConfiguredProvider]]
) -> list[tuple[Target, ConfiguredProvider]]:
    """`targets`; with ``unpriced: deny`` those that have a price. Raises NotAllowed when none has one."""
    if snapshot.config.unpriced == "allow":
        return targets
    find = snapshot.prices.find
    priced = [pair for pair in targets if find(pair[0].provider, pair[0].upstream_model) is not None]
    if not priced:
        message = f"The model '{model}' has no price, and this gateway serves only models whose cost is known."
        raise NotAllowed(message, param="model", code="unpriced_model")
    return priced


def compute_answer_cost(snapshot: Snapshot, call: Call) -> int | None:
    """The cost of a complete answer in nano-dollars; None if it is unknown or the answer is no provider's."""
    target, meter = call.target, call.meter
    if not target.provider or call.operation in PRICED_LATER:
        return None
    price = snapshot.prices.find(target.provider, target.upstream_model)
    if price is not None:
        meter.cost = compute_cost(price, count_quantities(meter.usage or NO_USAGE, meter))
    return meter.cost


async def check_budget(
    gate: Gate, snapshot: Snapshot, call: Call, target: Target, estimate: Quantities | None = None
) -> None:
    """Count what a request may use at `target` against the budgets of its caller. Raises RateLimited when a bound is exceeded."""
    price = snapshot.prices.find(target.provider, target.upstream_model)
    await gate.budgets.admit(call, price, estimate or USUAL_ANSWER)


def record_usage(gate: Gate, entry: Entry) -> None:
    """Add a request that has ended to the ledger, and what it has used to its caller's budgets."""
    gate.ledger.add(entry)
    claim, entry.meter.claim = entry.meter.claim, None
    if claim is not None:
        usage, is_estimated = settle_usage(entry.meter)
        cost = price_row(entry, usage, entry.outcome, is_estimated=is_estimated)
        gate.budgets.settle(claim, cost, usage.total_tokens or 0)
