"""Videos at the Gemini API: an operation that is begun and asked about, and files at addresses that need our key.

The wire format is in `tornado_gate.wire.gemini_videos`; here is where requests go. The API has no way to stop an operation:
https://ai.google.dev/api/models lists get and list for `models.operations`. Where a file is, is said by the upstream, and
may be said again by a redirect, so the key goes to the entry's own host only; any other is fetched as a caller's address is.

Source: https://ai.google.dev/gemini-api/docs/video; google-genai 3.4, operations.py, files.py (download) and _transformers.py
(t_file_name: a file is fetched from the client's own base address, by the name in its address).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast
from urllib.parse import urljoin, urlsplit

from tornado_gate.errors import UnsupportedOperation, UpstreamError, UpstreamRefused, UpstreamTimeout
from tornado_gate.http import upstream
from tornado_gate.http.fetch.pictures import picture_of
from tornado_gate.types import (
    Call,
    Data,
    UpstreamRequest,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate.types.value import replace
from tornado_gate.wire.gemini_generate import encoded
from tornado_gate.wire.gemini_videos import parse_operation, render_video_request
from tornado_gate_gemini.address import DEFAULT, resource_url, url_of

AnyVideo = VideoRequest | VideoPoll | VideoDownload | VideoCancel

BEGIN: Final = "predictLongRunning"
QUESTION: Final = "question"
"""The context of a request whose 404 is an answer: there is no such operation."""
DOWNLOAD: Final = "download"
"""The context of a request whose answer may be a redirect."""
MOST_REDIRECTS: Final = 3
KINDS: Final = ("video/",)

_GONE: Final = (404, 410)
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_FILE: Final = re.compile(r"/files/([a-z0-9-]+):download")
_LOST: Final = "lost"


class Found(Protocol):
    """What the fetcher has opened."""

    @property
    def media_type(self) -> str: ...
    def chunks(self) -> AsyncIterator[bytes]: ...


class Opens(Protocol):
    """The fetcher's way to files that are too large to be held whole."""

    def open(self, url: str, *, kinds: tuple[str, ...]) -> AbstractAsyncContextManager[Found]: ...


async def asked(call: Call, request: AnyVideo, headers: Mapping[str, str]) -> UpstreamRequest:
    """What is sent; `headers` have our key. What cannot be said is reported to `call.lose`.

    Raises UnsupportedOperation for what the API cannot do: cancel, change an earlier video, find an operation without its name.
    """
    plain = {name: value for name, value in headers.items() if name != "content-type"}
    base_url = call.target.base_url
    match request:
        case VideoRequest(remix_of=None):
            body = render_video_request(call, request, await _picture(call, request))
            return UpstreamRequest(url=url_of(base_url, call.target.upstream_model, BEGIN), headers=headers, json=body)
        case VideoPoll(operation=Mapping() as operation):
            url = resource_url(base_url, _name(operation))
            return UpstreamRequest(method="GET", url=url, headers=plain, context=QUESTION)
        case VideoDownload(operation=operation, index=index):
            url = file_url(base_url, _address(operation, index))
            own = plain if is_own(base_url, url) else {}
            return UpstreamRequest(method="GET", url=url, headers=own, context=DOWNLOAD)
        case VideoRequest():
            raise UnsupportedOperation(f"The model '{call.model}' cannot change an earlier video; it makes new ones.")
    raise UnsupportedOperation(f"The provider '{call.target.provider}' can neither cancel videos nor find lost ones.")


async def _picture(call: Call, request: VideoRequest) -> Data | None:
    if request.image is None:
        return None
    picture = await picture_of(call, request.image, request.field_name("image"))
    return Data(media_type=picture.media_type, base64=await encoded(picture.data))


def _name(operation: Mapping[str, Any]) -> str:
    """Empty, which no resource is, for an operation of another provider."""
    name = operation.get("name")
    return name if isinstance(name, str) else ""


