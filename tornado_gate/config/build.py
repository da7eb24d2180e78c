"""Build the frozen Config from checked values."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from tornado_gate.config.alert_keys import build_alerts
from tornado_gate.config.checks import Data, InactiveKeys, list_targets
from tornado_gate.config.faults import KeyPath
from tornado_gate.config.model import (
    NO_BOUNDS,
    AccountsConfig,
    BoundsConfig,
    BucketConfig,
    Config,
    ConsoleConfig,
    CorsConfig,
    EntrySettings,
    FetchRules,
    KeyEntry,
    LedgerConfig,
    LimitsConfig,
    MediaConfig,
    ModelEntry,
    ModelTarget,
    PluginOptions,
    ProviderConfig,
    RealtimeConfig,
    Secret,
    ServerConfig,
    StateConfig,
    TargetConcurrency,
    TasksConfig,
    TeamEntry,
    TlsConfig,
    VideosConfig,
)
from tornado_gate.config.network import Network
from tornado_gate.config.network_keys import NETWORK_KEYS, build_network, build_proxy
from tornado_gate.config.oidc import build_oidc
from tornado_gate.config.price_keys import build_prices
from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.config.routing_keys import build_affinity, build_health_check, build_retries
from tornado_gate.config.schema import MODEL_FACTS
from tornado_gate.config.tape_keys import build_tapes
from tornado_gate.types import NO_BUDGET, NO_LIMITS, Budget, Limits, ResponseRules, Timeouts
from tornado_gate.types.upstream_objects import OPERATORS_KINDS

_REVIEW_KEYS = ("review_timeout", "review_timeout_per_mb")
_PLUGIN_KEYS = frozenset({"on", "distribution", "required", "models", "operations", "keys", *_REVIEW_KEYS})
_PROVIDER_KEYS = frozenset(
    {
        *("plugin", "on", "base_url", "api_key", "api_keys", "headers", "timeouts", "shared_objects", "prices"),
        *("price_provider", "health_check", "concurrency", "limits", *NETWORK_KEYS),
    }
)


def build(data: Data, path: Path, lines: Mapping[KeyPath, int], inactive: InactiveKeys) -> Config:
    """Return the Config of a file without faults; inactive entries are omitted and listed in `Config.inactive`."""
    off = inactive.reasons
    network = data.get("network", {})
    return Config(
        path=path,
        server=build_server(data.get("server", {}), path.parent),
        plugins={name: entry["on"] for name, entry in data.get("plugins", {}).items()},
        plugin_options={name: build_plugin(entry) for name, entry in data.get("plugins", {}).items() if entry["on"]},
        providers={
            name: build_provider(name, entry, build_network(network, entry, path.parent))
            for name, entry in data.get("providers", {}).items()
            if ("providers", name) not in off
        },
        models={
            name: build_model(name, entry, inactive, data.get("retries", {}))
            for name, entry in data.get("models", {}).items()
            if ("models", name) not in off
        },
        keys=tuple(build_key(entry, index) for index, entry in enumerate(data.get("keys", [])) if entry["key"]),
        limits=build_limits(data.get("limits", {})),
        circuits=CircuitsConfig(**data.get("circuits", {})),
        retries=build_retries(data.get("retries", {})),
        media=build_media(data.get("media", {})),
        realtime=build_realtime(data.get("realtime", {})),
        responses=ResponseRules(**data.get("responses", {})),
        videos=build_videos(data.get("videos", {})),
        tasks=TasksConfig(**data.get("tasks", {})),
        state=StateConfig(**data.get("state", {})),
        fetch=build_fetch(data.get("fetch", {}), network, path.parent),
        network=build_network(network, {}, path.parent),
        database=data.get("database", Secret("")),
        cors=build_cors(data.get("cors", {})),
        console=ConsoleConfig(**data.get("console", {})),
        accounts=build_accounts(data.get("accounts", {})),
        oidc=build_oidc(data.get("auth", {})),
        ledger=LedgerConfig(**data.get("ledger", {})),
        alerts=build_alerts(data.get("alerts", {})),
        tapes=build_tapes(data.get("tapes")),
        users={name: build_team(name, entry) for name, entry in data.get("users", {}).items()},
        teams={name: build_team(name, entry) for name, entry in data.get("teams", {}).items()},
        prices=build_prices(data.get("prices", {})),
        default_prices=data.get("default_prices", True),
        unpriced=data.get("unpriced", "allow"),
        defaults={name: value for name, value in data.get("defaults", {}).items() if ("defaults", name) not in off},
        dialect=data.get("dialect", "auto"),
        lines=lines,
        inactive=tuple(off.items()),
        unlisted_plugins={
            name: entry["plugin"]
            for name, entry in data.get("providers", {}).items()
            if ("providers", name) in off and entry["plugin"] not in data.get("plugins", {})
        },
    )


def build_server(data: Data, folder: Path) -> ServerConfig:
    """Return the section. The files of `tls` are relative to `folder`, that of the configuration."""
    values = dict(data)
    if "tls" in values:
        files = {name: folder / values["tls"][name] for name in ("certificate", "key")}
        values["tls"] = TlsConfig(**{**values["tls"], **files})
    if "data_dir" in values:
        values["data_dir"] = Path(values["data_dir"])
    if "public_url" in values:
        values["public_url"] = values["public_url"].rstrip("/")
    if "trusted_proxies" in values:
        values["trusted_proxies"] = tuple(ip_network(network) for network in values["trusted_proxies"])
    return ServerConfig(**values)


def build_media(data: Data) -> MediaConfig:
    values = {name: value for name, value in data.items() if name not in MediaConfig.__struct_fields__}
    bucket = BucketConfig(**values) if data.get("store") else None
    return MediaConfig(**{name: value for name, value in data.items() if name not in values}, bucket=bucket)


def build_team(name: str, entry: Data) -> TeamEntry:
    bounds = build_bounds(entry.get("limits"))
    own = {**(entry.get("limits") or {}), **(entry.get("budget") or {})}
    budget = {field: own[field] for field in Budget.__struct_fields__ if own.get(field) is not None}
    return TeamEntry(name=name, budget=Budget(**budget) if budget else NO_BUDGET, limits=bounds.limits)


def build_accounts(data: Data) -> AccountsConfig:
    bounds = build_team("", {"limits": data.get("default_limits"), "budget": data.get("default_budget")})
    return AccountsConfig(
        default_limits=bounds.limits,
        default_budget=bounds.budget,
        personal_keys=data.get("personal_keys", False),
    )


def build_limits(data: Data) -> LimitsConfig:
    return LimitsConfig(**{**data, "gateway": build_bounds(data.get("gateway"))})


def build_bounds(data: Data | None) -> BoundsConfig:
    """Return the limits of a subject that is not a key. Without a limit, the value is always the object NO_LIMITS or
    NO_BUDGET.
    """
    if not data:
        return NO_BOUNDS
    limits = {name: data[name] for name in Limits.__struct_fields__ if data.get(name) is not None}
    budget = {name: data[name] for name in Budget.__struct_fields__ if data.get(name) is not None}
    return BoundsConfig(
        limits=Limits(**limits) if limits else NO_LIMITS, budget=Budget(**budget) if budget else NO_BUDGET
    )


def build_budget(entry: Data) -> Budget:
    return Budget(**entry["budget"]) if entry.get("budget") else NO_BUDGET


def build_plugin(entry: Data) -> PluginOptions:
    scope: dict[str, Any] = {name: tuple(entry.get(name, ())) for name in ("models", "operations", "keys")}
    own = {name: value for name, value in entry.items() if name not in _PLUGIN_KEYS}
    settings = EntrySettings(own, _PLUGIN_KEYS)
    limits: dict[str, Any] = {name: entry.get(name) for name in _REVIEW_KEYS}
    required, distribution = entry.get("required", False), entry.get("distribution", "")
    return PluginOptions(distribution=distribution, required=required, settings=settings, **limits, **scope)


def build_realtime(data: Data) -> RealtimeConfig:
    values = dict(data)
    if "origins" in values:
        values["origins"] = tuple(origin.rstrip("/").lower() for origin in values["origins"])
    return RealtimeConfig(**values)


def build_cors(data: Data) -> CorsConfig:
    values = dict(data)
    if "origins" in values:
        values["origins"] = frozenset(origin.lower() for origin in values["origins"])
    return CorsConfig(**values)


def build_videos(data: Data) -> VideosConfig:
    values = dict(data)
    if "prefixes" in values:
        values["prefixes"] = tuple(values["prefixes"])
    values["bounds"] = {name: tuple(bounds) for name, bounds in values.get("bounds", {}).items()}
    return VideosConfig(**values)


def build_fetch(data: Data, network: Data, folder: Path) -> FetchRules:
    """Return the section. Its proxy is its own, never that of `network`; the authorities are those of `network`."""
    values: dict[str, Any] = {name: value for name, value in data.items() if name != "proxy"}
    trust = build_network({"ca_file": network.get("ca_file", "")}, {}, folder).trust
    values["network"] = Network(proxy=build_proxy(data.get("proxy", ""), network.get("no_proxy", ())), trust=trust)
    if "allow_networks" in values:
        values["allow_networks"] = tuple(ip_network(network) for network in values["allow_networks"])
    return FetchRules(**values)


def build_provider(name: str, entry: Data, network: Network) -> ProviderConfig:
    api_keys = tuple(key for key in (entry.get("api_key"), *entry.get("api_keys", ())) if key)
    return ProviderConfig(
        name=name,
        plugin=entry["plugin"],
        base_url=entry.get("base_url", "").rstrip("/"),
        api_key=api_keys[0] if api_keys else Secret(""),
        api_keys=api_keys if len(api_keys) > 1 else (),
        headers=entry.get("headers", {}),
        timeouts=Timeouts(**entry.get("timeouts", {})),
        shared_objects=frozenset(entry.get("shared_objects", OPERATORS_KINDS)),
        prices=build_prices(entry.get("prices", {})),
        price_provider=entry.get("price_provider"),
        limits=build_bounds(entry.get("limits")),
        health_check=build_health_check(entry.get("health_check")),
        concurrency=TargetConcurrency(**entry["concurrency"]) if "concurrency" in entry else None,
        network=network,
        settings=EntrySettings(
            {name: value for name, value in entry.items() if name not in _PROVIDER_KEYS}, _PROVIDER_KEYS
        ),
    )


def build_model(name: str, entry: Data, inactive: InactiveKeys, retries: Data) -> ModelEntry:
    path = ("models", name)
    fallback = enumerate(entry.get("fallback", []))
    operations = entry.get("operations")
    return ModelEntry(
        name=name,
        targets=tuple(
            build_target(value) for below, value in list_targets(entry) if (*path, *below) not in inactive.reasons
        ),
        fallback=tuple(other for index, other in fallback if (*path, "fallback", index) not in inactive.reasons),
        strategy=entry.get("strategy", "weighted"),
        affinity=build_affinity(entry.get("affinity")),
        operations=None if operations is None else frozenset(operations),
        timeouts=entry.get("timeouts", {}),
        limits=build_bounds(entry.get("limits")),
        facts={fact: entry[fact] for fact in MODEL_FACTS if fact in entry},
        failover=entry.get("failover") != "never",
        retries=build_retries(retries, entry["retries"]) if "retries" in entry else None,
    )


def build_target(value: Data) -> ModelTarget:
    return ModelTarget(provider=value["provider"], model=value.get("model"), weight=value.get("weight", 1))


def build_key(entry: Data, index: int) -> KeyEntry:
    """Return a key entry. Without `account`, the entry's name is its account."""
    fields: dict[str, Any] = {**entry, "account": entry.get("account", entry["name"]), "index": index}
    for name in ("models", "operations", "tags", "addresses"):
        fields[name] = tuple(entry.get(name, ()))
    fields["budget"] = build_budget(entry)
    return KeyEntry(**fields)
