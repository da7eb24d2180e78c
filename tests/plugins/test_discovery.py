"""Several distributions that install a plugin of one name, and distributions that change while the process runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import run_command
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost

PLUGIN = """
from tornado_gate import provider_impl
@provider_impl
def translate_request(call): ...
@provider_impl
def translate_response(call): ...
"""
CONF = """
plugins: {{acme: {switch}}}
providers: {{acme: {{plugin: acme}}}}
models: {{m: {{provider: acme}}}}
"""


def install(folder: Path, distribution: str, version: str = "1.0", *, module: str = "", code: str = PLUGIN) -> None:
    """What pip would write for a distribution with the plugin "acme"."""
    module = module or f"{distribution.replace('-', '_').lower()}_module"
    info = folder / f"{distribution.replace('-', '_')}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[tornado_gate]\nacme = {module}\n", "utf-8")
    (folder / f"{module}.py").write_text(code, "utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder, before = tmp_path / "site", set(sys.modules)
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_conf_chooses_between_two_distributions(site: Path) -> None:
    install(site, "Acme-One")
    install(site, "acme-two")
    host = PluginHost()
    assert "choose one in the configuration: plugins: {acme: {distribution: " in host.load("acme").error
    host.choose("acme", "ACME_two")
    assert (host.load("acme").distribution, host.load("acme").error) == ("acme-two", "")
    host.choose("acme", "acme-one")
    assert (host.load("acme").distribution, host.load("acme").module) == ("Acme-One", "acme_one_module")
    with pytest.raises(ConfigError) as caught:
        host.choose("acme", "acme-three")
    assert caught.value.faults[0][0] == ("distribution",)
    host.choose("acme", "")
    assert (host.load("acme").distribution, "both install" in host.load("acme").update) == ("Acme-One", True)


@pytest.mark.qa
def test_the_commands_know_the_choice(site: Path, tmp_path: Path) -> None:
    install(site, "acme-one")
    install(site, "acme-two", "2.0")
    file = tmp_path / "gate.yaml"
    environment = {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}

    def run(switch: str, *command: str) -> tuple[int, str]:
        file.write_text(CONF.format(switch=switch), "utf-8")
        done = run_command(*command, "--conf", str(file), folder=tmp_path, environment=environment)
        return done.returncode, done.stdout + done.stderr

    code, text = run("true", "check")
    assert (code, "acme-one and acme-two both install" in text or "acme-two and acme-one both" in text) == (1, True), (
        text
    )
    code, text = run("{distribution: acme-three}", "check")
    assert (code, "plugins.acme.distribution: 'acme-three' does not install" in text) == (1, True), text
    assert run("{distribution: acme-two}", "check")[0] == 0
    _, text = run("{distribution: acme-two}", "plugins", "list", "--json")
    rows = {row["distribution"]: row for row in json.loads(text) if row["name"] == "acme"}
    assert {name: (row["state"], row["version"]) for name, row in rows.items()} == {
        "acme-one": ("off", "1.0"),
        "acme-two": ("on", "2.0"),
    }
    assert "acme-two is used" in rows["acme-one"]["error"]


def test_a_plugin_that_failed_to_import_is_imported_anew_and_whole(site: Path) -> None:
    package = site / "acme_package"
    package.mkdir()
    (package / "parts.py").write_text("VALUE = 1", "utf-8")
    install(site, "acme", module="acme_package")
    (site / "acme_package.py").unlink()
    (package / "__init__.py").write_text("from acme_package import parts\n1 / 0", "utf-8")
    host = PluginHost()
    assert "ZeroDivisionError" in host.load("acme").error
    (package / "parts.py").write_text("VALUE = 20", "utf-8")
    (package / "__init__.py").write_text(f"from acme_package.parts import VALUE\n{PLUGIN}", "utf-8")
    host.discover()
    assert host.load("acme").error == ""
    assert sys.modules["acme_package"].VALUE == 20


def test_what_a_restart_changes_is_told(site: Path) -> None:
    install(site, "acme", "1.0")
    host = PluginHost()
    host.load("acme")
    assert host.updates == {}
    for file in (site / "acme.dist-info").iterdir():
        file.unlink()
    install(site, "acme", "1.1", code="raise RuntimeError('not imported')")
    host.discover()
    assert host.load("acme").version == "1.0"
    assert host.updates["acme"].startswith("installed 1.1, running 1.0: restart")
    for file in (site / "acme.dist-info").iterdir():
        file.unlink()
    (site / "acme.dist-info").rmdir()
    host.discover()
    assert host.updates["acme"].startswith("uninstalled, running 1.0: restart")
    assert host.load("acme").error == ""
