"""The installed plugins of a process: the host imports them and checks them against the hook specifications.

It contains no plugin names. An exception of a plugin at import is caught here. It is logged with the plugin's name, and requests
that need the plugin get a 503. `lanes` calls the hooks.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable
from importlib import import_module, metadata
from pathlib import Path
from types import FrameType
from typing import Any

import pluggy

from tornado_gate.config.faults import FileFaults
from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import ConfigError
from tornado_gate.hookspecs import (
    FORMAT_PROJECT,
    GUARD_PROJECT,
    PLUGIN_PROJECT,
    PROVIDER_PROJECT,
    FormatSpec,
    GuardSpec,
    PluginEntry,
    PluginSpec,
    ProviderSpec,
)
from tornado_gate.plugins.discovery import (
    RESTART,
    InstalledPlugin,
    describe_ambiguity,
    describe_update,
    find_installed,
    get_package,
    select_candidates,
    unload_package,
)
from tornado_gate.plugins.distribution_files import ENTRY_POINT_GROUP
from tornado_gate.plugins.lazy_import import take_waiting
from tornado_gate.plugins.lock import PluginLock, read_lock
from tornado_gate.plugins.watchdog import EventLoopBlocked, Watchdog
from tornado_gate.plugins.wrappers import CLOSED_HOOKS, ClosedWrapper, Scope
from tornado_gate.types.texts import GuardOptions
from tornado_gate.types.value import State, field, replace

log = logging.getLogger(__name__)

IMPORT_SECONDS = 20.0
REQUIRED_HOOKS = {
    FORMAT_PROJECT: ("routes", "translate_request", "translate_response", "translate_error"),
    PROVIDER_PROJECT: ("translate_request", "translate_response"),
}
SIDES = {
    FORMAT_PROJECT: ("format", FormatSpec),
    PROVIDER_PROJECT: ("provider", ProviderSpec),
    GUARD_PROJECT: ("guard", GuardSpec),
}
REVIEWS = ("review_request", "review_response")
"""The review hooks of a guard; it needs at least one."""


class Plugin(State):
    """One installed plugin. `error` is the reason why it cannot be used, or "".

    `version` is the running version, if it is loaded, and `update` the change that a restart would bring. `hooks` maps format,
    provider, guard to implemented hooks. `required` and `scope` are a wrapper's options in conf, and `guard_options` a guard's
    own options: see `PluginHost.configure`.
    """

    name: str
    module: str
    distribution: str
    version: str
    entry_point: metadata.EntryPoint
    update: str = ""
    implementation: Any = None
    hooks: dict[str, list[str]] = field(default_factory=dict)
    wrapper: bool = False
    configurable: bool = False
    error: str = ""
    required: bool = False
    scope: Scope = Scope()
    guard_options: GuardOptions = GuardOptions()

    @property
    def closed(self) -> bool:
        """Return whether this is a required wrapper that cannot work, so that the requests in its scope are refused."""
        return self.required and bool(self.error)

    @property
    def kind(self) -> str:
        """Return format, provider, wrapper, both of the first two, or "" before the plugin is loaded. A guard is a wrapper."""
        return "wrapper" if self.wrapper else "+".join(sorted(self.hooks))

    @property
    def is_guard(self) -> bool:
        """Return whether this plugin reviews texts and can work."""
        return "guard" in self.hooks and not self.error

    @property
    def is_absent_guard(self) -> bool:
        """Return whether this guard cannot work, and requests pass without it.

        Conf can declare that a plugin which has no hooks is a guard.
        """
        options = self.scope.options
        is_one = (
            "guard" in self.hooks or options.review_timeout is not None or options.review_timeout_per_mb is not None
        )
        return is_one and bool(self.error) and not self.required


class PluginHost:
    """All installed plugins of a process. Each is imported once, when the configuration first enables it."""

    def __init__(self, watchdog_seconds: float = 5.0) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.watchdog = Watchdog(self.find_owner, watchdog_seconds)
        self.failures: dict[str, tuple[float, str]] = {}
        self.deferred_faults: dict[str, str] = {}
        self.on_failure: list[Any] = []
        self.lock: PluginLock | None = None
        self.installed: dict[str, list[InstalledPlugin]] = {}
        self._choices: dict[str, str] = {}
        """The distributions that conf chooses, by the name of the plugin."""
        self._logged_claims: dict[str, str] = {}
        self.discover()

    @property
    def updates(self) -> dict[str, str]:
        """Return the changes that a restart brings, by the name of the plugin."""
        return {name: plugin.update for name, plugin in self.plugins.items() if plugin.update}

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions that this process has imported, by the name of the plugin."""
        loaded = (plugin for plugin in self.plugins.values() if plugin.implementation is not None)
        return {plugin.name: plugin.version for plugin in loaded}

    def discover(self) -> None:
        """Search for installed plugins. Loaded ones are kept, with the changes of a restart; failed ones may be loaded again."""
        self.installed = find_installed()
        for name in self.installed:
            self._set_plugin(name)
        for name in set(self.plugins) - set(self.installed):
            plugin = self.plugins[name]
            if plugin.implementation is None:
                del self.plugins[name]
            elif plugin.distribution:
                plugin.update = describe_update(plugin.version, "")

    def choose(self, name: str, distribution: str) -> None:
        """Use the plugin of one of the distributions that install it; "" selects the only one.

        Raises ConfigError, with the path below the plugin's entry, if the distribution does not install it.
        """
        candidates = self.installed.get(name, [])
        if candidates and not select_candidates(candidates, distribution):
            names = ", ".join(candidate.distribution for candidate in candidates)
            message = f"'{distribution}' does not install the plugin '{name}'; installed by: {names}"
            raise ConfigError([(("distribution",), message)])
        if candidates and self._choices.get(name, "") != distribution:
            self._choices[name] = distribution
            self._set_plugin(name)

    def _set_plugin(self, name: str) -> None:
        """Set the plugin of an installed name: the chosen one, unless the running process has imported another."""
        choice = self._choices.get(name, "")
        candidates = self.installed[name] if choice else self._list_locked(name)
        first, *others = select_candidates(candidates, choice) or candidates
        plugin = self.plugins.get(name)
        if plugin is None or plugin.implementation is None:
            self.plugins[name] = _make_plugin(first, describe_ambiguity([first, *others]) if others else "")
            return
        same = next(
            (candidate for candidate in (first, *others) if candidate.distribution == plugin.distribution), None
        )
        if same is not None:
            plugin.entry_point = same.entry_point
            plugin.update = describe_ambiguity(candidates) if others else describe_update(plugin.version, same.version)
        elif get_package(first.module) == get_package(plugin.module):  # its modules belong to the other distribution
            plugin.update = f"installed {first.distribution}, running {plugin.distribution}: {RESTART}"
        else:
            self.plugins[name] = _make_plugin(first)

    def _list_locked(self, name: str) -> list[InstalledPlugin]:
        """Return the distributions in the lock file with a plugin of this name.

        Return all distributions without a lock file, or if it has no such entry.
        """
        candidates = self.installed[name]
        if self.lock is None or len(candidates) == 1:
            return candidates
        return [candidate for candidate in candidates if self.lock.has(candidate.distribution)] or candidates

    @property
    def foreign_claims(self) -> dict[str, str]:
        """Return the names of locked plugins that other distributions claim, each with the fault. Such claims have no effect."""
        claims = {}
        for name, candidates in self.installed.items():
            locked = self._list_locked(name)
            others = sorted(
                {candidate.distribution for candidate in candidates} - {candidate.distribution for candidate in locked}
            )
            if others and self.lock is not None:
                users = " and ".join(candidate.distribution for candidate in locked)
                claims[name] = (
                    f"{' and '.join(others)}, which {self.lock.path} does not have, installs a plugin of this name too; "
                    f"{users} is used. Uninstall the other one, unless you know it"
                )
        return claims

    def _log_foreign_claims(self) -> None:
        """Log each claim when it is new."""
        claims = self.foreign_claims
        for name, claim in claims.items():
            if self._logged_claims.get(name) != claim:
                log.error("plugin '%s': %s", name, claim, extra={"fields": {"plugin": name}})
        self._logged_claims = claims

    def add(self, name: str, implementation: Any) -> Plugin:
        """Add a plugin without an entry point: for tests of plugins and of the core."""
        module = getattr(implementation, "__name__", None) or type(implementation).__module__
        entry_point = metadata.EntryPoint(name, module, ENTRY_POINT_GROUP)
        plugin = Plugin(name=name, module=module, distribution="", version="", entry_point=entry_point)
        self._register(plugin, implementation)
        self.plugins[name] = plugin
        return plugin

    def use_lock(self, conf: Path | None) -> None:
        """Read the lock file beside the configuration file `conf`.

        From now on `load` refuses distributions that it does not allow.

        If several distributions claim one name, only distributions in the file are used; the others are logged.

        Raises FileFaults if the file is invalid, or if it is gone: a running gateway's lock must not be lifted by accident.
        """
        lock = read_lock(conf)
        if lock is None and self.lock is not None:
            message = "the file is gone; restore it, or restart the gateway to use plugins without a lock"
            raise FileFaults([((), message)], self.lock.path, {})
        self.lock = lock
        for name in self.installed:
            self._set_plugin(name)
        self._log_foreign_claims()

    def load(self, name: str) -> Plugin:
        """Import and check a plugin. A failure is stored in its `error`. Raises KeyError if it is not installed.

        A plugin that the lock file does not allow is not imported; if it was imported before, a copy with the error is returned.
        """
        plugin = self.plugins[name]
        distribution = plugin.entry_point.dist
        if self.lock is not None and distribution is not None and not plugin.error:
            refusal = self.lock.find_refusal(distribution)
            if refusal:
                self.record_failure(name, refusal)
                return replace(plugin, error=refusal)
        if plugin.error and self.failures.get(name, (0.0, ""))[1] != plugin.error:
            self.record_failure(name, plugin.error)  # several distributions claim this name
        if plugin.implementation is not None or plugin.error:
            return plugin
        modules = frozenset(sys.modules)
        try:
            with self.watchdog.guard(name, IMPORT_SECONDS):
                self._register(plugin, plugin.entry_point.load())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            unload_package(plugin.module, modules)
            plugin.error = f"{type(error).__name__}: {error}".strip()
            if isinstance(error, EventLoopBlocked):
                plugin.error = f"its import took longer than {IMPORT_SECONDS:.0f} s"
            self.record_failure(name, plugin.error, error)
        return plugin

    def configure(self, name: str, options: PluginOptions, scope: Scope) -> Plugin:
        """Return the plugin for one configuration: with its settings, and, for a wrapper, with its scope.

        A required plugin that is not installed or failed is returned as a closed wrapper; any other failed plugin unchanged.
        Raises KeyError if it is not installed and not required, and ConfigError with paths below the plugin's entry.
        """
        if name not in self.plugins and options.required:
            self.record_failure(name, "it is not installed")
            return self._close(make_absent_plugin(name), scope)
        self.choose(name, options.distribution)
        plugin = self.load(name)
        if not plugin.error:
            plugin = self._configure_loaded(plugin, options)
        if plugin.is_guard:
            plugin = self._read_guard_options(plugin)
        if plugin.error:
            return self._close(plugin, scope) if options.required else replace(plugin, scope=scope)
        return replace(plugin, required=options.required, scope=scope) if plugin.wrapper else plugin

    def _close(self, plugin: Plugin, scope: Scope) -> Plugin:
        closed = ClosedWrapper(plugin.name, plugin.error)
        return replace(plugin, implementation=closed, hooks=CLOSED_HOOKS, wrapper=True, required=True, scope=scope)

    def _configure_loaded(self, plugin: Plugin, options: PluginOptions) -> Plugin:
        """Check the options of a plugin and return it with the implementation for its settings."""
        set_options = {name for name in ("required", "models", "operations", "keys") if getattr(options, name)}
        if set_options and not plugin.wrapper:
            problem = f"is for wrappers, which see the requests of other plugins; '{plugin.name}' is a {plugin.kind}"
            raise ConfigError([((name,), problem) for name in sorted(set_options)])
        for name in ("review_timeout", "review_timeout_per_mb"):
            if getattr(options, name) is not None and not plugin.is_guard:
                raise ConfigError([((name,), f"is for guards; '{plugin.name}' has no hooks of a guard")])
        if not plugin.configurable:
            if options.settings:
                raise ConfigError([((str(key),), _unknown_setting(plugin)) for key in options.settings])
            return plugin
        return self._apply_settings(plugin, options)

    def _apply_settings(self, plugin: Plugin, options: PluginOptions) -> Plugin:
        manager = make_manager(PLUGIN_PROJECT, PluginSpec, [(plugin.name, plugin.implementation)])
        entry = PluginEntry(name=plugin.name, required=options.required, settings=options.settings)
        try:
            implementation = manager.hook.configure_plugin(entry=entry)
            hooks, _ = _find_hooks(plugin.name, implementation)
            if hooks != plugin.hooks:
                raise TypeError("configure_plugin must return an object that implements the same hooks as the plugin")
        except (ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:
            detail = f"configure_plugin failed: {type(error).__name__}: {error}"
            self.record_failure(plugin.name, detail, error)
            return replace(plugin, error=detail)
        finally:
            release_manager(manager)
        return replace(plugin, implementation=implementation)

    def _read_guard_options(self, plugin: Plugin) -> Plugin:
        """Return the guard with the result of its hook `guard_options`, or with the error of this hook."""
        manager = make_manager(GUARD_PROJECT, GuardSpec, [(plugin.name, plugin.implementation)])
        try:
            options = manager.hook.guard_options()
            if options is None:
                return plugin
            if not isinstance(options, GuardOptions) or options.lookahead < 0:
                raise TypeError("it must return GuardOptions with a lookahead of 0 or more")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            detail = f"guard_options failed: {type(error).__name__}: {error}"
            self.record_failure(plugin.name, detail, error)
            return replace(plugin, error=detail)
        finally:
            release_manager(manager)
        return replace(plugin, guard_options=options)

    def load_deferred_modules(self) -> dict[str, str]:
        """Import the modules that plugins have registered with `lazy_import`, so that no request waits for them.

        An import error is recorded as a failure of its plugin and returned as {plugin name: message} ("" for the core).
        Only requests that need the module fail. `deferred_faults` has all errors so far.
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
                faults[name] = self.deferred_faults[name] = f"{module}: {type(error).__name__}: {error}"
                self.record_failure(name, faults[name], error)
        return faults

    def _register(self, plugin: Plugin, implementation: Any) -> None:
        if isinstance(implementation, type):
            implementation = implementation()
        plugin.hooks, plugin.wrapper = _find_hooks(plugin.name, implementation)
        manager = make_manager(PLUGIN_PROJECT, PluginSpec, [(plugin.name, implementation)])
        plugin.configurable = bool(manager.get_hookcallers(implementation))
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


def _find_hooks(name: str, implementation: Any) -> tuple[dict[str, list[str]], bool]:
    """Return (side to names of hooks, whether it is a wrapper). Raises an exception for an object that is no valid plugin."""
    hooks: dict[str, list[str]] = {}
    wrappers: list[bool] = []
    for project, (side, spec) in SIDES.items():
        manager = make_manager(project, spec, [(name, implementation)])
        callers = manager.get_hookcallers(implementation) or []
        names = [caller.name for caller in callers]
        if not names:
            continue
        wrapping = [impl.wrapper or impl.hookwrapper for caller in callers for impl in caller.get_hookimpls()]
        if project == GUARD_PROJECT:
            _check_guard(names, wrapping)
            wrapping = [True]  # for the rule that a wrapper has no other hooks
        wrappers += wrapping
        if not any(wrapping) and (missing := [hook for hook in REQUIRED_HOOKS[project] if hook not in names]):
            raise TypeError(f"a {side} plugin must implement {', '.join(missing)}")
        hooks[side] = names
    if not hooks:
        raise TypeError(
            "it implements no hook; decorate the hooks with tornado_gate.provider_impl, format_impl or guard_impl"
        )
    if any(wrappers) and not all(wrappers):
        raise TypeError(
            "a plugin with wrapper hooks, or with hooks of a guard, may have wrapper hooks only of formats and providers"
        )
    return hooks, any(wrappers)


def _check_guard(names: list[str], wrapping: list[bool]) -> None:
    """Check the hooks of a guard. Raises TypeError."""
    if any(wrapping):
        raise TypeError("the hooks of a guard cannot be wrappers; remove wrapper=True")
    if not any(hook in names for hook in REVIEWS):
        raise TypeError(f"a guard must implement {' or '.join(REVIEWS)}")


def _make_plugin(installed: InstalledPlugin, error: str = "") -> Plugin:
    return Plugin(**installed._asdict(), error=error)


def make_absent_plugin(name: str) -> Plugin:
    """Return a plugin that conf names although it is not installed."""
    entry_point = metadata.EntryPoint(name, "", ENTRY_POINT_GROUP)
    return Plugin(
        name=name, module="", distribution="", version="", entry_point=entry_point, error="it is not installed"
    )


def _unknown_setting(plugin: Plugin) -> str:
    if "provider" in plugin.hooks and not plugin.wrapper:
        return "unknown key; settings of this plugin belong to its entries under providers"
    return "unknown key; this plugin has no settings"


def make_manager(project: str, spec: type, plugins: Iterable[tuple[str, Any]]) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(project)
    manager.add_hookspecs(spec)
    for name, implementation in plugins:
        manager.register(implementation, name)
    manager.check_pending()
    return manager


def release_manager(manager: pluggy.PluginManager) -> None:
    """Break the reference cycle of a manager and its hooks, so that it is freed without a garbage collection.

    Hooks that were taken from it can still be called.
    """
    vars(manager.hook).clear()
