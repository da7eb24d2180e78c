"""Set the version of the gateway, of all plugins and of the chart: ``python tools/set_version.py 0.2.0``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?")


def find_places() -> dict[Path, re.Pattern[str]]:
    """Return the files that name the version, with the pattern of the text before it."""
    chart = ROOT / "deploy" / "helm" / "tornado-gate" / "Chart.yaml"
    places = {ROOT / "tornado_gate" / "_version.py": r'__version__ = "', chart: r'(?:version: |appVersion: ")'}
    places |= dict.fromkeys(sorted(ROOT.glob("plugins/*/setup.py")), r'    version="')
    return {path: re.compile(rf"^({before})({_VERSION.pattern})", re.MULTILINE) for path, before in places.items()}


def read_versions() -> dict[Path, list[str]]:
    """Return the versions in each file."""
    return {
        path: [match[2] for match in pattern.finditer(path.read_text(encoding="utf-8"))]
        for path, pattern in find_places().items()
    }


def set_version(version: str) -> None:
    """Write the version into all files. Raises SystemExit for an invalid one."""
    if not _VERSION.fullmatch(version):
        raise SystemExit(f"'{version}' is not a version such as 0.2.0 or 0.2.0rc1")
    for path, pattern in find_places().items():
        path.write_text(pattern.sub(rf"\g<1>{version}", path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        set_version(sys.argv[1])
    for path, versions in read_versions().items():
        print(f"{path.relative_to(ROOT)}: {', '.join(versions)}")
