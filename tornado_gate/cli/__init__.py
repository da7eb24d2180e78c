"""The command line. Each command imports its modules when it runs, so that `--help` and `--version` are fast."""

from __future__ import annotations

import sys

import click

from tornado_gate._version import __version__
from tornado_gate.cli.alerts import alerts
from tornado_gate.cli.check import check
from tornado_gate.cli.conf import conf
from tornado_gate.cli.database import database
from tornado_gate.cli.explain import explain
from tornado_gate.cli.import_command import import_
from tornado_gate.cli.keys import keys
from tornado_gate.cli.limits import limits
from tornado_gate.cli.models import models
from tornado_gate.cli.nodes import nodes
from tornado_gate.cli.plan import plan
from tornado_gate.cli.plugins import plugins
from tornado_gate.cli.providers import providers
from tornado_gate.cli.replay import replay
from tornado_gate.cli.secrets import secrets
from tornado_gate.cli.selftest_command import selftest
from tornado_gate.cli.serve import serve
from tornado_gate.cli.tapes import tapes
from tornado_gate.cli.tasks import tasks
from tornado_gate.cli.usage import usage
from tornado_gate.cli.users import users

EXIT_CODES = """\b
Exit codes:
  0  done
  1  failed; the error is printed to stderr (`check`: to stdout)
  2  invalid command line; `import`: written, but something could not be carried;
     `replay`: the tape cannot be replayed
"""

COMMAND_EXIT_CODES = "Exit codes: 0 done; 1 failed, with the reason on stderr; 2 invalid command line."
"""The end of the help of each command that does not state its own."""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="tornado-gate")
def cli() -> None:
    """Run and manage tornado-gate, a gateway between applications and providers of AI models.

    At its first start it prints an API key and a curl command for a first request:

    \b
      tornado-gate serve

    Without --conf, conf/gate.yaml is read if it exists; otherwise the embedded `local` models are served. Other commands:

    \b
      tornado-gate check --online            check the configuration, and ask every provider
      tornado-gate plan new.yaml             show what another configuration would change
      tornado-gate explain MODEL             show which targets a request gets
      tornado-gate import litellm FILE       write a configuration from that of another gateway
      tornado-gate replay TAPE               replay a recorded request, and compare
      tornado-gate selftest                  call every route with the embedded models
      tornado-gate plugins list              list installed providers and wire formats
      tornado-gate providers add NAME ...    add an account at a vendor
      tornado-gate models show NAME          show what a model accepts, and the sources
      tornado-gate keys create --name ann    create an API key
      tornado-gate usage --group-by model    show what was used and what it cost
      tornado-gate conf push gate.yaml       keep the configuration of several nodes in their database
      tornado-gate database copy             copy accounts and usage of one machine to PostgreSQL
    """


for command in (
    serve,
    check,
    plugins,
    providers,
    models,
    secrets,
    keys,
    users,
    limits,
    usage,
    tasks,
    alerts,
    nodes,
    conf,
    database,
):
    cli.add_command(command)
for command in (import_, plan, explain, selftest, tapes, replay):
    cli.add_command(command)


def state_exit_codes(group: click.Group) -> None:
    """Add the exit codes to the help of each command below `group` that does not state its own."""
    for command in group.commands.values():
        if isinstance(command, click.Group):
            state_exit_codes(command)
        elif command.epilog is None and "xit code" not in (command.help or ""):
            command.epilog = COMMAND_EXIT_CODES


state_exit_codes(cli)


def main() -> None:
    """The entry point of the `tornado-gate` command."""
    try:
        cli.main(prog_name="tornado-gate")
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        sys.stderr.close()
        sys.exit(1)
