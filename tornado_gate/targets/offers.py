"""The targets that conf offers for a model, in the order in which a request tries them.

By the strategy of the model's entry, or, for a conversation of an entry with cache affinity, in the order of the conversation;
with the strategy `cost` the cheaper targets come first also then.
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
"""The number of model names whose targets are cached. It is bounded because callers choose the names that match a wildcard."""
COST_SECONDS = 60.0
"""The time after which the prices of a model's targets are compared again."""


class Offer(Value, frozen=True):
    """A target of a model with its weight, built once for all requests for this name. The weight 0 drains it."""

    target: Target
    provider: ConfiguredProvider
    weight: float


class ModelOffers:
    """The offers of all models of a snapshot. `make` returns those of one name."""

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
        bound: Collection[str] = (),
    ) -> list[tuple[Target, ConfiguredProvider]]:
        """The targets of one model that support one of `operations`, in the order in which they are tried.

        A drained target is among them, as the last, only if its provider entry is in `bound`.
        """
        offers: Sequence[Offer] | None = self._made.get(name)
        if offers is None:
            offers = self._made[name] = tuple(self._make(name))
        if len(offers) > 1 or (offers and not offers[0].weight):
            offers = self._order(name, entry, offers, session, bound)
        return [
            (offer.target, offer.provider) for offer in offers if offer.target.first_supported_operation(operations)
        ]

    def _order(
        self, name: str, entry: ModelEntry, offers: Sequence[Offer], session: Session | None, bound: Collection[str]
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
        if bound:
            ordered += [offer for offer in offers if not offer.weight and offer.target.provider in bound]
        return ordered

    def _find_costs(self, name: str, offers: Sequence[Offer]) -> Costs:
        """What a typical request costs at each target."""
        now = time.monotonic()
        known = self._costs.get(name)
        if known is None or known[0] <= now:
            places = [(offer.target.provider, offer.target.upstream_model) for offer in offers]
            costs = compute_typical_costs([self._prices.find(*place) for place in places])
            known = self._costs[name] = now + COST_SECONDS, dict(zip(places, costs, strict=True))
        return known[1]


def list_measured_models(config: Config) -> frozenset[str]:
    """The model entries whose targets' loads are measured: strategy, cache affinity or the budget of retries needs it."""
    repeated = list_retries(config)
    return frozenset(
        name
        for name, entry in config.models.items()
        if name in repeated or entry.affinity is not None or entry.strategy in ("latency", "least_busy")
    )


def list_retries(config: Config) -> dict[str, RetriesConfig]:
    """The retries of model entries: their own, or those of all. Entries without any are missing."""
    rules = {name: entry.retries or config.retries for name, entry in config.models.items()}
    return {name: one for name, one in rules.items() if one.same_target}
