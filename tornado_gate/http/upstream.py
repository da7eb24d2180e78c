"""The default `call_upstream`: pooled HTTP. Its pools are the only way to providers; `sockets` uses them too.

Faults of the clients below `http1`, and statuses of upstreams, become errors by the table in `http/upstream_errors.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal
from urllib.parse import urljoin, urlsplit

import orjson

from tornado_gate.errors import PluginError, UpstreamError
from tornado_gate.http import upstream_errors
from tornado_gate.http.base_url import is_same_origin
from tornado_gate.http.client.faults import ConnectError, ConnectionBroken, ConnectTimeout, HttpClientError
from tornado_gate.http.client.pool import HttpClient
from tornado_gate.http.client.response import HttpResponse
from tornado_gate.types import BufferedBody, Call, Timeouts, UpstreamRequest, UpstreamResponse
from tornado_gate.types.value import replace

if TYPE_CHECKING:
    import aiohttp

    from tornado_gate.http.client.aiohttp_pool import AiohttpClient, AiohttpResponse

log = logging.getLogger(__name__)

_HOST_DELIMITERS = frozenset({"", "/", "?", "#"})
"""What ends the part of a URL that says where it leads; RFC 3986 3.2."""

_DEFAULT_HEADERS = (("Accept-Encoding", "identity"), ("Accept", "*/*"))
_JSON_HEADERS = (("Content-Type", "application/json"), *_DEFAULT_HEADERS)
_BYTES_HEADERS = (("Content-Type", "application/octet-stream"), *_DEFAULT_HEADERS)
"""Headers that each request has unless the plugin says otherwise."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

ERROR_BODY_BYTES = 64 * 1024
"""As much of an upstream's error as is read to find its message."""

ERROR_BODY_SECONDS = 5.0
"""An upstream's error is known by its status; its words are not waited for any longer."""


class Pool:
    """The connections of one provider entry. Lives as long as the entry is unchanged; opened at first use.

    `client` is what speaks HTTP: our own, or aiohttp. WebSockets are always aiohttp's. Only the core uses a pool: this module
    its client, `sockets` its session.
    """

    def __init__(self, timeouts: Timeouts, client: Literal["httptools", "aiohttp"] = "httptools") -> None:
        self._timeouts = timeouts
        self._kind = client
        self._client: HttpClient | None = None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def client(self) -> HttpClient | AiohttpClient:
        """What sends requests; made inside the running loop. Raises NotConnected when the pool is closed."""
        if self._client is None:
            if self._kind == "aiohttp":
                return _make_aiohttp_client(self.session())
            self._check_open()
            self._client = HttpClient(self._timeouts.connect)
        return self._client

    def session(self) -> aiohttp.ClientSession:
        """An aiohttp session with connections of its own; made inside the running loop. Raises as `client` does."""
        if self._session is None:
            self._check_open()
            from tornado_gate.http.client import aiohttp_pool

            self._session = aiohttp_pool.create_session(self._timeouts.connect)
        return self._session

    def _check_open(self) -> None:
        """What outlives its provider entry opens no new connections for it."""
        if self._closed:
            raise ConnectError("the provider entry is no longer in conf")

    async def close(self) -> None:
        self._closed = True
        client, self._client = self._client, None
        session, self._session = self._session, None
        if client is not None:
            await client.close()
        if session is not None:
            await session.close()


def _make_aiohttp_client(session: aiohttp.ClientSession) -> AiohttpClient:
    from tornado_gate.http.client.aiohttp_pool import AiohttpClient

    return AiohttpClient(session)


async def call_upstream(call: Call, outgoing: UpstreamRequest, *, redirected: bool = False) -> UpstreamResponse:
    """Send `outgoing` and return when the upstream's headers are there; `chunks` reads the rest at the reader's pace.

    Raises UpstreamError and its kin for a status from 300 on that `outgoing` does not accept. The connection is closed by
    `call.closing` unless the body was read to its end. A body that came with the headers is `Whole`, and its connection is
    free again. `redirected` is for a redirect, whose URL goes out as the upstream quoted it.
    """
    if outgoing.file_types and not is_same_origin(outgoing.url, call.target.base_url):
        return await _open_elsewhere(call, outgoing)
    check_host(call, outgoing)
    body, usual = outgoing.body, _DEFAULT_HEADERS if outgoing.body is None else _BYTES_HEADERS
    if outgoing.json is not None:
        body, usual = orjson.dumps(outgoing.json), _JSON_HEADERS
    provider = call.target.provider
    exact = redirected or bool(outgoing.file_types)  # the upstream gave the URL, which may be signed
    try:
        client = call.pool.client()
        answer = await client.request(outgoing.method, outgoing.url, outgoing.headers, body, usual, exact=exact)
    except (HttpClientError, ValueError) as error:
        raise connection_error(provider, error) from error
    if answer.status < 300 and (body := answer.take_complete_body()):
        return UpstreamResponse(
            status=answer.status, headers=answer.headers, chunks=BufferedBody(body), provider=provider
        )
    call.closing.callback(answer.close)
    if answer.status >= 300:
        return await _handle_status(call, outgoing, answer)
    answer.explain = partial(connection_error, provider, answered=True)
    return UpstreamResponse(status=answer.status, headers=answer.headers, chunks=answer, provider=provider)


