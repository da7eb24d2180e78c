"""The builder of one Snapshot from conf and plugins: routes, models, providers and limits of a request.

A fault in conf stops the build (ConfigError, with every fault). A failed plugin does not stop the build. Its models stay in the
table and answer 503.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from tornado_gate.accounts.key_record import make_conf_records
from tornado_gate.config import FileFaults
from tornado_gate.config.model import Config, ProviderConfig
from tornado_gate.errors import ConfigError, GateError
from tornado_gate.guards.decisions import Guards
from tornado_gate.hookspecs import Capabilities
from tornado_gate.ledger.prices import PriceTable
from tornado_gate.pipeline.conf_checks import NameChecks
from tornado_gate.pipeline.plugin_setup import ActivePlugins, Faults
from tornado_gate.pipeline.snapshot import PluginFaults, Snapshot
from tornado_gate.plugins.guard_lanes import GuardLane
from tornado_gate.plugins.host import Plugin, PluginHost
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.targets.configured_provider import ConfiguredProvider, configure_entry, configure_keys
from tornado_gate.targets.routing import RouteConflict, RouteTable, ServedRoute
from tornado_gate.targets.table import TargetTable
from tornado_gate.types import Route
from tornado_gate.types.value import replace

VENDOR_PREFIX = "/vendor/"
"""The prefix in the paths of formats that is replaced by each of ``videos.prefixes``."""


def build(config: Config, host: PluginHost, number: int = 1) -> Snapshot:
    """Build the snapshot of `config` with the plugins of `host`. Raises ConfigError with every fault."""
    return _SnapshotBuilder(config, host).build(number)


class _SnapshotBuilder:
    """A builder that collects all faults, so that one run reports every fault."""

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
        prices = PriceTable(self.config, [name for name, each in providers.items() if each.capabilities.costs_nothing])
        return Snapshot(
            number=number,
            config=self.config,
            formats=formats,
            routes=routes,
            targets=TargetTable(self.config, providers, prices, int(time.time())),
            prices=prices,
            guards=guards,
            keys=make_conf_records(self.config.keys),
            plugins=PluginFaults(
                {**active.failed, **self.failed}, active.closed, (*self.config.warnings, *active.warnings)
            ),
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
                continue  # disabled, or already reported as not installed
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
            ServedRoute(name, expanded)
            for name, lane in formats.items()
            for route in lane.routes
            for expanded in expand_prefixes(route, prefixes)
        ]
        try:
            return RouteTable(served)
        except RouteConflict as conflict:
            self.faults.append((("plugins",), f"two formats serve the same route, switch one of them off: {conflict}"))
            return RouteTable([])


def expand_prefixes(route: Route, prefixes: Iterable[str]) -> list[Route]:
    """Return the route. For a path below ``/vendor/``, return a copy below each of `prefixes` (conf's ``videos.prefixes``)."""
    if not route.path.startswith(VENDOR_PREFIX):
        return [route]
    return [replace(route, path=f"/{prefix}/{route.path.removeprefix(VENDOR_PREFIX)}") for prefix in prefixes]
