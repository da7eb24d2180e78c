"""A new version of the configuration by a command: its check, its difference from the newest version, and its transaction."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tornado_gate import config as conf
from tornado_gate.accounts.audit import record
from tornado_gate.accounts.people import Actor
from tornado_gate.codec.secret_words import is_harmless, is_secret_name, is_secret_value, list_secrets
from tornado_gate.config import source
from tornado_gate.config.entry_edits import list_secret_names
from tornado_gate.config.faults import Fault
from tornado_gate.config.secret_store import SecretError
from tornado_gate.config.stored import StoredConf
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import migrate
from tornado_gate.errors import ConfigError
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.plugins.host import PluginHost
from tornado_gate.server.control.conf_versions import add_version, open_conf_database, read_conf, read_secrets
from tornado_gate.server.control.shared_secrets import SharedSecretStore
from tornado_gate.server.process.conf_diff import find_secret_texts, make_diff
from tornado_gate.server.process.process import Overrides, check_plugins, load_certificate, load_config
from tornado_gate.types.value import Value

SHORTEST_SECRET: Final = 8
"""The length from which a secret is searched in the text. A shorter one may be a word of it."""


class Proposal(Value, frozen=True, kw_only=True):
    """A checked text that can become a version. `base` is the number of the newest version, 0 without one.

    `diff` has no secrets. It is "" if the text is the newest one. `notes` are findings that do not prevent the version.
    """

    text: str
    old: str
    base: int
    diff: str
    notes: tuple[str, ...] = ()

    hidden_fields = frozenset({"text", "old"})


def prepare_text(where: StoredConf, text: str, name: str) -> Proposal:
    """Check a text as `tornado-gate check` does, and compare it with the newest version. `name` is its name in messages.

    Creates missing tables. Blocks. Raises ConfigError with all faults, DatabaseError.
    """
    with open_conf_database(where.address) as database:
        migrate(database)
        newest = read_conf(database, where.address)
        with database.read() as connection:
            secrets = read_secrets(connection)
    number, old = (0, "") if newest is None else (newest.number, newest.text)
    notes = _check(StoredConf.make(where.address, number, text, secrets, name=name), newest)
    return Proposal(text=text, old=old, base=number, diff=make_diff(old, text, "configuration"), notes=notes)


def _check(proposed: StoredConf, newest: StoredConf | None) -> tuple[str, ...]:
    """Return the findings about a text that are no faults. Raises ConfigError."""
    config = load_config(proposed, Overrides())
    if faults := list(_find_clear_secrets(config, proposed.text)):
        raise conf.FileFaults(faults, proposed, {path: int(path[1]) for path, _ in faults})
    if newest is not None:
        _check_lost_sections(newest, config)
    load_certificate(config)
    host = PluginHost()
    snapshot = check_plugins(config, host)
    if failed := {**host.load_deferred_modules(), **snapshot.plugins.failed}:
        lost: list[Fault] = [(("plugins", plugin), f"cannot work: {error}") for plugin, error in failed.items()]
        raise conf.FileFaults(lost, proposed, config.lines)
    off = [f"{'.'.join(map(str, path))} is inactive: {why}" for path, why in config.inactive]
    return (*conf.describe(snapshot.plugins.warnings, proposed, config.lines), *off)


def _check_lost_sections(newest: StoredConf, config: conf.Config) -> None:
    """Raise FileFaults for a text that nodes with the newest version would refuse."""
    try:
        running = load_config(newest, Overrides())
    except ConfigError:
        return  # this machine lacks something that the newest version needs
    conf.check_lost_sections(running, config)


def _find_clear_secrets(config: conf.Config, text: str) -> Iterator[Fault]:
    """Yield a fault for each line with a secret. Its key ends with the number of the line."""
    headers = [pair for provider in config.providers.values() for pair in provider.headers.items()]
    secrets = collect_secrets(config) - {value for name, value in headers if not is_secret_name(name)}
    secrets |= {value for value in find_secret_texts(text) if is_secret_value(value)}
    entries = (source.parse(text, Path()).values or {}).get("providers") or {}  # with those that are off
    texts = {value for entry in entries.values() for value in list_secrets(entry)}
    secrets |= {value for value in texts if len(value) >= SHORTEST_SECRET and not is_harmless(value)}
    for number, line in enumerate(text.splitlines(), 1):
        if any(secret in line for secret in secrets):
            yield (
                ("line", number),
                "has a secret in clear; write ${VAR}, or ${secret:NAME} with `tornado-gate secrets set NAME`",
            )


def make_version(
    where: StoredConf, database: Database, proposal: Proposal, actor: Actor, action: str, message: str
) -> int:
    """Make the version, with a row in the audit log, and return its number. Raises BaseMoved, DatabaseError."""
    with database.write() as connection:
        number = add_version(connection, proposal.text, base=proposal.base, author=actor.name, message=message)
        record(connection, actor, action, str(number), message=message, diff=proposal.diff[:2000])
    used, before = list_secret_names(proposal.text), list_secret_names(proposal.old)
    if used or before:
        with suppress(SecretError):  # the version is made; the next one records the secrets
            SharedSecretStore(where.address, os.environ).retire(used, before - used)
    return number
