"""What `models show` tells about a model in conf."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tornado_gate.cli import cli

CONF = """
plugins: {local: true, openai: true}
providers:
  local: {plugin: local}
  openai: {plugin: openai, preset: openai, api_key: a-key-that-nobody-may-see, model_rules: {"gpt-5.4": {most_tools: 7}}}
models:
  local-chat: {provider: local}
  "gpt-*": {provider: openai, model: "gpt-*"}
  fast: {targets: [{provider: openai, model: gpt-4o}, {provider: local, model: local-chat}]}
"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "gate.yaml"
    file.write_text(CONF, encoding="utf-8")
    return file


def show(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["models", "show", *arguments, "--conf", str(conf)], prog_name="tornado-gate")


def test_the_facts_of_a_model_are_told_with_their_rows(conf: Path) -> None:
    told = json.loads(show(conf, "gpt-5.4", "--json").output)
    assert [(one["provider"], one["upstream_model"], one["model"]) for one in told] == [("openai", "gpt-5.4", "gpt-*")]
    assert (told[0]["facts"]["api"], told[0]["facts"]["most_tools"]) == ("responses", 7)
    assert told[0]["rows"][0]["match"] == ["*"]
    assert told[0]["rows"][-1] == {"match": ["gpt-5.4"], "facts": {"most_tools": 7}, "source": "conf, model_rules"}


def test_every_target_is_told(conf: Path) -> None:
    result = show(conf, "fast")
    assert result.exit_code == 0
    assert "openai: gpt-4o (plugin openai)" in result.output
    assert "  tools_api: chat" in result.output
    assert "  efforts: none" in result.output
    assert "local: local-chat (plugin local)" in result.output
    assert "rows: none" in result.output
    assert "a-key-that-nobody-may-see" not in result.output


def test_an_unknown_name_is_an_error_that_lists_the_models(conf: Path) -> None:
    result = show(conf, "other")
    assert result.exit_code == 1
    assert "no model 'other'" in result.output
    assert "local-chat, gpt-*, fast" in result.output


def test_a_fault_in_conf_is_told_with_its_line(conf: Path) -> None:
    conf.write_text(CONF.replace("most_tools: 7", "most_tolls: 7"), encoding="utf-8")
    result = show(conf, "gpt-5.4")
    assert result.exit_code == 1
    assert "model_rules.gpt-5.4.most_tolls: is unknown; did you mean 'most_tools'?" in result.output
