"""The models of one configuration, and the targets that serve a request, in order."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping

from cachetools import FIFOCache

from tornado_gate.accounts.permissions import check_model, may_use_model
from tornado_gate.config.model import Config, ModelEntry, ModelTarget
from tornado_gate.errors import NotAllowed, PluginError, UnknownModel, UnsupportedOperation
from tornado_gate.ledger.prices import PriceTable
from tornado_gate.targets.affinity import Session
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.loads import TargetLoads
from tornado_gate.targets.offers import MAX_MODELS, ModelOffers, Offer, list_measured_models, list_retries
from tornado_gate.targets.routing import ModelTable, resolve_upstream_model
from tornado_gate.types import Call, Caller, Model, Operation, Target, Timeouts
from tornado_gate.types.value import replace

Candidate = tuple[Target, ConfiguredProvider]


class TargetTable:
    """Finds the targets of models. `created` is the time in Unix seconds that model lists show.

    `measured` are the model entries whose targets' loads are measured. `retries` has the retries of model entries by name.
    `has_affinity`: an entry has cache affinity.
    """

    def __init__(
        self, config: Config, providers: Mapping[str, ConfiguredProvider], prices: PriceTable, created: int
    ) -> None:
        self.providers = providers
        self.models = ModelTable(config.models)
        self.chance = random.Random()
        self.loads = TargetLoads()
        self.measured = list_measured_models(config)
        self.retries = list_retries(config)
        self.has_affinity = any(entry.affinity is not None for entry in config.models.values())
        self._created = created
        self._prices = prices
        self._denies_unpriced = config.unpriced == "deny"
        self._offers = ModelOffers(self._make_offers, prices, self.chance, self.loads)
        self._single_targets: FIFOCache[tuple[str, tuple[Operation, ...]], list[Candidate]] = FIFOCache(MAX_MODELS)
        """Cached results of `select_targets` for models with one target."""

    # Models

    def find_model(self, name: str, caller: Caller) -> ModelEntry:
        """Return the entry for the model `name`. Raises UnknownModel, or NotAllowed if the key does not allow the model."""
        match = self.models.find_model(name)
        if match is None:
            raise UnknownModel(name)
        check_model(caller, name)
        return match.entry

    def find_entry_name(self, model: str) -> str:
        """Return the name of the entry for a model; the model's name without an entry."""
        match = self.models.find_model(model)
        return model if match is None else match.entry.name

    def for_model(self, call: Call, model: str) -> Call:
        """Return the call for `model`, with the model's name, facts and failover of conf."""
        match = self.models.find_model(model)
        if match is None:
            return replace(call, model=model)
        entry = match.entry
        if not entry.failover and call.failover is None:
            call = replace(call, failover=False)
        return replace(call, model=model if match.rest else entry.name, facts=entry.facts or call.facts)

    # Targets

    def select_targets(
        self,
        call: Call,
        operations: tuple[Operation, ...],
        session: Session | None = None,
        keepers: Collection[str] = (),
    ) -> list[tuple[Target, ConfiguredProvider]]:
        """Return the targets that support one of `operations`: the model's by its strategy, then its fallback models'.

        The targets of a `session` are in its order. `keepers` are provider entries that keep objects for the request: drained
        targets are left out unless they are theirs. With ``unpriced: deny`` targets without a price are left out.
        Raises UnknownModel, NotAllowed, UnsupportedOperation, or PluginError if the plugins of all these targets have failed.
        """
        cached = self._single_targets.get((call.model, operations))
        if cached is not None and not call.caller.models:
            return cached
        entry = self.find_model(call.model, call.caller)
        able = self._offers.select(call.model, entry, operations, session, keepers)
        if len(able) == 1 and able[0][1].lane is not None and not entry.fallback:
            able = self._require_prices(call.model, able)
            if len(entry.targets) == 1:
                self._single_targets[call.model, operations] = able
            return able
        for name in entry.fallback:
            if may_use_model(call.caller, name):
                other = self.models.find_model(name)
                able += self._offers.select(name, other.entry if other else entry, operations, session, keepers)
        if not able:
            advice = self._find_missing(call.model, operations) or "Use another model."
            raise UnsupportedOperation(
                f"The model '{call.model}' does not support the operation '{call.operation}'. {advice}"
            )
        able = self._require_prices(call.model, able)
        working = [pair for pair in able if pair[1].lane is not None]
        if not working:
            raise PluginError(able[0][1].entry.plugin, "the plugin failed earlier")
        return working

    def _find_missing(self, model: str, operations: tuple[Operation, ...]) -> str:
        """Return what to install so that a target of the model supports one of `operations`, or ""."""
        missing = (
            provider.capabilities.find_missing(target.upstream_model, operations)
            for target, provider in self.list_targets(model)
        )
        return next(filter(None, missing), "")

    def _require_prices(self, model: str, targets: list[Candidate]) -> list[Candidate]:
        """Return `targets`, without unpriced ones if conf has ``unpriced: deny``. Raises NotAllowed if no target is left."""
        if not self._denies_unpriced:
            return targets
        find_price = self._prices.find_price
        priced = [pair for pair in targets if find_price(pair[0].provider, pair[0].upstream_model) is not None]
        if not priced:
            message = f"The model '{model}' has no price, and this gateway serves only models whose cost is known."
            raise NotAllowed(message, param="model", code="unpriced_model")
        return priced

    def has_choice(self, model: str, operations: tuple[Operation, ...]) -> bool:
        """Return whether a model may have more than one target. True before the first request for it."""
        return (model, operations) not in self._single_targets

    def list_targets(self, name: str) -> list[tuple[Target, ConfiguredProvider]]:
        """Return all targets of a model, in the order of conf; [] for an unknown model."""
        return [(offer.target, offer.provider) for offer in self._make_offers(name)]

    def _make_offers(self, name: str) -> Iterator[Offer]:
        match = self.models.find_model(name)
        if match is not None:
            for configured in match.entry.targets:
                target = self._make_target(name, match.rest, match.entry, configured)
                yield Offer(target, self.providers[configured.provider], configured.weight)

    def _make_target(self, name: str, rest: str, entry: ModelEntry, target: ModelTarget) -> Target:
        provider = self.providers[target.provider]
        base_url = provider.capabilities.base_url
        settings = provider.capabilities.settings
        upstream_model = resolve_upstream_model(entry.name, rest, target)
        first_key = provider.keys[0].fingerprint if provider.keys else ""
        return Target(
            provider=target.provider,
            plugin=provider.entry.plugin,
            model=entry.name,
            upstream_model=upstream_model,
            base_url=provider.entry.base_url if base_url is None else base_url,
            api_key=provider.entry.api_key,
            headers=provider.entry.headers,
            settings=provider.entry.settings if settings is None else settings,
            facts=entry.facts,
            timeouts=override_timeouts(provider.entry.timeouts, entry.timeouts),
            operations=_get_target_operations(provider, upstream_model, entry),
            shared_objects=provider.entry.shared_objects,
            key=first_key,
            account_keys=provider.entry.api_keys,
        )

    def make_task_target(self, model: str, provider_name: str, upstream_model: str, key: str = "") -> Target:
        """Return the target of an existing task or object, with the current conf. The model itself may no longer be in conf.

        `key` is the fingerprint of the key that created it. The first key is used if conf no longer has that key.
        """
        match = self.models.find_model(model)
        entry = match.entry if match else ModelEntry(name=model, targets=())
        target = self._make_target(model, "", entry, ModelTarget(provider=provider_name, model=upstream_model))
        creator_key = self.providers[provider_name].find_key(key) if key else None
        return target if creator_key is None else creator_key.apply(target)

    def list_models(self, caller: Caller) -> tuple[Model, ...]:
        """Return the models that the caller's key may use, in the order of conf."""
        return tuple(
            self._make_model(entry.name, entry)
            for entry in self.models.list_entries()
            if may_use_model(caller, entry.name)
        )

    def get_model(self, name: str, caller: Caller) -> Model:
        """Return one model. Raises UnknownModel, even if only the key may not use it, as in the key's model list."""
        match = self.models.find_model(name)
        if match is None or not may_use_model(caller, name):
            raise UnknownModel(name)
        return self._make_model(name if match.rest else match.entry.name, match.entry)

    def _make_model(self, name: str, entry: ModelEntry) -> Model:
        offered: set[str] = set()
        for target in entry.targets:
            upstream_model = target.model if target.model and "*" not in target.model else name
            offered |= self.providers[target.provider].capabilities.get_operations(upstream_model)
        if entry.operations is not None:
            offered &= entry.operations
        facts = entry.facts
        description = self.providers[entry.targets[0].provider].capabilities.description
        if description and not facts.get("description"):
            facts = {**facts, "description": description}
        return Model(
            id=name,
            owner=entry.targets[0].provider,
            operations=frozenset(offered),
            created=self._created,
            facts=facts,
        )


def _get_target_operations(
    provider: ConfiguredProvider, upstream_model: str, entry: ModelEntry
) -> frozenset[Operation] | None:
    """Return the operations of a target; None if its plugin failed: the request then gets the plugin's error."""
    if provider.lane is None:
        return entry.operations
    offered = provider.capabilities.get_operations(upstream_model)
    return offered if entry.operations is None else offered & entry.operations


def override_timeouts(timeouts: Timeouts, by_model: Mapping[str, float]) -> Timeouts:
    """Return the timeouts of a provider with the values in seconds that a model overrides."""
    return replace(timeouts, **by_model) if by_model else timeouts
