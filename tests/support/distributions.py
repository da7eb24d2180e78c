"""Distributions with one plugin, written to a folder instead of installed with pip."""

from __future__ import annotations

import os
from pathlib import Path


def install_module(folder: Path, name: str, source: str | None) -> dict[str, str]:
    """The environment in which the plugin `name` is installed: a module, or its class ``Guard`` if it has one.

    With None, the environment has no such plugin.
    """
    if source is not None:
        info = folder / f"{name}-0.1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n", encoding="utf-8")
        module = f"the_{name}"
        target = f"{module}:Guard" if "class Guard" in source else module
        (info / "entry_points.txt").write_text(f"[tornado_gate]\n{name} = {target}\n", encoding="utf-8")
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
