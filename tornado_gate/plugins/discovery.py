"""The plugins that are installed now, including those installed or upgraded since the start of the process.

Python imports a module once, so a process runs the version of a plugin that it has imported until it ends. `describe_update`
returns the changes that a restart would bring.
"""

from __future__ import annotations

import sys
from importlib import invalidate_caches, metadata
from typing import Final, NamedTuple

from tornado_gate.plugins.distribution_files import ENTRY_POINT_GROUP, normalize_name

RESTART: Final = "restart the gateway (SIGUSR2 starts a new one without refusing a request)"


class InstalledPlugin(NamedTuple):
    """One entry point of one distribution."""

    name: str
    module: str
    distribution: str
    version: str
    entry_point: metadata.EntryPoint


def find_installed() -> dict[str, list[InstalledPlugin]]:
    """Return the installed plugins by name: several for a name that several distributions use."""
    invalidate_caches()  # otherwise a distribution that was installed within the last second may be missing
    installed: dict[str, list[InstalledPlugin]] = {}
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        distribution = entry_point.dist
        plugin = InstalledPlugin(
            name=entry_point.name,
            module=entry_point.module,
            distribution=distribution.name if distribution else "",
            version=distribution.version if distribution else "",
            entry_point=entry_point,
        )
        others = installed.setdefault(plugin.name, [])
        if all(other.distribution != plugin.distribution for other in others):
            others.append(plugin)
    return installed


def select_candidates(candidates: list[InstalledPlugin], distribution: str) -> list[InstalledPlugin]:
    """Return the candidates of a distribution, by its name in any spelling; all of them for ""."""
    name = normalize_name(distribution)
    return [candidate for candidate in candidates if not distribution or normalize_name(candidate.distribution) == name]


def describe_ambiguity(candidates: list[InstalledPlugin]) -> str:
    """Return the error of a plugin that several distributions install, and that conf does not choose between."""
    first, *_ = candidates
    names = " and ".join(candidate.distribution for candidate in candidates)
    return (
        f"{names} both install a plugin of this name; uninstall one of them, or choose one in the configuration: "
        f"plugins: {{{first.name}: {{distribution: {first.distribution}}}}}"
    )


def describe_update(running: str, installed: str) -> str:
    """Return the change that a restart brings to a plugin whose version is `running`; "" for no change.

    `installed` is "" if the plugin is no longer installed.
    """
    if running == installed:
        return ""
    return f"{f'installed {installed}' if installed else 'uninstalled'}, running {running}: {RESTART}"


def get_package(module: str) -> str:
    """Return the top-level package of a module."""
    return module.partition(".")[0]


def unload_package(module: str, kept_modules: frozenset[str]) -> None:
    """Unload the modules of a package that failed to import, except `kept_modules`: after an upgrade it is imported again."""
    package = get_package(module)
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        if name not in kept_modules:
            del sys.modules[name]
