"""Files that the gateway makes and serves for a while: images, sounds, videos. One folder, shared by processes.

A file is `<id>`, its facts are `<id>.about` beside it; both appear by rename, the facts last, so that a file is there whole
or not at all. While a file is written or read, whoever does so holds a lock on it (flock, which dies with its process):
what is locked is never evicted, and an unfinished file that nobody locks was left by a process that died. Expired files go
first, then the oldest. Nothing that a caller says becomes a name: an id is 128 random bits and an extension.

An address is signed and expires: who has it needs no key. Everything here but `sign` and `signed` waits for the disk in
threads. Knows no HTTP; `handlers/media.py` does.
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
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import aiofiles
from msgspec.structs import asdict

from tornado_gate.codec.media_types import extension
from tornado_gate.config.model import MEDIA_BYTES, MEDIA_SECONDS
from tornado_gate.errors import GateError, NotFound, Unavailable
from tornado_gate.types.value import Value

log = logging.getLogger(__name__)

SECRET_FILE = "media.secret"
SECRET_BYTES = 32
ADDRESS = "/media/"
BYTES_BETWEEN_LOOKS = 16 * 1024 * 1024
"""How far a file of unknown size may grow before room is made for it again."""
LEFT_SECONDS = 60.0
"""How old something unfinished must be to count as left behind: its writer may not have locked it yet."""
LONGEST_NAME = 200
ABOUT_BYTES = 1024
"""More than what the facts of a file take."""

T = TypeVar("T")

_ID = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,5}")
_OURS = re.compile(rf"(?P<id>{_ID.pattern})(?P<rest>(\.about)?(\.part)?)")
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(; ?[\w.+-]+=[\w.+-]+){0,3}", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f/\\]")


class MediaFull(GateError):
    """There is no room for the file, whatever is evicted; or the disk is full."""

    status = 507
    code = "storage_full"


class MediaUnavailable(Unavailable):
    """The folder cannot be used; the log says why."""

    code = "storage_unavailable"


class MediaFile(Value, frozen=True, kw_only=True):
    """`size` in bytes, `created` and `expires` in Unix seconds; `name` is what a caller may save it as, "" for any."""

    id: str
    size: int
    media_type: str
    name: str
    created: float
    expires: float


class Readable(Protocol):
    """What `MediaStore.reading` gives: an open file."""

    async def read(self, size: int = -1, /) -> bytes: ...
    async def seek(self, offset: int, /) -> int: ...


class _Kept(NamedTuple):
    written: float
    size: int
    expires: float
    id: str


def media_secret(data_dir: Path) -> bytes:
    """What addresses below `data_dir` are signed with: made once, shared by processes, readable by its owner only.

    Where it cannot be kept, it is one that dies with the process: addresses then last as long. Waits for the disk.
    """
    path = data_dir / SECRET_FILE
    try:
        with suppress(FileNotFoundError):
            found = path.read_bytes()
            if len(found) >= SECRET_BYTES:
                return found
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may be here, or was, a moment ago
            found = file.read()
            if len(found) < SECRET_BYTES:
                found = secrets.token_bytes(SECRET_BYTES)
                file.seek(0)
                file.write(found)
            return found
    except OSError as error:
        log.error("%s cannot be used: %s. Signed addresses end with this process.", path, error)
        return secrets.token_bytes(SECRET_BYTES)


class MediaStore:
    """The files in `folder`, at most `max_bytes` of them, each for `seconds`. One for each process; made at first use."""

    def __init__(
        self,
        folder: Path,
        *,
        secret: bytes,
        max_bytes: int = MEDIA_BYTES,
        seconds: float = MEDIA_SECONDS,
        address: str = ADDRESS,
        evicts: bool = True,
    ) -> None:
        """`evicts` false keeps what has not expired: then a full store takes nothing more until something does."""
        self.address = address
        self.evicts = evicts
        self.folder = folder
        self.max_bytes = max_bytes
        self.seconds = seconds
        self._secret = secret

    # Addresses

    def sign(self, file_id: str, expires: float) -> str:
        """The path under which a file is served, without a key, until `expires` (Unix seconds) or its own end."""
        until = str(int(expires))
        return f"{self.address}{file_id}?expires={until}&signature={self._signature(file_id, until)}"

    def signed(self, file_id: str, expires: str, signature: str) -> bool:
        """Was this address signed here, and does it hold? Takes the same time for every wrong signature."""
        right = hmac.compare_digest(self._signature(file_id, expires).encode(), signature.encode("utf-8", "replace"))
        return right and bool(re.fullmatch(r"[0-9]{1,12}", expires)) and int(expires) > time.time()

    def _signature(self, file_id: str, expires: str) -> str:
        text = f"media\n{file_id}\n{expires}".encode("utf-8", "replace")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    # Writing

    async def put(self, chunks: AsyncIterator[bytes] | bytes, media_type: str, name: str = "") -> MediaFile:
        """Keep a file. It is there when this returns, and before that nobody can see it.

        Raises MediaFull (507), MediaUnavailable (503), and what `chunks` raises; then nothing of the file is left.
        """
        media_type = media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"
        file_id = f"{secrets.token_hex(16)}.{extension(media_type)}"
        part = self.folder / f"{file_id}.part"
        known_size = len(chunks) if isinstance(chunks, bytes) else 0
        await self._disk(asyncio.to_thread(self._make_room, known_size + ABOUT_BYTES))
        file = await self._disk(aiofiles.open(part, "wb", opener=_create))
        try:
            _lock(file.fileno(), fcntl.LOCK_EX)
            size = await self._write(file, chunks)
            now = time.time()
            kept = MediaFile(
                id=file_id,
                size=size,
                media_type=media_type,
                name=_UNPRINTABLE.sub("_", name)[:LONGEST_NAME],
                created=now,
                expires=now + self.seconds,
            )
            await self._disk(asyncio.to_thread(self._commit, kept))
        finally:
            with suppress(OSError):  # what could not be written is tried again by closing
                os.unlink(part)
            with suppress(OSError):
                await file.close()
        return kept

    async def _write(self, file: Any, chunks: AsyncIterator[bytes] | bytes) -> int:
        size = looked = 0
        async for chunk in _once(chunks) if isinstance(chunks, bytes) else chunks:
            size += len(chunk)
            if size + ABOUT_BYTES > self.max_bytes:  # before others are evicted for it
                raise _no_room()
            await self._disk(file.write(chunk))
            if size - looked > BYTES_BETWEEN_LOOKS:
                looked = size
                await self._grow(file)
        await self._grow(file)
        return size

    async def _grow(self, file: Any) -> None:
        """Make room for what this file has become, which is part of what the folder holds."""
        await self._disk(file.flush())  # a disk that is full must show before the file does
        await self._disk(asyncio.to_thread(self._make_room, ABOUT_BYTES))

    async def _disk(self, work: Awaitable[T]) -> T:
        """Something that waits for the disk. What others raise, such as the source of the chunks, is not its business."""
        with self._explained():
            return await work

    def _commit(self, kept: MediaFile) -> None:
        """Show the file under its name. Its facts come last; their time of change is when it expires."""
        path = self.folder / kept.id
        about = Path(f"{path}.about")
        fresh = Path(f"{about}.part")
        try:
            with open(fresh, "wb", opener=_create) as file:
                file.write(json.dumps(asdict(kept)).encode())
            os.utime(fresh, (kept.created, kept.expires))
            os.rename(f"{path}.part", path)
            os.rename(fresh, about)
        except OSError:
            for left in (fresh, path):
                left.unlink(missing_ok=True)
            raise

    # Reading

    @asynccontextmanager
    async def reading(self, file_id: str) -> AsyncIterator[tuple[MediaFile, Readable]]:
        """A file and what it holds, safe from eviction while the block runs. Raises NotFound, MediaUnavailable."""
        kept = await self.find(file_id)
        file = await self._opened(kept.id)
        try:
            # Locked by another: it is being evicted. Another size: the machine fell while it was written.
            if not _lock(file.fileno(), fcntl.LOCK_SH) or os.fstat(file.fileno()).st_size != kept.size:
                raise gone()
            yield kept, file
        finally:
            await file.close()

    async def find(self, file_id: str) -> MediaFile:
        """The facts of a file that has not expired. Raises NotFound, MediaUnavailable."""
        if not _ID.fullmatch(file_id):
            raise gone()
        file = await self._opened(f"{file_id}.about")
        try:
            kept = MediaFile(**json.loads(await self._disk(file.read())))
            if kept.id == file_id and kept.expires > time.time():
                return kept
        except (ValueError, TypeError):
            log.error("%s.about in %s is damaged", file_id, self.folder)
        finally:
            await file.close()
        raise gone()

    async def _opened(self, name: str) -> Any:
        with self._explained():
            try:
                return await aiofiles.open(self.folder / name, "rb", opener=_open)
            except FileNotFoundError:
                raise gone() from None

    async def delete(self, file_id: str) -> None:
        """Forget a file, unless it is being read. One that is not there is no fault."""
        if _ID.fullmatch(file_id):
            await asyncio.to_thread(self._remove, file_id)

    async def sweep(self) -> None:
        """Remove what has expired and what dead processes left. `put` does so too; this is for quiet times."""
        await self._disk(asyncio.to_thread(self._make_room, 0))

    # Eviction

    def _make_room(self, needed: int) -> None:
        """Remove what has expired, then the oldest until `needed` bytes more fit. Raises MediaFull when they do not."""
        if needed > self.max_bytes:
            raise _no_room()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept, left, total = self._look()
        now = time.time()
        for file in sorted(kept, key=lambda file: (file.expires > now, file.written)):
            if file.expires > now and (total + needed <= self.max_bytes or not self.evicts):
                break
            if self._remove(file.id):
                total -= file.size
        for file_id in left:
            self._remove(file_id)
        if total + needed > self.max_bytes:
            log.error("%s is full: files that are in use fill its %d bytes", self.folder, self.max_bytes)
            raise _no_room()

    def _look(self) -> tuple[list[_Kept], list[str], int]:
        """Whole files, the ids of what was left unfinished, and the bytes of everything that is ours."""
        found: dict[str, dict[str, os.stat_result]] = {}  # by id, by what follows it in the name
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if ours := _OURS.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        found.setdefault(ours["id"], {})[ours["rest"]] = entry.stat(follow_symlinks=False)
        kept: list[_Kept] = []
        left: list[str] = []
        for file_id, parts in found.items():
            size = sum(status.st_size for status in parts.values())
            if "" in parts and ".about" in parts:
                kept.append(_Kept(parts[""].st_mtime, size, parts[".about"].st_mtime, file_id))
            elif max(status.st_ctime for status in parts.values()) < time.time() - LEFT_SECONDS:
                left.append(file_id)
        return kept, left, sum(status.st_size for parts in found.values() for status in parts.values())

    def _remove(self, file_id: str) -> bool:
        """Remove a file and everything beside it, unless somebody writes or reads it."""
        locked: list[int] = []
        try:
            for suffix in ("", ".part"):
                with suppress(FileNotFoundError):
                    locked.append(_open(f"{self.folder / file_id}{suffix}", os.O_RDONLY))
                    if not _lock(locked[-1], fcntl.LOCK_EX):
                        return False
            for suffix in (".about", ".about.part", "", ".part"):  # the facts first: half a file is never found
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.folder / file_id}{suffix}")
            return True
        except OSError as error:
            log.warning("%s cannot be removed from %s: %s", file_id, self.folder, error)
            return False
        finally:
            for descriptor in locked:
                os.close(descriptor)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Faults of the disk, as the caller may see them; the operator's words go to the log."""
        try:
            yield
        except OSError as error:
            log.error("files cannot be kept in %s: %s. Check server.data_dir and its disk.", self.folder, error)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise MediaFull("The gateway's disk is full. Try again later.") from error
            raise MediaUnavailable("The gateway cannot use its storage for files. Try again later.") from error


class AnswerFiles:
    """The files of one answer: kept in the store, at addresses below `public_url` (scheme and host, no slash at its end)."""

    def __init__(self, store: MediaStore, public_url: str) -> None:
        self._store = store
        self.public_url = public_url

    async def keep(self, data: bytes | AsyncIterator[bytes], media_type: str, name: str = "") -> str:
        """Keep a file; its signed address. Raises MediaFull (507), MediaUnavailable (503)."""
        kept = await self._store.put(data, media_type, name)
        return self.public_url + self._store.sign(kept.id, kept.expires)


def _no_room() -> MediaFull:
    return MediaFull(
        "The gateway's storage for files has no room for this one. Try again later, or ask for a smaller one."
    )


def gone() -> NotFound:
    """The one answer for what never was, what has expired, and an address that is not signed."""
    return NotFound("There is no such file, or its address has expired. Ask for a new one.", code="file_not_found")


def _create(path: str | Path, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def _open(path: str | Path, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk
