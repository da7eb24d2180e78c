"""Finds installed plugins, imports them, and checks them against the hook specifications.

Contains no plugin names. An exception of a plugin at import is caught here: it is logged with the plugin's name, and
requests that need the plugin get a 503. `lanes` calls the hooks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from importlib import import_module, metadata
from types import FrameType
from typing import Any

import pluggy

from tornado_gate.hookspecs import (
    FORMAT_PROJECT,
    PROVIDER_PROJECT,
    FormatSpec,
    ProviderSpec,
)
from tornado_gate.plugins.lazy_import import take_waiting
from tornado_gate.plugins.watchdog import EventLoopBlocked, Watchdog
from tornado_gate.types.value import State, field

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "tornado_gate"
IMPORT_SECONDS = 20.0
REQUIRED_HOOKS = {
    FORMAT_PROJECT: ("routes", "translate_request", "translate_response", "translate_error"),
    PROVIDER_PROJECT: ("translate_request", "translate_response"),
}
SIDES = {FORMAT_PROJECT: ("format", FormatSpec), PROVIDER_PROJECT: ("provider", ProviderSpec)}


class Plugin(State):
    """One installed plugin. `error` is why it cannot be used, or "". `hooks` maps format/provider to implemented hooks."""

    name: str
    module: str
    distribution: str
    version: str
    entry_point: metadata.EntryPoint
    implementation: Any = None
    hooks: dict[str, list[str]] = field(default_factory=dict)
    wrapper: bool = False
    error: str = ""

    @property
    def kind(self) -> str:
        """Return format, provider, wrapper, both of the first two, or "" before the plugin is loaded."""
        return "wrapper" if self.wrapper else "+".join(sorted(self.hooks))


class PluginHost:
    """All installed plugins of a process. Each is imported once, when the configuration first enables it."""

    def __init__(self, watchdog_seconds: float = 5.0) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.watchdog = Watchdog(self.find_owner, watchdog_seconds)
        self.failures: dict[str, tuple[float, str]] = {}
        self.on_failure: list[Any] = []
        self.discover()

    def discover(self) -> None:
        """Search for installed plugins. Loaded plugins are kept; those that failed can be loaded again."""
        found: dict[str, Plugin] = {}
        for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
            distribution = entry_point.dist
            plugin = Plugin(
                name=entry_point.name,
                module=entry_point.module,
                distribution=distribution.name if distribution else "",
                version=distribution.version if distribution else "",
                entry_point=entry_point,
            )
            other = found.get(plugin.name)
            if other is None:
                found[plugin.name] = plugin
            elif other.distribution != plugin.distribution:
                other.error = (
                    f"{other.distribution} and {plugin.distribution} both install a plugin of this name; "
                    "uninstall one of them"
                )
        for name, plugin in found.items():
            known = self.plugins.get(name)
            if known is None or known.implementation is None or known.entry_point != plugin.entry_point:
                self.plugins[name] = plugin
        for name in set(self.plugins) - set(found):
            if self.plugins[name].implementation is None:
                del self.plugins[name]

    def add(self, name: str, implementation: Any) -> Plugin:
        """Add a plugin without an entry point: for tests of plugins and of the core."""
        module = getattr(implementation, "__name__", None) or type(implementation).__module__
        entry_point = metadata.EntryPoint(name, module, ENTRY_POINT_GROUP)
        plugin = Plugin(name=name, module=module, distribution="", version="", entry_point=entry_point)
        self._register(plugin, implementation)
        self.plugins[name] = plugin
        return plugin

    def load(self, name: str) -> Plugin:
        """Import and check a plugin. A failure is stored in its `error`. Raises KeyError if it is not installed."""
        plugin = self.plugins[name]
        if plugin.implementation is not None or plugin.error:
            return plugin
        try:
            with self.watchdog.guard(name, IMPORT_SECONDS):
                self._register(plugin, plugin.entry_point.load())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            plugin.error = f"{type(error).__name__}: {error}".strip()
            if isinstance(error, EventLoopBlocked):
                plugin.error = f"its import took longer than {IMPORT_SECONDS:.0f} s"
            self.record_failure(name, plugin.error, error)
        return plugin

    def load_deferred_modules(self) -> dict[str, str]:
        """Import the modules that plugins have registered with `lazy_import`, so that no request waits for them.

        An import error is recorded as a failure of its plugin and returned as {plugin name: message} ("" for the core).
        Only requests that need the module fail.
        """
        faults: dict[str, str] = {}
        for module in take_waiting():
            try:
                with self.watchdog.guard(self._find_module_owner(module), IMPORT_SECONDS):
                    import_module(module)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                name = self._find_module_owner(module)
                faults[name] = f"{module}: {type(error).__name__}: {error}"
                self.record_failure(name, faults[name], error)
        return faults

    def _register(self, plugin: Plugin, implementation: Any) -> None:
        if isinstance(implementation, type):
            implementation = implementation()
        wrappers: list[bool] = []
        for project, (side, spec) in SIDES.items():
            manager = make_manager(project, spec, [(plugin.name, implementation)])
            callers = manager.get_hookcallers(manager.get_plugin(plugin.name)) or []
            names = [caller.name for caller in callers]
            if not names:
                continue
            wrapping = [impl.wrapper for caller in callers for impl in caller.get_hookimpls()]
            wrappers += wrapping
            if not any(wrapping) and (missing := [hook for hook in REQUIRED_HOOKS[project] if hook not in names]):
                raise TypeError(f"a {side} plugin must implement {', '.join(missing)}")
            plugin.hooks[side] = names
        if not plugin.hooks:
            raise TypeError("it implements no hook; decorate the hooks with tornado_gate.provider_impl or format_impl")
        if any(wrappers) and not all(wrappers):
            raise TypeError("a plugin with wrapper hooks must have wrapper hooks only")
        plugin.wrapper = any(wrappers)
        plugin.implementation = implementation

    def record_failure(self, name: str, detail: str, error: BaseException | None = None) -> None:
        """Record a failure of a plugin, log it with the plugin's name, and call the listeners in `on_failure`."""
        self.failures[name] = (time.time(), detail)
        log.error("plugin '%s' failed: %s", name, detail, exc_info=error, extra={"fields": {"plugin": name}})
        for listener in self.on_failure:
            listener(name, detail)

    def find_owner(self, frame: FrameType) -> str:
        """Return the plugin whose module a frame runs in, or ""."""
        return self._find_module_owner(str(frame.f_globals.get("__name__", "")))

    def _find_module_owner(self, module: str) -> str:
        for plugin in self.plugins.values():
            if module == plugin.module or module.startswith(plugin.module + "."):
                return plugin.name
        return ""

    def select_wrappers(self, names: Iterable[str]) -> list[Plugin]:
        """Return the wrappers among the plugins `names`, in their order."""
        return [plugin for name in names if (plugin := self.plugins[name]).wrapper]


def make_manager(project: str, spec: type, plugins: Iterable[tuple[str, Any]]) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(project)
    manager.add_hookspecs(spec)
    for name, implementation in plugins:
        manager.register(implementation, name)
    manager.check_pending()
    return manager
