"""The folder of tapes: one file for each, readable by the gateway's user only, shared by the processes of a machine.

All functions read or write the disk. Call them in a thread.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.config.tapes import TapesConfig
from tornado_gate.storage.private import make_folder, open_private
from tornado_gate.types.value import Value

FOLDER: Final = "tapes"
_ID: Final = re.compile(r"tape_[0-9a-f]{24}")
_SUFFIX: Final = ".jsonl"
_PART: Final = ".part"
_EDGE_BYTES: Final = 64 * 1024
"""The bytes at the beginning and at the end of a file in which its first and its last line are searched."""


class TapeInfo(Value, frozen=True, kw_only=True):
    """A tape in a list. Times are Unix seconds. `reason` is `header`, or the number of the rule from 1: `rule 1`.

    `truncated`: the end of its data is missing. `withheld`: a guard has replaced a part of the response, so that the tape has
    only the sizes of what the upstream and the gateway have answered.
    """

    id: str
    time: float
    bytes: int
    expires: float
    reason: str = ""
    request_id: str = ""
    format: str = ""
    operation: str = ""
    model: str = ""
    key: str = ""
    status: int = 0
    outcome: str = ""
    error_code: str = ""
    truncated: bool = False
    withheld: bool = False


def make_tape_id() -> str:
    """Return a new id. Ids are in the order of time."""
    return f"tape_{time.time_ns() // 1000:014x}{make_unique_id()[:10]}"


class TapeStore:
    """The tapes below a data directory. `keep_seconds` is the lifetime of a tape."""

    def __init__(self, data_dir: Path, keep_seconds: float) -> None:
        self._folder = data_dir / FOLDER
        self.keep_seconds = keep_seconds

    def write(self, identity: str, data: bytes, rules: TapesConfig) -> int:
        """Write a tape, and delete expired ones and the oldest ones beyond the limits. Return the number of the latter.

        Raises OSError.
        """
        make_folder(self._folder)
        part = self._folder / f"{identity}{_PART}"
        try:
            with open(part, "xb", opener=open_private) as file:
                file.write(data)
            part.rename(self._folder / f"{identity}{_SUFFIX}")
        except OSError:
            part.unlink(missing_ok=True)
            raise
        self.sweep()
        return self._evict(rules)

    def list_tapes(self) -> list[TapeInfo]:
        """Return the tapes that have not expired, the newest first."""
        tapes = [self._describe(path) for path in sorted(self._list_files(), reverse=True)]
        return [tape for tape in tapes if tape is not None and tape.expires > time.time()]

    def find_path(self, identity: str) -> Path | None:
        """Return the file of a tape that has not expired; None if there is none."""
        if not _ID.fullmatch(identity):
            return None
        path = self._folder / f"{identity}{_SUFFIX}"
        return path if _read_age(path) < self.keep_seconds else None

    def read(self, identity: str) -> bytes | None:
        """Return the content of a tape; None if there is none."""
        path = self.find_path(identity)
        if path is None:
            return None
        with suppress(FileNotFoundError):
            return path.read_bytes()
        return None

    def delete(self, identity: str) -> bool:
        """Delete a tape. Return False if there is none."""
        path = self.find_path(identity)
        if path is None:
            return False
        path.unlink(missing_ok=True)
        return True

    def sweep(self) -> None:
        """Delete expired tapes, and files that a killed process has left unfinished."""
        for path in self._list_files(_SUFFIX, _PART):
            if _read_age(path) >= self.keep_seconds or (path.suffix == _PART and _read_age(path) > 60):
                path.unlink(missing_ok=True)

    def _evict(self, rules: TapesConfig) -> int:
        sizes = {path: _read_size(path) for path in sorted(self._list_files())}
        total, evicted = sum(sizes.values()), 0
        for path, size in list(sizes.items())[:-1]:  # the newest one stays
            if len(sizes) - evicted <= rules.most and total <= rules.total_bytes:
                break
            path.unlink(missing_ok=True)
            total, evicted = total - size, evicted + 1
        return evicted

    def _list_files(self, *suffixes: str) -> Iterable[Path]:
        try:
            entries = list(self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [path for path in entries if path.suffix in (suffixes or (_SUFFIX,)) and _ID.fullmatch(path.stem)]

    def _describe(self, path: Path) -> TapeInfo | None:
        try:
            with path.open("rb") as file:
                size, written = os.fstat(file.fileno()).st_size, os.fstat(file.fileno()).st_mtime
                first = _read_json(file.read(_EDGE_BYTES).partition(b"\n")[0])
                file.seek(max(0, size - _EDGE_BYTES))
                last = _read_json(file.read().rstrip(b"\n").rpartition(b"\n")[2])
        except OSError:
            return None
        known = {name: value for name, value in {**last, **first}.items() if name in _SHOWN}
        return TapeInfo(**{**known, "id": path.stem, "bytes": size, "expires": written + self.keep_seconds})


_SHOWN: Final = frozenset(TapeInfo.__struct_fields__) - {"id", "bytes", "expires"}


def _read_json(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {"time": 0.0}
    return value if isinstance(value, dict) else {"time": 0.0}


def _read_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_age(path: Path) -> float:
    """Return the age of a file in seconds; that of a missing file is infinite."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")
