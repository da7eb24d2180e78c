"""tornado-gate keys import"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, load, parse_path, protect_storage
from tornado_gate.cli.conf_changes import make_actor

if TYPE_CHECKING:
    from tornado_gate.accounts.keys import KeyStore

MAX_BYTES: Final = 256 * 1024 * 1024
_TEAM_FIELDS: Final = frozenset({"models", "limits", "budget"})
_FIELDS: Final = frozenset({"name", "models", "operations", "addresses", "tags", "limits", "budget", "role"})
_OWN_FIELDS: Final = frozenset({"sha256", "prefix", "team", "expires"})


@click.command("import", short_help="Add keys by their hashes.")
@conf_option
@data_dir_option
@click.argument("source", metavar="FILE", callback=parse_path)
@click.option(
    "--organisation",
    metavar="N",
    default="default",
    show_default=True,
    help="The organisation of teams that do not exist yet. It is made if it does not exist.",
)
def import_keys(conf_file: Path | None, data_dir: Path | None, source: Path, organisation: str) -> None:
    """Add the keys of a file, which `tornado-gate import --keys` has written, to the database. Callers need no change.

    The file has the SHA-256 of each key, its permissions, limits, budget and team. A key or a team that exists already stays
    as it is, so the command can be repeated. Either all keys of the file are added, or none.

    \b
      tornado-gate import litellm config.yaml --database postgresql://… --output conf/gate.yaml --keys keys.json
      tornado-gate keys import keys.json --conf conf/gate.yaml
    """
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.database.engine import DatabaseError

    teams, entries = _read(source)
    _, config = load(conf_file, data_dir)
    protect_storage(config)
    try:
        with closing(KeyStore.open(config.server.data_dir, config.database)) as store:
            ids = _make_teams(store, teams, organisation)
            made = store.add_hashed(
                [{**entry, "team": ids.get(entry["team"])} for entry in entries], actor=make_actor()
            )
            name = store.database.name
    except (AccountError, DatabaseError) as error:
        exit_with_message(f"{source}: {error}")
    click.echo(f"{len(made)} keys added to {name}; {len(entries) - len(made)} were there already.")


def _read(source: Path) -> tuple[Mapping[str, Mapping[str, Any]], list[dict[str, Any]]]:
    """Return the teams by name, and the fields of the keys that have not expired. Exits with a message for a faulty file."""
    try:
        if source.exists() and not source.is_file():  # a device or a pipe may have no end
            exit_with_message(
                f"{source} is not a file; name the file that `tornado-gate import --keys FILE` has written"
            )
        if source.stat().st_size > MAX_BYTES:
            exit_with_message(f"{source} is larger than {MAX_BYTES >> 20} MiB; divide it")
        value = json.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        exit_with_message(f"{source} cannot be read: {error.strerror}")
    except (ValueError, RecursionError):
        exit_with_message(f"{source} is not JSON; name the file that `tornado-gate import --keys FILE` has written")
    teams, keys = (value.get("teams", {}), value.get("keys")) if isinstance(value, dict) else ({}, None)
    if not isinstance(teams, dict) or not isinstance(keys, list):
        exit_with_message(
            f'{source} must be {{"teams": {{…}}, "keys": […]}}, as `tornado-gate import --keys` writes it'
        )
    try:
        _check_teams(teams)
        entries = list(_parse_keys(keys, teams))
    except ValueError as error:
        exit_with_message(f"{source}: {error}")
    now = time.time()
    current = [entry for entry in entries if entry["expires"] is None or entry["expires"] > now]
    for entry in entries:
        if entry["expires"] is not None and entry["expires"] <= now:
            click.echo(f"'{entry['name']}' has expired and is left out", err=True)
    return teams, current


def _check_teams(teams: Mapping[str, Any]) -> None:
    """Raise ValueError for a team that is no mapping of known members. Their values are checked when a team is made."""
    for name, team in teams.items():
        if not isinstance(team, dict):
            raise ValueError(f"teams.{name} must be a mapping")
        if unknown := team.keys() - _TEAM_FIELDS:
            raise ValueError(f"teams.{name} has the unknown member '{min(unknown)}'")


def _parse_keys(keys: list[Any], teams: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields of each key, with its check as that of `keys create`. Raises ValueError for a faulty one."""
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.key_checks import check_fields

    for index, key in enumerate(keys):
        where = f"keys.{index}"
        if not isinstance(key, dict) or not isinstance(key.get("name"), str):
            raise ValueError(f"{where} must be a mapping with a name")
        if unknown := key.keys() - _FIELDS - _OWN_FIELDS:
            raise ValueError(f"{where} has the unknown member '{min(unknown)}'")
        if (team := key.get("team")) is not None and team not in teams:
            raise ValueError(f"{where}.team '{team}' is not in `teams` of the file; add it there")
        fields = {name: value for name, value in key.items() if name in _FIELDS}
        try:
            checked = check_fields(fields)
        except AccountError as error:
            raise ValueError(f"{where}.{error.field}: {error.message}") from None
        expires = _parse_time(key.get("expires"), where)
        prefix = str(key.get("prefix") or "")[:10]
        yield {
            **checked,
            "digest": _parse_digest(key.get("sha256"), where),
            "prefix": prefix,
            "team": team,
            "expires": expires,
        }


def _parse_digest(text: Any, where: str) -> bytes:
    try:
        digest = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise ValueError(f"{where}.sha256 must be the SHA-256 of the key: 64 hexadecimal digits")
    return digest


def _parse_time(text: Any, where: str) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(str(text))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{where}.expires must be a date such as 2027-01-31T00:00:00+00:00") from None


def _make_teams(store: KeyStore, teams: Mapping[str, Mapping[str, Any]], organisation: str) -> dict[str, str]:
    """Return the ids of the teams by name. Those that do not exist are made. Raises AccountError and DatabaseError."""
    from tornado_gate.accounts.errors import Conflict
    from tornado_gate.accounts.teams import Organisations, Teams

    rows, ids = Teams(store.database), {}
    for team in rows.list_all():
        if team.name in teams:
            if team.name in ids:
                raise Conflict(f"Two teams have the name '{team.name}'. Rename one in the console.")
            ids[team.name] = team.id
    missing = [name for name in teams if name not in ids]
    if missing:
        organisations, actor = Organisations(store.database), make_actor()
        known = {row.name: row.id for row in organisations.list_all()}
        home = known.get(organisation) or organisations.create(organisation, actor).id
        for name in missing:
            ids[name] = rows.create(home, name, actor, **teams[name]).id
    return ids
