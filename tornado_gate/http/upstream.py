"""The default `call_upstream`: pooled HTTP. All connections to providers come from its pools.

The connections of `http.websocket` come from them too. Faults of the HTTP clients and error statuses of upstreams are mapped to
errors by `http/upstream_errors.py`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

import orjson

from tornado_gate.codec.large_json import encode_json
from tornado_gate.config.model import LimitsConfig
from tornado_gate.config.network import DIRECT, Network, TrustFault
from tornado_gate.errors import ContractError, GateError, UpstreamError
from tornado_gate.http import upstream_errors
from tornado_gate.http.base_url import is_same_origin
from tornado_gate.http.client.faults import (
    CompressionTooHigh,
    ConnectError,
    ConnectionBroken,
    ConnectTimeout,
    HttpClientError,
    ResponseTooLarge,
)
from tornado_gate.http.client.pool import HttpClient
from tornado_gate.http.client.response import HttpResponse, SizeBound
from tornado_gate.http.large_responses import LargeResponses
from tornado_gate.streams.stages import Flow
from tornado_gate.types import BufferedBody, Call, Timeouts, UpstreamRequest, UpstreamResponse
from tornado_gate.types.value import replace
from tornado_gate.types.wire import ResponseReader

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

_HOST_DELIMITERS = frozenset({"", "/", "?", "#"})
"""Characters that end the authority part of a URL (RFC 3986 3.2)."""

_DEFAULT_HEADERS = (("Accept-Encoding", "identity"), ("Accept", "*/*"))
_JSON_HEADERS = (("Content-Type", "application/json"), *_DEFAULT_HEADERS)
_BYTES_HEADERS = (("Content-Type", "application/octet-stream"), *_DEFAULT_HEADERS)
"""Default headers of a request; headers that the plugin sets replace them."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

ERROR_BODY_BYTES = 64 * 1024
"""Maximum number of bytes read of an upstream's error body."""

LARGE_ANSWER_OPERATIONS = frozenset({"images", "image_edits", "speech", "embeddings"})
"""The operations whose responses hold files in base64, sound or many vectors; `limits.media_answer_bytes` applies to them."""

ERROR_BODY_SECONDS = 5.0
"""Maximum time for reading an upstream's error body. Then the error is built from the status and the bytes received."""


class SizeBounds(NamedTuple):
    """The bounds for bodies of responses, by what is in them."""

    file: SizeBound
    stream: SizeBound
    media_answer: SizeBound
    answer: SizeBound


def make_size_bounds(limits: LimitsConfig) -> SizeBounds:
    """Return the bounds that conf's section ``limits`` sets."""
    return SizeBounds(
        *(SizeBound(getattr(limits, f"{name}_bytes"), f"limits.{name}_bytes") for name in SizeBounds._fields)
    )


