"""The fetcher: it fetches callers' files, opens upstreams' files, and posts webhooks."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from tornado_gate.codec.media_types import WrongMediaType, resolve_media_type
from tornado_gate.config.model import FetchRules, LimitsConfig
from tornado_gate.config.network import Proxy, TrustFault
from tornado_gate.errors import InvalidField, Unavailable
from tornado_gate.http.client.response import SizeBound
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
from tornado_gate.http.fetch.shares import SharedResource
from tornado_gate.types.value import Value, replace

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

log = logging.getLogger(__name__)

COPIES = 4
"""The memory of a fetched file, in multiples of its size: its base64 in the request, the request as JSON, and the JSON in the
send buffer. Each copy is a third larger than the file.
"""
BUSY_PLACES = "Too many files are being fetched for this account or in all. Retry after 10 s."
BUSY_MEMORY = "The memory limit for fetched files (fetch.total_bytes) is reached. Retry after 10 s."

POST_WAIT_SECONDS = 300.0
BUSY_POSTS = "Too many posts of this account or in all are waiting for their responses."

RESOLVER_THREADS = 8
"""Threads for name resolution only: slow lookups must not delay reading of files."""
REDIRECTS = (301, 302, 303, 307, 308)
DISCARDED_BYTES = 64 * 1024
DISCARD_SECONDS = 2.0
"""Maximum time for reading an unused response body, so that its server does not fail while sending it."""


class FetchedFile(Value, frozen=True, kw_only=True):
    """A file that was fetched.

    `media_type` has no parameters; `url` is the final URL after redirects, "data:" for a data: URL.
    """

    media_type: str
    data: bytes
    url: str


class PostFailed(Exception):
    """An error: a post got no usable response. The message is safe to show."""


class Fetcher:
    """The fetcher of a process. `resolve` and `tls` are for tests, and for operators with their own certificate authority.

    The slots for fetches and the memory for their files are divided between accounts: `for_request` returns the fetcher of a
    request.
    """

    def __init__(
        self,
        rules: FetchRules | None = None,
        *,
        resolve: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._rules = rules = rules or FetchRules()
        self._resolve = resolve or resolve_with_system
        self._tls = tls
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, "resolve")
        self._places = SharedResource(rules.parallel)
        self.memory = SharedResource(rules.total_bytes)
        self._posting = SharedResource(rules.parallel)
        self.file_bytes = LimitsConfig().file_bytes  # of a file of an upstream; of conf, by each reload

    @property
    def rules(self) -> FetchRules:
        return self._rules

    @rules.setter
    def rules(self, rules: FetchRules) -> None:
        self._rules = rules
        self._places.total = self._posting.total = rules.parallel
        self.memory.total = rules.total_bytes

    def for_request(self, account: str, closing: AsyncExitStack) -> RequestFetcher:
        """Return the fetcher of one request of `account`. Its resources are released when `closing` is closed."""
        return RequestFetcher(self, account, closing)

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> FetchedFile:
        """Fetch like `RequestFetcher.fetch`, for a request without an account."""
        async with AsyncExitStack() as closing:
            return await self.for_request("", closing).fetch(url, kinds=kinds, param=param)

    async def fetch_for(self, request: RequestFetcher, url: str, kinds: Collection[str], param: str) -> FetchedFile:
        """Implement `RequestFetcher.fetch`."""
        rules = self.rules
        own = await self.read_own_for(request, url, kinds, param)
        if own is not None:
            return own
        try:
            with as_field_errors(param):
                if url[:5].lower() == "data:":
                    data, declared = await decode_data_url_in_thread(url, rules.max_bytes)
                    return FetchedFile(media_type=resolve_media_type(data, declared, kinds), data=data, url="data:")
                await self._places.reserve(request.account, 1, rules.seconds, BUSY_PLACES)
                try:
                    return await self._fetch_file(request, url.strip(), kinds, rules)
                finally:
                    self._places.release(request.account, 1)
        except TimeoutError:
            message = f"The file at this address did not arrive within {rules.seconds:g} seconds. {SEND_FILE_ADVICE}"
            raise InvalidField(param, message, code="unreachable_url") from None

    async def read_own_for(
        self, request: RequestFetcher, url: str, kinds: Collection[str], param: str
    ) -> FetchedFile | None:
        """Implement `RequestFetcher.read_own`. This class has no own addresses."""
        return None

    @asynccontextmanager
    async def open(
        self, url: str, *, kinds: Collection[str], most_bytes: int | None = None, allow_host: str = ""
    ) -> AsyncIterator[OpenedFile]:
        """Open a file at an upstream's URL, if its content is one of `kinds`; it is read while it arrives.

        The rules of `fetch` apply, with `most_bytes` instead of `max_bytes`; without it, ``limits.file_bytes`` of conf.
        `allow_host` ("host:port") is the provider's host from the configuration and may be in a private network. `parallel` does
        not count these files: slow addresses of callers must not delay videos, and vice versa.

        Raises UpstreamError, here and while the chunks are read, with a code: ``upstream_file_gone``,
        ``upstream_file_refused`` (the address), ``upstream_file_unreachable``, ``upstream_file_too_large``,
        ``upstream_wrong_media_type``.
        """
        rules = self.rules
        bound = SizeBound(self.file_bytes, "limits.file_bytes") if most_bytes is None else SizeBound(most_bytes, "")
        async with AsyncExitStack() as stack:
            with as_upstream_errors(url, rules.seconds):
                async with asyncio.timeout(rules.seconds):
                    response, address = await self._follow_redirects(stack, url.strip(), rules, allow_host)
            with as_upstream_errors(url, rules.gap_seconds):
                opened = await open_file(str(address), response, rules, kinds, bound)
            stack.push_async_callback(opened.body.close)
            yield opened

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        seconds: float,
        account: str = "",
        own_host: str = "",
    ) -> int:
        """Post `body` to `url` and return the HTTP status, including errors. The response's body is discarded.

        The rules of `fetch` apply, but redirects are not followed. An account's posts have separate slots, as its fetches.
        `own_host` is as in `rules_for_host`. Raises PostFailed for a redirect, if there is no response within `seconds`, and
        without a slot in POST_WAIT_SECONDS.
        """
        try:
            await self._posting.reserve(account, 1, POST_WAIT_SECONDS, BUSY_POSTS)
        except Unavailable as busy:
            raise PostFailed(busy.message) from None
        try:
            return await self._post(url, body, headers, seconds, own_host)
        finally:
            self._posting.release(account, 1)

    async def resolve_own_host(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a host that conf names. Private networks are allowed, metadata services are not.

        Raises PostFailed.
        """
        from yarl import URL

        try:
            url = URL.build(scheme="http", host=host.strip("[]"), port=port)
            return await self._resolve_host(url, replace(self.rules, allow_private=True))
        except FetchRefused as refused:
            raise PostFailed(refused.what) from None
        except ValueError:
            raise PostFailed("This is not the name of a host.") from None

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str], seconds: float, own_host: str) -> int:
        rules = self.rules
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds):
                    address = parse(url.strip(), rules, own_host=own_host)
                    proxy = _choose_proxy(address, rules)
                    addresses = await self._resolve_host(
                        address, rules_for_host(address, rules, own_host), proxied=proxy is not None
                    )
                    options: dict[str, Any] = {"tls": self._make_tls(rules), "proxy": proxy, "body": body}
                    sent = open_response("POST", address, addresses, headers={**HEADERS, **headers}, **options)
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

    async def _fetch_file(
        self, request: RequestFetcher, address: str, kinds: Collection[str], rules: FetchRules
    ) -> FetchedFile:
        """Return the file. Its memory is reserved before its body is read; waiting for it does not count as time of the fetch."""
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            started = loop.time()
            async with asyncio.timeout(rules.seconds):
                response, url = await self._follow_redirects(stack, address, rules)
            seconds_left = rules.seconds - (loop.time() - started)
            most = request.find_most_bytes(get_announced_length(response), rules)
            await request.reserve(most, rules.seconds)
            size = 0
            try:
                async with asyncio.timeout(seconds_left):
                    with map_fetch_errors():
                        data = await _read(response, most, request.too_large_error(rules))
                size = len(data)
            finally:
                request.settle(most, size)
        declared = response.headers.get("Content-Type", "")
        return FetchedFile(media_type=resolve_media_type(data, declared, kinds, trusted=False), data=data, url=str(url))

    async def _follow_redirects(
        self, stack: AsyncExitStack, address: str, rules: FetchRules, own_host: str = ""
    ) -> tuple[aiohttp.ClientResponse, URL]:
        """Return the final response and its URL; the response is open until `stack` closes."""
        url = parse(address, rules, own_host=own_host)
        for _ in range(rules.redirects + 1):
            proxy = _choose_proxy(url, rules)
            addresses = await self._resolve_host(url, rules_for_host(url, rules, own_host), proxied=proxy is not None)
            sent = open_response("GET", url, addresses, tls=self._make_tls(rules), proxy=proxy)
            with map_fetch_errors():
                response = await stack.enter_async_context(sent)
            location = response.headers.get("Location")
            if response.status not in REDIRECTS or not location:
                if response.status != 200:
                    message = f"The server of this address returned status {response.status}."
                    raise FetchRefused("unreachable_url", message, CHECK_LOGIN_ADVICE, response.status)
                return response, url
            await stack.aclose()
            url = parse(location, rules, url, own_host)
        raise FetchRefused(
            "unreachable_url", f"This address redirects more than {rules.redirects} times.", SEND_FILE_ADVICE
        )

    def _make_tls(self, rules: FetchRules) -> ssl.SSLContext | None:
        """Return the TLS context of a connection, None for the usual one. Raises FetchRefused."""
        try:
            return self._tls or rules.network.make_tls()
        except TrustFault as fault:
            log.warning("network.%s: %s", fault.key, fault)
            raise FetchRefused("unreachable_url", "This address could not be read.", CHECK_LOGIN_ADVICE) from None

    async def _resolve_host(self, url: URL, rules: FetchRules, *, proxied: bool = False) -> list[Address]:
        """Resolve the URL's host and check every address. Raises FetchRefused.

        A proxy resolves the host itself: for `proxied`, a name that only the proxy knows has no address here.
        """
        host, loop, addresses = url.raw_host or "", asyncio.get_running_loop(), list[Address]()
        spelled = parse_literal(host)
        if spelled is not None:
            addresses = [spelled]
        else:
            with suppress(OSError, ValueError):
                answers = await loop.run_in_executor(self._threads, self._resolve, host, url.port or 0)
                addresses = [ip_address(answer.partition("%")[0]) for answer in answers]
        if not addresses and not proxied:
            raise FetchRefused("unreachable_url", "The host of this address cannot be resolved.", CHECK_LOGIN_ADVICE)
        if not all(is_allowed(address, rules) for address in addresses):
            raise FetchRefused("private_address", "This address is not on the public internet.", SEND_FILE_ADVICE)
        return addresses


