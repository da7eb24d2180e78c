"""Files that the gateway creates and serves for a limited time: images, audio, videos. The interface of their stores.

`media_folder.py` is the default, a folder on the disk; `object_store.py` is a bucket that several nodes share.
`media_stores.py` opens the stores that conf names. A URL is signed and expires; it needs no key. HTTP is not handled
here, but in `handlers/media.py`.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from tornado_gate.config.model import MEDIA_BYTES, MEDIA_SECONDS
from tornado_gate.errors import GateError, NotFound, Unavailable
from tornado_gate.storage.private import make_folder, open_private
from tornado_gate.types.value import Value

log = logging.getLogger(__name__)

SECRET_FILE = "media.secret"
SECRET_BYTES = 32
MEDIA_PATH = "/media/"
VIDEO_PATH = "/videos/"
SWEEP_SECONDS = 3600.0
"""The interval at which expired files are deleted; a new file that needs space deletes them earlier."""
CHUNK_BYTES = 256 * 1024
"""The size of the chunks in which files are read."""
LONGEST_NAME = 200
MAX_METADATA_BYTES = 1024
"""Upper bound of the size of a file's metadata."""

FILE_ID = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,5}")
"""The form of a file's id, which contains no caller input (see `file_ids`)."""

_PLAIN_NAME = re.compile(r"[^A-Za-z0-9 ._()-]")


class MediaFull(GateError):
    """There is no room for the file even after eviction, or the disk is full."""

    status = 507
    code = "storage_full"


class FileTooLarge(MediaFull):
    """The file is larger than the storage allows one file to be, however empty it is."""

    code = "file_too_large"


class MediaUnavailable(Unavailable):
    """The folder or the object store cannot be used; the log has the cause."""

    code = "storage_unavailable"


class MediaFile(Value, frozen=True, kw_only=True):
    """A stored file. `size` is in bytes, `created` and `expires` are Unix seconds; `name` is the suggested file name
    for saving, "" for none.
    """

    id: str
    size: int
    media_type: str
    name: str
    created: float
    expires: float


class ReadableFile(Protocol):
    """Interface of the open file that `MediaStore.open_for_reading` yields."""

    async def read(self) -> bytes:
        """Return the whole content. Raises NotFound, MediaUnavailable."""

    def read_range(self, first: int, end: int) -> AsyncGenerator[bytes]:
        """Yield the bytes from `first` to before `end` in chunks of about CHUNK_BYTES.

        Raises NotFound, MediaUnavailable, and EOFError if the file ends early. Close the iterator if it is not read to its end.
        """


