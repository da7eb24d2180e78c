"""tornado-gate tasks webhook-secret"""

from __future__ import annotations

from pathlib import Path

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, load_for_storage


@click.command("webhook-secret", short_help="Show or rotate the secret that an account's webhooks are signed with.")
@conf_option
@data_dir_option
@click.option("--account", required=True, metavar="A", help="The account, as in `tornado-gate keys list --json`.")
@click.option("--rotate", is_flag=True, help="Create a new secret; the previous one stays valid for 24 hours.")
@click.option("--off", is_flag=True, help="Send no webhooks of this account, until its secret is rotated.")
def webhook_secret(conf_file: Path | None, data_dir: Path | None, account: str, rotate: bool, off: bool) -> None:
    """Print the secret with which the webhooks of an account are signed; give it to the receiver of the webhooks.

    Each account has its own secret, which is created when it is first needed. Running servers use a new secret
    immediately. For 24 hours after a rotation each webhook has two signatures, with the new and the previous secret:

    \b
      tornado-gate tasks webhook-secret --account research --rotate
    """
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.database.opening import open_database
    from tornado_gate.tasks.opening import make_webhook_secrets
    from tornado_gate.tasks.webhook_secrets import WebhookSecretError

    if rotate and off:
        raise click.UsageError("--rotate and --off exclude each other.")
    config = load_for_storage(conf_file, data_dir)
    try:
        store = make_webhook_secrets(config, lambda: open_database(config.server.data_dir, config.database))
    except DatabaseError as error:
        exit_with_message(str(error))
    try:
        if off:
            store.turn_off(account)
        elif rotate:
            store.rotate(account)
        secrets = store.get(account)
    except WebhookSecretError as error:
        exit_with_message(str(error))
    finally:
        store.close()
    if secrets:
        click.echo(secrets[0])
    else:
        click.echo(f"The webhooks of the account '{account}' are off; --rotate turns them on.", err=True)
