"""The default store of files: one folder, shared by the processes of a machine.

A file is `<id>`, its metadata is `<id>.about` beside it. Both get their names by rename, the metadata last, so that a
file is either complete or missing. While a process writes or reads a file, it holds a lock on it (flock, released when
the process ends): a locked file is never evicted, and an unfinished file without a lock was left by a process that
ended. Expired files are evicted first, then the oldest files of the largest account (see `shares`). File names contain
no caller input (see `file_ids`).

Files are read and written with aiofiles; locks, renames and the work on the folder block on the disk and run in
threads.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import logging
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiofiles
from msgspec.structs import asdict

from tornado_gate.account_shares import evict, may_hold
from tornado_gate.codec.media_types import get_extension
from tornado_gate.config.model import MEDIA_BYTES, MEDIA_SECONDS
from tornado_gate.storage.file_ids import FileIds, digest_account
from tornado_gate.storage.files import (
    CHUNK_BYTES,
    FILE_ID,
    LONGEST_NAME,
    MAX_METADATA_BYTES,
    MEDIA_PATH,
    MediaFile,
    MediaFull,
    MediaStore,
    MediaUnavailable,
    ReadableFile,
    file_not_found_error,
    file_too_large_error,
    media_full_error,
)
from tornado_gate.storage.private import make_folder, open_private

log = logging.getLogger(__name__)

BYTES_BETWEEN_SCANS = 16 * 1024 * 1024
"""A file of unknown size reserves space again after growing by this much."""
ABANDONED_SECONDS = 60.0
"""Age from which an unfinished, unlocked file counts as abandoned. A younger file may not have been locked yet."""

T = TypeVar("T")

_OWN_FILE_NAME = re.compile(rf"(?P<id>{FILE_ID.pattern})(?P<rest>(\.about)?(\.part)?)")
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(; ?[\w.+-]+=[\w.+-]+){0,3}", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f/\\]")


class WaitingFile(NamedTuple):
    """A file with its size in bytes, metadata included, and the time of its last change in Unix seconds."""

    id: str
    size: int
    written: float


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


class _OpenFile(NamedTuple):
    """An open file, which aiofiles reads in threads."""

    file: Any

    async def read(self) -> bytes:
        data: bytes = await self.file.read()
        return data

    async def read_range(self, first: int, end: int) -> AsyncGenerator[bytes]:
        await self.file.seek(first)
        while first < end:
            chunk = await self.file.read(min(CHUNK_BYTES, end - first))
            if not chunk:
                raise EOFError("the file is shorter than its record says")
            first += len(chunk)
            yield chunk


class MediaFolder(MediaStore):
    """The files in `folder`. The folder is created on first use."""

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
        super().__init__(secret=secret, max_bytes=max_bytes, seconds=seconds, address=address, evicts=evicts)
        self.folder = folder
        self._ids = FileIds(secret)

    @property
    def location(self) -> str:
        return str(self.folder)

    # Writing

    async def make_room(self, size: int, *, account: str) -> None:
        if size > self.largest_file_bytes:
            raise file_too_large_error(self.largest_file_bytes)
        await self._await_disk(asyncio.to_thread(self._make_room, size + MAX_METADATA_BYTES, digest_account(account)))
        usage = await self._await_disk(asyncio.to_thread(shutil.disk_usage, self.folder))
        if usage.free < size:
            raise MediaFull("The gateway's disk is full. Try again later.")

    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, media_type: str, name: str = "", *, account: str = ""
    ) -> MediaFile:
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
                raise file_too_large_error(self.largest_file_bytes)
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
        kept = await self.find_file(file_id)
        file = await self._open_file(kept.id)
        try:
            # Locked by another process: it is being evicted. Another size: the machine crashed while it was written.
            if not _try_lock(file.fileno(), fcntl.LOCK_SH) or os.fstat(file.fileno()).st_size != kept.size:
                raise file_not_found_error()
            yield kept, _OpenFile(file)
        finally:
            await file.close()

    async def find_file(self, file_id: str) -> MediaFile:
        if not FILE_ID.fullmatch(file_id):
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

    async def measure_file(self, file_id: str) -> int | None:
        try:
            status = await asyncio.to_thread(os.stat, self.folder / file_id)
        except FileNotFoundError:
            return None
        return status.st_size

    async def delete(self, file_id: str) -> None:
        if FILE_ID.fullmatch(file_id):
            await asyncio.to_thread(self._remove_file, file_id)

    async def sweep(self) -> None:
        await self._await_disk(asyncio.to_thread(self._make_room, 0))

    # Files for another store

    def list_files(self) -> list[WaitingFile]:
        """Return all complete files, oldest first. Blocks on the disk. Raises OSError."""
        try:
            kept = self._scan_folder().kept
        except FileNotFoundError:
            return []
        return [WaitingFile(file.id, file.size, file.written) for file in sorted(kept)]

    def lock_for_move(self, file_id: str) -> int | None:
        """Lock a file for the process that moves it to another store; readers are not affected. Blocks on the disk.

        Return a descriptor to be closed; None if another process moves the file, or it is gone.
        """
        try:
            descriptor = _open_existing(f"{self.folder / file_id}.about", os.O_RDONLY)
        except OSError:
            return None
        if _try_lock(descriptor, fcntl.LOCK_EX):
            return descriptor
        os.close(descriptor)
        return None

    # Eviction

    def _make_room(self, needed: int, owner: str | None = None) -> None:
        """Delete expired files, then files of the largest owners, until `owner` may add `needed` bytes.

        Raises MediaFull if it may not. Without an owner, only expired and excess files are deleted.
        """
        if needed > self.max_bytes:
            raise media_full_error()
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
            raise media_full_error()
        if owner is not None and not self.evicts and not may_hold(needed, held[owner], held.total(), self.max_bytes):
            log.warning("%s has no room for more files of one account, which holds %d bytes", self.folder, held[owner])
            raise media_full_error()

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
