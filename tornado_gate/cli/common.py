"""What several commands share: the --conf option, and how a failure is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from tornado_gate.config.model import Config
from tornado_gate.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def conf_option(command: F) -> F:
    """--conf FILE, the same for every command that reads conf."""
    return click.option(
        "--conf",
        "conf_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        envvar="TORNADO_GATE_CONF",
        show_envvar=True,
        help="The configuration. Default: conf/gate.yaml when it is there.",
    )(command)


def data_dir_option(command: F) -> F:
    """--data-dir DIR, for commands that touch what the gateway writes."""
    return click.option(
        "--data-dir",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="Where the gateway keeps what it writes. Beats server.data_dir of the configuration.",
    )(command)


def find(conf_file: Path | None) -> Path | None:
    """The file to read, or None. Ends the command when the one that was named is not there."""
    from tornado_gate import config as conf

    try:
        return conf.find_conf(str(conf_file) if conf_file else None)
    except ConfigError as error:
        exit_with_faults(error, conf_file)


def load(conf_file: Path | None, data_dir: Path | None = None) -> tuple[Path | None, Config]:
    """The checked configuration. Ends the command with every fault when it is wrong."""
    from tornado_gate.server.process import Overrides, load_config

    path = find(conf_file)
    try:
        return path, load_config(path, Overrides(data_dir=data_dir), os.environ)
    except ConfigError as error:
        exit_with_faults(error, path)


def exit_with_faults(error: ConfigError, path: Path | None, *, to_stdout: bool = False) -> NoReturn:
    """Say every fault, and end with exit code 1."""
    from tornado_gate.config import FileFaults, describe

    lines = error.report() if isinstance(error, FileFaults) else describe(error.faults, path, {})
    for line in lines:
        click.echo(line, err=not to_stdout)
    raise SystemExit(1)


def exit_with_message(message: str) -> NoReturn:
    """Say why it cannot be done, and end with exit code 1."""
    click.echo(f"tornado-gate: {message}", err=True)
    raise SystemExit(1)


def format_table(headings: list[str], rows: list[list[str]]) -> str:
    """Columns under headings, as wide as they need to be."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [headings, *rows]
    ]
    return "\n".join(lines)