def load_media_secret(data_dir: Path) -> bytes:
    """Return the secret for signed URLs; created once in `data_dir`, shared by processes, readable by its owner only.

    If it cannot be stored, the secret and the URLs are valid for this process only. Blocks on the disk.
    """
    path = data_dir / SECRET_FILE
    try:
        with suppress(FileNotFoundError):
            secret = path.read_bytes()
            if len(secret) >= SECRET_BYTES:
                return secret
        make_folder(data_dir)
        with os.fdopen(open_private(path, os.O_CREAT | os.O_RDWR), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may write it at the same time
            secret = file.read()
            if len(secret) < SECRET_BYTES:
                secret = secrets.token_bytes(SECRET_BYTES)
                file.seek(0)
                file.write(secret)
            return secret
    except OSError as error:
        log.error(
            "cannot use %s: %s. Signed URLs are valid until this process ends; check server.data_dir.", path, error
        )
        return secrets.token_bytes(SECRET_BYTES)


def save_media_secret(data_dir: Path, secret: bytes) -> None:
    """Replace the secret in `data_dir` by the secret of all nodes. A failure is logged. Blocks on the disk."""
    path = data_dir / SECRET_FILE
    try:
        if path.read_bytes() != secret:
            with os.fdopen(open_private(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC), "wb") as file:
                file.write(secret)
    except OSError as error:
        log.error("cannot use %s: %s. Check server.data_dir.", path, error)


class MediaStore(ABC):
    """The interface of a store: its files have together at most `max_bytes`, and each is kept for `seconds`.

    With `evicts` false, files are kept until they expire. Such a store rejects new files if it is full, or if the account has no
    share left. The addresses of files begin with `address`.
    """

    sweep_seconds: float = SWEEP_SECONDS
    """The interval at which `sweep` is called."""

    def __init__(
        self,
        *,
        secret: bytes,
        max_bytes: int = MEDIA_BYTES,
        seconds: float = MEDIA_SECONDS,
        address: str = MEDIA_PATH,
        evicts: bool = True,
    ) -> None:
        self.address = address
        self.evicts = evicts
        self.max_bytes = max_bytes
        self.seconds = seconds
        self._secret = secret

    @property
    @abstractmethod
    def location(self) -> str:
        """The folder or the address that contains the files, without a slash at its end, for operators."""

    @property
    def is_away(self) -> bool:
        """Whether files cannot be stored and read where they belong. Files of this node may still be served."""
        return False

    def configure(self, max_bytes: int, seconds: float) -> None:
        """Apply changed settings. Files that the store has keep their lifetime."""
        self.max_bytes, self.seconds = max_bytes, seconds

    # Signed URLs

    def sign(self, file_id: str, expires: float) -> str:
        """Return the path that serves a file without a key until `expires` (Unix seconds), or until the file expires."""
        until = str(int(expires))
        return f"{self.address}{file_id}?expires={until}&signature={self._make_signature(file_id, until)}"

    def verify_signature(self, file_id: str, expires: str, signature: str) -> bool:
        """Return whether a URL has a valid signature and has not expired."""
        right = self.has_signed(file_id, expires, signature)
        return right and bool(re.fullmatch(r"[0-9]{1,12}", expires)) and int(expires) > time.time()

    def has_signed(self, file_id: str, expires: str, signature: str) -> bool:
        """Return whether a URL has a valid signature, expired or not. Compares signatures in constant time."""
        right = self._make_signature(file_id, expires).encode()
        return hmac.compare_digest(right, signature.encode("utf-8", "replace"))

    def _make_signature(self, file_id: str, expires: str) -> str:
        text = f"media\n{file_id}\n{expires}".encode("utf-8", "replace")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    # Files

    @property
    def largest_file_bytes(self) -> int:
        """The maximum size of one file. In a store that keeps its files, one account may hold half of it (see `shares`)."""
        return (self.max_bytes if self.evicts else self.max_bytes // 2) - MAX_METADATA_BYTES

    @abstractmethod
    async def make_room(self, size: int, *, account: str) -> None:
        """Check that the account may store a file of `size` bytes now, before the file is requested from an upstream.

        Raises FileTooLarge, MediaFull (even if only the disk has no room), and MediaUnavailable.
        """

    @abstractmethod
    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, media_type: str, name: str = "", *, account: str = ""
    ) -> MediaFile:
        """Store a file of an account. Other processes can find it as soon as this returns.

        Raises MediaFull and FileTooLarge (507), MediaUnavailable (503), and exceptions of `chunks`; the incomplete file
        is then deleted.
        """

    @abstractmethod
    def open_for_reading(self, file_id: str) -> AbstractAsyncContextManager[tuple[MediaFile, ReadableFile]]:
        """Yield a file and its open content, protected from eviction inside the block. Raises NotFound, MediaUnavailable."""

    @abstractmethod
    async def find_file(self, file_id: str) -> MediaFile:
        """Return the metadata of a file that has not expired. Raises NotFound, MediaUnavailable."""

    @abstractmethod
    async def measure_file(self, file_id: str) -> int | None:
        """Return the size of a file in bytes, even if it has expired; None if it is missing. Raises MediaUnavailable."""

    @abstractmethod
    async def delete(self, file_id: str) -> None:
        """Delete a file, unless it is being read. A missing file is not an error. Raises MediaUnavailable."""

    @abstractmethod
    async def sweep(self) -> None:
        """Delete expired and abandoned files. `put` does so too; this is for times without new files."""

    async def find_redirect(self, file_id: str, method: str, until: float) -> str:
        """Return a foreign URL that serves the file until `until` (Unix seconds); "" if the gateway serves it itself.

        `method` is GET or HEAD. Raises NotFound, MediaUnavailable.
        """
        return ""

    async def close(self) -> None:
        """Finish or stop background work."""
        return None


class SignedFileStore:
    """Stores the files of one response to `account`; their URLs are below `public_url` (scheme and host, no trailing slash)."""

    __slots__ = ("_account", "_store", "public_url")

    def __init__(self, store: MediaStore, public_url: str, account: str) -> None:
        self._store = store
        self.public_url = public_url
        self._account = account

    async def keep(self, data: bytes | AsyncIterator[bytes], media_type: str, name: str = "") -> str:
        """Store a file and return its signed URL. Raises MediaFull (507), MediaUnavailable (503)."""
        kept = await self._store.put(data, media_type, name, account=self._account)
        return self.public_url + self._store.sign(kept.id, kept.expires)


def media_full_error() -> MediaFull:
    """Return the error for a store without room for a file."""
    return MediaFull("The gateway's file storage is full. Try again later, or request a smaller file.")


def file_too_large_error(most: int) -> FileTooLarge:
    """Return the error for a file above `most` bytes."""
    return FileTooLarge(f"The file has more than {most} bytes, the most that the gateway's storage takes of one file.")


def file_not_found_error() -> NotFound:
    """Return the error for a missing or expired file, and for a URL without a valid signature."""
    return NotFound(
        "The file does not exist, or its URL has expired or is invalid. Request a new file.", code="file_not_found"
    )


def format_content_disposition(kept: MediaFile) -> str:
    """Return the value of Content-Disposition (RFC 6266, RFC 8187).

    It is ``inline`` for types that a browser can show safely, else ``attachment``.
    """
    family, _, kind = kept.media_type.partition("/")
    shown = family in ("image", "audio", "video") and "xml" not in kind  # SVG can contain scripts
    name = kept.name.strip() or kept.id
    plain = _PLAIN_NAME.sub("_", name)
    extended = f"; filename*=UTF-8''{quote(name, safe='', errors='replace')}" if plain != name else ""
    return f'{"inline" if shown else "attachment"}; filename="{plain}"{extended}'
