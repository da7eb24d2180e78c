"""The targets that conf offers for a model, in the order in which a request tries them.

The order follows the strategy of the model's entry. A conversation of an entry with cache affinity has an order of targets that
replaces the strategy's; with the strategy `cost` the cheaper targets still come first.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from cachetools import FIFOCache

from tornado_gate.config.model import Config, ModelEntry
from tornado_gate.config.routing import RetriesConfig
from tornado_gate.ledger.prices import PriceTable
from tornado_gate.targets.affinity import Session, order_offers, put_full_last
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.loads import TargetLoads
from tornado_gate.targets.strategies import Costs, compute_typical_costs, order_by_strategy, sort_by_cost
from tornado_gate.types import Operation, Target
from tornado_gate.types.value import Value

MAX_MODELS = 20_000
"""The number of model names whose targets are cached. It is limited because callers choose the names that match a wildcard."""
COST_SECONDS = 60.0
"""The time after which the prices of a model's targets are compared again."""


class Offer(Value, frozen=True):
    """A target of a model with its weight, built once for all requests for a name. A weight of 0 drains the target."""

    target: Target
    provider: ConfiguredProvider
    weight: float


class ModelOffers:
    """The offers of all models of a snapshot. `make` returns the offers of one name."""

    def __init__(
        self, make: Callable[[str], Iterable[Offer]], prices: PriceTable, chance: random.Random, loads: TargetLoads
    ) -> None:
        self._make = make
        self._prices = prices
        self._chance = chance
        self._loads = loads
        self._made: FIFOCache[str, tuple[Offer, ...]] = FIFOCache(MAX_MODELS)
        self._costs: FIFOCache[str, tuple[float, Costs]] = FIFOCache(MAX_MODELS)

    def select(
        self,
        name: str,
        entry: ModelEntry,
        operations: tuple[Operation, ...],
        session: Session | None = None,
        keepers: Collection[str] = (),
    ) -> list[tuple[Target, ConfiguredProvider]]:
        """Return the targets of one model that support one of `operations`, in the order in which they are tried.

        Drained targets are left out. If their provider entry is in `keepers`, they come last.
        """
        offers: Sequence[Offer] | None = self._made.get(name)
        if offers is None:
            offers = self._made[name] = tuple(self._make(name))
        if len(offers) > 1 or (offers and not offers[0].weight):
            offers = self._order(name, entry, offers, session, keepers)
        return [
            (offer.target, offer.provider) for offer in offers if offer.target.first_supported_operation(operations)
        ]

    def _order(
        self, name: str, entry: ModelEntry, offers: Sequence[Offer], session: Session | None, keepers: Collection[str]
    ) -> list[Offer]:
        used = [offer for offer in offers if offer.weight]
        if session is None:
            ordered = order_by_strategy(used, entry.strategy, self._chance, self._loads)
        else:
            ordered = order_offers(used, session)
            if entry.affinity is not None and len(ordered) > 1:
                ordered = put_full_last(ordered, session, entry.affinity.most_load, self._loads)
        if entry.strategy == "cost":
            ordered = sort_by_cost(ordered, self._find_costs(name, offers))
        if keepers:
            ordered += [offer for offer in offers if not offer.weight and offer.target.provider in keepers]
        return ordered

    def _find_costs(self, name: str, offers: Sequence[Offer]) -> Costs:
        """Return the cost of a typical request at each target."""
        now = time.monotonic()
        cached = self._costs.get(name)
        if cached is None or cached[0] <= now:
            names = [(offer.target.provider, offer.target.upstream_model) for offer in offers]
            costs = compute_typical_costs([self._prices.find_price(*upstream) for upstream in names])
            cached = self._costs[name] = now + COST_SECONDS, dict(zip(names, costs, strict=True))
        return cached[1]


def list_measured_models(config: Config) -> frozenset[str]:
    """Return the model entries whose strategy, cache affinity or retries need the loads of their targets."""
    repeated = list_retries(config)
    return frozenset(
        name
        for name, entry in config.models.items()
        if name in repeated or entry.affinity is not None or entry.strategy in ("latency", "least_busy")
    )


def list_retries(config: Config) -> dict[str, RetriesConfig]:
    """Return the retries of model entries: the entry's, or else the general ones. Entries without retries are missing."""
    rules = {name: entry.retries or config.retries for name, entry in config.models.items()}
    return {name: retries for name, retries in rules.items() if retries.same_target}
