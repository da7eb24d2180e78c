"""Loading of the plugins that a configuration enables, with their settings, and of wrappers with their scopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cachetools import FIFOCache

from tornado_gate.config.model import FIRST_PARTY_FORMATS, Config, ModelEntry, PluginOptions
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import Plugin, PluginHost
from tornado_gate.plugins.wrappers import Scope, find_unknown_keys, sees_sessions
from tornado_gate.targets.routing import ModelTable, resolve_upstream_model

MAX_NAMES = 20_000
"""The maximum number of cached model names. It is bounded because callers choose the names that match a wildcard."""

Faults = list[tuple[tuple[str | int, ...], str]]
_NO_OPTIONS = PluginOptions()


class ModelNames:
    """All names of models in conf. With them, a wrapper for an upstream's model also covers other names of that model."""

    def __init__(self, models: Mapping[str, ModelEntry]) -> None:
        self._table = ModelTable(models)
        self._names: FIFOCache[str, tuple[str, ...]] = FIFOCache(MAX_NAMES)

    def list(self, model: str) -> tuple[str, ...]:
        """Return the name, the names of its entry and fallback entries, and the upstream names of all their targets."""
        names = self._names.get(model)
        if names is None:
            names = self._names[model] = tuple(dict.fromkeys(self._iterate(model)))
        return names

    def _iterate(self, model: str) -> Iterator[str]:
        yield model
        found = self._table.find_model(model)
        if found is None:
            return
        for name in (model, *found.entry.fallback):
            reached = self._table.find_model(name)
            if reached is not None:
                yield from (name, reached.entry.name)
                yield from (
                    resolve_upstream_model(reached.entry.name, reached.rest, target) for target in reached.entry.targets
                )


class ActivePlugins:
    """The plugins of one configuration by name, with `faults` of conf and `warnings`, both as (key path, message)."""

    def __init__(self, config: Config, host: PluginHost) -> None:
        self.faults: Faults = []
        self.warnings: Faults = []
        self._config = config
        self._host = host
        self._names = ModelNames(config.models)
        self.by_name = {name: plugin for name in self._list_names() if (plugin := self._load(name)) is not None}

    @property
    def wrappers(self) -> list[Plugin]:
        """Return the wrappers in the order of conf, including wrappers that refuse the requests in their scope."""
        return [plugin for plugin in self.by_name.values() if plugin.wrapper and (plugin.closed or not plugin.error)]

    @property
    def failed(self) -> dict[str, str]:
        """Return the reasons why plugins cannot work, by name."""
        return {name: plugin.error for name, plugin in self.by_name.items() if plugin.error}

    @property
    def closed(self) -> frozenset[str]:
        """Return the required wrappers among the failed plugins."""
        return frozenset(name for name, plugin in self.by_name.items() if plugin.closed)

    def _list_names(self) -> list[str]:
        switches = self._config.plugins
        names = [name for name in FIRST_PARTY_FORMATS if switches.get(name, name in self._host.plugins)]
        return [*names, *(name for name, switched_on in switches.items() if switched_on and name not in names)]

    def _load(self, name: str) -> Plugin | None:
        options = self._config.plugin_options.get(name, _NO_OPTIONS)
        try:
            plugin = self._host.configure(name, options, Scope(options, self._names.list))
        except KeyError:
            installed = ", ".join(sorted(self._host.plugins)) or "none"
            self.faults.append((("plugins", name), f"this plugin is not installed; installed plugins: {installed}"))
            return None
        except ConfigError as error:
            self.faults += [(("plugins", name, *path), message) for path, message in error.faults]
            return None
        self._warn_of_keys(name, options)
        if plugin.required and not plugin.error and not sees_sessions(plugin.hooks):
            self._warn_of_sessions(name, options)
        return plugin

    def _warn_of_keys(self, name: str, options: PluginOptions) -> None:
        names = [*(key.name for key in self._config.keys), *self._config.teams]
        for number, glob in find_unknown_keys(options.keys, names):
            message = (
                f"'{glob}' matches no key and no team in this file, and no ID such as key_1f…; names that members choose do not "
                "count: write the ID, which 'tornado-gate keys list' and the console show"
            )
            self.warnings.append((("plugins", name, "keys", number), message))

    def _warn_of_sessions(self, name: str, options: PluginOptions) -> None:
        if not options.operations or "realtime" in options.operations:
            message = (
                "cannot see the messages of realtime sessions, so sessions in its scope are refused; "
                "list the operations that it covers to allow them"
            )
            self.warnings.append((("plugins", name, "required"), message))
