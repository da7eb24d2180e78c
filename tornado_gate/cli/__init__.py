"""The command line. Each command imports what it needs when it runs, so that `--help` and `--version` answer at once."""

from __future__ import annotations

import sys

import click

from tornado_gate._version import __version__
from tornado_gate.cli.check import check
from tornado_gate.cli.keys import keys
from tornado_gate.cli.plugins import plugins
from tornado_gate.cli.serve import serve
from tornado_gate.cli.tasks import tasks

EXIT_CODES = """\b
Exit codes:
  0  done
  1  it could not be done; what is wrong stands on stderr (`check`: on stdout)
  2  the command line was wrong
"""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="tornado-gate")
def cli() -> None:
    """One server between applications and the makers of AI models.

    Start it, and it prints a line that you can paste into another terminal:

    \b
      tornado-gate serve

    Without --conf, conf/gate.yaml is read when it is there; else the embedded `local` models are served. Then:

    \b
      tornado-gate check                     is my configuration right?
      tornado-gate plugins list              which providers and wire formats are installed?
      tornado-gate keys create --name ann    make an API key
    """


for command in (serve, check, plugins, keys, tasks):
    cli.add_command(command)


def main() -> None:
    """The entry point of the `tornado-gate` command."""
    try:
        cli.main(prog_name="tornado-gate")
    except BrokenPipeError:  # the reader of our output left, as `head` does
        sys.stderr.close()
        sys.exit(1)
