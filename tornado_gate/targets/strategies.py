"""The strategies of a model entry: the order in which its targets are tried. No I/O, no clock.

Every strategy begins with the random order by weight, so that targets of equal rank share the requests by weight.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from tornado_gate.config.routing import Strategy
from tornado_gate.ledger.costs import Price, compute_cost
from tornado_gate.targets.loads import TargetLoads
from tornado_gate.types import Target
from tornado_gate.types.quantities import Quantities

Costs = Mapping[tuple[str, str], float]
"""The cost of a typical request, by provider entry and upstream model; infinite without a known price."""

EXPLORATION: Final = 0.05
"""The share of requests for which the strategy `latency` ignores its measurements, so that it sees which targets became fast."""
SIMILAR: Final = 1.2
"""Targets with at most this multiple of the best latency share the requests by weight."""
UNMEASURED_IN_FLIGHT: Final = 2
"""A target without a measured latency gets at most this number of requests at a time."""


class Weighted(Protocol):
    """An object with a weight, such as a target of conf."""

    @property
    def weight(self) -> float: ...


class Offer(Weighted, Protocol):
    """A target of a model."""

    @property
    def target(self) -> Target: ...


W = TypeVar("W", bound=Weighted)
O = TypeVar("O", bound=Offer)  # noqa: E741


def order_by_weight(targets: Iterable[W], chance: random.Random) -> list[W]:
    """Return the targets in a random order. Each is first with a probability proportional to its weight, and so on.

    Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006).
    """
    ordered = list(targets)
    if len(ordered) == 1:
        return ordered
    return sorted(ordered, key=lambda target: chance.random() ** (1 / target.weight), reverse=True)


def order_by_strategy(offers: Sequence[O], strategy: Strategy, chance: random.Random, loads: TargetLoads) -> list[O]:
    """Return the offers of a model in the order in which a request tries them. No offer may have the weight 0.

    For the strategy `cost`, the caller applies `sort_by_cost` to the result.
    """
    ordered = order_by_weight(offers, chance)
    if strategy in ("weighted", "cost") or len(ordered) < 2:
        return ordered
    if strategy == "least_busy":
        return _order_by_load(ordered, loads)
    return ordered if chance.random() < EXPLORATION else _order_by_latency(ordered, loads)


def _order_by_load(ordered: list[O], loads: TargetLoads) -> list[O]:
    """Return the offers, with the less busy one of the first two in front. Loads are relative to weights.

    Source: Mitzenmacher, "The power of two choices in randomized load balancing" (2001).
    """
    first, second = ordered[:2]
    load, other_load = ((loads.find_load(offer.target).in_flight + 1) / offer.weight for offer in (first, second))
    return [second, first, *ordered[2:]] if other_load < load else ordered


def _order_by_latency(ordered: list[O], loads: TargetLoads) -> list[O]:
    """Return the offers with the fastest first. Unmeasured targets come before them, for a few requests at a time."""
    measured = [(loads.find_load(offer.target), offer) for offer in ordered]
    best = min((load.latency for load, _ in measured if load.latency is not None), default=0.0)

    def rank(pair: tuple[object, O]) -> tuple[int, float]:
        load = loads.find_load(pair[1].target)
        if load.latency is None:
            return (0, 0.0) if load.in_flight < UNMEASURED_IN_FLIGHT else (3, 0.0)
        return (1, 0.0) if load.latency <= best * SIMILAR else (2, load.latency)

    return [offer for _, offer in sorted(measured, key=rank)]


def sort_by_cost(offers: Iterable[O], costs: Costs) -> list[O]:
    """Return the offers with the cheapest first. Offers with the same cost keep their order."""
    return sorted(offers, key=lambda offer: costs[offer.target.provider, offer.target.upstream_model])


TYPICAL_REQUESTS: Final = (
    Quantities(input_tokens=3000, output_tokens=1000),
    Quantities(input_tokens=1000),
    Quantities(images=1, size="1024x1024"),
    Quantities(images=1),
    Quantities(seconds=10.0, size="1280x720"),
    Quantities(seconds=10.0),
    Quantities(characters=1000),
    Quantities(),
)
"""Targets are compared by the first of these requests that all their prices cover."""


def compute_typical_costs(prices: Sequence[Price | None]) -> list[float]:
    """Return the cost of a typical request for each price, in a unit that the prices share; infinite without a price."""
    known = [price for price in prices if price is not None]
    for quantities in TYPICAL_REQUESTS:
        costs = [compute_cost(price, quantities) for price in known]
        if known and all(cost is not None for cost in costs):
            remaining = iter(costs)
            return [float("inf") if price is None else float(next(remaining) or 0) for price in prices]
    return [float("inf")] * len(prices)
