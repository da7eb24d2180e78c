"""Default prices, for models that have no price in conf. The source is the package ``genai-prices``, an optional
installation.

Another process reads the package once for each version (`extract_prices.py`). The result is a file below the data
folder. Nothing is read from the network: the prices change with the installed version of the package.
"""

from __future__ import annotations

import logging
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from tornado_gate.config.prices import PriceEntry, Rates
from tornado_gate.ledger.costs import FREE, Price
from tornado_gate.ledger.prices import KINDS, DefaultPrices, make_price
from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.value import Value

log = logging.getLogger(__name__)

PACKAGE = "genai-prices"
LAYOUT = 2
"""The number of the file's layout. A file with another number is not read."""
EXTRACT_SECONDS = 60.0
DAY_SECONDS = 86_400
TIER_CONDITIONS = ("service_tier", "processing", "speed")
"""Conditions of a price in the package whose values are all service tiers here."""

_COMPACT_DATE = re.compile(r"-(20\d\d)([01]\d)([0-3]\d)(?=-|:|$)")


class ProviderTable(msgspec.Struct):
    """The prices of one provider's models: ``match``, ``prices``, ``variants`` and, if known, ``context`` of each, as
    `extract_prices.py` prints them.

    `url` is a pattern of the addresses of the provider's API. `others` are providers whose models it resells at their
    prices.
    """

    url: str
    others: list[str]
    models: msgspec.Raw


Table = Mapping[str, ProviderTable]
"""Tables by the package's name of a provider. The models are parsed when the provider is in use."""

_Decoder = msgspec.json.Decoder(dict[str, ProviderTable])


class PricedProvider(Value, frozen=True, kw_only=True):
    """A provider entry as the table needs it: the package's name of the provider if known, and the base URL of its API."""

    name: str
    price_provider: str = ""
    base_url: str = ""


def load_prices(folder: Path, providers: Iterable[PricedProvider]) -> dict[str, DefaultPrices]:
    """Return the default prices by provider entry. Entries without a provider in the table are omitted. See `load_table`."""
    # The addresses in the table belong to vendors and use TLS. A server without TLS therefore needs no table.
    priced_providers = [
        provider for provider in providers if provider.price_provider or provider.base_url.startswith("https://")
    ]
    table = load_table(folder) if priced_providers else None
    prices: dict[str, DefaultPrices] = {}
    for provider in priced_providers if table else ():
        assert table is not None
        known = find_provider(table, provider.price_provider, provider.base_url)
        if known:
            prices[provider.name] = VendorPrices(table, known)
        elif provider.price_provider:
            log.warning(
                "providers.%s: no default prices for '%s'; known: %s",
                provider.name,
                provider.price_provider,
                ", ".join(table),
            )
    return prices


def load_table(folder: Path) -> Table | None:
    """Return the price table of the installed package; None if it is not installed or cannot be read, which is logged.

    `folder` keeps the file. The call takes half a second when the file must be made, else 10 ms.
    """
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        log.warning(
            "no default prices: the package %s is not installed; set prices or install tornado-gate[prices]", PACKAGE
        )
        return None
    file = folder / f"{PACKAGE}-{version}-{LAYOUT}.json"
    try:
        return _parse_table(file.read_bytes())
    except (OSError, ValueError):
        pass  # the file does not exist yet, or is incomplete
    try:
        content = extract_table()
        table = _parse_table(content)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("no default prices: %s %s cannot be read: %s", PACKAGE, version, error)
        return None
    _write_table(file, content)
    return table


