"""Builds one immutable Snapshot from conf and plugins: routes, models, providers and limits of a request.

A fault in conf stops the build (ConfigError, with every fault). A plugin that fails does not: its models stay in the table and
answer 503.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from cachetools import FIFOCache

from tornado_gate.accounts.key_record import KeyRecord, make_conf_records
from tornado_gate.codec.secret_words import list_secrets
from tornado_gate.config import FileFaults
from tornado_gate.config.model import Config, ModelEntry, ModelTarget, ProviderConfig, Secret
from tornado_gate.config.routing import RetriesConfig
from tornado_gate.errors import (
    ConfigError,
    GateError,
    InvalidField,
    PluginError,
    UnknownModel,
    UnsupportedOperation,
)
from tornado_gate.guards.decisions import Guards
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.ledger.prices import PriceTable
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.conf_checks import NameChecks
from tornado_gate.pipeline.other_models import check_other_models
from tornado_gate.pipeline.plugin_setup import ActivePlugins, Faults
from tornado_gate.pipeline.pricing import require_prices
from tornado_gate.plugins.guard_lanes import GuardLane
from tornado_gate.plugins.host import Plugin, PluginHost
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.targets.affinity import Session
from tornado_gate.targets.loads import TargetLoads
from tornado_gate.targets.offers import MAX_MODELS, ModelOffers, Offer, list_measured_models, list_retries
from tornado_gate.targets.provider_keys import ProviderKey, make_fingerprint
from tornado_gate.targets.routing import (
    MAX_NAME_LENGTH,
    ModelTable,
    RouteConflict,
    RouteTable,
    ServedRoute,
    resolve_upstream_model,
)
from tornado_gate.types import Call, Caller, Model, Operation, Route, Target, Timeouts, WireRequest
from tornado_gate.types.value import Value, field, replace

VENDOR_PREFIX = "/vendor/"
"""The prefix in the paths of formats that is replaced by each of ``videos.prefixes``."""


class ConfiguredProvider(Value, frozen=True):
    """A provider entry with the capabilities that its plugin declares; `lane` is None when the plugin failed.

    `identity` is equal in two snapshots in which the account is the same: they share its connection pool. `keys` are those of an
    entry with several, else ().
    """

    entry: ProviderConfig
    lane: ProviderLane | None
    capabilities: Capabilities
    identity: Hashable
    keys: tuple[ProviderKey, ...] = ()

    hidden_fields = frozenset({"identity"})  # it contains the keys

    @property
    def usable_lane(self) -> ProviderLane:
        """The lane. Raises PluginError when the plugin failed."""
        if self.lane is None:
            raise PluginError(self.entry.plugin, "the plugin failed earlier")
        return self.lane

    @classmethod
    def from_entry(
        cls,
        entry: ProviderConfig,
        lane: ProviderLane | None,
        capabilities: Capabilities,
        keys: tuple[ProviderKey, ...] = (),
    ) -> ConfiguredProvider:
        headers = tuple(sorted((name, str(value)) for name, value in entry.headers.items()))
        secrets = (str(entry.api_key), *map(str, entry.api_keys))
        account = (entry.name, entry.plugin, entry.base_url, secrets, headers, entry.timeouts)
        return cls(entry, lane, capabilities, account, keys)

    def find_key(self, fingerprint: str) -> ProviderKey | None:
        """The key with a fingerprint; None if the entry has one key only, or no longer has this one."""
        return next((key for key in self.keys if key.fingerprint == fingerprint), None)


class Snapshot(Value, frozen=True, kw_only=True):
    """One loaded configuration. `number` counts them in this process, from 1.

    `keys` are those of conf by their digests. `failed` are the plugins that are on and cannot work, with their errors; for those
    in `closed`, which are required wrappers, the requests in their scopes get 503. `warnings` are (key path, message) of what is
    valid but unsafe. `measured` are the model entries whose targets' loads are measured, `retries` are those of entries that have
    any; `has_affinity`: an entry has cache affinity; `has_guards`: a wrapper is a guard.
    """

    number: int
    config: Config
    formats: Mapping[str, FormatLane]
    providers: Mapping[str, ConfiguredProvider]
    routes: RouteTable
    models: ModelTable
    prices: PriceTable
    keys: Mapping[bytes, KeyRecord]
    created: int
    failed: Mapping[str, str] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()
    warnings: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    chance: random.Random = field(default_factory=random.Random)
    loads: TargetLoads = field(default_factory=TargetLoads)
    measured: frozenset[str] = frozenset()
    retries: Mapping[str, RetriesConfig] = field(default_factory=dict)
    has_affinity: bool = False
    guards: Guards = field(default_factory=Guards)
    has_guards: bool = False
    _offers: list[ModelOffers] = field(default_factory=list)
    _single_targets: FIFOCache[tuple[str, tuple[Operation, ...]], list[tuple[Target, ConfiguredProvider]]] = field(
        default_factory=lambda: FIFOCache(MAX_MODELS)
    )
    """Cached results of `select_targets` for models with one target."""

    hidden_fields = frozenset({"chance", "keys", "loads", "_offers", "_single_targets"})

    def find_model(self, name: str, caller: Caller) -> ModelEntry:
        """The entry for the model `name`. Raises UnknownModel, or NotAllowed when the key does not allow the model."""
        found = self.models.find(name)
        if found is None:
            raise UnknownModel(name)
        auth.check_model(caller, name)
        return found.entry

    def resolve_model_name(self, wire: WireRequest, caller: Caller) -> str:
        """The model that the request names, or the default of its operation.

        Raises InvalidField when there is neither, or when the upstream could read another name; NotAllowed for a body that names
        further models that the key does not allow; UnknownModel for a name that is too long.
        """
        auth.check_model_members(caller, wire.json)
        if caller.models:
            check_other_models(caller, wire.route.other_models, wire.json)
        model = self._find_model_name(wire)
        if len(model) > MAX_NAME_LENGTH:  # before the name is kept anywhere
            raise UnknownModel(model)
        return model

    def _find_model_name(self, wire: WireRequest) -> str:
        route = wire.route
        if route.model == "path":
            return wire.path_arguments["model"]
        model = (wire.query if route.model == "query" else wire.json).get("model")
        if model is None:
            defaults = self.config.defaults
            which = route.default(wire.json) if route.default else route.operation
            model = defaults.get(which) or defaults.get(route.operation)
            if model is None:
                message = "'model' is missing. Send the name of a model; GET /v1/models lists them."
                raise InvalidField("model", message, code="missing_required_parameter")
        if not isinstance(model, str) or not model:
            raise InvalidField("model", "'model' must be a string that names a model.")
        return model

    def for_model(self, call: Call, model: str) -> Call:
        """The call for `model`, with what conf says about it, under the name that conf has for it."""
        found = self.models.find(model)
        if found is not None and not found.rest:
            model = found.entry.name
        if found is not None and not found.entry.failover and call.failover is None:
            call = replace(call, failover=False)
        if found is not None and found.entry.facts:
            return replace(call, model=model, facts=found.entry.facts)
        return replace(call, model=model)

    def select_targets(
        self,
        call: Call,
        operations: tuple[Operation, ...],
        session: Session | None = None,
        bound: Collection[str] = (),
    ) -> list[tuple[Target, ConfiguredProvider]]:
        """The targets that support one of `operations`: the model's targets by its strategy, then those of its fallback models.

        The targets of a `session` are in its order. A drained target is among them only if its provider entry is in `bound`,
        which keep what the request needs. With ``unpriced: deny`` those without a price are left out.
        Raises UnknownModel, NotAllowed, UnsupportedOperation, or PluginError when the plugins of all these targets have failed.
        """
        usual = self._single_targets.get((call.model, operations))
        if usual is not None and not call.caller.models:
            return usual
        entry = self.find_model(call.model, call.caller)
        able = self.offers.select(call.model, entry, operations, session, bound)
        if len(able) == 1 and able[0][1].lane is not None and not entry.fallback:
            able = require_prices(self, call.model, able)
            if len(entry.targets) == 1:
                self._single_targets[call.model, operations] = able
            return able
        for name in entry.fallback:
            if auth.may_use_model(call.caller, name):
                other = self.models.find(name)
                able += self.offers.select(name, other.entry if other else entry, operations, session, bound)
        if not able:
            advice = self._find_missing(call.model, operations) or "Use another model."
            raise UnsupportedOperation(
                f"The model '{call.model}' does not support the operation '{call.operation}'. {advice}"
            )
        able = require_prices(self, call.model, able)
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

    def has_choice(self, model: str, operations: tuple[Operation, ...]) -> bool:
        """Whether a model has more than one target, as far as is known: True at the first request for it."""
        return (model, operations) not in self._single_targets

    @property
    def offers(self) -> ModelOffers:
        """The targets of all models, by model."""
        if not self._offers:
            self._offers.append(ModelOffers(self._make_offers, self.prices, self.chance, self.loads))
        return self._offers[0]

    def list_targets(self, name: str) -> list[tuple[Target, ConfiguredProvider]]:
        """All targets of a model, in the order of conf; [] for an unknown model."""
        return [(offer.target, offer.provider) for offer in self._make_offers(name)]

    def _make_offers(self, name: str) -> Iterator[Offer]:
        found = self.models.find(name)
        if found is not None:
            for target in found.entry.targets:
                made = self._make_target(name, found.rest, found.entry, target)
                yield Offer(made, self.providers[target.provider], target.weight)

    def _make_target(self, name: str, rest: str, entry: ModelEntry, target: ModelTarget) -> Target:
        provider = self.providers[target.provider]
        base_url = provider.capabilities.base_url
        settings = provider.capabilities.settings
        upstream_model = resolve_upstream_model(entry.name, rest, target)
        first = provider.keys[0].fingerprint if provider.keys else ""
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
            key=first,
            account_keys=provider.entry.api_keys,
        )

    def make_task_target(self, model: str, provider_name: str, upstream_model: str, key: str = "") -> Target:
        """The target of an existing task or object, with the current conf. The model itself may no longer be in conf.

        `key` is the fingerprint of the key with which it was created; the first key is used if conf no longer has it.
        """
        found = self.models.find(model)
        entry = found.entry if found else ModelEntry(name=model, targets=())
        target = self._make_target(model, "", entry, ModelTarget(provider=provider_name, model=upstream_model))
        own = self.providers[provider_name].find_key(key) if key else None
        return target if own is None else own.apply(target)

    def list_models(self, caller: Caller) -> tuple[Model, ...]:
        """The models that the caller's key may use, in the order of conf."""
        return tuple(
            self._make_model(entry.name, entry)
            for entry in self.models.list_entries()
            if auth.may_use_model(caller, entry.name)
        )

    def get_model(self, name: str, caller: Caller) -> Model:
        """One model. Raises UnknownModel also when the key may not use it, because its model list does not contain it either."""
        found = self.models.find(name)
        if found is None or not auth.may_use_model(caller, name):
            raise UnknownModel(name)
        return self._make_model(name if found.rest else found.entry.name, found.entry)

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
            created=self.created,
            facts=facts,
        )


