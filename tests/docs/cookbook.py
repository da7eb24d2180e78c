"""All plugins of docs/plugins/cookbook.md: installed by pip as one distribution, and the configuration of all of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import read_blocks

PAGE = "plugins/cookbook.md"
KEY = "key-of-the-cook"
SECTIONS = ("plugins", "providers", "models")


def make_secret(variable: str) -> str:
    """The value of an environment variable that the page's configuration names."""
    return f"secret-{variable.lower().replace('_', '-')}-0123456789"


def install_recipes(folder: Path) -> Path:
    """Install the plugins; returns the folder for PYTHONPATH."""
    source, target = folder / "source", folder / "site"
    source.mkdir()
    modules = {block.path.removesuffix(".py"): block.text for block in read_blocks(PAGE) if block.language == "python"}
    for module, text in modules.items():
        (source / f"{module}.py").write_text(text, encoding="utf-8")
    points = [
        f"{module.removeprefix('tornado_gate_')} = {module}{_find_class(text)}" for module, text in modules.items()
    ]
    setup = {"name": "cookbook", "version": "1", "py_modules": [*modules], "entry_points": {"tornado_gate": points}}
    (source / "setup.py").write_text(f"from setuptools import setup\nsetup(**{setup!r})\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(source)], check=True, capture_output=True, text=True)
    return target


def _find_class(text: str) -> str:
    """The class that its first lines name as the entry point (``# …; entry point: x = module:Class``)."""
    found = re.match(r"# \S+; entry point: \S+ = \w+(:\w+)", text)
    return found[1] if found else ""


def make_conf(upstream_url: str) -> tuple[str, dict[str, str]]:
    """The configuration of all recipes with the upstream's address, and its environment variables."""
    conf: dict[str, Any] = {name: {} for name in SECTIONS}
    texts = [block.text for block in read_blocks(PAGE) if block.language == "yaml"]
    variables = sorted(set(re.findall(r"\$\{(\w+)\}", "".join(texts))))
    for text in texts:
        for section, entries in yaml.safe_load(re.sub(r"https://[\w.]+\.example", upstream_url, text)).items():
            conf[section] |= entries
    conf |= {"videos": {"poll_seconds": 0.05}, "fetch": {"allow_private": True}, "keys": [{"name": "cook", "key": KEY}]}
    return yaml.safe_dump(conf), {name: make_secret(name) for name in variables}
