"""The examples of conf in the pages of the wrappers that come with the gateway are valid."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.wrappers import Scope

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "docs" / "how-to" / "wrappers.md",
    *(ROOT / "plugins" / name / "README.md" for name in ("cache", "otel", "redact")),
)
OF_THE_CORE = {"required", "models", "operations", "keys"}


def test_the_examples_of_wrappers_are_accepted() -> None:
    host, seen, faults = PluginHost(), set(), []
    for page in PAGES:
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            for name, given in yaml.safe_load(block)["plugins"].items():
                settings = {key: value for key, value in given.items() if key not in OF_THE_CORE}
                try:
                    plugin = host.configure(name, PluginOptions(settings=settings), Scope())
                except ConfigError as error:
                    faults.append(f"{page.name}: {name}: {error}")
                else:
                    faults += [f"{page.name}: {name}: {plugin.error}"] if plugin.error else []
                seen.add((page, name))
    assert not faults
    assert len(seen) == 6
