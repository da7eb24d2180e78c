"""Whatever the arguments are, a command says what is wrong: no traceback, no data folder, an exit code that scripts can use."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.gateway import COMMAND
from tests.support.variants import choose, vary
from tornado_gate.cli import cli

CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-chat: {provider: local}}
"""
NONSENSE = [
    "", " ", "\t", "\n", ",", ",,", "x" * 200, "x" * 100_000, "0", "-1", "1.5", "1e400", "nan", "null", "true", "☃", "\u202e",
    "\x00", "\x1b[31m", "\udcff", "..", "/", "/dev/null", "/dev/full", "no/such/place", "a folder", "9999999999999999999999",
    "0d", "99999w", "30 d", "2020-01-01", "9999-12-31", "0001-01-01", "2027-13-45", "2027-01-31T25:00", "*", "**", "[a-z]",
    "%s", "{}", "--", "chatt", "conf/gate.yaml/x", "/proc/1/root", "/proc/self/mem",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, where every command is run; `serve` does not serve, and nothing is written elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "a folder").mkdir()
    (tmp_path / "conf" / "gate.yaml").write_text(CONF, encoding="utf-8")
    monkeypatch.setattr("tornado_gate.server.process.process.run", lambda *_: None)
    monkeypatch.setattr("tornado_gate.cli.plugin_new._write_files", lambda *_: None)
    monkeypatch.setattr("tornado_gate.plugins.lock.write_lock", lambda *_: None)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="tornado-gate")


def list_commands(group: click.Group, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name, command in group.commands.items():
        inner = (*words, name)
        found += list_commands(command, inner) if isinstance(command, click.Group) else [(inner, command)]
    return found


def required_arguments(command: click.Command, besides: click.Parameter) -> list[str]:
    """Sound values for what the command cannot do without."""
    words: list[str] = []
    for parameter in command.params:
        if parameter is not besides and parameter.required:
            words += [parameter.opts[0], "x"] if isinstance(parameter, click.Option) else ["x"]
    return words


COMMANDS = list_commands(cli)
CASES = [
    (words, command, parameter)
    for words, command in COMMANDS
    for parameter in command.params
    if not getattr(parameter, "is_flag", False)
]


def check_result(result: Result, what: object) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), (what, result.exception)
    assert result.exit_code in (0, 1, 2), what
    if result.exit_code:
        assert result.output.strip(), what
    assert "Traceback" not in result.output, what
    assert "\x1b" not in result.output.replace("\x1b[0m", ""), what


