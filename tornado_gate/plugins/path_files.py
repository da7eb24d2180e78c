"""The ``.pth`` files in site-packages that run code or that no distribution has installed. Reads files only.

Python reads these files at each start, before any code of the gateway, and executes their lines that begin with ``import``. So an
attack needs only such a file in a package: litellm 1.82.8 had one (OSV MAL-2026-2144). The gateway cannot prevent this; it
reports such files.
"""

from __future__ import annotations

import json
import re
import site
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from tornado_gate.types.value import Value

_KNOWN_LINES = frozenset(
    {
        # setuptools, distutils-precedence.pth; also earlier versions
        "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local'; "
        "enabled and __import__('_distutils_hack').add_shim();",
        "import _virtualenv",  # virtualenv, _virtualenv.pth
        # coverage 7.11, a1_coverage.pth
        r"""import sys; exec('import os\n\nif os.getenv("COVERAGE_PROCESS_START") or os.getenv("COVERAGE_PROCESS_CONFIG"):\n try:\n  import coverage\n except:\n  pass\n else:\n  coverage.process_startup(slug="pth")')""",  # noqa: E501
    }
)
"""Lines of packaging tools that many environments have."""
_EDITABLE = re.compile(r"import (\w+)(; ?\1\.install\(\))?")
"""The content that build tools write for an editable install; the module is a file of the same distribution."""


class PathFile(Value, frozen=True):
    """A suspicious ``.pth`` file. `distribution` has installed it, "" if unknown; `lines` are the lines that run code."""

    path: Path
    distribution: str
    lines: tuple[str, ...]

    def describe(self) -> str:
        """Return the fault of the file, with the remedy."""
        owner = f"of {self.distribution}" if self.distribution else "that no installed distribution has written"
        if not self.lines:
            return f"{self.path}: a .pth file {owner} adds folders to Python's search path; remove it if you do not know it"
        line = self.lines[0] if len(self.lines[0]) <= 120 else f"{self.lines[0][:117]}..."
        return (
            f"{self.path}: a .pth file {owner} runs code at each start of Python: {line!r}; "
            "review it, and remove the file or the distribution if you do not know it"
        )


def find_path_files(folders: Iterable[str] | None = None) -> list[PathFile]:
    """Return the ``.pth`` files in `folders` which run code or have no owner. By default Python's own folders are read."""
    folder_paths = [Path(folder) for folder in (_list_site_folders() if folders is None else folders)]
    files = sorted({path for folder in folder_paths if folder.is_dir() for path in folder.glob("*.pth")})
    if not files:
        return []
    owners = _find_owners(folder_paths)
    return [path_file for path in files if (path_file := _inspect(path, owners.get(path))) is not None]


def _list_site_folders() -> list[str]:
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [folder for folder in dict.fromkeys((*site.getsitepackages(), *user)) if folder in sys.path]


def _find_owners(folders: Iterable[Path]) -> dict[Path, metadata.Distribution]:
    """Return the distribution of each ``.pth`` file that a RECORD lists."""
    owners: dict[Path, metadata.Distribution] = {}
    for distribution in metadata.distributions(path=[str(folder) for folder in folders]):
        record = distribution.read_text("RECORD") or ""
        if ".pth" not in record:
            continue
        for file in distribution.files or ():
            if file.suffix == ".pth":
                owners.setdefault(Path(str(distribution.locate_file(file))), distribution)
    return owners


def _inspect(path: Path, owner: metadata.Distribution | None) -> PathFile | None:
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        return PathFile(path, owner.name if owner else "", (f"(cannot be read: {error.strerror})",))
    lines = tuple(_list_foreign_lines(text, owner))
    if lines:
        return PathFile(path, owner.name if owner else "", lines)
    return None if owner is not None or _is_known(text) else PathFile(path, "", ())


def _is_known(text: str) -> bool:
    """Return whether a file consists of lines of packaging tools, which do not list all their files in a RECORD."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return all(line in _KNOWN_LINES for line in lines)


def _list_foreign_lines(text: str, owner: metadata.Distribution | None) -> Iterator[str]:
    """Return the lines that Python executes, except lines of packaging tools and of an editable install."""
    for line in text.splitlines():
        if line.startswith(("import ", "import\t")) and line.strip() not in _KNOWN_LINES:
            finder = _EDITABLE.fullmatch(line.strip())
            if not (finder and owner is not None and _is_editable(owner, finder[1])):
                yield line.strip()


def _is_editable(distribution: metadata.Distribution, finder: str) -> bool:
    """Return whether a distribution is an editable install that has installed this finder."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    is_editable = isinstance(origin, dict) and (origin.get("dir_info") or {}).get("editable") is True
    return is_editable and any(file.as_posix() == f"{finder}.py" for file in distribution.files or ())
