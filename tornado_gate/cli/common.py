"""Options, error output and tables that several commands share."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from tornado_gate.config.model import Config
from tornado_gate.config.stored import StoredConf, is_address
from tornado_gate.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def parse_path(_context: click.Context, _option: click.Parameter, value: str | None) -> Path | None:
    """Return an option's value as a path, which need not exist."""
    if value is None:
        return None
    if not value.strip() or not value.isprintable():
        raise click.BadParameter("must be a path, not empty and without control characters")
    try:
        Path(value).stat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # the command itself reports it, or creates it
    except OSError as error:
        raise click.BadParameter(f"cannot be used: {error.strerror}") from None
    return Path(value)


def parse_folder(context: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """Return an option's value as the path of a folder, which need not exist."""
    path = parse_path(context, option, value)
    if path is not None and os.path.lexists(path) and not path.is_dir():
        raise click.BadParameter("must be a folder; this is a file")
    return path


def parse_conf(context: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """Return --conf as a path; the address of a database as a `StoredConf` that is not read yet."""
    if value is None or not is_address(value):
        return parse_path(context, option, value)
    from tornado_gate.database.engine import parse_address

    try:
        parse_address(value)
    except ValueError as error:
        raise click.BadParameter(f"the address of a database {error}") from None
    return StoredConf.make(value)


def conf_option(command: F) -> F:
    """Add --conf to a command: a file, or the database that has the configuration."""
    return click.option(
        "--conf",
        "conf_file",
        metavar="FILE",
        callback=parse_conf,
        envvar="TORNADO_GATE_CONF",
        show_envvar=True,
        help="The configuration file, or the PostgreSQL database that has it. Default: conf/gate.yaml if it exists.",
    )(command)


def data_dir_option(command: F) -> F:
    """Add --data-dir DIR to a command that uses the gateway's data directory."""
    return click.option(
        "--data-dir",
        metavar="DIR",
        callback=parse_folder,
        help="The gateway's data directory. Overrides server.data_dir of the configuration.",
    )(command)


def verbose_option(command: F) -> F:
    """Add --verbose to a command that imports plugins. Without it the traceback of a failed plugin is not printed."""
    return click.option(
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_hide_tracebacks,
        help="Also print the traceback of a plugin that fails.",
    )(command)


def _hide_tracebacks(_context: click.Context, _option: click.Parameter, is_verbose: bool) -> None:
    """Discard the log of failed plugins, which the command reports in one line each."""
    if not is_verbose:
        logging.getLogger("tornado_gate.plugins.host").addHandler(logging.NullHandler())


def find_conf_file(conf_file: Path | None) -> Path | None:
    """Return the configuration file, or None. Exits with a message if the given file does not exist.

    For a database return the newest version of its configuration.
    """
    from tornado_gate import config as conf

    if isinstance(conf_file, StoredConf):
        return open_stored_conf(conf_file)
    try:
        return conf.find_conf(str(conf_file) if conf_file else None)
    except ConfigError as error:
        exit_with_faults(error, conf_file)


def open_stored_conf(conf: StoredConf, serve_from: Path | None = None) -> StoredConf:
    """Return the newest version of a configuration in a database. Exits with a message if there is none.

    With `serve_from`, the data directory of a node that starts, its copy is used while the database is away.
    """
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.server.control.conf_opening import open_newest, open_to_serve

    try:
        return open_newest(conf) if serve_from is None else open_to_serve(conf, serve_from)
    except DatabaseError as error:
        exit_with_message(str(error))
    except ConfigError as error:
        exit_with_faults(error, None)


def load(conf_file: Path | None, data_dir: Path | None = None) -> tuple[Path | None, Config]:
    """Return the checked configuration. Exits with a list of all faults if it is invalid."""
    from tornado_gate.server.process.process import Overrides, load_config

    path = find_conf_file(conf_file)
    try:
        return path, load_config(path, Overrides(data_dir=data_dir), os.environ)
    except ConfigError as error:
        exit_with_faults(error, path)


def load_for_storage(conf_file: Path | None, data_dir: Path | None) -> Config:
    """Load as `load` does, and call `protect_storage`, for a command that writes below the data directory."""
    _, config = load(conf_file, data_dir)
    protect_storage(config)
    return config


def protect_storage(config: Config) -> None:
    """Let only this user access the data directory, which is created. Exits with a message if it must not be used."""
    from tornado_gate.storage.private import DataDirError, protect_data_dir

    try:
        protect_data_dir(config.server.data_dir)
    except DataDirError as error:
        exit_with_message(str(error))


def exit_with_faults(error: ConfigError, path: Path | None, *, to_stdout: bool = False) -> NoReturn:
    """Print every fault and exit with code 1."""
    for line in list_faults(error, path):
        click.echo(line, err=not to_stdout)
    raise SystemExit(1)


def list_faults(error: ConfigError, path: Path | None) -> list[str]:
    """Return a line for each fault."""
    from tornado_gate.config import FileFaults, describe

    return error.report() if isinstance(error, FileFaults) else describe(error.faults, path, {})


def exit_with_message(message: str) -> NoReturn:
    """Print an error message and exit with code 1."""
    click.echo(f"tornado-gate: {message}", err=True)
    raise SystemExit(1)


def format_table(headings: list[str], rows: list[list[str]]) -> str:
    """Return a table with aligned columns."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [headings, *rows]
    ]
    return "\n".join(lines)


def report_path_files() -> None:
    """Print a warning for each ``.pth`` file that runs code at each start of Python, or that belongs to no installed
    package.
    """
    from tornado_gate.plugins.path_files import find_path_files

    for path_file in find_path_files():
        click.echo(f"warning: {path_file.describe()}", err=True)
