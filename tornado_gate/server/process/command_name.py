"""The command line with which a user can run another command of the gateway. It works when it is pasted into a shell."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from tornado_gate.config.stored import StoredConf

COMMAND = "tornado-gate"


def format_command(arguments: str, conf: Path | None = None, data_dir: Path | None = None) -> str:
    """Return the command line for `arguments` with the same configuration file and data directory."""
    words = [get_command_name(), arguments]
    for option, path in (("--conf", conf), ("--data-dir", data_dir)):
        if path is not None and not isinstance(
            path, StoredConf
        ):  # its address is in TORNADO_GATE_CONF, with a password
            words.append(f"{option} {shlex.quote(str(path))}")
    return " ".join(words)


def get_command_name() -> str:
    """Return ``tornado-gate`` if a shell finds this installation under that name.

    Otherwise return the path of the command or ``python -m``.
    """
    started = Path(sys.argv[0])
    if started.name != COMMAND or not started.is_file():
        return f"{shlex.quote(_shorten(Path(sys.executable)))} -m tornado_gate"
    path = shutil.which(COMMAND)
    if path is not None and os.path.samefile(path, started):
        return COMMAND
    return shlex.quote(_shorten(started))


def _shorten(path: Path) -> str:
    """Return an absolute path, or a relative one if it is below the current folder."""
    absolute = path.absolute()
    try:
        return str(absolute.relative_to(Path.cwd()))
    except ValueError:
        return str(absolute)
