"""A change of the configuration file that an administrator reviews, or makes by a command or by /admin/v1.

A review shows the diff and the result of `tornado-gate check` for the new text. The change is applied in one step, if wanted only
to the reviewed text, and takes effect by the usual reload. Blocks: call it in a thread.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tornado_gate import config as conf
from tornado_gate.config.entry_edits import PluginSwitch, Step, list_secret_names, make_all_lines
from tornado_gate.config.model import Config
from tornado_gate.config.secret_store import SecretError
from tornado_gate.config.source import digest_text
from tornado_gate.config.stored import StoredConf, get_number, read_conf_text
from tornado_gate.config.yaml_edit import EditRefused
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import ConfigError
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.plugins.host import PluginHost
from tornado_gate.server.control.conf_versions import BaseMoved, add_version, open_conf_database, read_newest
from tornado_gate.server.control.shared_secrets import open_secret_store
from tornado_gate.server.process import conf_history
from tornado_gate.server.process.conf_diff import find_secret_texts, make_diff
from tornado_gate.telemetry.redaction import Scrubber
from tornado_gate.types.value import Value, replace

_UNSET: Final = re.compile(r"environment variable ([A-Za-z_][A-Za-z0-9_]*) is not set")


class Review(Value, frozen=True, kw_only=True):
    """A change before it is applied. `digest` is the version of the file's text, `new_digest` the version after the change.

    `refusal` is the reason why the change cannot be applied here, "" if it can; then a person may add `lines` to the file.
    `faults` are lines of `tornado-gate check` about the new text: with one the change is not applied. `unset` are the environment
    variables that they miss. `lost` are models that work now and would not be in the new configuration. `notes` are findings
    that do not prevent the change. `snapshot` is the new configuration, None with faults. `text` is the new text; `base` is the
    number of the version to which the change is made, None for a file.
    """

    file: str
    lines: str
    diff: str = ""
    digest: str = ""
    new_digest: str = ""
    faults: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str = ""
    snapshot: Any = None
    text: str = ""
    base: int | None = None

    hidden_fields = frozenset({"snapshot", "text"})

    @property
    def is_applicable(self) -> bool:
        return bool(self.diff) and not self.faults and not self.refusal


class ChangeRefused(Exception):
    """An error: the change was not applied. The message has the reason, and `review` the faults and lines, if known.

    `is_stale`: the file has changed since the review.
    """

    def __init__(self, message: str, review: Review | None = None, *, is_stale: bool = False) -> None:
        super().__init__(message)
        self.review = review
        self.is_stale = is_stale


NO_FILE = "The gateway runs without a configuration file. Create one with these lines and name it with --conf FILE."
STALE = "The file has changed since you reviewed the change. Review it again."


def review_plugin(config: Config, plugin: str, *, on: bool) -> Review:
    """Review a switch of a plugin. Never raises."""
    return review_change(config, [PluginSwitch(plugin, on)])


def apply_plugin(config: Config, plugin: str, *, on: bool, digest: str, author: str = "") -> Review:
    """Switch a plugin in the file whose text had `digest` when it was reviewed. Raises ChangeRefused."""
    message = f"plugin.switch {plugin} {'on' if on else 'off'}"
    return apply_change(config, [PluginSwitch(plugin, on)], digest, author=author, message=message)


def review_change(config: Config, steps: Sequence[Step]) -> Review:
    """Review changes of the file of a running configuration. Raises only the GateErrors of the steps."""
    lines = make_all_lines(steps)
    if config.path is None:
        return Review(file="", lines=lines, refusal=NO_FILE)
    try:
        path = read_current(config.path)
        config, text = replace(config, path=path), read_conf_text(path)
        edited = _edit_text(text, steps)
    except (OSError, UnicodeDecodeError, EditRefused, DatabaseError) as error:
        return Review(file=str(config.path), lines=lines, refusal=_explain(error))
    plugins = frozenset(plugin for step in steps for plugin in step.plugins)
    checked = _check(config, edited, plugins) if edited != text else _Check()
    scrubber = Scrubber(find_secret_texts(edited) | collect_secrets(config) | _read_secrets(config, edited))
    return Review(
        file=str(path),
        lines=lines,
        diff=make_diff(text, edited, path.name),
        digest=digest_text(text),
        new_digest=digest_text(edited),
        faults=_scrub(scrubber, checked.faults),
        unset=tuple(dict.fromkeys(_UNSET.findall("\n".join(checked.faults)))),
        lost=checked.lost,
        notes=_scrub(scrubber, checked.notes),
        refusal=find_obstacle(config.path),
        snapshot=checked.snapshot,
        text=edited,
        base=get_number(config.path),
    )


def read_current(path: Path) -> Path:
    """Return the newest version of a configuration in the database; the path of a file unchanged. Raises DatabaseError."""
    return (read_newest(path, with_drafts=True) or path) if isinstance(path, StoredConf) else path


def apply_change(
    config: Config, steps: Sequence[Step], digest: str | None, *, author: str = "", message: str = ""
) -> Review:
    """Check and apply changes to the file whose text has `digest`; None applies them to any text.

    In the database they are a new version, with its author and a message.

    Raises ChangeRefused, and the GateErrors of the steps.
    """
    if config.path is None:
        raise ChangeRefused(NO_FILE, review_change(config, steps))
    if isinstance(config.path, StoredConf):
        return _apply_to_database(config, steps, digest, author, message)
    path = config.path.resolve()
    try:
        with _lock(path.parent):
            review = _review_to_apply(config, steps, digest)
            if review.diff:
                _apply_review(config, path, steps, review)
    except (OSError, EditRefused) as error:  # such as a file that is a mount of its own
        why = _explain(error)
        lines = make_all_lines(steps)
        raise ChangeRefused(why, Review(file=str(config.path), lines=lines, refusal=why)) from error
    return review


def _review_to_apply(config: Config, steps: Sequence[Step], digest: str | None) -> Review:
    """Return the review of a change that can be applied. Raises ChangeRefused."""
    review = review_change(config, steps)
    if review.refusal:
        raise ChangeRefused(review.refusal, review)
    if digest is not None and review.digest != digest:
        raise ChangeRefused(STALE, review, is_stale=True)
    if review.faults:
        raise ChangeRefused("The new text has faults, so the file was not changed.", review)
    return review


def _apply_to_database(config: Config, steps: Sequence[Step], digest: str | None, author: str, message: str) -> Review:
    assert isinstance(config.path, StoredConf)
    review = _review_to_apply(config, steps, digest)
    if not review.diff:
        return review
    try:
        with open_conf_database(config.path.address) as database, database.write() as connection:
            number = add_version(connection, review.text, base=review.base, author=author, message=message)
    except BaseMoved as error:
        raise ChangeRefused(STALE, review, is_stale=True) from error
    except DatabaseError as error:
        raise ChangeRefused(str(error), review) from error
    _retire_secrets(config, review.text, config.path.text)
    return replace(review, file=str(StoredConf.make("", number)))


def _apply_review(config: Config, path: Path, steps: Sequence[Step], review: Review) -> None:
    old = path.read_bytes().decode()
    if digest_text(old) != review.digest:
        raise ChangeRefused(STALE, review, is_stale=True)
    edited = _edit_text(old, steps)
    conf_history.keep_text(config.server.data_dir, review.new_digest, old)
    _replace(path, edited.encode())
    _retire_secrets(config, edited, old)


def _retire_secrets(config: Config, text: str, old: str) -> None:
    """Record which secrets the new text names, and which only the old one."""
    used, before = list_secret_names(text), list_secret_names(old)
    if used or before:
        with suppress(SecretError):  # the change is made; the next one records the secrets
            open_secret_store(config).retire(used, before - used)


def _read_secrets(config: Config, text: str) -> set[str]:
    """Return the secrets of the store that a text names; a message of a plugin may repeat one."""
    store, values = open_secret_store(config), set()
    for name in list_secret_names(text):
        with suppress(SecretError):
            values.add(store.read(name))
    return values


def _edit_text(text: str, steps: Iterable[Step]) -> str:
    for step in steps:
        text = step.edit_text(text)
    return text


def _explain(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"The file cannot be read or written: {error.strerror or error}."
    if isinstance(error, UnicodeDecodeError):
        return "The file is not UTF-8."
    return str(error)


def _scrub(scrubber: Scrubber, lines: Iterable[str]) -> tuple[str, ...]:
    """Mask the settings that a plugin's message may repeat."""
    return tuple(scrubber.scrub_text(line) for line in lines)


