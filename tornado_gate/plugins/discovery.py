"""Finds the plugins that are installed now, also those that were installed or upgraded since the start of the process.

Python imports a module once, so a process runs the version of a plugin that it has imported until it ends. `describe_update`
says what a restart would change.
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
    """The installed plugins by name: several for a name that several distributions use."""
    invalidate_caches()  # else a distribution that was installed within the last second may not be found
    found: dict[str, list[InstalledPlugin]] = {}
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        distribution = entry_point.dist
        plugin = InstalledPlugin(
            name=entry_point.name,
            module=entry_point.module,
            distribution=distribution.name if distribution else "",
            version=distribution.version if distribution else "",
            entry_point=entry_point,
        )
        others = found.setdefault(plugin.name, [])
        if all(other.distribution != plugin.distribution for other in others):
            others.append(plugin)
    return found


def select(candidates: list[InstalledPlugin], distribution: str) -> list[InstalledPlugin]:
    """The candidates of a distribution, by its name in any spelling; all of them for ""."""
    wanted = normalize_name(distribution)
    return [each for each in candidates if not distribution or normalize_name(each.distribution) == wanted]


def describe_ambiguity(candidates: list[InstalledPlugin]) -> str:
    """The error of a plugin that several distributions install, and that conf does not choose between."""
    first, *_ = candidates
    names = " and ".join(each.distribution for each in candidates)
    return (
        f"{names} both install a plugin of this name; uninstall one of them, or choose one in the configuration: "
        f"plugins: {{{first.name}: {{distribution: {first.distribution}}}}}"
    )


def describe_update(running: str, installed: str) -> str:
    """What a restart changes for a plugin whose version is `running`; "" for nothing. `installed` is "" if it is gone."""
    if running == installed:
        return ""
    return f"{f'installed {installed}' if installed else 'uninstalled'}, running {running}: {RESTART}"


def get_package(module: str) -> str:
    """The top-level package of a module."""
    return module.partition(".")[0]


def forget_package(module: str, known: frozenset[str]) -> None:
    """Forget the modules of a package that failed to import, except those in `known`: after an upgrade it is imported anew."""
    package = get_package(module)
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        if name not in known:
            del sys.modules[name]
