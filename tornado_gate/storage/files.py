"""Files that the gateway creates and serves for a limited time: images, audio, videos. One folder, shared by processes.

A file is `<id>`, its metadata is `<id>.about` beside it. Both get their names by rename, the metadata last, so that a
file is either complete or missing. While a process writes or reads a file, it holds a lock on it (flock, released when
the process ends): a locked file is never evicted, and an unfinished file without a lock was left by a process that
ended. Expired files are evicted first, then the oldest files of the largest account (see `shares`). File names contain
no caller input (see `file_ids`).

A URL is signed and expires; it needs no key. Files are read and written with aiofiles; locks, renames and the work on
the folder block on the disk and run in threads. HTTP is not handled here, but in `handlers/media.py`.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import aiofiles
from msgspec.structs import asdict

from tornado_gate.account_shares import evict, may_hold
from tornado_gate.codec.media_types import get_extension
from tornado_gate.config.model import MEDIA_BYTES, MEDIA_SECONDS
from tornado_gate.errors import GateError, NotFound, Unavailable
from tornado_gate.storage.file_ids import FileIds, digest_account
from tornado_gate.storage.private import make_folder, open_private
from tornado_gate.types.value import Value

log = logging.getLogger(__name__)

SECRET_FILE = "media.secret"
SECRET_BYTES = 32
MEDIA_PATH = "/media/"
BYTES_BETWEEN_SCANS = 16 * 1024 * 1024
"""A file of unknown size reserves space again after growing by this much."""
ABANDONED_SECONDS = 60.0
"""Age from which an unfinished, unlocked file counts as abandoned. A younger file may not have been locked yet."""
LONGEST_NAME = 200
MAX_METADATA_BYTES = 1024
"""Upper bound of the size of a file's metadata."""

T = TypeVar("T")

_ID = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,5}")
_OWN_FILE_NAME = re.compile(rf"(?P<id>{_ID.pattern})(?P<rest>(\.about)?(\.part)?)")
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(; ?[\w.+-]+=[\w.+-]+){0,3}", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f/\\]")


class MediaFull(GateError):
    """There is no room for the file even after eviction, or the disk is full."""

    status = 507
    code = "storage_full"


class FileTooLarge(MediaFull):
    """The file is larger than the storage allows one file to be, however empty it is."""

    code = "file_too_large"


class MediaUnavailable(Unavailable):
    """The folder cannot be used; the log has the cause."""

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

    async def read(self, size: int = -1, /) -> bytes: ...
    async def seek(self, offset: int, /) -> int: ...


class _StoredFile(NamedTuple):
    written: float
    size: int
    expires: float
    id: str
    owner: str


class _Contents(NamedTuple):
    """The content of the folder. `kept` are the complete files, `left` the ids of abandoned unfinished files.

    `held` are the bytes of all files, by owner.
    """

    kept: list[_StoredFile]
    left: list[str]
    held: Counter[str]


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


