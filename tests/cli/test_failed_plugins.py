"""A plugin that cannot be imported: commands print one line, and its traceback only with --verbose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.distributions import install_module
from tests.support.gateway import run_command

CONF = (
    "plugins: {acme: true, local: true}\nproviders: {local: {plugin: local}}\nmodels: {local-chat: {provider: local}}\n"
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "gate.yaml").write_text(CONF, encoding="utf-8")
    return install_module(tmp_path / "site", "acme", "import a_library_that_nobody_has\n")


@pytest.mark.parametrize("command", [["check"], ["plugins", "list"]])
def test_a_failed_plugin_is_one_line_and_its_traceback_is_for_verbose(
    command: list[str], tmp_path: Path, environment: dict[str, str]
) -> None:
    arguments = [*command, "--conf", str(tmp_path / "gate.yaml")]
    short = run_command(*arguments, folder=tmp_path, environment=environment)
    output = short.stdout + short.stderr
    lines = [line for line in output.splitlines() if "a_library_that_nobody_has" in line]
    assert len(lines) == 1, output
    assert "Traceback" not in output
    long = run_command(*arguments, "--verbose", folder=tmp_path, environment=environment)
    assert "Traceback" in long.stdout + long.stderr
    assert long.returncode == short.returncode
