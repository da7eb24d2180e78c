"""`plan`: what a reload with another file would change, and who is affected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tornado_gate.cli import cli

OLD = """
server: {port: 8080}
plugins: {local: true, openai: true, redact: {models: ["gpt-*"]}}
providers:
  local: {plugin: local}
  openai: {plugin: openai, preset: openai, api_key: sk-old-key-0123456789}
models:
  local-chat: {provider: local}
  gpt-4o: {provider: openai, limits: {requests_per_minute: 5}}
  spare: {provider: openai, model: gpt-4o}
keys:
  - {name: app, key: a-key-of-a-test-0123, requests_per_minute: 5}
  - {name: nightly, key: b-key-of-a-test-0123, models: [local-*]}
"""
NEW = """
server: {port: 9000, log_level: debug}
plugins: {local: true, openai: true}
providers:
  local: {plugin: local}
  openai: {plugin: openai, preset: openai, api_key: sk-new-key-0123456789, timeouts: {total: 30}}
models:
  local-chat: {provider: local}
  gpt-4o: {provider: openai, limits: {requests_per_minute: 9}}
  added: {provider: openai, model: gpt-4o}
keys:
  - {name: app, key: a-key-of-a-test-9999, requests_per_minute: 50}
limits: {requests_per_minute: 100}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.yaml").write_text(OLD, encoding="utf-8")
    (tmp_path / "new.yaml").write_text(NEW, encoding="utf-8")
    return tmp_path / "old.yaml", tmp_path / "new.yaml"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["plan", *map(str, arguments)], prog_name="tornado-gate")


def plan(files: tuple[Path, Path]) -> dict[str, dict[str, Any]]:
    result = run(files[1], "--conf", files[0], "--json")
    assert result.exit_code == 0, result.output
    return {f"{change['section']}.{change['name']}".rstrip("."): change for change in json.loads(result.output)}


def test_every_change_is_told_with_those_whom_it_affects(files: tuple[Path, Path]) -> None:
    changes = plan(files)
    expected = {
        "plugins.redact": ("removed", "gpt-* models"),
        "providers.openai": ("changed", "the models gpt-4o, added"),
        "models.gpt-4o": ("changed", "the keys app, and keys of the database"),
        "models.spare": ("removed", "a 404"),
        "models.added": ("added", "the keys app"),
        "keys.app": ("changed", "its callers"),
        "keys.nightly": ("removed", "401"),
        "server": ("changed", "server.port only after a restart"),
        "limits": ("changed", "no limits of their own"),
    }
    assert changes.keys() == expected.keys()
    wrong = [
        name
        for name, (kind, effect) in expected.items()
        if changes[name]["change"] != kind or effect not in changes[name]["affects"]
    ]
    assert wrong == []
    assert changes["models.gpt-4o"]["details"] == ["limits.requests_per_minute: 5 -> 9"]
    assert changes["providers.openai"]["details"] == ["api_key: changed", "timeouts.total: 30"]


def test_secrets_are_not_printed(files: tuple[Path, Path]) -> None:
    output = run(files[1], "--conf", files[0]).output
    assert "~ keys.app" in output
    assert [secret for secret in ("sk-old", "sk-new", "a-key-of", "b-key-of") if secret in output] == []


def test_a_file_that_a_reload_refuses_is_exit_code_1_with_all_faults(files: tuple[Path, Path]) -> None:
    files[1].write_text(NEW.replace("provider: openai", "provider: opnai"), encoding="utf-8")
    result = run(files[1], "--conf", files[0])
    assert result.exit_code == 1
    assert f"{files[1]}:9: models.gpt-4o.provider: unknown provider 'opnai'; did you mean 'openai'?" in result.output
    files[1].write_text(NEW.partition("keys:")[0], encoding="utf-8")
    assert "the section 'keys' is missing" in run(files[1], "--conf", files[0]).output


def test_an_equal_file_changes_nothing(files: tuple[Path, Path]) -> None:
    files[1].write_text(f"# a comment\n{OLD}", encoding="utf-8")
    assert run(files[1], "--conf", files[0]).output == f"{files[1]} changes nothing\n"
