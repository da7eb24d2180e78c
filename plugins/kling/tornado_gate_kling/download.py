"""A finished video: a file at the vendor's store, at an address that needs no key and must not get one.

Source: https://app.klingai.com/global/dev/document-api/apiReference/model/textToVideo, `task_result.videos[].url`, which is on
another host than the API and goes away after 30 days.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, cast

from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.http import upstream
from tornado_gate.types import Call, UpstreamRequest, UpstreamResponse
from tornado_gate_kling.address import same_origin


class Found(Protocol):
    """A file that is being read: `length` in bytes where its server said it."""

    @property
    def media_type(self) -> str: ...
    @property
    def length(self) -> int | None: ...
    def chunks(self) -> AsyncIterator[bytes]: ...


class Opener(Protocol):
    """The part of the core's fetcher that reads a file piece by piece."""

    def open(self, url: str, *, kinds: tuple[str, ...]) -> AbstractAsyncContextManager[Found]: ...


def video_url(call: Call, operation: Mapping[str, Any], index: int) -> str:
    """The address of video number `index`. Raises UpstreamError where there is none."""
    urls = operation.get("urls")
    if not isinstance(urls, list) or not 0 <= index < len(urls):
        raise UpstreamError(
            f"The provider '{call.target.provider}' gave no video {index + 1}.", code="upstream_no_video"
        )
    return str(urls[index])


async def fetch(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """The file at `outgoing.url`, while it comes. Raises UpstreamError."""
    provider = call.target.provider
    if same_origin(outgoing.url, call.target.base_url):
        return await upstream.call_upstream(call, outgoing)
    if not outgoing.url.startswith("https://"):
        raise UpstreamError(f"The provider '{provider}' gave a video an address that is not https.")
    if call.fetcher is None:
        raise UpstreamError(f"The provider '{provider}' gave an address, and there is nothing to fetch it with.")
    opener = cast(Opener, call.fetcher)
    try:
        found = await call.closing.enter_async_context(opener.open(outgoing.url, kinds=("video/",)))
    except InvalidField as error:
        raise _unfetched(call, error) from error
    length = {} if found.length is None else {"content-length": str(found.length)}
    return UpstreamResponse(chunks=_chunks(call, found), headers={"content-type": found.media_type, **length})


async def _chunks(call: Call, found: Found) -> AsyncIterator[bytes]:
    try:
        async for chunk in found.chunks():
            yield chunk
    except InvalidField as error:
        raise _unfetched(call, error) from error


def _unfetched(call: Call, error: InvalidField) -> UpstreamError:
    """That it cannot be had is not the caller's fault: no field of a request is wrong."""
    return UpstreamError(f"A video of the provider '{call.target.provider}' could not be fetched ({error.code}).")