def _get_target_operations(
    provider: ConfiguredProvider, upstream_model: str, entry: ModelEntry
) -> frozenset[Operation] | None:
    """The operations of a target; None when unknown, because its plugin failed: the request then gets the plugin's error."""
    if provider.lane is None:
        return entry.operations
    offered = provider.capabilities.get_operations(upstream_model)
    return offered if entry.operations is None else offered & entry.operations


def override_timeouts(timeouts: Timeouts, by_model: Mapping[str, float]) -> Timeouts:
    """The timeouts of a provider with the values that a model overrides, in seconds."""
    return replace(timeouts, **by_model) if by_model else timeouts


def configure_entry(entry: ProviderConfig, lane: ProviderLane, api_key: Secret | None = None) -> Capabilities:
    """The capabilities that the plugin declares for an entry with one of its keys, the first by default.

    Raises ConfigError with paths below the entry, or PluginError.
    """
    api_key = entry.api_key if api_key is None else api_key
    seen_by_plugin = ProviderEntry(
        name=entry.name, base_url=entry.base_url, api_key=api_key, headers=entry.headers, settings=entry.settings
    )
    return lane.configure(seen_by_plugin)


def _rename_key(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The path of a fault of one of several keys, which the plugin knows as ``api_key``."""
    return ("api_keys", *path[1:]) if path[:1] == ("api_key",) else path


def configure_keys(entry: ProviderConfig, lane: ProviderLane, first: Capabilities) -> tuple[ProviderKey, ...]:
    """The keys of an entry with several, each configured by the plugin; `first` is the result for the first one.

    Raises as `configure_entry`.
    """
    keys: list[ProviderKey] = []
    for index, api_key in enumerate(entry.api_keys):
        try:
            made = configure_entry(entry, lane, api_key) if index else first
        except ConfigError as error:
            raise ConfigError([(_rename_key(path), message) for path, message in error.faults]) from None
        base_url = entry.base_url if made.base_url is None else made.base_url
        settings = entry.settings if made.settings is None else made.settings
        keys.append(ProviderKey(index + 1, make_fingerprint(entry.name, api_key), api_key, base_url, settings))
    return tuple(keys)


def build(config: Config, host: PluginHost, number: int = 1) -> Snapshot:
    """Build the snapshot of `config` with the plugins of `host`. Raises ConfigError with every fault."""
    return _SnapshotBuilder(config, host).build(number)


class _SnapshotBuilder:
    """Collects all faults while it builds, so that one run reports every fault."""

    def __init__(self, config: Config, host: PluginHost) -> None:
        self.config = config
        self.host = host
        self.faults: Faults = []
        self.failed: dict[str, str] = {}

    def build(self, number: int) -> Snapshot:
        active = ActivePlugins(self.config, self.host)
        self.faults += active.faults
        on, wrappers = active.by_name, active.wrappers
        formats = self._build_formats(on, wrappers)
        providers = self._build_providers(on, wrappers)
        routes = self._build_routes(formats)
        capabilities = {
            name: provider.capabilities for name, provider in providers.items() if provider.lane is not None
        }
        served = [route for lane in formats.values() for route in lane.routes]
        guards = Guards(
            GuardLane(self.host, plugin) for plugin in on.values() if plugin.is_guard or plugin.is_absent_guard
        )
        is_complete = not (active.failed or self.failed)
        self.faults += NameChecks(self.config, self.host.plugins, served, capabilities, is_complete).find_faults()
        if self.faults:
            raise FileFaults(self.faults, self.config.path, self.config.lines)
        return Snapshot(
            number=number,
            config=self.config,
            formats=formats,
            providers=providers,
            routes=routes,
            models=ModelTable(self.config.models),
            prices=PriceTable(self.config, [name for name, one in providers.items() if one.capabilities.costs_nothing]),
            keys=make_conf_records(self.config.keys),
            created=int(time.time()),
            failed={**active.failed, **self.failed},
            closed=active.closed,
            warnings=(*self.config.warnings, *active.warnings),
            measured=list_measured_models(self.config),
            retries=list_retries(self.config),
            has_affinity=any(entry.affinity is not None for entry in self.config.models.values()),
            guards=guards,
            has_guards=bool(guards.lanes),
        )

    def _build_formats(self, on: Mapping[str, Plugin], wrappers: list[Plugin]) -> dict[str, FormatLane]:
        lanes: dict[str, FormatLane] = {}
        for name, plugin in on.items():
            if plugin.error or plugin.wrapper or "format" not in plugin.hooks:
                continue
            try:
                lanes[name] = FormatLane(self.host, plugin, wrappers)
            except GateError as error:
                self.failed[name] = getattr(
                    error, "detail", error.message
                )  # the lane has logged it; only the routes of this format are missing
        return lanes

    def _build_providers(self, on: Mapping[str, Plugin], wrappers: list[Plugin]) -> dict[str, ConfiguredProvider]:
        lanes: dict[str, ProviderLane] = {}
        providers: dict[str, ConfiguredProvider] = {}
        for name, entry in self.config.providers.items():
            plugin = on.get(entry.plugin)
            if plugin is None:
                continue  # switched off, or already reported as not installed
            if not plugin.error and (plugin.wrapper or "provider" not in plugin.hooks):
                self.faults.append(
                    (
                        ("providers", name, "plugin"),
                        f"the plugin '{entry.plugin}' is a {plugin.kind}; name a provider plugin",
                    )
                )
                continue
            if not plugin.error and plugin.name not in lanes:
                lanes[plugin.name] = ProviderLane(self.host, plugin, wrappers)
            lane = lanes.get(plugin.name)
            providers[name] = self._configure_provider(name, entry, lane)
        return providers

    def _configure_provider(self, name: str, entry: ProviderConfig, lane: ProviderLane | None) -> ConfiguredProvider:
        if lane is None:
            return ConfiguredProvider.from_entry(entry, None, Capabilities(operations=frozenset()))
        try:
            made = configure_entry(entry, lane)
            return ConfiguredProvider.from_entry(entry, lane, made, configure_keys(entry, lane, made))
        except ConfigError as error:
            self.faults += [(("providers", name, *path), message) for path, message in error.faults]
        except GateError as error:
            self.failed[entry.plugin] = getattr(
                error, "detail", error.message
            )  # the lane has logged it; the models of this entry answer 503
        return ConfiguredProvider.from_entry(entry, None, Capabilities(operations=frozenset()))

    def _build_routes(self, formats: Mapping[str, FormatLane]) -> RouteTable:
        prefixes = self.config.videos.prefixes
        served = [
            ServedRoute(name, one)
            for name, lane in formats.items()
            for route in lane.routes
            for one in expand_prefixes(route, prefixes)
        ]
        try:
            return RouteTable(served)
        except RouteConflict as conflict:
            self.faults.append((("plugins",), f"two formats serve the same route, switch one of them off: {conflict}"))
            return RouteTable([])


def expand_prefixes(route: Route, prefixes: Iterable[str]) -> list[Route]:
    """The route; a route below ``/vendor/`` is repeated below each of `prefixes` instead (``videos.prefixes`` of conf)."""
    if not route.path.startswith(VENDOR_PREFIX):
        return [route]
    return [replace(route, path=f"/{prefix}/{route.path.removeprefix(VENDOR_PREFIX)}") for prefix in prefixes]


def collect_secrets(config: Config) -> set[str]:
    """Every secret in conf, which logs must mask. In a plugin's settings and in addresses they are found by name and form."""
    values: set[Any] = {key for entry in config.providers.values() for key in (entry.api_key, *entry.api_keys)}
    values |= {value for provider in config.providers.values() for value in provider.headers.values()}
    settings = [entry.settings for entry in config.providers.values()]
    settings += [options.settings for options in config.plugin_options.values()]
    values |= {text for each in settings for text in list_secrets(each)}
    values |= {text for entry in config.providers.values() for text in list_secrets(entry.base_url)}
    values |= {key.key for key in config.keys} | {config.server.metrics_token}
    values |= {config.oidc.client_secret if config.oidc else "", *find_passwords(config.database)}
    values |= find_passwords(config.limits.store)
    whole = [str(value) for value in values if isinstance(value, str)]
    halves = [half for value in whole if "://" not in value for half in value.split(":")]  # such as ACCESS:SECRET
    return {value for value in (*whole, *halves) if len(value) >= 8}


def find_passwords(address: str) -> set[str]:
    """The password of a database's address, as it is written and decoded."""
    password = urlsplit(address).password or ""
    return {password, unquote(password)}
