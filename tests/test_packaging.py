"""Every file of a distribution is installed with it. The editable installation of the tests would not show a missing one."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("__pycache__", ".egg-info", ".pyc", "_cache/")
"""Parts of paths that tools make."""
SETUPS = [ROOT / "setup.py", *sorted(ROOT.glob("plugins/*/setup.py"))]


def read_setup(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the arguments of `setup` in a setup.py."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: found.update(arguments))
    monkeypatch.chdir(path.parent)
    runpy.run_path(str(path))
    return found


@pytest.mark.parametrize("path", SETUPS, ids=lambda path: path.parent.name)
def test_a_distribution_contains_each_of_its_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = read_setup(path, monkeypatch)
    packages, data = arguments.get("packages", ()), arguments.get("package_data", {})
    installed = {Path(package.replace(".", "/")) / "*.py" for package in packages}
    installed |= {
        Path(package.replace(".", "/")) / pattern for package, patterns in data.items() for pattern in patterns
    }
    files = {file for pattern in installed for file in path.parent.glob(str(pattern))}
    tops = sorted({package.partition(".")[0] for package in packages})
    assert tops or arguments.get("py_modules"), "the distribution has no package"
    present = {
        Path(folder) / name
        for top in tops
        for folder, _, names in os.walk(path.parent / top)
        for name in names
        if not any(part in f"{folder}/{name}" for part in LEFT_OUT)
    }
    assert sorted(str(file.relative_to(path.parent)) for file in present - files) == []