def _address(operation: Mapping[str, Any], index: int) -> str:
    videos = operation.get("videos")
    if not isinstance(videos, list) or not 0 <= index < len(videos) or not isinstance(videos[index], str):
        raise UpstreamRefused("The upstream has no such video.", status=404, code="video_not_found")
    return str(videos[index])


def file_url(base_url: str, address: str) -> str:
    """Where a file is fetched. One at Google's own host is fetched through an entry that stands before it."""
    found = _FILE.search(urlsplit(address).path)
    if found is None or is_own(base_url, address) or not is_own(DEFAULT, address):
        return address
    return f"{base_url}/files/{found[1]}:download?alt=media"


def is_own(base_url: str, url: str) -> bool:
    """Whether an address is at the entry's own host, where our key may go."""
    own, other = urlsplit(base_url), urlsplit(url)
    return (own.scheme, own.netloc.lower()) == (other.scheme, other.netloc.lower())


async def called(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """The default call, but that an unknown operation is no error, and that files are followed to where they are."""
    if outgoing.context == DOWNLOAD:
        return await _downloaded(call, outgoing)
    try:
        return await upstream.call_upstream(call, outgoing)
    except UpstreamRefused as refused:
        if outgoing.context != QUESTION or refused.status not in _GONE:
            raise
        return UpstreamResponse(chunks=_nothing(), context=_LOST)


async def _nothing() -> AsyncIterator[bytes]:
    empty: tuple[bytes, ...] = ()
    for chunk in empty:
        yield chunk


async def _downloaded(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    url = outgoing.url
    for _ in range(MOST_REDIRECTS + 1):
        if not is_own(call.target.base_url, url):
            return await _abroad(call, url)
        found = await _visited(call, url, outgoing.headers)
        if isinstance(found, UpstreamResponse):
            return found
        url = found
    raise UpstreamError(f"The provider '{call.target.provider}' redirects the download of a video too often.")


async def _abroad(call: Call, url: str) -> UpstreamResponse:
    """A file at another host, which gets no key, and is no better than an address that a caller gave."""
    if call.fetcher is None:
        raise UpstreamError(f"The provider '{call.target.provider}' has put the video at a host that is not its own.")
    found = await call.closing.enter_async_context(cast(Opens, call.fetcher).open(url, kinds=KINDS))
    return UpstreamResponse(chunks=found.chunks(), headers={"content-type": found.media_type})


async def _visited(call: Call, url: str, headers: Mapping[str, str]) -> UpstreamResponse | str:
    """One exchange with the entry's own host: the file, or where it is. Raises as the default call does."""
    import aiohttp
    from yarl import URL

    provider = call.target.provider
    try:
        response = await call.pool.session().get(
            URL(url, encoded=True),
            headers={"Accept-Encoding": "identity", **headers},
            allow_redirects=False,
            trace_request_ctx=SimpleNamespace(),  # on which the pool notes that a connection was used before
        )
        call.closing.callback(response.close)
        found = {name.lower(): value for name, value in response.headers.items()}
        if response.status in _REDIRECTS and found.get("location"):
            return str(urljoin(url, found["location"]))
        if response.status >= 300:
            raise upstream.refusal(call, response.status, found, await response.content.read(upstream.ERROR_BODY_BYTES))
    except TimeoutError as error:
        raise UpstreamTimeout(f"The provider '{provider}' did not accept a connection in time.") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise UpstreamError(f"The provider '{provider}' could not be reached for a video.") from error
    return UpstreamResponse(status=response.status, headers=found, chunks=_chunks(provider, response))


async def _chunks(provider: str, response: Any) -> AsyncIterator[bytes]:
    import aiohttp

    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except TimeoutError:
        raise
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise UpstreamError(f"The provider '{provider}' broke off a video.") from error


def stands(call: Call, body: Any) -> VideoOperation:
    """Where an operation stands. Without our key, whatever the upstream repeats."""
    operation, key = parse_operation(body), call.target.api_key
    return replace(operation, error=operation.error.replace(key, "***")) if key else operation


def is_lost(incoming: UpstreamResponse) -> bool:
    """Whether the upstream has said that there is no such operation."""
    return bool(incoming.context == _LOST)
