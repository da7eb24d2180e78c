"""Bifrost's config.json: providers with weighted keys, and governance with virtual keys, teams, customers and budgets.

Formats: ``transports/config.schema.json`` and ``examples/configs/withvirtualkeys/config.json`` of maximhq/bifrost, November 2026.
Callers of Bifrost name a model as ``provider/model``. A model that a key of a provider lists also has an entry
without the prefix.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tornado_gate.cli.importing.bifrost_governance import GovernanceReader
from tornado_gate.cli.importing.builder import ConfBuilder, make_target
from tornado_gate.cli.importing.texts import (
    get_object,
    list_names,
    list_objects,
    list_unread,
    make_reference,
    parse_count,
    parse_number,
    quote_text,
    scale_weights,
    shorten_number,
)
from tornado_gate.cli.importing.vendors import SourceVendor, adapt_vendor, explain_unsupported, find_vendor

_ENVIRONMENT: Final = re.compile(r"env\.(.+)")
_KEY_CONFIGS: Final = ("azure_key_config", "vllm_key_config", "ollama_key_config", "sgl_key_config")
_NETWORK_READ: Final = frozenset(
    {"base_url", "extra_headers", "default_request_timeout_in_seconds", "max_retries", "allow_private_network"}
)
_NETWORK_TUNING: Final = frozenset(
    {"retry_backoff_initial", "retry_backoff_max", "retry_backoff_initial_ms", "retry_backoff_max_ms"}
)
_IGNORED: Final = frozenset(
    {"$schema", "version", "config_store", "logs_store", "framework", "server", "env_label", "source_of_truth"}
)
_CLIENT_LOST: Final = {
    "allow_direct_keys": "callers cannot use vendors' keys; give them keys of this gateway",
    "required_headers": "headers of callers are not checked",
    "header_filter_config": "headers of callers are not forwarded",
    "enable_litellm_fallbacks": "formats are translated always; remove the setting",
}
_SECTIONS_LOST: Final = {
    "mcp": "the gateway runs no tools itself; MCP servers are called by vendors or by the callers",
    "vector_store": "there is no cache for similar requests; the plugin cache serves equal requests",
    "plugins": "plugins of Bifrost do not run here; see docs/plugins/README.md",
    "guardrails_config": "guards are plugins here; see the plugin redact and docs/how-to/guards.md",
    "cluster_config": "several nodes share a database and limits.store; see docs/scaling.md",
    "encryption_key": "the gateway makes its own key for stored secrets",
}
_DEFAULT_ADVICE: Final = "this gateway has no such setting; see docs/reference/configuration.md"


def read_bifrost(source: Any) -> ConfBuilder:
    """Return the configuration of a parsed config.json."""
    importer = _Importer(source if isinstance(source, dict) else {})
    importer.read()
    return importer.builder


class _Importer:
    def __init__(self, source: dict[str, Any]) -> None:
        self.builder = ConfBuilder()
        self._report = self.builder.report
        self._source: dict[str, Any] = _refer(source)
        self._targets: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        self._entries: dict[str, list[str]] = {}
        self._key_ids: dict[str, set[str]] = {}
        self._models: dict[str, list[str]] = {}
        self._empty_is_all = self._source.get("version") == 1

    def read(self) -> None:
        if not get_object(self._source, "providers"):
            self._report.lose("providers", "the file has none; is it Bifrost's config.json?")
        for name, provider in get_object(self._source, "providers").items():
            if isinstance(provider, dict):
                self._read_provider(str(name), provider)
        for model, targets in self._targets.items():
            self._add_model(model, targets)
        governance = get_object(self._source, "governance")
        reader = GovernanceReader(self.builder, governance, self._models, self._key_ids, self._entries)
        reader.read(empty_is_all=self._empty_is_all)
        self._report_rest()
        self.builder.finish()

    # Providers

    def _read_provider(self, name: str, provider: dict[str, Any]) -> None:
        where = f"providers.{name}"
        custom = get_object(provider, "custom_provider_config")
        vendor = find_vendor(str(custom.get("base_provider_type") or name))
        if vendor is None:
            self._report.lose(where, explain_unsupported(name))
            return
        vendor = adapt_vendor(vendor, str(get_object(provider, "network_config").get("base_url") or ""))
        keys = [key for key in list_objects(provider.get("keys")) if key.get("enabled", True) is not False]
        settings = self._read_settings(vendor, provider, where)
        merged = self._merge_keys(keys)
        if len(merged) > 1 and "concurrency" in settings:
            text = "the keys have different weights or models, so they are several entries, each with this concurrency"
            self._report.lose(f"{where}.concurrency_and_buffer_size", text)
        for own, models, weight, aliases in merged if keys else [({}, ["*"], 1.0, {})]:
            both = {**settings, **own}
            if vendor.needs_address and "base_url" not in both:
                self._report.lose(where, f"it states no base_url, which '{name}' needs; add the provider")
                return
            entry = self.builder.add_provider(name, vendor, both, is_shared="limits" not in both)
            self._entries.setdefault(name, []).append(entry)
            self._add_targets(name, entry, models, weight, aliases)
        self._key_ids[name] = {str(key.get("id") or key.get("name") or "") for key in keys}

    def _merge_keys(self, keys: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[str], float, dict[str, str]]]:
        """Return for each provider entry its settings, models, weight and aliases.

        Keys with the same models, weight and address are the `api_keys` of one entry.
        """
        groups: dict[str, tuple[list[str], dict[str, Any], list[str], float, dict[str, str]]] = {}
        for key in keys:
            models = list_names(key.get("models")) or (["*"] if self._empty_is_all or "models" not in key else [])
            weight = parse_number(key.get("weight", 1))
            weight = 1 if weight is None else weight
            settings, aliases = self._read_key_config(key)
            group = groups.setdefault(
                repr((sorted(models), weight, settings, aliases)), ([], settings, models, weight, aliases)
            )
            value = key.get("value")
            if isinstance(value, str) and value:
                group[0].append(value)
        merged = []
        for values, settings, models, weight, aliases in groups.values():
            secret = (
                {"api_key": values[0]}
                if len(values) == 1
                else {"api_keys": list(dict.fromkeys(values))}
                if values
                else {}
            )
            merged.append(({**settings, **secret}, models, weight * max(len(values), 1), aliases))
        return merged

    def _read_key_config(self, key: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the address and the deployments of a key."""
        config = next((get_object(key, name) for name in _KEY_CONFIGS if get_object(key, name)), {})
        address = config.get("endpoint") or config.get("url")
        aliases = {**get_object(config, "deployments"), **get_object(key, "aliases")}
        names = {model: str(alias) for model, alias in aliases.items() if isinstance(alias, str)}
        return ({"base_url": str(address).rstrip("/")} if address else {}), names

    def _add_targets(self, name: str, entry: str, models: list[str], weight: float, aliases: dict[str, str]) -> None:
        for model in [*models, *(alias for alias in aliases if alias not in models)]:
            prefixed, upstream = f"{name}/{model}", aliases.get(model, model)
            self._targets.setdefault(prefixed, []).append((weight, make_target(entry, prefixed, upstream)))
            if model != "*":
                self._targets.setdefault(model, []).append((weight, make_target(entry, model, upstream)))
                self._models.setdefault(name, []).append(model)
        self._models.setdefault(name, [])

    def _add_model(self, model: str, targets: list[tuple[float, dict[str, Any]]]) -> None:
        if len(targets) == 1:
            self.builder.add_model(model, dict(targets[0][1]), f"the model '{model}'")
            return
        weights = scale_weights([weight for weight, _ in targets])
        entry = {
            "targets": [{**target, "weight": weight} for (_, target), weight in zip(targets, weights, strict=True)]
        }
        self.builder.add_model(model, entry, f"the model '{model}'")

    def _read_settings(self, vendor: SourceVendor, provider: dict[str, Any], where: str) -> dict[str, Any]:
        network = get_object(provider, "network_config")
        settings: dict[str, Any] = {}
        if network.get("base_url"):
            settings["base_url"] = str(network["base_url"])
        if isinstance(network.get("extra_headers"), dict):
            settings["headers"] = {str(key): str(value) for key, value in network["extra_headers"].items()}
        if seconds := parse_number(network.get("default_request_timeout_in_seconds")):
            settings["timeouts"] = {"first_event": shorten_number(seconds), "whole": shorten_number(seconds)}
        if (retries := parse_number(network.get("max_retries"))) and retries >= 1:
            known = self.builder.retries.setdefault("same_target", min(int(retries), 10))
            if known != min(int(retries), 10):
                self._report.lose(
                    f"{where}.network_config.max_retries", "set `retries: {same_target: N}` of the models"
                )
        for name in list_unread(network, _NETWORK_READ | _NETWORK_TUNING):
            self._report.lose(f"{where}.network_config.{name}", _DEFAULT_ADVICE)
        pool = get_object(provider, "concurrency_and_buffer_size")
        if (most := parse_count(pool.get("concurrency"))) is not None:
            queue = parse_count(pool.get("buffer_size"))
            settings["concurrency"] = {"most": most} if queue is None else {"most": most, "queue": queue}
        if get_object(provider, "proxy_config"):
            self._report.lose(
                f"{where}.proxy_config", "upstreams are called without a proxy; route the traffic in the network"
            )
        for name in list_unread(get_object(provider, "custom_provider_config"), {"base_provider_type", "is_key_less"}):
            self._report.lose(
                f"{where}.custom_provider_config.{name}", "state the operations under `serves` of the provider"
            )
        return settings

    def _report_rest(self) -> None:
        client = get_object(self._source, "client")
        for name, text in _CLIENT_LOST.items():
            if client.get(name):
                self._report.lose(f"client.{name}", text)
        if (size := parse_number(client.get("max_request_body_size_mb"))) is not None and size > 0:
            self.builder.limits["body_bytes"] = int(size * 1024 * 1024)
        origins = list_names(client.get("allowed_origins"))
        if origins:
            self.builder.cors["origins"] = origins
        known = {"providers", "governance", "client", *_IGNORED}
        for name in list_unread(self._source, known):
            if name == "plugins" and all(self._is_own_plugin(item) for item in list_objects(self._source["plugins"])):
                continue
            self._report.lose(name, _SECTIONS_LOST.get(name, _DEFAULT_ADVICE))

    def _is_own_plugin(self, item: dict[str, Any]) -> bool:
        """Return whether this gateway has what a plugin of Bifrost does."""
        return item.get("name") in ("governance", "telemetry", "logging") or item.get("enabled") is False


def _refer(value: Any) -> Any:
    """Return a value in which ``env.NAME`` is ``${NAME}``, also in Bifrost's objects for a value."""
    if isinstance(value, dict):
        if value.get("env_var") and value.get("from_env"):
            return _refer(
                str(value["env_var"]) if str(value["env_var"]).startswith("env.") else f"env.{value['env_var']}"
            )
        return {key: _refer(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_refer(item) for item in value]
    if not isinstance(value, str):
        return value
    match = _ENVIRONMENT.fullmatch(value.strip())
    reference = make_reference(match[1]) if match else None
    return quote_text(value) if reference is None else reference