class Pool:
    """The connections of one provider entry. The pool exists while the entry is unchanged; connections are opened at first use.

    Only the core uses a pool: this module its HTTP client, `http.websocket` its session of aiohttp. All pools of a process
    have the same `large_responses`. `network` is how the connections are made.
    """

    def __init__(
        self,
        timeouts: Timeouts,
        limits: LimitsConfig | None = None,
        large_responses: LargeResponses | None = None,
        network: Network = DIRECT,
    ) -> None:
        limits = limits or LimitsConfig()
        self.bounds = make_size_bounds(limits)  # replaced by a reload, while the pool stays
        self.large_responses = large_responses or LargeResponses(limits.answers_bytes)
        self._timeouts = timeouts
        self._network = network
        self._client: HttpClient | None = None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def client(self) -> HttpClient:
        """Return the HTTP client; created inside the running loop. Raises ConnectError when the pool is closed."""
        if self._client is None:
            self._check_open()
            self._client = HttpClient(self._timeouts.connect, self._make_tls(), self._network.proxy)
        return self._client

    def session(self) -> aiohttp.ClientSession:
        """Return an aiohttp session with its own connections; created inside the running loop. Raises as `client` does."""
        if self._session is None:
            self._check_open()
            from tornado_gate.http.client import aiohttp_session

            tunnels = None if self._network.proxy is None else self.client()
            self._session = aiohttp_session.create_session(self._timeouts.connect, self._make_tls(), tunnels)
        return self._session

    def _make_tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, None for the usual one. Raises ConnectError if its files have become unreadable."""
        try:
            return self._network.make_tls()
        except TrustFault as fault:
            raise ConnectError(f"{fault.key}: {fault}") from fault

    def _check_open(self) -> None:
        """Raise ConnectError if the provider entry was removed: no new connection is opened for it."""
        if self._closed:
            raise ConnectError("the provider entry was removed from the configuration")

    async def close(self) -> None:
        self._closed = True
        client, self._client = self._client, None
        session, self._session = self._session, None
        if client is not None:
            await client.close()
        if session is not None:
            await session.close()


async def call_upstream(call: Call, outgoing: UpstreamRequest, *, redirected: bool = False) -> UpstreamResponse:
    """Send `outgoing` and return when the upstream's headers have arrived; `chunks` reads the body with back-pressure.

    Raises UpstreamError or a subclass for a status >= 300 that `outgoing` does not accept. `call.closing` closes the connection
    unless the body was read to its end. A body larger than the bounds of conf's ``limits`` fails with an UpstreamError while it
    is read, and its connection is closed. A body that arrived with the headers is a `BufferedBody`; its connection is already
    back in the pool. With `redirected`, the URL is sent exactly as the upstream wrote it.
    """
    if outgoing.file_types and not is_same_origin(outgoing.url, call.target.base_url):
        return await _open_elsewhere(call, outgoing)
    check_host(call, outgoing)
    body, usual = outgoing.body, _DEFAULT_HEADERS if outgoing.body is None else _BYTES_HEADERS
    if outgoing.json is not None:
        usual = _JSON_HEADERS
        try:
            body = orjson.dumps(outgoing.json) if call.worker is None else await call.run(encode_json, outgoing.json)
        except TypeError as error:
            raise ContractError(f"UpstreamRequest.json cannot be written as JSON: {error}") from error
    exact = redirected or bool(outgoing.file_types)  # the URL is from the upstream and may be signed
    try:
        client = call.pool.client()
        answer = await client.request(outgoing.method, outgoing.url, outgoing.headers, body, usual, exact=exact)
    except (HttpClientError, ValueError) as error:
        raise connection_error(call.target.provider, error) from error
    response = _receive(call, outgoing, answer)
    return await _handle_status(call, outgoing, answer) if response is None else response


def begin_call(call: Call, outgoing: UpstreamRequest) -> HttpResponse | None:
    """Send `outgoing` without waiting, and return its response, whose head has not arrived.

    None if that needs waiting, or a check or a connection that only `call_upstream` makes. Then nothing was sent.
    """
    body = outgoing.body
    if outgoing.json is not None and call.worker is None:
        usual = _JSON_HEADERS
        try:
            body = orjson.dumps(outgoing.json)
        except TypeError:
            return None
    else:
        usual = _BYTES_HEADERS
    if type(body) is not bytes or outgoing.file_types or outgoing.method != "POST":
        return None
    try:
        response: HttpResponse | None = call.pool.client().begin_post(
            outgoing.url, outgoing.headers, body, usual, partial(check_host, call, outgoing)
        )
    except Exception:
        return None  # `call_upstream` raises it again, where the lane finds whose fault it is
    return response


async def end_call(call: Call, outgoing: UpstreamRequest, answer: HttpResponse) -> UpstreamResponse:
    """Return the response of a request that `begin_call` has sent, as `call_upstream`. A request that was lost is sent again."""
    try:
        await answer.wait_for_head()
    except ConnectionBroken as broken:
        if broken.unsent:
            return await call_upstream(call, outgoing)
        raise connection_error(call.target.provider, broken) from broken
    except HttpClientError as error:
        raise connection_error(call.target.provider, error) from error
    response = _receive(call, outgoing, answer)
    return await _handle_status(call, outgoing, answer) if response is None else response


def take_whole_response(call: Call, outgoing: UpstreamRequest, answer: HttpResponse) -> UpstreamResponse | None:
    """Return a response that has arrived in one read, in the usual case: a 200 with a body. Else None: call `end_call`."""
    if answer.status != 200 or not answer.headers.get("content-type", "").isascii():
        return None
    body = answer.take_small_body(_choose_size_bound(call, outgoing, answer.headers))
    if not body:
        return None
    return UpstreamResponse(headers=answer.headers, chunks=BufferedBody(body), provider=call.target.provider)


def take_stream(call: Call, outgoing: UpstreamRequest, answer: HttpResponse) -> UpstreamResponse | None:
    """Return a stream of events whose head has arrived, in the usual case: a 200 without compression. Else None: call `end_call`.

    Its chunks are an unread flow. The caller of this function closes the response, and releases its reader, with `end_answer`.
    """
    headers = answer.headers
    content_type = headers.get("content-type", "")
    if (
        answer.status != 200
        or not content_type.startswith("text/event-stream")
        or not content_type.isascii()
        or answer.is_compressed
    ):
        return None
    try:
        answer.limit_size(_choose_size_bound(call, outgoing, headers))
    except HttpClientError:
        return None
    provider = call.target.provider
    answer.explain = partial(connection_error, provider, answered=True)
    reader = call.pool.large_responses.open_reader(call.caller.account)
    return UpstreamResponse(headers=headers, chunks=Flow(answer, reader=reader), provider=provider, reader=reader)


def _receive(call: Call, outgoing: UpstreamRequest, answer: HttpResponse) -> UpstreamResponse | None:
    """Return the upstream's response, whose head has arrived; None for a status that `_handle_status` handles.

    Raises as `call_upstream`.
    """
    provider = call.target.provider
    if not answer.headers.get("content-type", "").isascii():  # relayed, and the gateway's headers are Latin-1
        answer.close()
        raise upstream_errors.invalid_header(provider, "Content-Type")
    if answer.status == 206 and not any(name.lower() == "range" for name in outgoing.headers):
        answer.close()
        raise upstream_errors.partial_answer(provider)
    if answer.status >= 300:
        call.closing.callback(answer.close)
        return None
    try:
        answer.limit_size(_choose_size_bound(call, outgoing, answer.headers))
        body = answer.take_complete_body()
    except HttpClientError as error:
        answer.close()
        raise connection_error(provider, error, answered=True) from error
    if body:
        return UpstreamResponse(
            status=answer.status, headers=answer.headers, chunks=BufferedBody(body), provider=provider
        )
    reader = call.pool.large_responses.open_reader(call.caller.account)
    call.closing.callback(end_answer, answer, reader)
    answer.explain = partial(connection_error, provider, answered=True)
    return UpstreamResponse(
        status=answer.status, headers=answer.headers, chunks=answer, provider=provider, reader=reader
    )


def end_answer(answer: HttpResponse, reader: ResponseReader | None) -> None:
    """Close a response, and release the memory that its reader has counted."""
    answer.close()
    if reader is not None:
        reader.release()


def add_reader(call: Call, incoming: UpstreamResponse) -> UpstreamResponse:
    """Return a response that a plugin has made with a reader, as `call_upstream` gives it to those of the pool."""
    if call.pool is None:
        return incoming
    reader = call.pool.large_responses.open_reader(call.caller.account)
    call.closing.callback(reader.release)
    return replace(incoming, reader=reader)


def _choose_size_bound(call: Call, outgoing: UpstreamRequest, headers: Mapping[str, str]) -> SizeBound:
    """Return the bound for the body of a response."""
    bounds: SizeBounds = call.pool.bounds
    if outgoing.file_types:
        return bounds.file
    if headers.get("content-type", "").startswith("text/event-stream"):
        return bounds.stream
    return bounds.media_answer if call.operation in LARGE_ANSWER_OPERATIONS else bounds.answer


async def _handle_status(call: Call, outgoing: UpstreamRequest, answer: HttpResponse) -> UpstreamResponse:
    """Follow a redirect, or return an accepted response with its buffered body. Raises UpstreamError for any other."""
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
    """Return the request for a redirect's target. Raises UpstreamError for another host, unless `outgoing` downloads a file."""
    provider = call.target.provider
    try:
        url = urljoin(outgoing.url, location)
    except ValueError as error:
        raise UpstreamError(f"The provider '{provider}' redirects to an invalid URL.") from error
    if not outgoing.file_types and not is_same_origin(url, call.target.base_url):
        raise UpstreamError(
            f"The provider '{provider}' redirects to another host, which is not allowed.", advice="Check its base_url."
        )
    return replace(outgoing, url=url, redirects=outgoing.redirects - 1)


