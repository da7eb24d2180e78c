"""An import in this process, and its configuration in a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from tornado_gate.cli import cli

FILES = Path(__file__).with_name("files")


def run(*arguments: str | Path, variables: dict[str, str] | None = None) -> Result:
    runner = CliRunner(env=variables)
    return runner.invoke(cli, [str(argument) for argument in arguments], prog_name="tornado-gate")


def import_conf(source: str, file: Path) -> tuple[Result, dict[str, Any]]:
    """Import a file and return the result of the command and the sections of the configuration beside it."""
    output = file.with_name("imported.yaml")
    result = run("import", source, file, "--output", output, "--force")
    return result, yaml.safe_load(output.read_text(encoding="utf-8")) if output.exists() else {}


def write_with_upstream(name: str, folder: Path, url: str) -> Path:
    """Copy a file of `files`, with the address of an upstream."""
    file = folder / name
    file.write_text((FILES / name).read_text(encoding="utf-8").replace("UPSTREAM", url), encoding="utf-8")
    return file
