"""What needs attention, by the definitions of alerts: circuits, refused keys of providers, budgets, keys, the spool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final, Literal
from urllib.parse import quote

from tornado_gate.accounts.key_rules import find_expiry_days
from tornado_gate.accounts.keys import StoredKey
from tornado_gate.accounts.limit_overrides import CONF_KEY
from tornado_gate.ledger.spool import FULL_SHARE, measure_spool
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.console import words
from tornado_gate.server.console.bound_bars import LINKS, Bar, make_bar
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.services import Services
from tornado_gate.targets import causes
from tornado_gate.targets.circuits import EVERYBODY
from tornado_gate.targets.health import TargetHealth
from tornado_gate.types import Bound
from tornado_gate.types.value import Value

PROVIDERS: Final = "/console/providers"
MAX_ITEMS: Final = 20
"""The number of items of one kind on the page."""


class Item(Value, frozen=True, kw_only=True):
    """A cause with the page that helps. `level`: ``bad`` or ``warn``."""

    level: Literal["bad", "warn"]
    text: str
    link: str


async def list_gateway_items(services: Services) -> list[Item]:
    """Return what needs attention of administrators: providers and the spool."""
    items = _list_provider_items(services.gate.health)
    config = services.gate.snapshot.config
    used = await asyncio.to_thread(measure_spool, config.server.data_dir)
    if used >= FULL_SHARE * config.ledger.spool_bytes:
        text = translate("The spool of the usage ledger is nearly full: {size}. The database cannot be written.")
        items.insert(0, Item(level="bad", text=text.format(size=words.format_bytes(used)), link="/console/usage"))
    return items[:MAX_ITEMS]


def _list_provider_items(health: TargetHealth) -> list[Item]:
    refused = translate("The vendor refuses the key of the provider {name}.")
    down = translate("The provider {name} fails its health checks.")
    opened = translate("The circuit of {model} at {name} is open.")
    items: list[tuple[str, Literal["bad", "warn"], str]] = [
        (name, "bad", refused.format(name=name)) for name in causes.find_refused_keys(health)
    ]
    items += [(name, "bad", down.format(name=name)) for name in sorted(health.circuits.down)]
    items += [
        (name, "bad" if circuit.blocked == EVERYBODY else "warn", opened.format(model=model, name=name))
        for (name, model), circuit in causes.find_open_circuits(health).items()
    ]
    return [Item(level=level, text=text, link=f"{PROVIDERS}#provider-{name}") for name, level, text in items]


async def read_used_budgets(gate: Gate) -> list[Bar]:
    """Return the budgets of keys, users and teams of which much is used, by the definition of alerts. Raises DatabaseError."""
    from tornado_gate.alerts.accounts import list_used_budgets as read_shares  # alerts may be off

    config, list_bounds = gate.snapshot.config, gate.admission.list_bounds
    shares = await gate.database.run(read_shares, gate.database, config, list_bounds, time.time())
    return [make_bar(share.bound, share.used, _find_link(share.bound)) for share in shares[:MAX_ITEMS]]


def _find_link(bound: Bound) -> str:
    """Return the page of a subject; subjects of conf have no page but that of their usage."""
    if bound.kind == "key" and bound.subject.startswith(CONF_KEY):
        return f"/console/usage?key={quote(bound.subject)}"
    return f"{LINKS[bound.kind]}{quote(bound.subject)}"


def list_used_budgets(bars: Iterable[Bar]) -> list[Item]:
    """Return the budgets of which at least NEARLY_USED is used, the fullest first."""
    full = sorted((bar for bar in bars if bar.is_budget and bar.is_nearly_used), key=lambda bar: -bar.part)
    text = translate("{title}: {used} of {limit} are used ({label}).")
    return [
        Item(
            level="bad" if bar.part == 1 else "warn",
            text=text.format(title=words.shorten(bar.title, 60), used=bar.used, limit=bar.limit, label=bar.label),
            link=bar.link if bar.kind == "key" else "/console/usage",
        )
        for bar in full[:MAX_ITEMS]
    ]


def list_expiring_keys(keys: Sequence[StoredKey], now: float) -> list[Item]:
    """Return the active keys that expire soon and have no successor."""
    text = translate("The key {name} expires {when}. Rotate it.")
    return [
        Item(
            level="warn",
            text=text.format(name=words.shorten(key.name, 60), when=words.format_age(key.expires, now)),
            link=f"/console/keys/{key.id}",
        )
        for key in keys
        if find_expiry_days(key.created, key.expires, now) is not None and not key.replaced_by
    ][:MAX_ITEMS]