@pytest.mark.parametrize(
    ("words", "command", "parameter"),
    choose(CASES, CASES[::6]),
    ids=[f"{' '.join(words)} {one.name}" for words, _, one in CASES],
)
def test_any_value_of_any_option(
    folder: Path, words: tuple[str, ...], command: click.Command, parameter: click.Parameter
) -> None:
    for value in NONSENSE:
        given = [parameter.opts[0], value] if isinstance(parameter, click.Option) else ["--", value]
        check_result(run(*words, *required_arguments(command, parameter), *given), (words, given))


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_unknown_options_and_too_many_arguments_are_exit_code_2(words: tuple[str, ...], command: click.Command) -> None:
    for extra in (["--nonsense"], ["-x"], ["one", "two", "three"]):
        assert run(*words, *extra).exit_code == 2, (words, extra)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--name", "", "must have 1 to 100 characters"),
        ("--name", "x" * 200, "must have 1 to 100 characters"),
        ("--name", "a\nb", "must not contain control characters"),
        ("--account", "", "must have 1 to 100 characters"),
        ("--operations", "chatt", "unknown operation 'chatt'; did you mean 'chat'?"),
        ("--operations", "chat,Images", "unknown operation 'Images'"),
        ("--operations", "", "has an empty entry; leave the option out to allow all"),
        ("--models", "", "has an empty entry; leave the option out to allow all"),
        ("--models", "a,,b", "has an empty entry"),
        ("--expires", "", "is neither a duration such as 90s"),
        ("--expires", "soon", "is neither a duration such as 90s"),
        ("--expires", "2020-01-01", "is not in the future"),
        ("--expires", "0d", "is not in the future"),
        ("--expires", "5M", "is neither a duration such as 90s"),
        ("--models", "a b", "must not contain spaces"),
        ("--addresses", "10.1.2.3/8", "write 10.0.0.0/8, or the address alone"),
        ("--addresses", "nowhere", "must be an address or a network"),
        ("--tags", "a,,b", "has an empty entry"),
        ("--limit", "60", "'60' is not understood; write for example requests=60/m,tokens=100000/m,concurrent=10"),
        ("--limit", "requests=60/d", "'requests=60/d' is not understood"),
        ("--limit", "requests=1.5/m", "needs a whole number"),
        ("--limit", "requests=0/m", "must be 1 or more"),
        ("--limit", "requests=1/m,requests=2/min", "is the second value of requests_per_minute"),
        ("--budget", "", "'' is not understood; write for example 5/d,100/mo,tokens=1000000/d"),
        ("--budget", "5", "'5' is not understood"),
        ("--budget", "5/m", "'5/m' is not understood"),
        ("--budget", "1.2.3/d", "needs a number"),
        ("--budget", "99999999999999/d", "must be a number of US dollars from 0 to"),
        ("--requests-per-minute", "0", "must be 1 or more"),
        ("--requests-per-minute", "many", "is not a valid integer"),
        ("--budget-usd-per-day", "nan", "must be a number of US dollars"),
        ("--budget-usd-per-day", "-1", "must be a number of US dollars"),
        ("--budget-tokens-per-day", "99999999999999999999", "fit into 64 bits"),
        ("--role", "root", "is not one of 'member', 'administrator'"),
    ],
)
def test_a_key_that_nobody_could_use_is_not_created(folder: Path, option: str, value: str, words: str) -> None:
    result = run("keys", "create", *([] if option == "--name" else ["--name", "ann"]), option, value)
    assert result.exit_code == 2
    assert words in result.output
    assert option in result.output
    assert not (folder / "var").exists()


def test_a_glob_that_matches_no_model_is_warned_about_and_the_place_of_the_store_is_said(folder: Path) -> None:
    result = run("keys", "create", "--name", "ann", "--models", "gpt-*,local-*")
    assert result.exit_code == 0
    assert "warning: 'gpt-*' matches no model" in result.stderr
    assert "local-*" not in result.stderr
    assert str(folder / "var" / "gate.db") in result.stderr
    assert result.stdout.startswith("tg-")


@pytest.mark.parametrize("command", [["list"], ["list", "--json"], ["revoke", "key_1"]])
@pytest.mark.parametrize("place", [[], ["--data-dir", "a folder"], ["--data-dir", "no/such/place"]])
def test_a_command_in_the_wrong_folder_says_so_and_creates_nothing(
    folder: Path, command: list[str], place: list[str]
) -> None:
    before = sorted(folder.rglob("*"))
    result = run("keys", *command, *place)
    assert result.exit_code == 1
    store = folder / (place[1] if place else "var") / "gate.db"
    assert f"there is no key store at {store}" in result.stderr
    assert "--data-dir" in result.stderr
    assert sorted(folder.rglob("*")) == before


def test_keys_of_the_file_are_listed_without_a_store(folder: Path) -> None:
    with (folder / "conf" / "gate.yaml").open("a", encoding="utf-8") as file:
        file.write("keys: [{name: by-file, key: a-key-by-file-0123}]\n")
    result = run("keys", "list")
    assert "conf:by-file" in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("on_path", "how"), vary((True, "command"), (True, "module"), (False, "command"), (False, "module"))
)
def test_hints_name_a_command_that_works_as_pasted(folder: Path, on_path: bool, how: str) -> None:
    environment = {**os.environ, "PATH": f"{COMMAND.parent}:/usr/bin:/bin" if on_path else "/usr/bin:/bin"}
    python = str(COMMAND.with_name("python"))
    command = [str(COMMAND)] if how == "command" else [python, "-m", "tornado_gate"]
    done = subprocess.run(
        [*command, "keys", "list", "--data-dir", "a folder"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    hint = done.stderr.split("`")[1].replace("NAME", "ann")
    assert hint.startswith("tornado-gate ") is (on_path and how == "command")
    pasted = subprocess.run(["sh", "-c", hint], env=environment, capture_output=True, text=True, check=False)
    assert pasted.stdout.startswith("tg-"), pasted.stderr
    assert (folder / "a folder" / "gate.db").exists()
