"""The lock file, ``plugins.lock`` beside conf: the distributions of plugins that the gateway may import.

While the file exists, some plugins are not imported: if their distribution is not in it, has another version, or has changed
files. See `PluginHost.load`. `tornado-gate plugins lock` writes the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from importlib import invalidate_caches, metadata
from pathlib import Path
from typing import Any

from tornado_gate.config import DEFAULT_PATH, source
from tornado_gate.config.faults import Fault, FileFaults, did_you_mean
from tornado_gate.config.stored import StoredConf
from tornado_gate.plugins.distribution_files import (
    ENTRY_POINT_GROUP,
    ModuleMissing,
    hash_distribution,
    normalize_name,
)
from tornado_gate.types.value import State, Value, field

FILE_NAME = "plugins.lock"
COMMAND = "tornado-gate plugins lock"
HEADING = f"""\
# The plugins that the gateway may import: distribution, version, and a hash of its files. While this file exists, nothing
# else is imported as a plugin. When you have reviewed a change, run: {COMMAND}
"""

_KEYS = ("version", "sha256")
_HASH = re.compile(r"[0-9a-f]{64}")


class LockedDistribution(Value, frozen=True):
    """One entry of the lock file: `sha256` is the result of `hash_distribution`."""

    version: str
    sha256: str


Entries = Mapping[str, LockedDistribution]
"""The entries by the normalised name of the distribution."""


class PluginLock(State):
    """The lock file as it was read. Each distribution is checked once, when one of its plugins is first needed."""

    path: Path
    entries: Entries
    checked: dict[str, str] = field(default_factory=dict)

    def has(self, distribution: str) -> bool:
        """Return whether the file names the distribution, in any spelling; `find_refusal` compares its files."""
        return normalize_name(distribution) in self.entries

    def find_refusal(self, distribution: metadata.Distribution) -> str:
        """Return the reason why a distribution's plugins must not be imported, with the remedy; "" if they may be imported."""
        name = normalize_name(distribution.name)
        if name not in self.checked:
            fault = self._compare(name, distribution)
            self.checked[name] = (
                fault
                and f"{fault}; it was not imported. Review the change, then run: {COMMAND}, and reload the gateway"
            )
        return self.checked[name]

    def _compare(self, name: str, distribution: metadata.Distribution) -> str:
        locked = self.entries.get(name)
        if locked is None:
            return f"its distribution {name} is not in {self.path}"
        if distribution.version != locked.version:
            return f"its distribution {name} has version {distribution.version}, {self.path} allows {locked.version}"
        try:
            digest = hash_distribution(distribution)
        except (ModuleMissing, OSError) as error:
            return f"the files of its distribution {name} cannot be compared with {self.path}: {error}"
        if digest != locked.sha256:
            return f"files of its distribution {name} {locked.version} are not those that {self.path} allows"
        return ""


def get_lock_path(conf: Path | None) -> Path:
    """Return the path of the lock file for a configuration file; None is the built-in configuration.

    For a configuration in a database it is the same as for the built-in one.
    """
    return (DEFAULT_PATH if conf is None or isinstance(conf, StoredConf) else conf).with_name(FILE_NAME)


def read_lock(conf: Path | None) -> PluginLock | None:
    """Return the lock file beside `conf`; None if the file is missing. Raises FileFaults if it cannot be read or is invalid."""
    path = get_lock_path(conf)
    if not os.path.lexists(path):
        return None
    invalidate_caches()  # clear the caches of the import paths: distributions may have been installed since
    return PluginLock(path=path, entries=_read_entries(path))


def _read_entries(path: Path) -> Entries:
    document = source.read(path)
    faults = [*document.faults, *_find_faults(document.values)]
    if faults:
        raise FileFaults(faults, path, document.lines)
    return {
        normalize_name(name): LockedDistribution(entry["version"], entry["sha256"])
        for name, entry in document.values["distributions"].items()
    }


def _find_faults(values: Any) -> Iterator[Fault]:
    """Return all faults of the content of a lock file; each is at its key."""
    if not isinstance(values, dict) or not isinstance(values.get("distributions"), dict):
        yield (), f"must have a mapping 'distributions'; write the file with: {COMMAND}"
        return
    for key in values:
        if key != "distributions":
            yield (key,), f"unknown key; allowed: distributions{did_you_mean(key, ['distributions'])}"
    for name, entry in values["distributions"].items():
        if not isinstance(entry, dict):
            yield ("distributions", name), "must be a mapping with version and sha256"
            continue
        for key in entry:
            if key not in _KEYS:
                yield ("distributions", name, key), f"unknown key; allowed: version, sha256{did_you_mean(key, _KEYS)}"
        if not isinstance(entry.get("version"), str):
            yield ("distributions", name, "version"), "must be the version in quotes"
        sha256 = entry.get("sha256")
        if not isinstance(sha256, str) or not _HASH.fullmatch(sha256):
            yield ("distributions", name, "sha256"), f"must be 64 hexadecimal digits in quotes; run: {COMMAND}"


def find_distributions() -> dict[str, metadata.Distribution]:
    """Return the installed distributions with plugins, by normalised name."""
    entry_points = metadata.entry_points(group=ENTRY_POINT_GROUP)
    installed = {
        normalize_name(entry_point.dist.name): entry_point.dist
        for entry_point in entry_points
        if entry_point.dist is not None
    }
    return dict(sorted(installed.items()))


def compute_entries(distributions: Mapping[str, metadata.Distribution]) -> tuple[Entries, dict[str, str]]:
    """Return (the entries of the lock file for these distributions, the reasons why others cannot be locked)."""
    entries: dict[str, LockedDistribution] = {}
    faults: dict[str, str] = {}
    for name, distribution in distributions.items():
        try:
            entries[name] = LockedDistribution(distribution.version, hash_distribution(distribution))
        except (ModuleMissing, OSError) as error:
            faults[name] = str(error)
    return entries, faults


def render(entries: Entries) -> str:
    """Return the text of a lock file."""
    lines = [
        f'  {name}:\n    version: "{entry.version}"\n    sha256: "{entry.sha256}"\n' for name, entry in entries.items()
    ]
    return HEADING + ("distributions:\n" + "".join(lines) if lines else "distributions: {}\n")


def write_lock(path: Path, entries: Entries) -> None:
    """Replace the file in one step. Raises OSError."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(render(entries))
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
