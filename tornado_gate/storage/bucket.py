"""A bucket of an object store (S3, Google Cloud Storage, Azure), through the library obstore.

This is the only module that imports obstore, and it is imported only if conf names a bucket. The library's threads do not
survive a fork, so a bucket is opened in the process that uses it.

A bucket that does not respond delays a request by at most METADATA_SECONDS. After a failure all requests fail immediately for
AWAY_SECONDS; then one request tries the bucket again while the others still fail. So requests do not pile up.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tornado_gate.config.model import BucketConfig
from tornado_gate.errors import ConfigError
from tornado_gate.storage.files import CHUNK_BYTES, MediaUnavailable

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
    from obstore.store import from_url
except ImportError as error:
    message = "needs the package 'obstore': install tornado-gate[object-store]"
    raise ConfigError([(("media", "store"), message)]) from error

log = logging.getLogger(__name__)

__all__ = ["BaseError", "Bucket", "PermissionDeniedError", "RawSteps", "UnauthenticatedError", "open_client"]

T = TypeVar("T")

METADATA_SECONDS = 5.0
"""Time limit of one request without content, and of the head of a response with content."""
CONTENT_SECONDS = 30.0
"""Time limit of a gap in a response, and of the upload of one part."""
LIST_SECONDS = 10.0
"""Time limit of one page of a listing."""
AWAY_SECONDS = 5.0
SETTLE_SECONDS = 0.2
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 2
SLOWEST_BYTES_PER_SECOND = 128 * 1024
"""An upload that is slower than this on average is ended."""
LIST_PAGE = 1000
LONGEST_CAUSE = 300
MISSING_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
"""Error codes that make a missing object a missing bucket."""
ENDPOINT_OPTIONS = {"s3": "endpoint", "gs": "base_url", "az": "endpoint"}

_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\(code: (\w{1,60})\)")


class StoredObject(NamedTuple):
    """The size of an object in bytes, and its attributes: ``Content-Type`` and the metadata from its upload."""

    size: int
    attributes: Mapping[str, str]


class ListedObject(NamedTuple):
    """An object in a listing. `modified` is the time of its upload in Unix seconds."""

    key: str
    size: int
    modified: float


def open_client(config: BucketConfig) -> Any:
    """Return obstore's client. Raises BaseError for options that the library does not know."""
    options: dict[str, Any] = {name: str(value) for name, value in config.options.items()}
    if config.endpoint:
        options[ENDPOINT_OPTIONS[config.store[:2]]] = config.endpoint
    return from_url(  # type: ignore[call-overload]  # each kind of store has its own types of options
        config.store,
        config=options,
        client_options={
            "allow_http": config.endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=METADATA_SECONDS / 2),
            "read_timeout": timedelta(seconds=CONTENT_SECONDS),
            "timeout": timedelta(days=1),  # of a whole response, which a slow reader may take for hours
        },
        retry_config={
            "max_retries": 2,
            "retry_timeout": timedelta(seconds=METADATA_SECONDS),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        },
    )


async def _read_next(stream: Any, end: Any) -> Any:
    """Return the next item of a stream of the library, or `end`. The library's awaitables do not work with `anext`."""
    try:
        return await stream.__anext__()
    except StopAsyncIteration:
        return end


