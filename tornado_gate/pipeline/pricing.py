"""Prices of requests: load the default prices of a configuration, and reject requests with an unknown cost."""

from __future__ import annotations

from typing import Final

from tornado_gate.admission.estimates import OPEN_OPERATIONS
from tornado_gate.admission.limiter import counts_amounts
from tornado_gate.admission.reservations import Admission
from tornado_gate.config.model import Config
from tornado_gate.ledger.costs import compute_cost, count_quantities
from tornado_gate.ledger.default_prices import PricedProvider, find_provider, load_prices, load_table
from tornado_gate.ledger.entries import price_row
from tornado_gate.ledger.estimates import NO_USAGE, get_uncounted_usage, needs_estimate, settle_units, settle_usage
from tornado_gate.ledger.ledger import Ledger
from tornado_gate.ledger.prices import PriceTable
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.telemetry.entries import Entry, find_outcome
from tornado_gate.types import Call
from tornado_gate.types.value import replace

PRICED_LATER: Final = frozenset({"videos"})
"""Operations whose answers are sent before their cost is known. The cost of a video depends on the result of its task."""


def load_default_prices(snapshot: Snapshot) -> None:
    """Load prices of models without a price in conf. Takes 20 ms, or half a second after an update of their package."""
    config = snapshot.config
    if config.default_prices:
        providers = map(_get_priced_provider, snapshot.targets.providers.values())
        snapshot.prices.add_defaults(load_prices(config.server.data_dir / "prices", providers))


def find_price_provider(config: Config, base_url: str) -> str:
    """Return the name, in the default prices, of the vendor with this address; "" if it has none there. Reads a file."""
    table = load_table(config.server.data_dir / "prices") if config.default_prices and base_url else None
    return find_provider(table, "", base_url) if table else ""


def _get_priced_provider(provider: ConfiguredProvider) -> PricedProvider:
    entry, capabilities = provider.entry, provider.capabilities
    if capabilities.costs_nothing or entry.price_provider == "":
        return PricedProvider(name=entry.name)
    base_url = entry.base_url if capabilities.base_url is None else capabilities.base_url
    name = entry.price_provider or capabilities.price_provider
    return PricedProvider(name=entry.name, price_provider=name, base_url=base_url)


def compute_answer_cost(prices: PriceTable, call: Call) -> int | None:
    """Return the cost of a complete answer in nano-dollars. Its row in the ledger has the same cost.

    Return None if the cost is unknown, if no provider made the answer, or if its tokens are estimated later.
    """
    if not call.target.provider or call.operation in PRICED_LATER:
        return None
    return quote_answer(prices, call)


def quote_answer(prices: PriceTable, call: Call) -> int | None:
    """Return the cost like `compute_answer_cost`, of an answer that a provider has made and whose price is known now."""
    target, charge = call.target, call.charge
    price = prices.find_price(target.provider, target.upstream_model)
    if call.progress.cached:
        charge.quote(0)
    elif price is not None and (price.rates is None or not needs_estimate(call, "complete")):
        charge.quote(compute_cost(price, count_quantities(get_uncounted_usage(call), call.meter)))
    return charge.cost


def compute_session_cost(prices: PriceTable, call: Call) -> int:
    """Return the cost of a session so far in nano-dollars, or 0 if it is unknown."""
    price = prices.find_price(call.target.provider, call.target.upstream_model)
    if price is None:
        return 0
    return compute_cost(price, count_quantities(call.meter.usage or NO_USAGE, call.meter)) or 0


def record_usage(admission: Admission, ledger: Ledger, entry: Entry, body: bytes = b"") -> None:
    """Add a request that has ended to the ledger, with its `body` if conf requires it. Settle its reservations."""
    charge = entry.charge
    if charge.requested is not None or charge.reservations is not None:
        _settle(admission, entry)
    ledger.add(replace(entry, body=body) if body else entry)


def _settle(admission: Admission, entry: Entry) -> None:
    charge, outcome = entry.charge, entry.outcome or find_outcome(entry.status, entry.error_code)
    if charge.requested is not None:
        settle_units(entry, outcome)
    reservations = charge.take_reservations()
    if reservations is None:
        return
    tokens = cost = 0
    if counts_amounts(reservations):
        usage, _ = settle_usage(entry, outcome)
        tokens, cost = usage.total_tokens or 0, price_row(entry, usage, outcome) or 0
        if usage.output_tokens and entry.operation in OPEN_OPERATIONS and outcome == "complete":
            admission.usual.learn(entry.target.model, usage.output_tokens)
    admission.settle(reservations, tokens, cost)