class _Check(Value, frozen=True, kw_only=True):
    """The findings about a text, as in `Review`."""

    faults: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    snapshot: Any = None


def _check(running: Config, text: str, plugins: frozenset[str]) -> _Check:
    """Return the findings about a text for the file of `running`, as `tornado-gate check` finds them.

    A plugin that cannot work is a fault if it is among `plugins`, else a note: the change may be a step to its repair.
    """
    assert running.path is not None
    host = PluginHost()  # not the running one: a failure of the new text must not change its state
    flags = {"data_dir": running.server.data_dir}
    try:
        config = conf.load(running.path, os.environ, flags, running.server.host, text)
        conf.check_lost_sections(running, config)
        host.use_lock(config.path)
        snapshot = build(config, host)
    except ConfigError as error:
        lines = error.report() if isinstance(error, conf.FileFaults) else [str(error)]
        return _Check(faults=tuple(lines))
    failed = {name: f"{name}: cannot work: {error}" for name, error in snapshot.plugins.failed.items()}
    own = tuple(failed.pop(plugin) for plugin in sorted(plugins) if plugin in failed)
    off = [f"{'.'.join(map(str, path))} is inactive: {why}" for path, why in config.inactive]
    warnings = conf.describe(snapshot.plugins.warnings, config.path, config.lines)
    lost = tuple(name for name in running.models if name not in config.models)
    return _Check(faults=own, lost=lost, notes=(*failed.values(), *warnings, *off), snapshot=snapshot)


def find_obstacle(path: Path | None) -> str:
    """Return the reason why the file cannot be replaced; "" if it can."""
    if path is None:
        return NO_FILE
    if isinstance(path, StoredConf):
        return ""
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
