"""Accounts at vendors, their models and their keys by commands."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, run_command
from tests.support.upstream import Upstream, answer
from tornado_gate.accounts.audit import list_events
from tornado_gate.database.opening import open_database

KEY = "sk-canary-of-the-commands-0123456789abcdef"
CONF = """\
# the head
plugins: {local: true}
providers:
  local: {plugin: local}   # the demonstration
models:
  local-chat: {provider: local}
"""


@pytest.fixture(scope="module")
def vendor() -> Iterator[Upstream]:
    upstream = Upstream.start()
    yield upstream
    upstream.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.yaml").write_text(CONF, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command on the file and data of the test; `text` is its standard input."""
    where = ("--conf", str(folder / "gate.yaml"), "--data-dir", str(folder / "var"))
    return run_command(*arguments, *where, folder=folder, text=text)


def add_vendor(folder: Path, vendor: Upstream) -> None:
    arguments = ("providers", "add", "vendor", "--plugin", "openai", "--base-url", vendor.url, "--api-key-stdin")
    added = run(folder, *arguments, text=KEY + "\n")
    assert added.returncode == 0, added.stderr
    assert '+    api_key: "${secret:vendor-key-' in added.stdout


def test_a_vendor_is_added_tested_used_and_removed(folder: Path, vendor: Upstream) -> None:
    vendor.reset()
    add_vendor(folder, vendor)
    vendor.script(answer('{"data": [{"id": "gpt-a"}, {"id": "gpt-b"}]}', path="/v1/models"))
    tested = run(folder, "providers", "test", "vendor")
    assert (tested.returncode, tested.stdout) == (0, "gpt-a\ngpt-b\n"), tested.stderr
    assert vendor.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert run(folder, "models", "add", "fast", "--provider", "vendor", "--model", "gpt-a").returncode == 0
    listed = json.loads(run(folder, "providers", "list", "--json").stdout)
    assert [(row["name"], row["has_api_key"], row["models"]) for row in listed] == [
        ("local", False, ["local-chat"]),
        ("vendor", True, ["fast"]),
    ]
    assert run_command("check", "--conf", str(folder / "gate.yaml"), folder=folder).returncode == 0
    refused = run(folder, "providers", "remove", "vendor")
    assert refused.returncode == 1
    assert "is used by the model 'fast'" in refused.stderr
    assert run(folder, "models", "remove", "fast").returncode == 0
    assert run(folder, "providers", "remove", "vendor").returncode == 0
    text = (folder / "gate.yaml").read_text(encoding="utf-8")
    assert text == CONF.replace("{local: true}", "{local: true, openai: true}")
    assert read_actions(folder) == ["provider.delete", "model.delete", "model.create", "provider.create"]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [str(path) for path in files if KEY.encode() in path.read_bytes()] == []


def read_actions(folder: Path) -> list[str]:
    database = open_database(folder / "var", "")
    actions = [event.action for event in list_events(database)]
    database.close()
    return actions


def test_an_entry_is_changed_and_its_key_goes_to_no_other_host(folder: Path, vendor: Upstream) -> None:
    vendor.reset()
    add_vendor(folder, vendor)
    changed = run(folder, "providers", "set", "vendor", f"base_url={vendor.url}/other/v1", "timeouts={total: 300}")
    assert changed.returncode == 0, changed.stderr
    assert "+    timeouts: {total: 300}" in changed.stdout
    refused = run(folder, "providers", "set", "vendor", "base_url=http://localhost:9/v1")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("tornado-gate: After this change of base_url the stored keys could")
    moved = ("providers", "set", "vendor", "base_url=http://localhost:9/v1", "timeouts=null", "--api-key-stdin")
    changed = run(folder, *moved, text="sk-another-key-0123456789")
    assert changed.returncode == 0, changed.stderr
    assert "sk-another" not in changed.stdout + (folder / "gate.yaml").read_text(encoding="utf-8")
    text = (folder / "gate.yaml").read_text(encoding="utf-8")
    assert 'base_url: "http://localhost:9/v1"' in text
    assert "timeouts" not in text
    same = run(folder, "providers", "set", "vendor", "base_url=http://localhost:9/v1")
    assert (same.returncode, same.stderr) == (0, "The file has this already.\n")
    assert read_actions(folder) == ["provider.change", "provider.change", "provider.create"]


