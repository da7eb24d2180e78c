"""The copy of the last version that a node has applied. The node starts with it while the database is away.

It has the text, and the encrypted secrets that the text names. Only the gateway's own user may read it.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tornado_gate.config.stored import StoredConf
from tornado_gate.database.engine import describe_address, parse_address
from tornado_gate.storage.private import make_folder

FILE: Final = "stored_conf.json"
LOCK_FILE: Final = "stored_conf.lock"


def write_copy(data_dir: Path, conf: StoredConf) -> None:
    """Replace the copy in one step, unless another process has written a newer version. Raises OSError."""
    make_folder(data_dir)
    with open(os.open(data_dir / LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = read_copy(data_dir, conf.address)
        if kept is not None and kept.number > conf.number:
            return
        content = {
            "database": describe_address(parse_address(conf.address)),
            "number": conf.number,
            "text": conf.text,
            "secrets": dict(conf.secrets),
        }
        _replace(data_dir, json.dumps(content))


def read_copy(data_dir: Path, address: str) -> StoredConf | None:
    """Return the copy; None if there is none that can be used, or if it is from another database."""
    try:
        with open(os.open(data_dir / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)
        if content["database"] != describe_address(parse_address(address)):
            return None
        return StoredConf.make(address, content["number"], content["text"], content["secrets"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _replace(data_dir: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=data_dir, prefix=f".{FILE}.")  # only its owner may read it
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, data_dir / FILE)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
