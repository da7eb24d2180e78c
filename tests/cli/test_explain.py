"""`explain`: the way of a request for a model, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tornado_gate.cli import cli

CONF = """
plugins: {local: true, openai: true, redact: {models: [smart]}}
providers:
  local: {plugin: local}
  openai: {plugin: openai, preset: openai, api_key: sk-a-secret-0123456789, limits: {requests_per_minute: 100}}
models:
  local-chat: {provider: local}
  local-embed: {provider: local}
  smart:
    targets: [{provider: openai, model: gpt-4o}, {provider: openai, model: gpt-4.1, weight: 3}]
    fallback: [local-chat]
  "openai/*": {provider: openai}
keys:
  - {name: app, key: a-key-of-a-test-0123, requests_per_minute: 5}
  - {name: nightly, key: b-key-of-a-test-0123, models: [local-*]}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.yaml").write_text(CONF, encoding="utf-8")

    def run(*arguments: str, command: str = "explain") -> Result:
        place = ["--conf", "gate.yaml", "--data-dir", str(tmp_path / "var")]
        return CliRunner().invoke(cli, [*command.split(), *arguments, *place], prog_name="tornado-gate")

    return run


def test_the_targets_are_told_in_their_order_with_fallbacks_wrappers_and_limits(run: Any, tmp_path: Path) -> None:
    told = json.loads(run("smart", "--key", "app", "--json").output)
    assert (told["entry"], told["operation"], told["key"], told["wrappers"]) == ("smart", "chat", "app", ["redact"])
    assert [(target["model"], target["weight"], target["is_fallback"]) for target in told["targets"]] == [
        ("gpt-4.1", 3, False),
        ("gpt-4o", 1, False),
        ("local-chat", 1, True),
    ]
    assert [(bound["subject"], bound["limit"]) for bound in told["limits"]] == [
        ("key", "5 requests"),
        ("provider", "100 requests"),
    ]
    assert not (tmp_path / "var").exists(), "nothing is written to the data directory"


@pytest.mark.qa
def test_the_text_names_the_entry_of_a_wildcard_and_no_secret(run: Any) -> None:
    result = run("openai/gpt-5")
    assert result.exit_code == 0
    assert "entry: models.openai/*" in result.output
    assert "1. openai: gpt-5 (weight 1; plugin openai at https://api.openai.com/v1)" in result.output
    assert "sk-a-secret" not in result.output


@pytest.mark.qa
def test_a_model_without_chat_is_explained_for_its_own_operation(run: Any) -> None:
    assert run("local-embed").output.startswith("local-embed: embeddings\n")


REFUSALS = [
    (["smart", "--key", "nightly"], "403 model_not_allowed"),
    (["other"], "404 model_not_found"),
    (["local-embed", "--operation", "chat"], "400 operation_not_supported"),
    (["smart", "--key", "nobody"], "no key 'nobody'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSALS)
def test_a_request_that_would_be_refused_is_exit_code_1(run: Any, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.output


@pytest.mark.qa
def test_a_key_of_the_database_is_found_by_its_name(run: Any) -> None:
    assert run("--name", "stored", "--models", "local-*", command="keys create").exit_code == 0
    assert "key: stored" in run("local-chat", "--key", "stored").output
    assert "403 model_not_allowed" in run("smart", "--key", "stored").output