@pytest.mark.qa
def test_a_preset_is_another_host_too_and_faults_are_told(folder: Path) -> None:
    assert run(folder, "providers", "add", "o", "--plugin", "openai", "--api-key-stdin", text=KEY).returncode == 0
    before = (folder / "gate.yaml").read_text(encoding="utf-8")
    assert "After this change of preset the stored" in run(folder, "providers", "set", "o", "preset=deepseek").stderr
    faulty = run(folder, "providers", "set", "o", "timeouts={totl: 3}")
    assert (faulty.returncode, "providers.o.timeouts.totl: unknown key" in faulty.stderr) == (1, True)
    assert "conf has no provider entry 'nobody'" in run(folder, "providers", "set", "nobody", "on=true").stderr
    assert run(folder, "providers", "set", "o").returncode == 2
    assert run(folder, "providers", "set", "o", "preset").returncode == 2
    assert (folder / "gate.yaml").read_text(encoding="utf-8") == before


@pytest.mark.qa
def test_an_entry_without_its_address_is_mended(folder: Path) -> None:
    file = folder / "gate.yaml"
    file.write_text(CONF.replace("providers:\n", "providers:\n  v: {plugin: openai}\n"), encoding="utf-8")
    file.write_text(file.read_text(encoding="utf-8").replace("local: true", "local: true, openai: true"), "utf-8")
    assert run_command("check", "--conf", str(file), folder=folder).returncode == 1
    assert run(folder, "providers", "set", "v", "base_url=http://localhost:9/v1").returncode == 0
    assert run_command("check", "--conf", str(file), folder=folder).returncode == 0


@pytest.mark.qa
def test_a_running_gateway_uses_a_new_model(folder: Path) -> None:
    gateway = Gateway.start(CONF, folder)
    try:
        assert run(folder, "models", "add", "second", "--provider", "local", "--model", "local-chat").returncode == 0
        gateway.wait_for_log("configuration 2 is in force: 2 models")
    finally:
        gateway.stop()


@pytest.mark.qa
def test_a_vendor_without_an_address_gets_its_own(folder: Path) -> None:
    assert run(folder, "providers", "add", "o", "--plugin", "openai").returncode == 0
    assert run(folder, "providers", "add", "d", "--plugin", "openai", "--setting", "preset=deepseek").returncode == 0
    text = (folder / "gate.yaml").read_text(encoding="utf-8")
    assert "  o: {plugin: openai, preset: openai}\n  d: {plugin: openai, preset: deepseek}\n" in text


@pytest.mark.qa
def test_a_change_with_faults_is_not_written(folder: Path) -> None:
    added = run(folder, "models", "add", "x", "--provider", "nobody")
    assert added.returncode == 1
    assert "models.x.provider: unknown provider 'nobody'" in added.stderr
    added = run(folder, "providers", "add", "x", "--plugin", "no-such-plugin", "--api-key-stdin", text=KEY)
    assert added.returncode == 1
    assert "no-such-plugin" in added.stderr
    assert json.loads((folder / "var" / "secrets.json").read_text(encoding="utf-8"))["secrets"] == {}
    assert (folder / "gate.yaml").read_text(encoding="utf-8") == CONF


@pytest.mark.qa
def test_a_vendor_that_refuses_the_key_is_told(folder: Path, vendor: Upstream) -> None:
    vendor.reset()
    add_vendor(folder, vendor)
    vendor.script(answer(f'{{"error": {{"message": "wrong key {KEY}"}}}}', status=401))
    tested = run(folder, "providers", "test", "vendor")
    assert tested.returncode == 1
    assert "refused the API key" in tested.stderr
    assert KEY not in tested.stderr + tested.stdout


def test_secrets_are_set_listed_rotated_and_removed(folder: Path) -> None:
    assert run(folder, "secrets", "set", "mine", text=KEY).returncode == 0
    assert "mine" in run(folder, "secrets", "list").stdout
    before = (folder / "var" / "secrets.key").read_bytes()
    assert "1 secret encrypted" in run(folder, "secrets", "rotate").stderr
    assert (folder / "var" / "secrets.key").read_bytes() != before
    file = folder / "gate.yaml"
    file.write_text(CONF + 'keys:\n  - {name: k, key: "${secret:mine}"}\n', encoding="utf-8")
    refused = run(folder, "secrets", "remove", "mine")
    assert (refused.returncode, "names the secret mine" in refused.stderr) == (1, True)
    file.write_text(CONF, encoding="utf-8")
    assert run(folder, "secrets", "remove", "mine").returncode == 0
    assert run(folder, "secrets", "remove", "mine").returncode == 1
    assert os.stat(folder / "var" / "secrets.json").st_mode & 0o777 == 0o600
