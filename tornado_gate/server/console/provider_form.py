"""The form of a new provider entry: vendors to choose from, its fields, and the models to add with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tornado_gate.config.entry_edits import PROVIDER_NAME, PROVIDER_NAME_RULE, EntryAddition, EntryChange, Step
from tornado_gate.config.model import Config
from tornado_gate.config.secret_store import SecretError
from tornado_gate.ledger.costs import Price
from tornado_gate.pipeline.pricing import find_price_provider, load_default_prices
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.pipeline.vendors import OfferedVendor
from tornado_gate.server.admin.views import list_abilities
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.words import format_usd
from tornado_gate.server.control.shared_secrets import open_secret_store
from tornado_gate.types.value import Value
from tornado_gate.types.vendors import ListedModel

FIELDS: Final = ("vendor", "name", "base_url", "api_key", "further")
ALL_MODELS: Final = "*"
MAX_ROWS: Final = 1000
_FEMTO: Final = 10**15
_MILLION: Final = 10**6


class ModelRow(Value, frozen=True, kw_only=True):
    """A model of the vendor's list. `price` is for input and output, in US dollars per million tokens; "" if unknown."""

    name: str
    operations: tuple[str, ...]
    abilities: tuple[str, ...]
    context: str
    price: str


class Draft(Value, frozen=True, kw_only=True):
    """A provider entry before it is saved, and the upstream models to add with it.

    `entry` has the members of a new entry, or the changed ones of an existing entry.
    """

    name: str
    entry: Mapping[str, Any]
    models: tuple[str, ...] = ()
    is_new: bool = True

    def make_provider_steps(self) -> list[Step]:
        """Return the change of the entry; [] without one."""
        if self.is_new:
            return [EntryAddition(section="providers", name=self.name, entry=self.entry, new_secrets=self.new_secrets)]
        change = EntryChange(section="providers", name=self.name, members=self.entry, new_secrets=self.new_secrets)
        return [change] if self.entry else []

    @property
    def new_secrets(self) -> frozenset[str]:
        """Return the reference to the key that the form has stored."""
        key = self.entry.get("api_key")
        return frozenset((key,) if key else ())

    def make_steps(self, taken: Iterable[str]) -> list[Step]:
        """Return the steps of the whole change. A model whose name is among `taken` gets the provider's name before its own."""
        names = set(taken)
        steps = self.make_provider_steps()
        for model in dict.fromkeys(self.models):
            is_new = model != ALL_MODELS and model not in names
            name = model if is_new else f"{self.name}/{model}"
            entry = (
                {"provider": self.name} if is_new or model == ALL_MODELS else {"provider": self.name, "model": model}
            )
            steps.append(
                EntryAddition(section="models", name=name, entry=entry, may_exist=True, new_secrets=frozenset())
            )
        return steps


def make_entry(config: Config, offer: OfferedVendor, base_url: str, reference: str) -> dict[str, Any]:
    """Return the members of an entry. An address that the plugin knows is not repeated in conf; another one, such as a
    proxy's, names the vendor whose prices it has. Reads the table of prices: call it in a thread.
    """
    entry: dict[str, Any] = {"plugin": offer.plugin, **offer.vendor.settings}
    if base_url and base_url.rstrip("/") != offer.vendor.base_url.rstrip("/"):
        entry["base_url"] = base_url
        if name := find_price_provider(config, offer.vendor.base_url):
            entry["price_provider"] = name
    if reference:
        entry["api_key"] = reference
    return entry


def check_fields(form: Form, offer: OfferedVendor | None, *, has_key: bool, config: Config) -> None:
    """Note what is missing, beside the fields."""
    name = form.values["name"]
    if offer is None:
        form.errors["vendor"] = translate("Choose a vendor.")
    if offer is not None and not name:
        form.errors["name"] = translate("Give the provider a name.")
    elif name in config.providers:
        form.errors["name"] = translate("conf has a provider entry '{name}' already. Choose another name.").format(
            name=name
        )
    elif name and not PROVIDER_NAME.fullmatch(name):
        form.errors["name"] = translate("A name has {rule}.").format(rule=PROVIDER_NAME_RULE)
    if offer is None or not offer.vendor.needs_key:
        return
    if not form.values["base_url"] and not offer.vendor.base_url:
        form.errors["base_url"] = translate("This vendor has a separate address for each customer. Copy yours.")
    if not has_key:
        form.errors["api_key"] = translate("Paste the key of your account at the vendor.")


def find_draft_secret(config: Config, name: str) -> str:
    """Return the reference to a key that an earlier step of the form has stored; "" if it is not there. Synchronous.

    Only secrets that no conf has ever named are accepted: the form must not give the key of another entry, or an earlier key,
    to a new address.
    """
    try:
        stored = open_secret_store(config).list_secrets() if name else []
    except SecretError:
        stored = []
    is_draft = any(secret.name == name and secret.retired == secret.changed for secret in stored)
    return f"${{secret:{name}}}" if is_draft else ""


def list_rows(snapshot: Snapshot, provider: str, models: Sequence[ListedModel]) -> list[ModelRow]:
    """Return the vendor's models with abilities and prices. Reads the table of prices: call it in a thread."""
    load_default_prices(snapshot)
    capabilities, prices = snapshot.targets.providers[provider].capabilities, snapshot.prices
    return [
        ModelRow(
            name=model.name,
            operations=tuple(sorted(capabilities.get_operations(model.name))),
            abilities=list_abilities(capabilities, model.name),
            context=f"{context:,}"
            if (context := model.context_tokens or prices.find_context(provider, model.name))
            else "",
            price=format_price(prices.find_price(provider, model.name)),
        )
        for model in sorted(models, key=lambda model: model.name)[:MAX_ROWS]
    ]


def format_price(price: Price | None) -> str:
    """Return ``$2.50 in, $10.00 out``, in US dollars per million tokens; ``free``; "" for another or an unknown price."""
    if price is None:
        return ""
    if price.is_free:
        return translate("free")
    if price.rates is None:
        return translate("by use")
    amounts = ((price.rates.input, "in"), (price.rates.output, "out"))
    return ", ".join(
        f"{format_usd(amount * _MILLION / _FEMTO)} {word}" for amount, word in amounts if amount is not None
    )
