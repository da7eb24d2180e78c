"""Files in memory in place of uploads, of the fetcher and of the file store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from tornado_gate.errors import GateError
from tornado_gate.http.fetch import FetchedFile
from tornado_gate.types.value import State, Value, field


class FakeUpload(Value, frozen=True, kw_only=True):
    """An `Upload` of a form, in memory."""

    data: bytes
    field: str = "file"
    filename: str = "a.bin"
    media_type: str = "application/octet-stream"

    @property
    def size(self) -> int:
        return len(self.data)

    async def read(self, size: int = -1) -> bytes:
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


class FakeFetcher(State):
    """``call.fetcher`` without a network. `files` are by URL; any other URL has `default`, or raises AssertionError without one.

    A file may be the error that `fetch` raises. `requests` are the arguments of each `fetch`: url, kinds, param.
    """

    default: bytes | GateError | None = None
    media_type: str = "image/png"
    files: Mapping[str, bytes | GateError] = field(default_factory=dict)
    requests: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> FetchedFile:
        self.requests.append((url, tuple(kinds), param))
        file = self.files.get(url, self.default)
        if isinstance(file, GateError):
            raise file
        assert file is not None, f"the test has no file at {url}, which '{param}' names"
        return FetchedFile(media_type=self.media_type, data=file, url=url)

    def open(
        self, url: str, *, kinds: Collection[str], most_bytes: int | None = None, allow_host: str = ""
    ) -> AbstractAsyncContextManager[Any]:
        raise AssertionError(f"the test has no upstream's file at {url}")
