"""The permissions of the gateway's files: folders 0700, files 0600, for every umask of its process.

`protect_data_dir` is called once, before the first file is written. It sets the umask, because libraries (SQLite,
prometheus_client) and plugins create files too. `make_folder` and `open_private` are for the code of the gateway.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger(__name__)

FOLDER_MODE = 0o700
FILE_MODE = 0o600
UMASK = 0o077
KEY_FILE = "gate.db"
_SECRET_FILES = frozenset(
    {"secrets.json", "secrets.key", "secrets.lock", "conf_history.json", "stored_conf.json", "stored_conf.lock"}
)
_KNOWN_NAMES = _SECRET_FILES | {
    "health",
    "media",
    "videos",
    "tasks",
    "uploads",
    "metrics",
    "media.secret",
    "lost+found",
}
"""Names in a data directory that has no keys yet."""


class DataDirError(Exception):
    """The data directory must not be used. The message names the cause and the remedy."""


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, where they are missing."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def open_private(path: str | Path, flags: int) -> int:
    """Open a file, which is created if `flags` say so, and follow no link. An opener for `open` and aiofiles."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)


def protect_data_dir(folder: Path) -> None:
    """Make the data directory and later files of this process accessible to its own user only.

    Permissions of others are removed from an existing folder, and from the files and folders in it, with a warning. If
    the folder has files of others, as /var has, there is only a warning. Raises DataDirError for a folder of another
    user, except root.
    """
    os.umask(UMASK)
    try:
        make_folder(folder)
        status = folder.stat()
        if status.st_uid not in (os.geteuid(), 0):
            raise DataDirError(
                f"{folder} belongs to another user (uid {status.st_uid}), who could replace the keys in it. Run the gateway as "
                "that user, change the owner of the folder, or name another folder in server.data_dir."
            )
        if _is_open(status.st_mode):
            _close_folder(folder, status)
    except OSError as error:
        raise DataDirError(f"{folder} cannot be used: {error.strerror or error}. Check server.data_dir.") from error


def _is_open(mode: int) -> bool:
    return bool(stat.S_IMODE(mode) & UMASK)


def _close_folder(folder: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        log.warning("other users have access to %s, which belongs to root: let root remove it with chmod 700", folder)
        return
    names = set(os.listdir(folder))
    if status.st_mode & stat.S_ISVTX or not (KEY_FILE in names or names <= _KNOWN_NAMES):
        log.warning(
            "other users have access to %s, and it has files that are not the gateway's, so its permissions were not changed: "
            "name a separate folder in server.data_dir, or run chmod 700",
            folder,
        )
        return
    folder.chmod(FOLDER_MODE)
    for name in names:
        _close_entry(folder / name)
    log.warning("other users had access to %s; it is now accessible to its owner only", folder)


def _close_entry(path: Path) -> None:
    """Remove the permissions of others on a file or folder. Entries that cannot be opened stay unchanged: links, files
    of others.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(descriptor)
        mode, is_ours = status.st_mode, status.st_uid == os.geteuid()
        if is_ours and _is_open(mode) and (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            os.fchmod(descriptor, FOLDER_MODE if stat.S_ISDIR(mode) else FILE_MODE)
    finally:
        os.close(descriptor)
