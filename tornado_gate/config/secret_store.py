"""The encrypted secrets below the data directory, to which ``${secret:NAME}`` in conf refers.

`secrets.json` has the values, encrypted with Fernet (AES-128-CBC with HMAC-SHA256; https://github.com/fernet/spec). The key
comes from GATE_SECRET_KEY, or from `secrets.key`, which is made at first use. Each of the two may have several keys: the first
one encrypts, all decrypt. Files are 0600 and are replaced in one step. A lock excludes other processes that change them.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tornado_gate.types.value import Value

KEY_VARIABLE: Final = "GATE_SECRET_KEY"
STORE_FILE: Final = "secrets.json"
HISTORY_FILE: Final = "conf_history.json"
"""Earlier texts of conf, encrypted with the same key: `server.process.conf_history`."""
KEY_FILE: Final = "secrets.key"
LOCK_FILE: Final = "secrets.lock"
SHORTEST_KEY: Final = 32
LONGEST_SECRET: Final = 65536
MAX_SECRETS: Final = 10_000
RETIRED_SECONDS: Final = 30 * 86400.0
"""The time for which a secret is kept that conf no longer names, so that an earlier text of conf can be restored."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


class SecretError(Exception):
    """The store cannot be used. The message says why, and what to do."""


class UnknownSecret(SecretError):
    """The store has no secret of this name."""


class StoredSecret(Value, frozen=True, kw_only=True):
    """A secret without its value. Times are Unix seconds; `retired` is the time since which conf does not name it."""

    name: str
    changed: float
    retired: float | None = None


