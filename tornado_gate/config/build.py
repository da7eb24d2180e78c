"""Sound values as the frozen Config."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from tornado_gate.config.checks import Data, Inactive, targets_of
from tornado_gate.config.faults import KeyPath
from tornado_gate.config.model import (
    Circuits,
    Config,
    FetchRules,
    KeyEntry,
    Limits,
    Media,
    ModelEntry,
    ModelTarget,
    Provider,
    Realtime,
    Secret,
    Server,
    Videos,
)
from tornado_gate.config.schema import FACTS
from tornado_gate.types import Timeouts

_PROVIDER_KEYS = frozenset({"plugin", "base_url", "api_key", "headers", "timeouts"})


def build(data: Data, path: Path, lines: Mapping[KeyPath, int], inactive: Inactive) -> Config:
    """A Config of a file without faults; what is inactive is left out and listed."""
    off = inactive.reasons
    return Config(
        path=path,
        server=server(data.get("server", {})),
        plugins=dict(data.get("plugins", {})),
        providers={
            name: provider(name, entry)
            for name, entry in data.get("providers", {}).items()
            if ("providers", name) not in off
        },
        models={
            name: model(name, entry, inactive)
            for name, entry in data.get("models", {}).items()
            if ("models", name) not in off
        },
        keys=tuple(key(entry) for entry in data.get("keys", []) if entry["key"]),
        limits=Limits(**data.get("limits", {})),
        circuits=Circuits(**data.get("circuits", {})),
        media=Media(**data.get("media", {})),
        realtime=realtime(data.get("realtime", {})),
        videos=videos(data.get("videos", {})),
        fetch=fetch(data.get("fetch", {})),
        defaults={name: value for name, value in data.get("defaults", {}).items() if ("defaults", name) not in off},
        dialect=data.get("dialect", "auto"),
        lines=lines,
        inactive=tuple(off.items()),
    )


def server(data: Data) -> Server:
    given = dict(data)
    if "data_dir" in given:
        given["data_dir"] = Path(given["data_dir"])
    if "public_url" in given:
        given["public_url"] = given["public_url"].rstrip("/")
    return Server(**given)


def realtime(data: Data) -> Realtime:
    given = dict(data)
    if "origins" in given:
        given["origins"] = tuple(origin.rstrip("/").lower() for origin in given["origins"])
    return Realtime(**given)


def videos(data: Data) -> Videos:
    given = dict(data)
    if "prefixes" in given:
        given["prefixes"] = tuple(given["prefixes"])
    given["bounds"] = {name: tuple(bounds) for name, bounds in given.get("bounds", {}).items()}
    return Videos(**given)


def fetch(data: Data) -> FetchRules:
    given = dict(data)
    if "allow_networks" in given:
        given["allow_networks"] = tuple(ip_network(network) for network in given["allow_networks"])
    return FetchRules(**given)


def provider(name: str, entry: Data) -> Provider:
    return Provider(
        name=name,
        plugin=entry["plugin"],
        base_url=entry.get("base_url", "").rstrip("/"),
        api_key=entry.get("api_key", Secret("")),
        headers=entry.get("headers", {}),
        timeouts=Timeouts(**entry.get("timeouts", {})),
        settings={name: value for name, value in entry.items() if name not in _PROVIDER_KEYS},
    )


def model(name: str, entry: Data, inactive: Inactive) -> ModelEntry:
    place = ("models", name)
    fallback = enumerate(entry.get("fallback", []))
    operations = entry.get("operations")
    return ModelEntry(
        name=name,
        targets=tuple(target(value) for below, value in targets_of(entry) if (*place, *below) not in inactive.reasons),
        fallback=tuple(other for index, other in fallback if (*place, "fallback", index) not in inactive.reasons),
        operations=None if operations is None else frozenset(operations),
        timeouts=entry.get("timeouts", {}),
        facts={fact: entry[fact] for fact in FACTS if fact in entry},
    )


def target(value: Data) -> ModelTarget:
    return ModelTarget(provider=value["provider"], model=value.get("model"), weight=value.get("weight", 1))


def key(entry: Data) -> KeyEntry:
    """Without `account` an entry is an account of its own, by its name."""
    given: dict[str, Any] = {**entry, "account": entry.get("account", entry["name"])}
    for name in ("models", "operations"):
        given[name] = tuple(entry.get(name, ()))
    return KeyEntry(**given)