def _choose_proxy(url: URL, rules: FetchRules) -> Proxy | None:
    proxy = rules.network.proxy
    return proxy if proxy is not None and proxy.covers(url.raw_host or "") else None


@contextmanager
def as_field_errors(param: str) -> Iterator[None]:
    """Raise the fault of a file as InvalidField for the caller's field `param`."""
    try:
        yield
    except FetchRefused as refused:
        raise InvalidField(param, f"{refused.what} {refused.advice}", code=refused.code) from None
    except WrongMediaType as wrong:
        raise InvalidField(param, str(wrong), code="wrong_media_type") from None


class RequestFetcher:
    """The value of ``call.fetcher``: fetches for one request of an account, within the limits of the request.

    `account` is the caller's account. The files of one request have at most ``fetch.request_bytes`` together. Their memory, with
    its copies, is reserved until the request ends.
    """

    __slots__ = ("_closing", "_fetcher", "_files", "account")

    def __init__(self, fetcher: Fetcher, account: str, closing: AsyncExitStack) -> None:
        self.account = account
        self._fetcher = fetcher
        self._closing = closing
        self._files: _FetchedBytes | None = None  # made for the first file, because most requests fetch none

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> FetchedFile:
        """Return the file at `url` if its media type begins with one of `kinds` ("image/", "application/pdf").

        Raises InvalidField for the caller's field `param`, with a code: ``invalid_url``, ``private_address``,
        ``unreachable_url``, ``too_large``, ``wrong_media_type``; Unavailable (``overloaded``) if the account's share of places
        or memory was in use for ``fetch.seconds``.
        """
        return await self._fetcher.fetch_for(self, url, kinds, param)

    async def read_own(self, url: str, *, kinds: Collection[str], param: str) -> FetchedFile | None:
        """Return the file at an address that the gateway itself has handed out; None for any other address.

        Raises as `fetch`, and InvalidField (``file_expired``) for an own address that is no longer valid.
        """
        return await self._fetcher.read_own_for(self, url, kinds, param)

    def open(
        self, url: str, *, kinds: Collection[str], most_bytes: int | None = None, allow_host: str = ""
    ) -> AbstractAsyncContextManager[OpenedFile]:
        """Open a file as `Fetcher.open`."""
        return self._fetcher.open(url, kinds=kinds, most_bytes=most_bytes, allow_host=allow_host)

    # Called by the fetcher.

    def find_most_bytes(self, announced: int | None, rules: FetchRules) -> int:
        """Return the number of bytes that a file may have: its announced length, else the rest of the limits.

        Raises FetchRefused.
        """
        most = min(rules.max_bytes, self._count_left(rules))
        if most <= 0 or (announced or 0) > most:
            raise self.too_large_error(rules)
        return most if announced is None else announced

    def too_large_error(self, rules: FetchRules) -> FetchRefused:
        """Return the error for a file that exceeds the limit of a file, or the remainder of the request's limit."""
        if self._count_left(rules) >= rules.max_bytes:
            return too_large_error(rules.max_bytes)
        message = f"The files of this request are larger than the limit of {rules.request_bytes} bytes together."
        return FetchRefused("too_large", message, "Send fewer or smaller files.")

    async def reserve(self, size: int, seconds: float) -> None:
        """Reserve the memory for a file of `size` bytes. Raises Unavailable."""
        memory = self._fetcher.memory
        await memory.reserve(self.account, size * COPIES, seconds, BUSY_MEMORY)
        files = self._files
        if files is None:
            files = self._files = _FetchedBytes(memory, self.account)
        if not files.total:
            self._closing.callback(files.release)
        files.total += size

    def settle(self, reserved: int, size: int) -> None:
        """Release the part of the reservation that a file of `size` bytes does not need."""
        if self._files is not None:
            self._files.reduce(reserved - size)

    def _count_left(self, rules: FetchRules) -> int:
        """Return the bytes that further files of the request may have together."""
        return rules.request_bytes - (0 if self._files is None else self._files.total)


