"""Installed distributions for tests, as pip leaves them behind, written without pip."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def write_distribution(
    site: Path,
    name: str,
    files: Mapping[str, str],
    *,
    version: str = "1.0",
    entry_points: Mapping[str, str] | None = None,
    metadata_of: Path | None = None,
    editable: bool = False,
) -> Path:
    """Write the files of a distribution below `site`, and its metadata below `metadata_of` (by default `site` too).

    `entry_points` are those of the gateway's group. Returns the folder of the metadata.
    """
    for path, text in files.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    folder = (metadata_of or site) / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {value}\n" for name, value in (entry_points or {}).items()]
    own = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "entry_points.txt": "[tornado_gate]\n" + "".join(lines) if lines else "",
        "INSTALLER": "pip\n",
    }
    if editable:
        own["direct_url.json"] = json.dumps({"dir_info": {"editable": True}, "url": f"file://{site}"})
    for path, text in own.items():
        (folder / path).write_text(text, encoding="utf-8")
    listed = [*(f"{folder.name}/{path}" for path in own), f"{folder.name}/RECORD"]
    if metadata_of is None:
        listed += files
    (folder / "RECORD").write_text("".join(f"{path},,\n" for path in listed), encoding="utf-8")
    return folder


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
