"""tornado-gate alerts"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tornado_gate.cli.common import conf_option, exit_with_message, load

if TYPE_CHECKING:
    from tornado_gate.config.model import Config


@click.group(short_help="Test the receivers of alerts.")
def alerts() -> None:
    """Alerts tell an operator of budgets, open circuits, refused keys, a rejected configuration and a full spool.

    Their receivers are in the section `alerts` of the configuration: docs/deployment/alerts.md.
    """


@alerts.command(short_help="Send a test to every receiver.")
@conf_option
@click.option("--sink", "only", metavar="NAME", help="Send to this receiver only.")
def test(conf_file: Path | None, only: str | None) -> None:
    """Send a test message to each sink of the configuration, and print the result. Exit code 1 if one fails.

    \b
      tornado-gate alerts test
      tornado-gate alerts test --sink chat
    """
    _, config = load(conf_file)
    names = list(config.alerts.sinks) if only is None else [only]
    if not names:
        exit_with_message(
            "the configuration has no sinks of alerts; add one to `alerts`, as docs/deployment/alerts.md shows."
        )
    unknown = [name for name in names if name not in config.alerts.sinks]
    if unknown:
        exit_with_message(f"the configuration has no sink '{unknown[0]}'.")
    failed = False
    for name, error in asyncio.run(_send_tests(config, names)).items():
        failed = failed or bool(error)
        click.echo(f"{name} ({config.alerts.sinks[name].type}): {error or 'sent'}")
    if failed:
        raise SystemExit(1)


async def _send_tests(config: Config, names: list[str]) -> dict[str, str]:
    from tornado_gate.alerts.sending import send_test
    from tornado_gate.http.fetch import Fetcher

    fetcher = Fetcher(config.fetch)
    try:
        sinks = [config.alerts.sinks[name] for name in names]
        return dict(await send_test(fetcher, sinks, config.server.public_url))
    finally:
        await fetcher.close()