class _FetchedBytes:
    """The reserved memory of one request's files. `total` is their bytes, including files that are being fetched."""

    __slots__ = ("_account", "_memory", "total")

    def __init__(self, memory: SharedResource, account: str) -> None:
        self._memory = memory
        self._account = account
        self.total = 0  # COPIES times as many bytes are reserved

    def reduce(self, surplus: int) -> None:
        """Release the memory of `surplus` bytes, or of fewer if all was released before."""
        surplus = min(surplus, self.total)
        if surplus:
            self.total -= surplus
            self._memory.release(self._account, surplus * COPIES)

    def release(self) -> None:
        """Release all memory: the request has ended, or its attempt at a target, after which files are fetched again."""
        self.reduce(self.total)

    def __del__(self) -> None:
        """Release the memory of a fetch that outlives its request: it may reserve after `release`.

        An example is one of several fetches whose sibling has failed.
        """
        self.release()


async def _read(response: aiohttp.ClientResponse, most: int, too_large: FetchRefused) -> bytes:
    """Return the decoded body. Raises `too_large` if it is larger than `most` bytes."""
    pieces: list[bytes] = []
    size = 0
    async for piece in decode_body(response):
        size += len(piece)
        if size > most:
            raise too_large
        pieces.append(piece)
    return b"".join(pieces)


async def _discard(response: aiohttp.ClientResponse) -> None:
    bytes_left = DISCARDED_BYTES
    with suppress(TimeoutError, FetchRefused), map_fetch_errors():
        async with asyncio.timeout(DISCARD_SECONDS):
            while bytes_left > 0 and (piece := await response.content.read(bytes_left)):
                bytes_left -= len(piece)
