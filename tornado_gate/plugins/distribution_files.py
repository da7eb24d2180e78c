"""The files of an installed distribution, and one hash over them. Reads files; imports no code of the distribution.

The hash covers the files that Python would import, at the paths where Python would find them. So it also detects a module of the
same name earlier in the search path. These are all files below the top-level packages and modules of the distribution. A copy in
site-packages and an editable install of the same files have the same hash. Other files of the distribution in site-packages count
as well, such as ``.pth`` files. Files that pip writes at the installation do not count: metadata, commands, compiled files.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Final

ENTRY_POINT_GROUP: Final = "tornado_gate"
"""The group of the entry points of plugins."""

_WRITTEN_BY_PIP = re.compile(r"(\.\.|[^/]+\.(dist|egg)-info|__editable__[^/]*|.*__pycache__)(/|$)")
_COMPILED = "__pycache__"


class ModuleMissing(Exception):
    """An error: a module of a distribution cannot be found. The message names it."""


def normalize_name(name: str) -> str:
    """Return the name of a distribution as PEP 503 normalises it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hash_distribution(distribution: metadata.Distribution) -> str:
    """Return the SHA-256 over paths and contents of the files of a distribution. Raises ModuleMissing, and OSError."""
    digest = hashlib.sha256()
    for name, path in sorted(list_files(distribution).items()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    for entry_point in sorted(distribution.entry_points.select(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        digest.update(f"{entry_point.name} = {entry_point.value}\n".encode())
    return digest.hexdigest()


def list_files(distribution: metadata.Distribution) -> dict[str, Path]:
    """Return the files of a distribution by their path as modules: ``tornado_gate_acme/settings.py``. Raises ModuleMissing."""
    file_of_path: dict[str, Path] = {}
    for module in sorted(_list_modules(distribution)):
        spec = _find_spec(module)
        if spec is None or not (spec.has_location or spec.submodule_search_locations):
            raise ModuleMissing(f"no file of its module {module} can be found")
        for location in spec.submodule_search_locations or ():
            file_of_path |= {f"{module}/{below}": path for below, path in _walk(Path(location), set())}
        if not spec.submodule_search_locations:
            origin = Path(str(spec.origin))
            file_of_path[origin.name] = origin
    modules = {name.partition("/")[0] for name in file_of_path}
    for file in distribution.files or ():
        name = file.as_posix()
        if not _WRITTEN_BY_PIP.match(name) and name.partition("/")[0] not in modules:
            file_of_path[name] = Path(str(distribution.locate_file(file)))
    return file_of_path


def _list_modules(distribution: metadata.Distribution) -> set[str]:
    """Return the top-level packages and modules of the entry points and of the distribution's own list."""
    named = {entry_point.module for entry_point in distribution.entry_points.select(group=ENTRY_POINT_GROUP)}
    listed = (distribution.read_text("top_level.txt") or "").split()
    return {name.partition(".")[0] for name in (*named, *listed)}


def _find_spec(module: str) -> ModuleSpec | None:
    """Return the spec of a top-level module by a new search; `importlib.util` would return the spec of its first import."""
    for finder in sys.meta_path:
        if (spec := finder.find_spec(module, None)) is not None:
            return spec
    return None


def _walk(folder: Path, visited: set[tuple[int, int]]) -> Iterator[tuple[str, Path]]:
    """Yield (path below the folder, file) of each file. Follow links, but into no folder twice."""
    status = folder.stat()
    if (status.st_dev, status.st_ino) in visited:
        return
    visited.add((status.st_dev, status.st_ino))
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                # a name such as .mypy_cache is no package
                if entry.name != _COMPILED and not entry.name.startswith("."):
                    for below, path in _walk(Path(entry.path), visited):
                        yield f"{entry.name}/{below}", path
            elif entry.is_file():
                yield entry.name, Path(entry.path)
