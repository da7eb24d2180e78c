"""Applies prices to requests: loads the default prices of a configuration, and refuses requests whose cost would be unknown."""

from __future__ import annotations

from tornado_gate.gateway.snapshot import ConfiguredProvider, Snapshot
from tornado_gate.ledger.default_prices import PricedProvider, load_prices


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
