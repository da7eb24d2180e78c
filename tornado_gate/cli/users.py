"""tornado-gate users"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, format_table, load, protect_storage
from tornado_gate.server.process.command_name import format_command

if TYPE_CHECKING:
    from tornado_gate.accounts.accounts import Accounts
    from tornado_gate.accounts.people import User
    from tornado_gate.config.model import Config

F = TypeVar("F", bound=Callable[..., Any])

RESET_PATH = "/console/reset"
PAGE = 500


@click.group(short_help="List users, create administrators, make reset links.")
def users() -> None:
    """Manage the accounts of people, who sign in to the console. Changes take effect in running servers within a second.

    \b
      tornado-gate users create-administrator ann@example.org    prints a link that sets the password
      tornado-gate users reset-link ann@example.org              prints a link that sets a new password
    """


def _email_argument(command: F) -> F:
    return click.argument("email", callback=_parse_email)(command)


def _parse_email(_context: click.Context, _option: click.Parameter, value: str) -> str:
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.texts import check_email

    try:
        return check_email(value)
    except AccountError as error:
        raise click.BadParameter(error.message) from None


@contextmanager
def open_accounts(
    conf_file: Path | None, data_dir: Path | None, *, create: bool = False
) -> Iterator[tuple[Accounts, Config]]:
    """Yield the accounts. Exits with a message for a refused change. Without `create` a missing database is an error."""
    from tornado_gate.accounts.accounts import Accounts
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.database.opening import open_database, open_existing_database

    _, config = load(conf_file, data_dir)
    folder = config.server.data_dir
    if create or folder.is_dir():
        protect_storage(config)
    try:
        database = (open_database if create else open_existing_database)(folder, config.database)
        if database is None:
            command = format_command("users create-administrator EMAIL", conf_file, data_dir)
            exit_with_message(
                f"there is no database in {folder.absolute()}. Name the gateway's folder with --data-dir, or its configuration "
                f"with --conf; `{command}` creates a database."
            )
        try:
            yield Accounts(database, session_seconds=config.console.session_seconds), config
        finally:
            database.close()
    except AccountError as error:
        exit_with_message(error.message)
    except DatabaseError as error:
        exit_with_message(str(error))


def _find_user(accounts: Accounts, email: str) -> User:
    user = accounts.users.find_user(email)
    if user is None:
        exit_with_message(f"there is no account for {email}. `{format_command('users list')}` lists all.")
    return user


def _print_link(config: Config, token: str) -> None:
    """Print the link on stdout, for scripts, and its purpose on stderr."""
    server = config.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    base = server.public_url or f"{server.scheme}://{host or '127.0.0.1'}:{server.port}"
    click.echo("This link sets the password, once, within 24 hours:", err=True)
    click.echo(f"{base}{RESET_PATH}?token={token}")


@users.command(name="list", short_help="List users.")
@conf_option
@data_dir_option
@click.option("--search", default="", metavar="TEXT", help="Only users whose e-mail or name contains TEXT.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_users(conf_file: Path | None, data_dir: Path | None, search: str, as_json: bool) -> None:
    """List users: e-mail, name, role, state and last sign-in. Times are UTC.

    \b
      tornado-gate users list --search example.org
    """
    rows: list[dict[str, str]] = []
    with open_accounts(conf_file, data_dir) as (accounts, _):
        while True:
            page, total = accounts.users.list_page(search=search, offset=len(rows), limit=PAGE)
            rows += [_describe_user(user) for user in page]
            if not page or len(rows) >= total:
                break
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    columns = ["email", "name", "role", "state", "created", "last_login", "id"]
    headings = [column.upper().replace("_", " ") for column in columns]
    click.echo(format_table(headings, [[row[column] or "-" for column in columns] for row in rows]))


def _describe_user(user: User) -> dict[str, str]:
    return {
        "id": user.id,
        "email": user.email,
        "name": user.name,
        "role": user.role,
        "state": user.state,
        "created": _format_time(user.created),
        "last_login": _format_time(user.last_login),
    }


def _format_time(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds)) if seconds else ""


@users.command(short_help="Create an administrator.")
@conf_option
@data_dir_option
@click.option("--name", default="", metavar="N", help="The name of the person.")
@_email_argument
def create_administrator(conf_file: Path | None, data_dir: Path | None, name: str, email: str) -> None:
    """Create an administrator, and print a link that sets the password. It is valid once, for 24 hours.

    For the first account this is the alternative to the set-up token that the server prints at its start.

    \b
      tornado-gate users create-administrator ann@example.org --name Ann
    """
    from tornado_gate.accounts.people import COMMAND

    with open_accounts(conf_file, data_dir, create=True) as (accounts, config):
        user = accounts.sign_up.create_administrator(email, COMMAND, name=name)
        click.echo(f"{user.id} created for {user.email}, an administrator.", err=True)
        _print_link(config, accounts.reset_links.create(user.id, COMMAND))


@users.command(short_help="Make a link that sets a new password.")
@conf_option
@data_dir_option
@_email_argument
def reset_link(conf_file: Path | None, data_dir: Path | None, email: str) -> None:
    """Print a link that sets a new password, once, within 24 hours. Earlier links end; sessions end when it is used.

    \b
      tornado-gate users reset-link ann@example.org
    """
    from tornado_gate.accounts.people import COMMAND

    with open_accounts(conf_file, data_dir) as (accounts, config):
        _print_link(config, accounts.reset_links.create(_find_user(accounts, email).id, COMMAND))


@users.command(short_help="Disable a user.")
@conf_option
@data_dir_option
@_email_argument
def disable(conf_file: Path | None, data_dir: Path | None, email: str) -> None:
    """Disable a user: sessions end, keys are refused, and signing in is impossible, until the user is enabled again.

    \b
      tornado-gate users disable ann@example.org
    """
    _set_state(conf_file, data_dir, email, "disabled")


@users.command(short_help="Enable a disabled user.")
@conf_option
@data_dir_option
@_email_argument
def enable(conf_file: Path | None, data_dir: Path | None, email: str) -> None:
    """Enable a disabled user. Keys work again within a second; the user has to sign in again.

    \b
      tornado-gate users enable ann@example.org
    """
    _set_state(conf_file, data_dir, email, "active")


def _set_state(conf_file: Path | None, data_dir: Path | None, email: str, state: Any) -> None:
    from tornado_gate.accounts.people import COMMAND

    with open_accounts(conf_file, data_dir) as (accounts, _):
        user = accounts.users.set_state(_find_user(accounts, email).id, state, COMMAND)
        click.echo(f"{user.email} is {user.state}.", err=True)


@users.command(short_help="Limit all keys of a user together.")
@conf_option
@data_dir_option
@click.option(
    "--limit", default=None, metavar="L", help='Such as "requests=60/m,tokens=100k/m,concurrent=10"; "" for none.'
)
@click.option("--budget", default=None, metavar="B", help='Such as "5/d,100/mo,tokens=1M/d"; "" for none.')
@_email_argument
def limit(conf_file: Path | None, data_dir: Path | None, limit: str | None, budget: str | None, email: str) -> None:
    """Set the limits and the budget that all keys of a user share. An omitted option changes nothing.

    \b
      tornado-gate users limit ann@example.org --limit requests=60/m --budget 5/d
    """
    from tornado_gate.accounts.bound_texts import parse_budget, parse_limits
    from tornado_gate.accounts.people import COMMAND

    try:
        limits = None if limit is None else parse_limits(limit) if limit else {}
        spending = None if budget is None else parse_budget(budget) if budget else {}
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with open_accounts(conf_file, data_dir) as (accounts, _):
        user = accounts.users.set_bounds(_find_user(accounts, email).id, COMMAND, limits=limits, budget=spending)
        bounds = {**user.limits, **user.budget}
        shown = ", ".join(f"{name} {value:.15g}" for name, value in bounds.items()) or "no bounds"
        click.echo(f"{user.email}: {shown}.", err=True)