async def _open_elsewhere(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """Open a file at another host than the provider's with the fetcher: public addresses only, without the provider's headers."""
    provider = call.target.provider
    if call.fetcher is None:
        raise UpstreamError(
            f"The provider '{provider}' keeps the file at another host, and fetching files is not available."
        )
    opened = await call.closing.enter_async_context(call.fetcher.open(outgoing.url, kinds=outgoing.file_types))
    length = {} if opened.length is None else {"content-length": str(opened.length)}
    return UpstreamResponse(
        chunks=opened.chunks(), headers={"content-type": opened.media_type, **length}, provider=provider
    )


def connection_error(provider: str, error: Exception, *, answered: bool = False) -> UpstreamError:
    """Return the error for a failed exchange. `answered`: the head of the response had arrived."""
    if isinstance(error, ConnectTimeout):
        return upstream_errors.not_connected_in_time(provider)
    advice = upstream_errors.find_tls_advice(error)
    log.warning("upstream '%s' failed: %s: %s%s", provider, type(error).__name__, error, advice and f". {advice}")
    if isinstance(error, ResponseTooLarge):
        return upstream_errors.answer_too_large(provider, error.most, error.key)
    if isinstance(error, CompressionTooHigh):
        return upstream_errors.compression_too_high(provider)
    if advice and not answered:
        return upstream_errors.unreachable(provider, advice)
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
    """Raise ContractError unless the request goes to the provider's configured host: its key must not be sent elsewhere."""
    base_url, url = call.target.base_url, outgoing.url
    if not base_url:
        return
    expected = _parse_scheme_and_host(base_url)
    if url.startswith(expected) and url[len(expected) : len(expected) + 1] in _HOST_DELIMITERS:
        return
    if not is_same_origin(url, base_url):  # full comparison: upper case, ws for http
        raise ContractError(f"the request's host is {urlsplit(url).netloc} instead of {expected}")


@lru_cache(maxsize=256)
def _parse_scheme_and_host(base_url: str) -> str:
    """Split a URL from the configuration. Request URLs are not passed here: they may hold keys, which must not be cached."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}"


async def _read_error_body(answer: HttpResponse) -> bytes:
    """Return the error body up to `ERROR_BODY_BYTES`, or what arrived before the connection failed or the time was over."""
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
        log.debug("an upstream's error body was not read to its end")
    return b"".join(pieces)[:ERROR_BODY_BYTES]


def make_refusal_error(call: Call, status: int, headers: Mapping[str, str], body: bytes) -> GateError:
    """Return the error for an upstream's unexpected status: the provider's own error, or the table's."""
    provider = call.target.provider
    log.info("upstream '%s' returned status %d", provider, status, extra={"fields": {"request_id": call.id}})
    if call.explain_refusal is not None and (own := call.explain_refusal(call, status, headers, body)) is not None:
        return own
    return upstream_errors.error_for_status(status, provider, upstream_errors.parse_error_body(body), headers)
