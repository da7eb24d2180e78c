"""Fetcher: fetches callers' files, opens upstreams' files, posts webhooks."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

from tornado_gate.codec.media_types import WrongMediaType, resolve_media_type
from tornado_gate.config.model import FetchRules
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch.addresses import (
    CHECK_LOGIN_ADVICE,
    SEND_FILE_ADVICE,
    Address,
    FetchRefused,
    Resolver,
    is_allowed,
    parse,
    parse_literal,
    resolve_with_system,
    rules_for_host,
    too_large_error,
)
from tornado_gate.http.fetch.connections import (
    HEADERS,
    decode_body,
    get_announced_length,
    map_fetch_errors,
    open_response,
)
from tornado_gate.http.fetch.inline import decode_data_url_in_thread
from tornado_gate.http.fetch.opened import OpenedFile, as_upstream_errors, open_file
from tornado_gate.types.value import Value

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

RESOLVER_THREADS = 8
"""Threads for name resolution only: slow lookups must not delay reading of files."""
REDIRECTS = (301, 302, 303, 307, 308)
DISCARDED_BYTES = 64 * 1024
DISCARD_SECONDS = 2.0
"""Maximum time for reading an unused response body, so that its server does not fail while sending it."""


class FetchedFile(Value, frozen=True, kw_only=True):
    """`media_type` has no parameters; `url` is the final URL after redirects, "data:" for a data: URL."""

    media_type: str
    data: bytes
    url: str


class PostFailed(Exception):
    """A post got no usable response. The message is safe to show."""


class Fetcher:
    """One per process. `resolve` and `tls` are for tests, and for operators with their own certificate authority."""

    def __init__(
        self,
        rules: FetchRules | None = None,
        *,
        resolve: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.rules = rules or FetchRules()
        self._resolve = resolve or resolve_with_system
        self._tls = tls
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, "resolve")
        self._places = asyncio.Semaphore(self.rules.parallel)
        self._posting = asyncio.Semaphore(self.rules.parallel)

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> FetchedFile:
        """Return the file at `url` if its media type begins with one of `kinds` ("image/", "application/pdf").

        Raises InvalidField for the caller's field `param`, with a code: ``invalid_url``, ``private_address``,
        ``unreachable_url``, ``too_large``, ``wrong_media_type``.
        """
        rules = self.rules
        try:
            if url[:5].lower() == "data:":
                data, declared = await decode_data_url_in_thread(url, rules.max_bytes)
                return FetchedFile(media_type=resolve_media_type(data, declared, kinds), data=data, url="data:")
            async with asyncio.timeout(rules.seconds), self._places:
                return await self._fetch_file(url.strip(), kinds, rules)
        except FetchRefused as refused:
            raise InvalidField(param, f"{refused.what} {refused.advice}", code=refused.code) from None
        except WrongMediaType as wrong:
            raise InvalidField(param, str(wrong), code="wrong_media_type") from None
        except TimeoutError:
            message = f"The file at this address did not arrive within {rules.seconds:g} seconds. {SEND_FILE_ADVICE}"
            raise InvalidField(param, message, code="unreachable_url") from None

    @asynccontextmanager
    async def open(
        self, url: str, *, kinds: Collection[str], most_bytes: int | None = None, allow_host: str = ""
    ) -> AsyncIterator[OpenedFile]:
        """Open a file at an upstream's URL, if its content is one of `kinds`; it is read while it arrives.

        The rules of `fetch` apply, with `most_bytes` instead of `max_bytes`. `allow_host` ("host:port") is the provider's host
        from the configuration and may be in a private network. `parallel` does not count these files: slow addresses of
        callers must not delay videos, and vice versa.

        Raises UpstreamError, here and while the chunks are read, with a code: ``upstream_file_gone``,
        ``upstream_file_refused`` (the address), ``upstream_file_unreachable``, ``upstream_file_too_large``,
        ``upstream_wrong_media_type``.
        """
        rules = self.rules
        async with AsyncExitStack() as stack:
            with as_upstream_errors(url, rules.seconds):
                async with asyncio.timeout(rules.seconds):
                    response, place = await self._follow_redirects(stack, url.strip(), rules, allow_host)
            with as_upstream_errors(url, rules.gap_seconds):
                opened = await open_file(str(place), response, rules, kinds, most_bytes)
            stack.push_async_callback(opened.body.close)
            yield opened

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float) -> int:
        """Post `body` to `url` and return the HTTP status, whatever it is. The response's body is discarded.

        The rules of `fetch` apply, but redirects are not followed. Raises PostFailed for a redirect, and if there is no response
        within `seconds`.
        """
        rules = self.rules
        async with self._posting, AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds):
                    place = parse(url.strip(), rules)
                    addresses = await self._resolve_host(place, rules)
                    sent = open_response(
                        "POST", place, addresses, tls=self._tls, headers={**HEADERS, **headers}, body=body
                    )
                    with map_fetch_errors():
                        response = await stack.enter_async_context(sent)
            except FetchRefused as refused:
                raise PostFailed(refused.what) from None
            except TimeoutError:
                raise PostFailed(f"This address did not respond within {seconds:g} seconds.") from None
            if 300 <= response.status < 400:
                raise PostFailed("This address redirects. Redirects are not followed; use the final URL.")
            await _discard(response)
            return response.status

    async def close(self) -> None:
        """Start no more name lookups; running ones end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _fetch_file(self, given: str, kinds: Collection[str], rules: FetchRules) -> FetchedFile:
        async with AsyncExitStack() as stack:
            response, url = await self._follow_redirects(stack, given, rules)
            with map_fetch_errors():
                data = await _read(response, rules.max_bytes)
        declared = response.headers.get("Content-Type", "")
        return FetchedFile(media_type=resolve_media_type(data, declared, kinds, trusted=False), data=data, url=str(url))

    async def _follow_redirects(
        self, stack: AsyncExitStack, given: str, rules: FetchRules, own_host: str = ""
    ) -> tuple[aiohttp.ClientResponse, URL]:
        """Return the final response and its URL; the response is open until `stack` closes."""
        url = parse(given, rules, own_host=own_host)
        for _ in range(rules.redirects + 1):
            addresses = await self._resolve_host(url, rules_for_host(url, rules, own_host))
            with map_fetch_errors():
                response = await stack.enter_async_context(open_response("GET", url, addresses, tls=self._tls))
            location = response.headers.get("Location")
            if response.status not in REDIRECTS or not location:
                if response.status != 200:
                    what = f"The server of this address returned status {response.status}."
                    raise FetchRefused("unreachable_url", what, CHECK_LOGIN_ADVICE, response.status)
                return response, url
            await stack.aclose()
            url = parse(location, rules, url, own_host)
        raise FetchRefused(
            "unreachable_url", f"This address redirects more than {rules.redirects} times.", SEND_FILE_ADVICE
        )

    async def _resolve_host(self, url: URL, rules: FetchRules) -> list[Address]:
        """Resolve the URL's host and check every address. Raises FetchRefused."""
        host, loop, found = url.raw_host or "", asyncio.get_running_loop(), list[Address]()
        spelled = parse_literal(host)
        if spelled is not None:
            found = [spelled]
        else:
            with suppress(OSError, ValueError):
                answers = await loop.run_in_executor(self._threads, self._resolve, host, url.port or 0)
                found = [ip_address(answer.partition("%")[0]) for answer in answers]
        if not found:
            raise FetchRefused("unreachable_url", "The host of this address cannot be resolved.", CHECK_LOGIN_ADVICE)
        if not all(is_allowed(address, rules) for address in found):
            raise FetchRefused("private_address", "This address is not on the public internet.", SEND_FILE_ADVICE)
        return found


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the decoded body. Raises FetchRefused if it is larger than `most` bytes."""
    if (get_announced_length(response) or 0) > most:
        raise too_large_error(most)
    pieces: list[bytes] = []
    size = 0
    async for piece in decode_body(response):
        size += len(piece)
        if size > most:
            raise too_large_error(most)
        pieces.append(piece)
    return b"".join(pieces)


async def _discard(response: aiohttp.ClientResponse) -> None:
    left = DISCARDED_BYTES
    with suppress(TimeoutError, FetchRefused), map_fetch_errors():
        async with asyncio.timeout(DISCARD_SECONDS):
            while left > 0 and (piece := await response.content.read(left)):
                left -= len(piece)