class Bucket:
    """The objects below the address of `config`. Raises MediaUnavailable if the bucket cannot be used.

    `on_failure` is called with each failure, for a metric. `is_away`: the last request has failed. Open one in each process,
    after a fork.
    """

    def __init__(
        self, config: BucketConfig, on_failure: Callable[[], None] = lambda: None, *, is_away: bool = False
    ) -> None:
        self.address = config.store.rstrip("/")
        self._client = open_client(config)
        self._on_failure = on_failure
        self.is_away = is_away
        self._refuses_until = 0.0

    async def find(self, key: str) -> StoredObject | None:
        """Return an object; None if the bucket does not have it."""
        try:
            result = await self._call(
                lambda: obstore.get_async(self._client, key, options={"head": True}), METADATA_SECONDS
            )
        except FileNotFoundError:
            return None
        return StoredObject(result.meta["size"], result.attributes)

    async def read(self, key: str, first: int, end: int) -> AsyncGenerator[bytes]:
        """Yield the bytes from `first` to before `end`. Raises FileNotFoundError, and EOFError if the response is cut."""
        if first >= end:
            return
        result = await self._call(
            lambda: obstore.get_async(self._client, key, options={"range": (first, end)}), METADATA_SECONDS
        )
        stream = result.stream(min_chunk_size=CHUNK_BYTES)
        while first < end:
            chunk = await self._await(lambda: _read_next(stream, b""), CONTENT_SECONDS)
            if not chunk:
                raise EOFError("the object is shorter than its metadata says")
            first += len(chunk)
            yield chunk

    async def upload(self, key: str, file: Path, size: int, attributes: Mapping[str, str]) -> None:
        """Upload a file, in parts if it is large. No more than a few parts are in memory."""
        await self._call(
            lambda: obstore.put_async(
                self._client,
                key,
                file,
                attributes=dict(attributes),
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            ),
            CONTENT_SECONDS * 2 + size / SLOWEST_BYTES_PER_SECOND,
        )

    async def list_pages(self, folder: str) -> AsyncGenerator[list[ListedObject]]:
        """Yield all objects below `folder`, in pages."""
        stream = obstore.list(self._client, folder, chunk_size=LIST_PAGE)
        while page := await self._call(lambda: _read_next(stream, ()), LIST_SECONDS):
            yield [ListedObject(entry["path"], entry["size"], entry["last_modified"].timestamp()) for entry in page]

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, at most LIST_PAGE. Missing objects are not an error, but Google and Azure stop there."""
        try:
            await self._call(lambda: obstore.delete_async(self._client, list(keys)), CONTENT_SECONDS)
        except FileNotFoundError:
            for key in keys if len(keys) > 1 else ():
                await self.delete([key])

    async def sign(self, key: str, method: str, seconds: float) -> str:
        """Return a URL at which the bucket serves an object for `seconds`."""
        signing = obstore.sign_async
        url: str = await self._call(
            lambda: signing(self._client, method, key, timedelta(seconds=seconds)),  # type: ignore[call-overload]
            METADATA_SECONDS,
        )
        return url

    async def close(self) -> None:
        """Wait until the library's threads have released the results of the last requests.

        Otherwise they may abort an interpreter that is ending (github.com/PyO3/pyo3-async-runtimes/issues/40).
        """
        await asyncio.sleep(SETTLE_SECONDS)

    async def _call(self, start: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Begin a request, unless the bucket is away, and await its result. Raises the errors of `_await`."""
        self._check_availability()
        return await self._await(start, seconds)

    async def _await(self, start: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Await what `start` begins. Raises FileNotFoundError and MediaUnavailable."""
        try:
            async with asyncio.timeout(seconds):
                result = await start()
        except FileNotFoundError as error:
            if get_code(error) in MISSING_BUCKET:
                raise self._note_failure(error) from None
            self._note_success()
            raise
        except (BaseError, OSError) as error:  # TimeoutError is an OSError
            raise self._note_failure(error) from None
        self._note_success()
        return result

    def _check_availability(self) -> None:
        now = time.monotonic()
        if now < self._refuses_until:
            raise _unavailable_error()
        if self.is_away:
            self._refuses_until = now + METADATA_SECONDS  # until then this request tries it alone

    def _note_success(self) -> None:
        if self.is_away:
            log.info("the bucket %s responds again", self.address)
        self.is_away, self._refuses_until = False, 0.0

    def _note_failure(self, error: Exception) -> MediaUnavailable:
        """Count a failure, and log it if the last request was successful. Return the error for the caller."""
        self._on_failure()
        if not self.is_away:
            log.error("the bucket %s of media.store cannot be used: %s", self.address, describe_error(error))
        self.is_away, self._refuses_until = True, time.monotonic() + AWAY_SECONDS
        return _unavailable_error()


class RawSteps:
    """Single requests with the library's own errors (BaseError, OSError), for the check at the start."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def write(self, key: str) -> None:
        async with asyncio.timeout(METADATA_SECONDS * 2):
            await obstore.put_async(self._client, key, b"tornado-gate")

    async def read(self, key: str) -> bytes:
        async with asyncio.timeout(METADATA_SECONDS * 2):
            result = await obstore.get_async(self._client, key)
            return bytes(await result.bytes_async())

    async def list(self, folder: str) -> None:
        async with asyncio.timeout(METADATA_SECONDS * 2):
            await _read_next(obstore.list(self._client, folder), ())

    async def delete(self, key: str) -> None:
        async with asyncio.timeout(METADATA_SECONDS * 2):
            await obstore.delete_async(self._client, key)

    async def share_secret(self, key: str, own: bytes) -> bytes:
        """Return the object `key`. It is created with `own` if it does not exist; the first node wins."""
        with suppress(AlreadyExistsError):
            async with asyncio.timeout(METADATA_SECONDS * 2):
                await obstore.put_async(self._client, key, own, mode="create")
        return await self.read(key)


def get_code(error: Exception) -> str:
    """Return the error code of the object store, such as ``NoSuchBucket``; "" without one."""
    match = _CODE.search(str(error))
    return (match[1] or match[2]) if match else ""


def describe_error(error: Exception) -> str:
    """Return the cause of an error in one line."""
    if isinstance(error, TimeoutError):
        return "no response in time"
    lines = str(error).splitlines() or [type(error).__name__]
    cause = lines[0].partition("<?xml")[0].rstrip(" :-")[:LONGEST_CAUSE]
    code = get_code(error)
    return f"{cause} ({code})" if code and code not in cause else cause


def _unavailable_error() -> MediaUnavailable:
    return MediaUnavailable(
        "The gateway's object store does not respond. Try again in a few seconds.",
        headers={"Retry-After": str(round(AWAY_SECONDS))},
    )
