"""A change of the configuration file that an administrator reviews before it is applied: a plugin on or off.

A review shows the diff and the result of `tornado-gate check` for the new text. The change is applied only to the reviewed text,
in one step, and takes effect by the usual reload. Blocks: call it in a thread.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tornado_gate import config as conf
from tornado_gate.config import edit
from tornado_gate.config.edit import EditRefused
from tornado_gate.config.model import Config
from tornado_gate.errors import ConfigError
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.plugins.host import PluginHost
from tornado_gate.server.process.conf_diff import find_secret_texts, make_diff
from tornado_gate.telemetry.redaction import Scrubber
from tornado_gate.types.value import Value

_UNSET: Final = re.compile(r"environment variable ([A-Za-z_][A-Za-z0-9_]*) is not set")


class Review(Value, frozen=True, kw_only=True):
    """A change before it is applied. `digest` is the digest of the file's content.

    `refusal` is the reason why the change cannot be applied here, "" if it can; then a person may add `lines` to the file.
    `faults` are lines of `tornado-gate check` about the new text: with one the change is not applied. `unset` are the environment
    variables that they miss. `lost` are models that work now and would not be in the new configuration. `notes` are findings
    that do not prevent the change.
    """

    plugin: str
    on: bool
    file: str
    lines: str
    diff: str = ""
    digest: str = ""
    faults: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def is_applicable(self) -> bool:
        return bool(self.diff) and not self.faults and not self.refusal


class ChangeRefused(Exception):
    """An error: the change was not applied. The message has the reason."""


def review_plugin(config: Config, plugin: str, *, on: bool) -> Review:
    """Review a change of the file of a running configuration. Never raises."""
    lines = edit.make_lines(plugin, on=on)
    if config.path is None:
        why = "The gateway runs without a configuration file. Create one with these lines and name it with --conf FILE."
        return Review(plugin=plugin, on=on, file="", lines=lines, refusal=why)
    try:
        content = config.path.read_bytes()
        text = content.decode()
        edited = edit.set_plugin(text, plugin, on=on)
    except (OSError, UnicodeDecodeError, EditRefused) as error:
        return Review(plugin=plugin, on=on, file=str(config.path), lines=lines, refusal=_explain(error))
    scrubber = Scrubber(find_secret_texts(edited) | collect_secrets(config))
    checked = _check(config, edited, plugin) if edited != text else _Check()
    return Review(
        plugin=plugin,
        on=on,
        file=str(config.path),
        lines=lines,
        diff=make_diff(text, edited, config.path.name),
        digest=_digest(content),
        faults=_scrub(scrubber, checked.faults),
        unset=tuple(dict.fromkeys(_UNSET.findall("\n".join(checked.faults)))),
        lost=checked.lost,
        notes=_scrub(scrubber, checked.notes),
        refusal=_find_obstacle(config.path),
    )


def apply_plugin(config: Config, plugin: str, *, on: bool, digest: str) -> Review:
    """Check and apply a change to the file whose content had `digest` when it was reviewed. Raises ChangeRefused."""
    if config.path is None:
        raise ChangeRefused("The gateway runs without a configuration file.")
    path = config.path.resolve()
    try:
        with _lock(path.parent):
            review = review_plugin(config, plugin, on=on)
            if review.refusal:
                raise ChangeRefused(review.refusal)
            if review.digest != digest:
                raise ChangeRefused("The file has changed since you reviewed the change. Review it again.")
            if review.faults:
                raise ChangeRefused("The new text has faults, so the file was not changed.")
            if review.diff:
                old = path.read_bytes()
                if _digest(old) != digest:
                    raise ChangeRefused("The file has changed since you reviewed the change. Review it again.")
                _replace(path, edit.set_plugin(old.decode(), plugin, on=on).encode())
    except (OSError, EditRefused) as error:
        raise ChangeRefused(_explain(error)) from error
    return review


def _explain(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"The file cannot be read or written: {error.strerror or error}."
    if isinstance(error, UnicodeDecodeError):
        return "The file is not UTF-8."
    return str(error)


def _scrub(scrubber: Scrubber, lines: Iterable[str]) -> tuple[str, ...]:
    """Mask the settings that a plugin's message may repeat."""
    return tuple(scrubber.scrub_text(line) for line in lines)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Check(Value, frozen=True, kw_only=True):
    """The findings about a text, as in `Review`."""

    faults: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _check(running: Config, text: str, plugin: str) -> _Check:
    """Return the findings about a text for the file of `running`, as `tornado-gate check` finds them.

    A plugin that cannot work is a fault if it is the changed one, else a note: the change may be a step to its repair.
    """
    assert running.path is not None
    host = PluginHost()  # not the running one: a failure of the new text must not change its state
    try:
        config = conf.load(running.path, os.environ, bound_host=running.server.host, text=text)
        host.use_lock(config.path)
        snapshot = build(config, host)
    except ConfigError as error:
        lines = error.report() if isinstance(error, conf.FileFaults) else [str(error)]
        return _Check(faults=tuple(lines))
    failed = {name: f"{name}: cannot work: {error}" for name, error in snapshot.plugins.failed.items()}
    own = [failed.pop(plugin)] if plugin in failed else []
    off = [f"{'.'.join(map(str, path))} is inactive: {why}" for path, why in config.inactive]
    warnings = conf.describe(snapshot.plugins.warnings, config.path, config.lines)
    lost = tuple(name for name in running.models if name not in config.models)
    return _Check(faults=tuple(own), lost=lost, notes=(*failed.values(), *warnings, *off))


def _find_obstacle(path: Path) -> str:
    """Return the reason why the file cannot be replaced; "" if it can."""
    real = path.resolve()
    if os.access(real, os.W_OK) and os.access(real.parent, os.W_OK | os.X_OK):
        return ""
    return "The gateway may not write the file or its folder. Make the change where the file is kept."


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Exclude other processes of this gateway that change a file of the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Replace a file in one step; permissions and owner stay."""
    status = path.stat()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), status.st_mode & 0o7777)
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