async def _handle_status(
    call: Call, outgoing: UpstreamRequest, answer: HttpResponse | AiohttpResponse
) -> UpstreamResponse:
    """What an answer of status 300 or above becomes: the one behind a redirect, an accepted answer, or an error."""
    status, headers = answer.status, answer.headers
    accepted = status in outgoing.accepted_statuses
    location = headers.get("location") if status in _REDIRECTS and not accepted else None
    if location and outgoing.redirects and outgoing.method == "GET":
        answer.close()
        return await call_upstream(call, _follow_redirect(call, outgoing, location), redirected=True)
    body = await _read_error_body(answer)
    if not accepted:
        raise make_refusal_error(call, status, headers, body)
    return UpstreamResponse(status=status, headers=headers, chunks=BufferedBody(body), provider=call.target.provider)


def _follow_redirect(call: Call, outgoing: UpstreamRequest, location: str) -> UpstreamRequest:
    """The request to where a redirect leads. Raises UpstreamError for another host, unless a file is sought."""
    provider = call.target.provider
    try:
        url = urljoin(outgoing.url, location)
    except ValueError as error:
        raise UpstreamError(f"The provider '{provider}' redirects to what is no URL.") from error
    if not outgoing.file_types and not is_same_origin(url, call.target.base_url):
        raise UpstreamError(f"The provider '{provider}' redirects to a host that is not its own; check its base_url.")
    return replace(outgoing, url=url, redirects=outgoing.redirects - 1)


async def _open_elsewhere(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """A file at a host that is not the provider's own, as the fetcher opens it: from public addresses, without our headers."""
    provider = call.target.provider
    if call.fetcher is None:
        raise UpstreamError(
            f"The provider '{provider}' keeps the file at a host that is not its own, which is not asked."
        )
    found = await call.closing.enter_async_context(call.fetcher.open(outgoing.url, kinds=outgoing.file_types))
    length = {} if found.length is None else {"content-length": str(found.length)}
    return UpstreamResponse(
        chunks=found.chunks(), headers={"content-type": found.media_type, **length}, provider=provider
    )


def connection_error(provider: str, error: Exception, *, answered: bool = False) -> UpstreamError:
    """The error for an exchange that failed. `answered`: the head of an answer had come."""
    if isinstance(error, ConnectTimeout):
        return upstream_errors.not_connected_in_time(provider)
    log.warning("upstream '%s' failed: %s: %s", provider, type(error).__name__, error)
    if isinstance(error, ConnectError):
        return upstream_errors.unreachable(provider)
    if isinstance(error, ConnectionBroken) or answered:
        return upstream_errors.connection_lost(provider, answered=answered)
    return (
        upstream_errors.bad_answer(provider)
        if isinstance(error, HttpClientError)
        else upstream_errors.not_sent(provider)
    )


def check_host(call: Call, outgoing: UpstreamRequest) -> None:
    """A provider's key goes to its configured host and nowhere else, whatever a plugin puts together."""
    base_url, url = call.target.base_url, outgoing.url
    if not base_url:
        return
    here = _parse_scheme_and_host(base_url)
    if url.startswith(here) and url[len(here) : len(here) + 1] in _HOST_DELIMITERS:
        return
    if not is_same_origin(url, base_url):  # the long way: other case, ws for http
        raise PluginError(call.target.plugin, f"the request was to go to {urlsplit(url).netloc}, not to {here}")


@lru_cache(maxsize=256)
def _parse_scheme_and_host(base_url: str) -> str:
    """Of conf's addresses only: those that requests go to may hold keys and signatures, which no cache is to keep."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}"


async def _read_error_body(answer: HttpResponse | AiohttpResponse) -> bytes:
    """As much of an error's body as matters, or as came."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            async for piece in answer:
                pieces.append(piece)
                size += len(piece)
                if size >= ERROR_BODY_BYTES:
                    break
    except (HttpClientError, TimeoutError):
        log.debug("an upstream's error came without its end")
    return b"".join(pieces)[:ERROR_BODY_BYTES]


def make_refusal_error(call: Call, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error for an upstream's answer that is not what was asked for, without our key in it."""
    provider = call.target.provider
    log.info("upstream '%s' answered %d", provider, status, extra={"fields": {"request_id": call.id}})
    return upstream_errors.error_for_status(status, provider, upstream_errors.parse_error_body(body), headers)
