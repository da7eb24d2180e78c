"""The command line: what it says, and the exit codes that scripts use."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tornado_gate import __version__
from tornado_gate.cli import cli
from tornado_gate.plugins.host import PluginHost

CONF = """
server: {data_dir: DIR}
plugins: {local: true}
providers:
  local: {plugin: local}
models:
  local-chat: {provider: local}
keys:
  - {name: by-file, key: a-key-by-file-0123}
"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "gate.yaml"
    file.write_text(CONF.replace("DIR", str(tmp_path / "var")), encoding="utf-8")
    return file


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="tornado-gate")


def test_the_version_is_told() -> None:
    assert run("--version").output == f"tornado-gate, version {__version__}\n"


def walk_commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from walk_commands(command, (*words, name))


def find_example_faults(words: tuple[str, ...], command: click.Command) -> list[str]:
    """What is wrong with the examples in the help of a command: none, or one whose arguments the command refuses."""
    lines = re.findall(r"^ +(?:\w+=\$\()?tornado-gate (.+?)\)?(?:   .*)?$", command.help or "", re.M)
    examples = [line for line in lines if shlex.split(line)[: len(words)] == [*words]]
    faults = [] if examples else [f"{' '.join(words)}: no example"]
    for line in examples:
        arguments = shlex.split(re.split(" [<>] ", line)[0])[len(words) :]
        try:
            command.make_context(words[-1], arguments)
        except click.ClickException as error:
            faults.append(f"{line}: {error.format_message()}")
    return faults


def test_every_command_explains_itself_with_an_example_and_its_exit_codes(conf: Path) -> None:
    faults = []
    for words, command in walk_commands(cli):
        result = run(*words, "--help")
        if result.exit_code or not result.output.startswith("Usage: tornado-gate"):
            faults.append(f"{words}: {result.output}")
        if isinstance(command, click.Group):
            continue
        faults += find_example_faults(words, command)
        if "xit code" not in result.output:
            faults.append(f"{' '.join(words)}: no exit codes")
    assert faults == []
    assert "Exit codes:" in run("--help").output


@pytest.mark.parametrize("command", [["nonsense"], ["serve", "--port", "x"], ["keys", "create"], ["keys", "revoke"]])
def test_a_wrong_command_line_is_exit_code_2(command: list[str]) -> None:
    assert run(*command).exit_code == 2


def test_a_right_file_is_exit_code_0(conf: Path) -> None:
    result = run("check", "--conf", conf)
    assert (result.exit_code, result.output) == (0, f"{conf}: valid; 1 models, 1 providers\n")


def test_every_fault_is_told_with_its_line(conf: Path) -> None:
    conf.write_text(
        conf.read_text(encoding="utf-8").replace("plugin: local", "plugin: lokal, base_url: x"), encoding="utf-8"
    )
    with conf.open("a", encoding="utf-8") as file:
        file.write("limits: {body_bites: 5}\n")
    result = run("check", "--conf", conf)
    assert result.exit_code == 1
    assert re.search(rf"^{conf}:5: providers.local.base_url: ", result.output, re.M)
    assert re.search(rf"^{conf}:10: limits.body_bites: .*did you mean 'body_bytes'", result.output, re.M)


def test_what_a_plugin_refuses_is_a_fault_of_the_file(conf: Path) -> None:
    conf.write_text(
        conf.read_text(encoding="utf-8").replace("plugin: local}", "plugin: local, pase_seconds: 1}"), encoding="utf-8"
    )
    result = run("check", "--conf", conf)
    assert result.exit_code == 1
    assert re.search(rf"^{conf}:5: providers.local.pase_seconds: .*did you mean 'pace_seconds'", result.output, re.M)


def test_an_operation_that_no_plugin_has_is_a_fault(conf: Path) -> None:
    conf.write_text(
        conf.read_text(encoding="utf-8").replace("{provider: local}", "{provider: local, operations: [paint]}"),
        encoding="utf-8",
    )
    result = run("check", "--conf", conf)
    assert result.exit_code == 1
    assert f"{conf}:7: models.local-chat.operations: " in result.output