class SecretStore:
    """The secrets of one data directory. All methods block on the disk, and raise SecretError.

    `entries` are encrypted secrets to read in place of the file's.
    """

    def __init__(
        self,
        data_dir: Path,
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.time,
        file: str = STORE_FILE,
        entries: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._folder = data_dir
        self._file = file
        self._environment = environment
        self._clock = clock
        self._entries = entries

    def read(self, name: str) -> str:
        """Return the value of a secret. Raises UnknownSecret."""
        entry = self._read_entries().get(name)
        if entry is None:
            raise UnknownSecret(f"the secret {name} does not exist; add it with: tornado-gate secrets set {name}")
        return self._decrypt(name, entry, self._load_keys())

    def list_secrets(self) -> list[StoredSecret]:
        """Return all secrets by name, without their values."""
        entries = sorted(self._read_entries().items())
        return [
            StoredSecret(name=name, changed=entry["changed"], retired=entry.get("retired")) for name, entry in entries
        ]

    def write(self, name: str, value: str, *, is_draft: bool = False) -> None:
        """Add or replace a secret. A draft is deleted after RETIRED_SECONDS unless `retire` finds it in conf."""
        if not NAME.fullmatch(name):
            raise SecretError(f"a secret's name has letters, digits, '.', '_' and '-', at most 100: {name[:120]!a}")
        if not value or len(value) > LONGEST_SECRET:
            raise SecretError(f"a secret must have 1 to {LONGEST_SECRET} characters")
        with self._change() as entries:
            if len(entries) >= MAX_SECRETS and name not in entries:
                raise SecretError(f"there are {MAX_SECRETS} secrets already; remove some")
            now = self._clock()
            entry = {"value": self._encrypt(name, value, self._load_keys(make=True)), "changed": now}
            entries[name] = {**entry, "retired": now} if is_draft else entry

    def remove(self, name: str) -> None:
        """Remove a secret. Raises UnknownSecret."""
        with self._change() as entries:
            if entries.pop(name, None) is None:
                raise UnknownSecret(f"the secret {name} does not exist")

    def retire(self, used: Collection[str], dropped: Collection[str] = ()) -> None:
        """Record which secrets conf names, and which it does no longer. Secrets that were retired long ago are deleted."""
        with self._change() as entries:
            now = self._clock()
            for name, entry in list(entries.items()):
                if name in used:
                    entry.pop("retired", None)
                elif name in dropped:
                    entry.setdefault("retired", now)
                if now - entry.get("retired", now) > RETIRED_SECONDS:
                    del entries[name]

    def rotate(self) -> int:
        """Encrypt all secrets with a new key, or with the first one of GATE_SECRET_KEY. Return their number.

        The old key file stays valid until all secrets are encrypted with the new key, so an interruption loses nothing.
        """
        with self._lock():
            entries, old = self._read_entries(), self._load_keys(make=True)
            is_file = not self._environment.get(KEY_VARIABLE)
            keys = [secrets.token_urlsafe(SHORTEST_KEY), *old] if is_file else old
            if is_file:
                self._replace(KEY_FILE, "".join(f"{key}\n" for key in keys))
            for name, entry in entries.items():
                entry["value"] = self._encrypt(name, self._decrypt(name, entry, old), keys)
            self._write_entries(entries)
            self._encrypt_history(old, keys)
            if is_file:
                self._replace(KEY_FILE, f"{keys[0]}\n")
        return len(entries)

    def _encrypt_history(self, old: list[str], keys: list[str]) -> None:
        """Encrypt the earlier texts of conf with the first key. Those that cannot be read are dropped."""
        history = SecretStore(self._folder, self._environment, file=HISTORY_FILE)
        try:
            entries = history._read_entries()
        except SecretError:  # the file is damaged, which only prevents an undo
            return
        for name, entry in list(entries.items()):
            try:
                entry["value"] = self._encrypt(name, self._decrypt(name, entry, old), keys)
            except SecretError:
                del entries[name]
        if entries:
            history._write_entries(entries)

    def _encrypt(self, name: str, value: str, keys: list[str]) -> str:
        """Return the encrypted value. The name is encrypted with it, so that values cannot be exchanged."""
        text = json.dumps([name, value]).encode()
        return str(_make_cipher(keys).encrypt(text), "ascii")

    def _decrypt(self, name: str, entry: Mapping[str, Any], keys: list[str]) -> str:
        from cryptography.fernet import InvalidToken

        try:
            written, value = json.loads(_make_cipher(keys).decrypt(str(entry.get("value", "")).encode()))
        except (InvalidToken, ValueError):
            written, value = "", ""
        if written != name:
            where = KEY_VARIABLE if self._environment.get(KEY_VARIABLE) else self._folder / KEY_FILE
            raise SecretError(
                f"the secret {name} cannot be decrypted; {where} has another key, or the store was changed"
            )
        return str(value)

    def _load_keys(self, *, make: bool = False) -> list[str]:
        """Return the keys, newest first. With `make`, create the key file if there is none."""
        text = self._environment.get(KEY_VARIABLE, "")
        try:
            if not text:
                text = self._read_file(KEY_FILE)
            if not text and make:
                text = secrets.token_urlsafe(SHORTEST_KEY)
                self._replace(KEY_FILE, f"{text}\n")
        except OSError as error:
            raise _make_error(self._folder / KEY_FILE, error) from error
        keys = split_keys(text)
        if not keys:
            raise SecretError(f"{self._folder / KEY_FILE} is missing; restore it, or set {KEY_VARIABLE}")
        return keys

    def _read_entries(self) -> dict[str, Any]:
        if self._entries is not None:
            return dict(self._entries)
        path = self._folder / self._file
        try:
            text = self._read_file(self._file)
            entries = json.loads(text)["secrets"] if text else {}
            if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
                raise ValueError("no secrets")
        except OSError as error:
            raise _make_error(path, error) from error
        except (ValueError, KeyError, TypeError):
            raise SecretError(f"{path} is damaged; restore it from a backup") from None
        return entries

    @contextmanager
    def _change(self) -> Iterator[dict[str, Any]]:
        """Yield the entries to change; they are written at the end of the block, unless it raises."""
        with self._lock():
            entries = self._read_entries()
            before = json.dumps(entries)
            yield entries
            if json.dumps(entries) != before:
                self._write_entries(entries)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Exclude other changes of the files, in this process and in others."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise _make_error(self._folder, error) from error

    def _write_entries(self, entries: Mapping[str, Any]) -> None:
        self._replace(self._file, json.dumps({"version": 1, "secrets": entries}, indent=1) + "\n")

    def _read_file(self, name: str) -> str:
        try:
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return ""
        with os.fdopen(descriptor, encoding="utf-8") as file:
            return file.read()

    def _replace(self, name: str, text: str) -> None:
        """Replace a file in one step. `mkstemp` makes files that only their owner may read."""
        descriptor, part = tempfile.mkstemp(dir=self._folder, prefix=f".{name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self._folder / name)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part)
            raise


def split_keys(text: str) -> list[str]:
    """Return the keys of GATE_SECRET_KEY, newest first. Raises SecretError for a short one."""
    keys = [key for key in re.split(r"[\s,]+", text) if key]
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise SecretError(f"{KEY_VARIABLE} is too short; each key needs at least {SHORTEST_KEY} characters")
    return keys


def _make_cipher(keys: list[str]) -> Any:
    """Return the cipher of keys, which are any texts. Importing `cryptography` takes 50 ms, so only users of secrets do."""
    from cryptography.fernet import Fernet, MultiFernet

    digests = [hashlib.sha256(b"tornado-gate secrets\0" + key.encode()).digest() for key in keys]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])


def _make_error(path: Path, error: OSError) -> SecretError:
    return SecretError(f"{path} cannot be used: {error.strerror or error}")
