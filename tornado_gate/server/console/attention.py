"""What needs attention, from states that the pages know: circuits, refused keys of providers, budgets, keys, the spool."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from tornado_gate.accounts.keys import StoredKey
from tornado_gate.errors import UpstreamKeyRefused
from tornado_gate.ledger.rows import DAY
from tornado_gate.ledger.spool import FOLDER
from tornado_gate.server.admin.views import ProviderView, describe_providers
from tornado_gate.server.console import words
from tornado_gate.server.console.bound_bars import NEARLY_USED, Bar
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.services import Services
from tornado_gate.types.value import Value

EXPIRY_SECONDS: Final = 7 * DAY
MAX_ITEMS: Final = 20
"""The number of items of one kind on the page."""


class Item(Value, frozen=True, kw_only=True):
    """A cause with the page that helps. `level`: ``bad`` or ``warn``."""

    level: Literal["bad", "warn"]
    text: str
    link: str


async def list_gateway_items(services: Services) -> list[Item]:
    """Return what needs attention of administrators: providers and the spool."""
    items = [item for provider in describe_providers(services) for item in _describe_provider(provider)]
    config = services.gate.snapshot.config
    used = await asyncio.to_thread(measure_spool, config.server.data_dir)
    if used >= NEARLY_USED * config.ledger.spool_bytes:
        text = translate("The spool of the usage ledger is nearly full: {size}. The database cannot be written.")
        items.insert(0, Item(level="bad", text=text.format(size=words.format_bytes(used)), link="/console/usage"))
    return items[:MAX_ITEMS]


def _describe_provider(provider: ProviderView) -> Iterator[Item]:
    link = f"/console/providers#provider-{provider.name}"
    codes = [circuit.error_code for circuit in provider.circuits if circuit.failing]
    codes += [key.error_code for key in provider.keys if key.rests_seconds]
    if UpstreamKeyRefused.code in codes:
        text = translate("The vendor refuses the key of the provider {name}.")
        yield Item(level="bad", text=text.format(name=provider.name), link=link)
    if provider.health == "down":
        text = translate("The provider {name} fails its health checks.")
        yield Item(level="bad", text=text.format(name=provider.name), link=link)
    for circuit in provider.circuits:
        if circuit.state != "closed":
            text = translate("The circuit of {model} at {name} is open.")
            text = text.format(model=circuit.upstream_model, name=provider.name)
            yield Item(level="warn" if circuit.account else "bad", text=text, link=link)


def measure_spool(data_dir: Path) -> int:
    """Return the size of the spool in bytes. Blocks."""
    try:
        return sum(path.stat().st_size for path in (data_dir / FOLDER).glob("*.rows"))
    except OSError:
        return 0


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
    """Return the active keys that expire within EXPIRY_SECONDS and have no successor."""
    text = translate("The key {name} expires {when}. Rotate it.")
    return [
        Item(
            level="warn",
            text=text.format(name=words.shorten(key.name, 60), when=words.format_age(key.expires, now)),
            link=f"/console/keys/{key.id}",
        )
        for key in keys
        if key.expires is not None and now < key.expires <= now + EXPIRY_SECONDS and not key.replaced_by
    ][:MAX_ITEMS]
