"""Plugins of strangers, installed without pip: a module and the metadata of its distribution in a folder on the path."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, name: str, **modules: str) -> Path:
    """Write the modules of the plugin `name`, whose entry point is the module ``tornado_gate_NAME``; returns `folder`."""
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    info = folder / f"tornado_gate_{name}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: tornado-gate-{name}\nVersion: 0.1\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(f"[tornado_gate]\n{name} = tornado_gate_{name}\n", encoding="utf-8")
    return folder
