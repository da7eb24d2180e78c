"""tornado-gate serve"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Literal

import click

from tornado_gate.cli.common import (
    conf_option,
    data_dir_option,
    exit_with_faults,
    exit_with_message,
    find_conf_file,
    list_faults,
    open_stored_conf,
)
from tornado_gate.config.stored import StoredConf
from tornado_gate.errors import ConfigError


@click.command(short_help="Run the gateway.")
@conf_option
@click.option("--host", metavar="H", help="Address to listen on. Default: 127.0.0.1, this machine only.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), help="Port. Default: 8080; 0: a free port.")
@click.option(
    "--processes", metavar="N", type=click.IntRange(0, 256), help="Number of processes. Default: 1; 0: one per core."
)
@data_dir_option
@click.option("--log-format", type=click.Choice(["json", "text"]), help="Default: text at a terminal, otherwise json.")
def serve(
    conf_file: Path | None,
    host: str | None,
    port: int | None,
    processes: int | None,
    data_dir: Path | None,
    log_format: Literal["json", "text"] | None,
) -> None:
    """Run the gateway until it receives SIGTERM or Ctrl-C.

    Options override the configuration file. If there is no API key at the first start, one is created and printed once, with
    a curl command for a first request.

    \b
      tornado-gate serve                              conf/gate.yaml, or the embedded models
      tornado-gate serve --port 9000 --processes 0    another port, one process per core

    With --conf postgresql://… the configuration is in the database (`tornado-gate conf`). While the database is away, the node
    starts with its copy in the data directory.

    SIGHUP, or a change of the file, reloads it without dropping requests; if the file is invalid, the faults are logged and the
    old configuration stays active. The same applies to the files of server.tls. SIGTERM and Ctrl-C wait for open requests; a
    second one stops immediately. SIGUSR2 starts the command again, on the same sockets, and stops this process when the new one
    serves.
    """
    gc.disable()  # imported modules are permanent; the server enables it after its start
    from tornado_gate.config import ServerConfig
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.server.process.listeners import ServeError
    from tornado_gate.server.process.process import Overrides, run

    overrides = Overrides(host=host, port=port, processes=processes, data_dir=data_dir, log_format=log_format)
    folder = data_dir or ServerConfig().data_dir
    path = open_stored_conf(conf_file, folder) if isinstance(conf_file, StoredConf) else find_conf_file(conf_file)
    try:
        try:
            run(path, overrides, click.echo)
        except ConfigError as error:
            copy = _find_copy(path, folder, error)
            if copy is None:
                raise
            run(copy, overrides, click.echo)
    except ConfigError as error:
        exit_with_faults(error, path)
    except (ServeError, DatabaseError) as error:
        exit_with_message(str(error))


def _find_copy(path: Path | None, folder: Path, error: ConfigError) -> StoredConf | None:
    """Return the copy of an earlier version if the newest version in the database has faults here; None without one."""
    from tornado_gate.server.control.conf_opening import find_usable_copy

    return find_usable_copy(path, folder, list_faults(error, path)) if isinstance(path, StoredConf) else None
