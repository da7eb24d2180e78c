"""Connections to checked addresses, and their response bodies."""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from tornado_gate._version import __version__
from tornado_gate.http.fetch.addresses import CHECK_LOGIN_ADVICE, Address, FetchRefused

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from tornado_gate.config.network import Proxy

CHUNK_BYTES = 64 * 1024

HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"tornado-gate/{__version__}"}


@contextmanager
def map_fetch_errors() -> Iterator[None]:
    """Map errors of the connection and of the server to FetchRefused (``unreachable_url``)."""
    import aiohttp

    try:
        yield
    except aiohttp.ClientConnectorCertificateError:
        raise FetchRefused(
            "unreachable_url", "The certificate of this address is not valid.", CHECK_LOGIN_ADVICE
        ) from None
    except (aiohttp.ClientError, OSError, ValueError, zlib.error):
        raise FetchRefused("unreachable_url", "This address could not be read.", CHECK_LOGIN_ADVICE) from None


@asynccontextmanager
async def open_response(
    method: str,
    url: URL,
    addresses: Collection[Address],
    *,
    tls: ssl.SSLContext | None,
    headers: Mapping[str, str] = HEADERS,
    body: bytes | None = None,
    proxy: Proxy | None = None,
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send one request to one of the checked `addresses`; return the response, even a redirect. Its body is not read yet.

    A `proxy` resolves the URL's host itself; `addresses` are then not used.
    """
    import aiohttp

    from tornado_gate.http.client.aiohttp_session import make_request_options

    async with (
        aiohttp.ClientSession(
            connector=_create_connector(addresses, tls) if proxy is None else _create_proxied_connector(tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=CHUNK_BYTES,
        ) as session,
        session.request(
            method, url, data=body, allow_redirects=False, **make_request_options(str(url), headers, proxy)
        ) as response,
    ):
        yield response


def get_announced_length(response: aiohttp.ClientResponse) -> int | None:
    """Return the announced length of the body in bytes; None if it is missing or the body is compressed."""
    length = response.headers.get("Content-Length", "")
    return int(length[:18]) if length.isdecimal() and _get_content_coding(response) in ("", "identity") else None


def _get_content_coding(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("Content-Encoding", "identity").strip().lower()


async def decode_body(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yield the body in chunks of at most CHUNK_BYTES; gzip and deflate, although not requested, are decompressed."""
    coding = _get_content_coding(response)
    if coding in ("", "identity"):
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            yield chunk
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError("unsupported content coding")
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: accepts both headers
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        rest = chunk
        while rest:
            yield inflater.decompress(rest, CHUNK_BYTES)
            rest = inflater.unconsumed_tail
        if inflater.eof:  # ignores data after the end
            return
    raise ValueError("the compressed file is incomplete")


def _create_proxied_connector(tls: ssl.SSLContext | None) -> aiohttp.BaseConnector:
    """Return a connector that connects to the proxy only, because every request on it has the proxy."""
    import aiohttp

    return aiohttp.TCPConnector(force_close=True, ssl=tls or True)


def _create_connector(addresses: Collection[Address], tls: ssl.SSLContext | None) -> aiohttp.BaseConnector:
    """Return a connector that uses the checked addresses only. Host header and certificate checks use the URL's own name."""
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Checked(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            return [
                ResolveResult(
                    hostname=host,
                    host=str(address),
                    port=port,
                    family=socket.AF_INET6 if address.version == 6 else socket.AF_INET,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for address in addresses
            ]

        async def close(self) -> None:
            """Do nothing, because there is nothing to close."""

    def open_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        # The last check: for any reading of the URL by the library, no other address gets a socket.
        if ip_address(info[4][0]) not in addresses:
            raise OSError("the address was not checked")
        return socket.socket(info[0], info[1], info[2])

    return aiohttp.TCPConnector(
        resolver=Checked(), use_dns_cache=False, force_close=True, ssl=tls or True, socket_factory=open_socket
    )