class MediaStore:
    """The files in `folder`, together at most `max_bytes`, each for `seconds`. The folder is created on first use."""

    def __init__(
        self,
        folder: Path,
        *,
        secret: bytes,
        max_bytes: int = MEDIA_BYTES,
        seconds: float = MEDIA_SECONDS,
        address: str = MEDIA_PATH,
        evicts: bool = True,
    ) -> None:
        """Set up the store. With `evicts` false, files are kept until they expire.

        Such a store rejects new files if it is full, or if the account has no share left.
        """
        self.address = address
        self.evicts = evicts
        self.folder = folder
        self.max_bytes = max_bytes
        self.seconds = seconds
        self._secret = secret
        self._ids = FileIds(secret)

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

    # Writing

    @property
    def largest_file_bytes(self) -> int:
        """The maximum size of one file. In a store that keeps its files, one account may hold half of it (see `shares`)."""
        return (self.max_bytes if self.evicts else self.max_bytes // 2) - MAX_METADATA_BYTES

    async def make_room(self, size: int, *, account: str) -> None:
        """Check that the account may store a file of `size` bytes now, before the file is requested from an upstream.

        Raises FileTooLarge, MediaFull (even if only the disk has no room), and MediaUnavailable.
        """
        if size > self.largest_file_bytes:
            raise _file_too_large_error(self.largest_file_bytes)
        await self._await_disk(asyncio.to_thread(self._make_room, size + MAX_METADATA_BYTES, digest_account(account)))
        usage = await self._await_disk(asyncio.to_thread(shutil.disk_usage, self.folder))
        if usage.free < size:
            raise MediaFull("The gateway's disk is full. Try again later.")

    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, media_type: str, name: str = "", *, account: str = ""
    ) -> MediaFile:
        """Store a file of an account. Other processes can find it as soon as this returns.

        Raises MediaFull and FileTooLarge (507), MediaUnavailable (503), and exceptions of `chunks`; the incomplete file
        is then deleted.
        """
        media_type = media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"
        owner = digest_account(account)
        file_id = self._ids.make(owner, get_extension(media_type))
        part, about = self.folder / f"{file_id}.part", self.folder / f"{file_id}.about.part"
        known_size = len(chunks) if isinstance(chunks, bytes) else 0
        await self._await_disk(asyncio.to_thread(self._make_room, known_size + MAX_METADATA_BYTES, owner))
        file = await self._await_disk(aiofiles.open(part, "wb", opener=_create_file))
        try:
            _try_lock(file.fileno(), fcntl.LOCK_EX)
            size = await self._write_chunks(file, chunks, owner)
            now = time.time()
            kept = MediaFile(
                id=file_id,
                size=size,
                media_type=media_type,
                name=_UNPRINTABLE.sub("_", name)[:LONGEST_NAME],
                created=now,
                expires=now + self.seconds,
            )
            await self._await_disk(_write_metadata(about, kept))
            await self._await_disk(asyncio.to_thread(self._commit_file, kept))
        finally:
            for unfinished in (part, about):
                with suppress(OSError):
                    os.unlink(unfinished)
            with suppress(OSError):  # closing tries to write the remaining buffer again
                await file.close()
        return kept

    async def _write_chunks(self, file: Any, chunks: AsyncIterator[bytes] | bytes, owner: str) -> int:
        size = looked = 0
        async for chunk in _iterate_once(chunks) if isinstance(chunks, bytes) else chunks:
            size += len(chunk)
            if size > self.largest_file_bytes:  # checked before other files are evicted
                raise _file_too_large_error(self.largest_file_bytes)
            await self._await_disk(file.write(chunk))
            if size - looked > BYTES_BETWEEN_SCANS:
                looked = size
                await self._reserve_growth(file, owner)
        await self._reserve_growth(file, owner)
        return size

    async def _reserve_growth(self, file: Any, owner: str) -> None:
        """Reserve space for the current size of this file, which already counts as content of the folder."""
        await self._await_disk(file.flush())  # detects a full disk before the file is visible
        await self._await_disk(asyncio.to_thread(self._make_room, MAX_METADATA_BYTES, owner))

    async def _await_disk(self, work: Awaitable[T]) -> T:
        """Await work on the disk and map its OSErrors. Errors of the source of the chunks must not be awaited here."""
        with self._map_disk_errors():
            return await work

    def _commit_file(self, kept: MediaFile) -> None:
        """Rename the file and its metadata to their final names, metadata last; the modification time is the expiry time."""
        path = self.folder / kept.id
        about = Path(f"{path}.about")
        try:
            os.utime(f"{about}.part", (kept.created, kept.expires))
            os.rename(f"{path}.part", path)
            os.rename(f"{about}.part", about)
        except OSError:
            path.unlink(missing_ok=True)
            raise

    # Reading

    @asynccontextmanager
    async def open_for_reading(self, file_id: str) -> AsyncIterator[tuple[MediaFile, ReadableFile]]:
        """Yield a file and its open content, protected from eviction inside the block. Raises NotFound, MediaUnavailable."""
        kept = await self.find_file(file_id)
        file = await self._open_file(kept.id)
        try:
            # Locked by another process: it is being evicted. Another size: the machine crashed while it was written.
            if not _try_lock(file.fileno(), fcntl.LOCK_SH) or os.fstat(file.fileno()).st_size != kept.size:
                raise file_not_found_error()
            yield kept, file
        finally:
            await file.close()

    async def find_file(self, file_id: str) -> MediaFile:
        """Return the metadata of a file that has not expired. Raises NotFound, MediaUnavailable."""
        if not _ID.fullmatch(file_id):
            raise file_not_found_error()
        file = await self._open_file(f"{file_id}.about")
        try:
            kept = MediaFile(**json.loads(await self._await_disk(file.read())))
            if kept.id == file_id and kept.expires > time.time():
                return kept
        except (ValueError, TypeError):
            log.error("%s.about in %s is damaged", file_id, self.folder)
        finally:
            file.raw.close()  # not in a thread: closing a file that was only read does not block
        raise file_not_found_error()

    async def _open_file(self, name: str) -> Any:
        with self._map_disk_errors():
            try:
                return await aiofiles.open(self.folder / name, "rb", opener=_open_existing)
            except FileNotFoundError:
                raise file_not_found_error() from None

    async def delete(self, file_id: str) -> None:
        """Delete a file, unless it is being read. A missing file is not an error."""
        if _ID.fullmatch(file_id):
            await asyncio.to_thread(self._remove_file, file_id)

    async def sweep(self) -> None:
        """Delete expired and abandoned files. `put` does so too; this is for times without new files."""
        await self._await_disk(asyncio.to_thread(self._make_room, 0))

    # Eviction

    def _make_room(self, needed: int, owner: str | None = None) -> None:
        """Delete expired files, then files of the largest owners, until `owner` may add `needed` bytes.

        Raises MediaFull if it may not. Without an owner, only expired and excess files are deleted.
        """
        if needed > self.max_bytes:
            raise _media_full_error()
        make_folder(self.folder)
        kept, left, held = self._scan_folder()
        now = time.time()
        for file in kept:
            if file.expires <= now and self._remove_file(file.id):
                held[file.owner] -= file.size
        for file_id in left:
            self._remove_file(file_id)
        excess = held.total() + needed - self.max_bytes
        if excess > 0 and self.evicts:
            excess -= self._evict_files([file for file in kept if file.expires > now], excess, needed, held, owner)
        if excess > 0:
            log.error(
                "%s is full: files in use or not yet expired take all of its %d bytes", self.folder, self.max_bytes
            )
            raise _media_full_error()
        if owner is not None and not self.evicts and not may_hold(needed, held[owner], held.total(), self.max_bytes):
            log.warning("%s has no room for more files of one account, which holds %d bytes", self.folder, held[owner])
            raise _media_full_error()

    def _evict_files(
        self, kept: Iterable[_StoredFile], excess: int, needed: int, held: Counter[str], writer: str | None
    ) -> int:
        """Delete the oldest files of the largest owners. Returns the freed bytes."""
        by_owner: dict[str, list[_StoredFile]] = {}
        for file in sorted(kept):
            by_owner.setdefault(file.owner, []).append(file)

        def list_files(owner: str) -> Iterator[tuple[int, str]]:
            return ((file.size, file.id) for file in by_owner.get(owner, ()))

        held_after = held if writer is None else held + Counter({writer: needed})
        return evict(excess, held_after, list_files, self._remove_file, writer)

    def _scan_folder(self) -> _Contents:
        statuses: dict[str, dict[str, os.stat_result]] = {}  # by id, then by suffix
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if ours := _OWN_FILE_NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        statuses.setdefault(ours["id"], {})[ours["rest"]] = entry.stat(follow_symlinks=False)
        contents = _Contents([], [], Counter())
        for file_id, parts in statuses.items():
            size, owner = sum(status.st_size for status in parts.values()), self._ids.read_owner(file_id)
            contents.held[owner] += size
            if "" in parts and ".about" in parts:
                about = parts[".about"]
                contents.kept.append(_StoredFile(parts[""].st_mtime, size, about.st_mtime, file_id, owner))
            elif max(status.st_ctime for status in parts.values()) < time.time() - ABANDONED_SECONDS:
                contents.left.append(file_id)
        return contents

    def _remove_file(self, file_id: str) -> bool:
        """Delete a file and its metadata, unless a process writes or reads it."""
        locked: list[int] = []
        try:
            for suffix in ("", ".part"):
                with suppress(FileNotFoundError):
                    locked.append(_open_existing(f"{self.folder / file_id}{suffix}", os.O_RDONLY))
                    if not _try_lock(locked[-1], fcntl.LOCK_EX):
                        return False
            for suffix in (
                ".about",
                ".about.part",
                "",
                ".part",
            ):  # the metadata first, so that an incomplete file is never found
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.folder / file_id}{suffix}")
            return True
        except OSError as error:
            log.warning("cannot delete the file %s in %s: %s", file_id, self.folder, error)
            return False
        finally:
            for descriptor in locked:
                os.close(descriptor)

    @contextmanager
    def _map_disk_errors(self) -> Iterator[None]:
        """Map OSErrors to MediaFull or MediaUnavailable; the log has the path and the cause."""
        try:
            yield
        except OSError as error:
            log.error("cannot store files in %s: %s. Check server.data_dir and its disk.", self.folder, error)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise MediaFull("The gateway's disk is full. Try again later.") from error
            raise MediaUnavailable("The gateway's file storage is unavailable. Try again later.") from error


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


def _media_full_error() -> MediaFull:
    return MediaFull("The gateway's file storage is full. Try again later, or request a smaller file.")


def _file_too_large_error(most: int) -> FileTooLarge:
    return FileTooLarge(f"The file has more than {most} bytes, the most that the gateway's storage takes of one file.")


def file_not_found_error() -> NotFound:
    """Return the error for a missing or expired file, and for a URL without a valid signature."""
    return NotFound(
        "The file does not exist, or its URL has expired or is invalid. Request a new file.", code="file_not_found"
    )


def _create_file(path: str | Path, flags: int) -> int:
    return open_private(path, flags | os.O_EXCL)


def _open_existing(path: str | Path, flags: int) -> int:
    return open_private(path, flags | os.O_NONBLOCK)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _write_metadata(path: Path, kept: MediaFile) -> None:
    async with aiofiles.open(path, "wb", opener=_create_file) as file:
        await file.write(json.dumps(asdict(kept)).encode())


async def _iterate_once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk
