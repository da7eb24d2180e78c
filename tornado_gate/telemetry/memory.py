"""The memory in use by this process, or its container. The kernel's files are read, which never block."""

from __future__ import annotations

import os
from pathlib import Path

CONTAINER_SHARE = 0.9
"""The part of a container's memory that may be used before requests are refused."""
_ROOT = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ContainerMemory:
    """The memory limit of the control group of this process, version 1 or 2, and the memory that its processes use
    together.

    Memory that the kernel can reclaim immediately is not counted: files that were read long ago. `limit` is None
    without a limit.
    """

    def __init__(self, root: Path = _ROOT, own_groups: Path = _OWN_GROUPS) -> None:
        self.limit: int | None = None
        self._used = self._details = Path()
        for folder, names in _list_folders(root, own_groups):
            limit = _read_number(folder / names[0])
            if limit is not None and limit < _NO_LIMIT and (self.limit is None or limit < self.limit):
                self.limit, self._used, self._details = limit, folder / names[1], folder / "memory.stat"
                self._inactive = names[2]

    def read_used(self) -> int:
        """Return the bytes in use; 0 if they cannot be read."""
        used = _read_number(self._used) or 0
        try:
            details = self._details.read_text(encoding="ascii")
        except OSError:
            return used
        _, inactive, rest = details.partition(f"{self._inactive} ")
        return max(0, used - int(rest.split("\n", 1)[0])) if inactive else used


def read_resident_bytes() -> int:
    """Return the memory of this process; 0 where the kernel does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def _list_folders(root: Path, own_groups: Path) -> list[tuple[Path, tuple[str, str, str]]]:
    """Return the folders of the groups of this process, with the names of their files: limit, use, and the entry of
    inactive files.
    """
    second = ("memory.max", "memory.current", "inactive_file")
    first = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    folders = [(root, second), (root / "memory", first)]
    try:
        lines = own_groups.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return folders
    for line in lines:
        _, controllers, path = (line + "::").split(":", 2)
        path = path.rstrip(":").strip("/")
        if not path or (controllers and "memory" not in controllers.split(",")):
            continue
        base, names = (root / "memory", first) if controllers else (root, second)
        while path:  # a limit of a group also applies to the groups inside it
            folders.append((base / path, names))
            path = path.rpartition("/")[0]
    return folders


def _read_number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