def extract_table() -> bytes:
    """Return the JSON of `extract_prices.py`. Raises ValueError, OSError or subprocess.SubprocessError."""
    command = [sys.executable, "-m", "tornado_gate.ledger.extract_prices"]
    done = subprocess.run(command, capture_output=True, timeout=EXTRACT_SECONDS, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ValueError(last or f"the process ended with {done.returncode}")
    return done.stdout


def _parse_table(content: bytes) -> Table:
    """Parse a table. Raises ValueError if `content` is not a table."""
    table = _Decoder.decode(content)
    if not table:
        raise ValueError("has no providers")
    return table


def _write_table(file: Path, content: bytes) -> None:
    """Write the file in one step, because other processes read it. Remove the files of other versions."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as temporary:
            temporary.write(content)
        os.replace(temporary.name, file)
        for other in file.parent.glob(f"{PACKAGE}-*.json"):
            if other != file:
                other.unlink(missing_ok=True)
    except OSError as error:
        log.warning(
            "the default prices cannot be kept in %s, so every start must read them again: %s", file.parent, error
        )


def find_provider(table: Table, name: str, base_url: str) -> str:
    """Return the package's name of a provider, or "" if the package does not have the provider.

    `name` comes first, if the package has it; otherwise the provider whose addresses match.
    """
    if name:
        return name if name in table else ""
    return next((known for known, entry in table.items() if base_url and re.match(entry.url, base_url)), "")


class VendorPrices:
    """The default prices of one provider's models."""

    def __init__(self, table: Table, provider: str) -> None:
        names = [provider, *(other for other in table[provider].others if other in table)]
        self._models = [model for name in names for model in msgspec.json.decode(table[name].models)]

    def find_price(self, model: str, now: float) -> tuple[float, Price | None]:
        """Return (the time from which the price may change, the price)."""
        known = self._find_spelling(model)
        if known is None:
            return math.inf, None
        moment = datetime.fromtimestamp(now, UTC)
        return _find_change(known, now), _make_price(known, moment)

    def find_context(self, model: str) -> int | None:
        """Return the number of tokens that a model reads; None if the table does not say it."""
        known = self._find_spelling(model)
        return None if known is None else known.get("context")

    def _find_spelling(self, model: str) -> Mapping[str, Any] | None:
        return self._find_model(model.lower()) or self._find_model(canonicalize_name(model))

    def _find_model(self, model: str) -> Mapping[str, Any] | None:
        for name in (model, _COMPACT_DATE.sub(r"-\1-\2-\3", model)):  # the table writes most dates with hyphens
            entry: Mapping[str, Any] | None = next(
                (candidate for candidate in self._models if _matches_clause(candidate["match"], name)), None
            )
            if entry is not None:
                return entry
        return None


def _matches_clause(clause: Iterable[Any], text: str) -> bool:
    """Return whether `text`, in lower case, matches [operator, operand]."""
    operator, operand = clause
    match operator:
        case "equals":
            return bool(text == operand.lower())
        case "starts_with":
            return text.startswith(operand.lower())
        case "ends_with":
            return text.endswith(operand.lower())
        case "contains":
            return operand.lower() in text
        case "regex":
            return re.search(operand, text) is not None
        case "or":
            return any(_matches_clause(inner, text) for inner in operand)
        case "and":
            return all(_matches_clause(inner, text) for inner in operand)
    return False


def _find_change(model: Mapping[str, Any], now: float) -> float:
    """Return a time before which no price of the model changes. Prices begin on dates, or depend on the time of day in
    minutes.
    """
    conditions = [*model["prices"], *model["variants"]]
    if any("since" in condition for condition in conditions):
        return (now // 60 + 1) * 60
    if any("from" in condition for condition in conditions):
        return (now // DAY_SECONDS + 1) * DAY_SECONDS
    return math.inf


def _make_price(model: Mapping[str, Any], moment: datetime) -> Price:
    active = [entry["price"] for entry in model["prices"] if _is_active(entry, moment)]
    usual = active[-1] if active else model["prices"][0]["price"]
    if not usual:
        return FREE
    tiers: dict[str, dict[str, Any]] = {}
    for variant in model["variants"]:
        condition = next(iter(variant["when"].items()))
        if len(variant["when"]) == 1 and condition[0] in TIER_CONDITIONS and _is_active(variant, moment):
            tier = tiers.setdefault(condition[1], {})
            tier.update({kind: amounts for kind, amounts in variant["price"].items() if kind not in tier})
    return make_price(_make_entry(usual, {name: _make_entry(price, {}) for name, price in tiers.items()}))


def _is_active(condition: Mapping[str, str], moment: datetime) -> bool:
    if "from" in condition:
        return moment.date().isoformat() >= condition["from"]
    if "since" in condition:
        since, until, now = condition["since"], condition["until"], moment.strftime("%H:%M")
        return since <= now < until if since <= until else now >= since or now < until
    return True


def _make_entry(price: Mapping[str, Any], tiers: Mapping[str, PriceEntry]) -> PriceEntry:
    thresholds: dict[int, dict[str, Decimal]] = {0: {}}
    for kind in KINDS:
        for tokens, amount in price.get(kind, ()):
            thresholds.setdefault(tokens, {})[kind] = Decimal(amount)
    usual = Rates(**thresholds.pop(0))
    return PriceEntry(
        rates=usual,
        above={tokens: Rates(**rates) for tokens, rates in thresholds.items()},
        service_tiers=tiers,
        per_hour=_get_amount(price, "per_hour"),
        per_million_characters=_get_amount(price, "per_million_characters"),
        per_web_search=_get_amount(price, "per_thousand_web_searches", 1000),
        per_request=_get_amount(price, "per_thousand_requests", 1000),
    )


def _get_amount(price: Mapping[str, Any], name: str, units: int = 1) -> Decimal | None:
    return Decimal(price[name][0][1]) / units if name in price else None
