"""Write docs/reference/licences.md: the locked distributions with their licences, as their installed metadata says."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
_LOCKED = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)(?: ; (.*?))? \\$", re.MULTILINE)
_SHORT = 60
HEAD = """# Licences

The gateway and its plugins have the licence Apache-2.0. This page lists what [requirements.lock](../../requirements.lock)
installs beside them (`make lock` writes both). A row without a licence is installed on other platforms only. The plugin
`demo-media` is not in the lock file: it needs PyAV, whose wheels contain x264 (GPL-2), and eSpeak NG (GPL-3).

| distribution | licence |
|---|---|
"""


def list_locked() -> dict[str, str]:
    """Return the versions of the locked distributions by name."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return {match[1]: match[2] for match in _LOCKED.finditer(text)}


def describe_licence(found: Distribution) -> str:
    """Return the licence in a distribution's metadata: the expression, the classifiers, or the first line of the text."""
    metadata = found.metadata
    classifiers = [
        line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier", []) if line.startswith("License ::")
    ]
    text = (metadata.get("License") or "").strip().splitlines()
    short = text[0] if text and len(text[0]) <= _SHORT else ""
    return metadata.get("License-Expression") or short or ", ".join(classifiers)


def render() -> str:
    """Return the page. Distributions that are not installed here have no licence in it."""
    rows = []
    for name in list_locked():
        try:
            licence = describe_licence(distribution(name))
        except PackageNotFoundError:
            licence = ""
        rows.append(f"| {name} | {licence} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
