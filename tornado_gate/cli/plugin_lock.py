"""tornado-gate plugins lock"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tornado_gate.cli.common import conf_option, exit_with_faults, exit_with_message, find_conf_file, report_path_files
from tornado_gate.errors import ConfigError

if TYPE_CHECKING:
    from tornado_gate.plugins.lock import Entries


@click.command(short_help="Write plugins.lock: the plugins that may be imported.")
@conf_option
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit code 1 if the file is not what would be written."
)
def lock(conf_file: Path | None, only_check: bool) -> None:
    """Write plugins.lock beside the configuration file: every installed plugin with its version and a hash of its files.

    While the file exists, the gateway imports no other plugins: after an update, or after somebody has changed a file, the
    plugin's models answer 503 until you have reviewed the change and run this command again. A running gateway notices the new
    file by itself. Keep the file under version control; it is the same on every machine with the same plugins. Delete the
    file, and restart the gateway, to allow all plugins.

    \b
      tornado-gate plugins lock            write the file, and print what has changed
      tornado-gate plugins lock --check    for CI: does the file fit what is installed?

    Both report .pth files in site-packages that run code at each start of Python, which no lock can prevent.
    """
    from tornado_gate.plugins.lock import compute_entries, find_distributions, get_lock_path, read_lock, write_lock

    conf = find_conf_file(conf_file)
    path = get_lock_path(conf)
    old: Entries | None = None
    try:
        written = read_lock(conf)
        old = written.entries if written else None
    except ConfigError as error:
        if only_check:
            exit_with_faults(error, path)
        click.echo(f"{path}: was invalid and is replaced", err=True)
    new, faults = compute_entries(find_distributions())
    changes = list(_list_changes(old or {}, new))
    for line in changes:
        click.echo(line)
    report_path_files()
    if only_check:
        _exit_if_different(path, old, changes, faults)
    try:
        write_lock(path, new)
    except OSError as error:
        exit_with_message(f"cannot write {path}: {error.strerror}; name your configuration file with --conf")
    click.echo(f"{path}: {len(new)} distributions")
    _exit_with_unlocked(faults)


def _list_changes(old: Entries, new: Entries) -> Iterator[str]:
    for name in sorted({*old, *new}):
        before, now = old.get(name), new.get(name)
        if now is None and before is not None:
            yield f"- {name} {before.version}: not installed"
        elif before is None and now is not None:
            yield f"+ {name} {now.version}"
        elif before is not None and now is not None and before.version != now.version:
            yield f"! {name} {before.version} -> {now.version}"
        elif before != now and now is not None:
            yield f"! {name} {now.version}: files have changed"


def _exit_if_different(path: Path, old: Entries | None, changes: list[str], faults: dict[str, str]) -> None:
    if old is None:
        exit_with_message(f"{path} does not exist; run: tornado-gate plugins lock")
    if changes:
        exit_with_message(
            f"{path} differs from what is installed; review the changes, then run: tornado-gate plugins lock"
        )
    _exit_with_unlocked(faults)
    click.echo(f"{path}: valid; {len(old)} distributions")
    raise SystemExit(0)


def _exit_with_unlocked(faults: dict[str, str]) -> None:
    """Exit with a message if there are distributions that cannot be locked."""
    if faults:
        exit_with_message(
            "; ".join(f"{name} cannot be locked: {fault}; install it again" for name, fault in faults.items())
        )