def test_a_plugin_that_is_not_installed_is_a_fault(conf: Path) -> None:
    conf.write_text(
        conf.read_text(encoding="utf-8").replace("local: true", "local: true, akme: true"), encoding="utf-8"
    )
    result = run("check", "--conf", conf)
    assert result.exit_code == 1
    assert f"{conf}:3: plugins.akme: " in result.output


def test_a_file_that_is_not_there_is_exit_code_1(conf: Path) -> None:
    result = run("check", "--conf", "nowhere.yaml")
    assert result.exit_code == 1
    assert "nowhere.yaml" in result.output


def test_without_a_file_the_built_in_configuration_is_fine(conf: Path) -> None:
    assert run("check").output == "the built-in configuration: valid; 12 models, 1 providers\n"


def test_keys_are_made_listed_and_revoked(conf: Path) -> None:
    made = run("keys", "create", "--name", "ann", "--expires", "30d", "--models", "local-*,x", "--conf", conf)
    key = made.stdout.strip()
    assert made.exit_code == 0
    assert key.startswith("tg-")
    rows = {row["name"]: row for row in json.loads(run("keys", "list", "--json", "--conf", conf).output)}
    assert rows["ann"]["models"] == ["local-*", "x"]
    assert rows["ann"]["state"] == "active"
    assert rows["by-file"]["id"] == "conf:by-file"
    table = run("keys", "list", "--conf", conf).output
    assert key not in table
    assert rows["ann"]["id"] in table
    assert run("keys", "revoke", rows["ann"]["id"], "--conf", conf).exit_code == 0
    assert "revoked" in run("keys", "list", "--conf", conf).output


@pytest.mark.parametrize(("id_", "words"), [("key_none", "keys list"), ("conf:by-file", "keys:")])
def test_a_key_that_cannot_be_revoked_is_exit_code_1_with_a_way_out(conf: Path, id_: str, words: str) -> None:
    run("keys", "create", "--name", "ann", "--conf", conf)
    result = run("keys", "revoke", id_, "--conf", conf)
    assert result.exit_code == 1
    assert words in result.output


def test_a_time_that_cannot_be_read_is_exit_code_2(conf: Path) -> None:
    result = run("keys", "create", "--name", "x", "--expires", "soon", "--conf", conf)
    assert result.exit_code == 2
    assert "--expires" in result.output


def test_the_matrix_has_the_operations_of_providers_by_wire_format(conf: Path) -> None:
    rows = json.loads(run("plugins", "list", "--matrix", "--json", "--conf", conf).output)
    cells = {(row["provider"], row["operation"]): row["formats"] for row in rows}
    ways = {"format-anthropic": "", "format-gemini": "common", "format-openai": "common"}
    assert cells["local", "embeddings"] == ways
    assert cells["anthropic", "chat"]["format-anthropic"] == "verbatim"
    table = run("plugins", "list", "--matrix", "--conf", conf).output
    assert len(table.splitlines()) == len(rows) + 1


def test_plugins_are_listed_with_kind_state_hooks_and_operations(conf: Path) -> None:
    rows = {row["name"]: row for row in json.loads(run("plugins", "list", "--json", "--conf", conf).output)}
    assert set(rows) >= {"local", "openai", "format-openai"}
    assert rows["local"]["kind"] == "provider"
    assert (rows["local"]["state"], rows["openai"]["state"], rows["format-openai"]["state"]) == ("on", "off", "on")
    assert "translate_request" in rows["local"]["hooks"]
    assert set(rows["local"]["operations"]) >= {"chat", "count_tokens", "embeddings", "images", "moderation", "speech"}
    assert "chat" in rows["format-openai"]["operations"]
    assert len(run("plugins", "list", "--conf", conf).output.splitlines()) == len(PluginHost().plugins) + 1


def test_make_run_serves_on_another_port_when_told() -> None:
    root = Path(__file__).parent.parent.parent
    told = subprocess.run(
        ["make", "-n", "run", "PORT=9000"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert "tornado-gate serve --conf conf/gate.yaml --port 9000" in told
    usual = subprocess.run(["make", "-n", "run"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert "--port" not in usual
