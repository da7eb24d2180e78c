"""The one fetcher of addresses that clients give: images, sounds, videos and files, over http(s) or inside a data: URL.

A client must not reach through the gateway what it cannot reach itself. So an address is parsed once, by the library that
also connects; its name is looked up once, every answer is checked, and the connection is made to a checked answer and to
nothing else, whatever the name says a moment later. Each redirect starts again. No cookies, keys or proxies; bytes,
seconds and redirects are capped while they arrive, because what a server announces need not be true.

Knows no wire format. Every refusal is an InvalidField on the caller's own field, and names no address that was found.
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from tornado_gate._version import __version__
from tornado_gate.errors import InvalidField
from tornado_gate.mediatypes import WrongMediaType, image_size, settle, sniff

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

__all__ = ["DENIED_PORTS", "FetchRules", "Fetched", "Fetcher", "allowed", "image_size", "sniff", "system_resolve"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Sequence[str]]
"""(name, port) -> its addresses. Waits for the network: it is called in a thread. Raises OSError."""

LONGEST_URL = 8192
LONGEST_IN_LOOP = 256 * 1024
"""Characters of a data: URL that are decoded without a thread."""
LONGEST_DATA_HEAD = 1000
CHUNK_BYTES = 64 * 1024
RESOLVER_THREADS = 8
"""Threads of its own: names that are slow to look up must not hold up the files of others."""

HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"tornado-gate/{__version__}"}

DENIED_PORTS = frozenset((
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 445, 1433, 1521, 2181, 2375, 2379, 3306, 3389, 5432,
    5900, 6379, 9042, 9092, 11211, 27017,
))  # fmt: skip
"""The "bad ports" of the Fetch standard (fetch.spec.whatwg.org), then those of well-known databases and of remote control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRules:
    """What may be fetched. `allow_private` opens the networks of an organisation and the machine itself, never the
    addresses that clouds give secrets on; `allow_networks` opens any network that it names. `ports` None: all but
    DENIED_PORTS. `seconds` holds for one fetch with everything it needs. At most `parallel` run at once."""

    max_bytes: int = 20 * 1024 * 1024
    seconds: float = 20.0
    redirects: int = 3
    allow_private: bool = False
    allow_networks: tuple[Network, ...] = ()
    schemes: frozenset[str] = frozenset({"http", "https"})
    ports: frozenset[int] | None = None
    parallel: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """`media_type` without parameters; `url` is where the data came from in the end, "data:" for a data: URL."""

    media_type: str
    data: bytes
    url: str


class _Refused(Exception):
    """Why an address is not fetched, before it is known which field of the caller held it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Fetcher:
    """One for each process. `resolve` and `tls` are for tests, and for operators with a certificate authority of their own."""

    def __init__(
        self,
        rules: FetchRules | None = None,
        *,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.rules = rules or FetchRules()
        self._resolve = resolve or system_resolve
        self._tls = tls
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, "resolve")
        self._places = asyncio.Semaphore(self.rules.parallel)

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> Fetched:
        """What is at `url`, if its media type begins with one of `kinds` ("image/", "application/pdf").

        Raises InvalidField for the caller's field `param`, with a code: ``invalid_url``, ``private_address``,
        ``unreachable_url``, ``too_large``, ``wrong_media_type``.
        """
        try:
            if url[:5].lower() == "data:":
                return await self._inline(url, kinds)
            async with asyncio.timeout(self.rules.seconds), self._places:
                return await self._follow(url.strip(), kinds)
        except _Refused as refused:
            raise InvalidField(param, refused.message, code=refused.code) from None
        except WrongMediaType as wrong:
            raise InvalidField(param, str(wrong), code="wrong_media_type") from None
        except TimeoutError:
            message = f"This address did not give its file within {self.rules.seconds:g} seconds. {_SEND_IT}"
            raise InvalidField(param, message, code="unreachable_url") from None

    async def close(self) -> None:
        """Take no more look-ups; those that run end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _inline(self, url: str, kinds: Collection[str]) -> Fetched:
        if len(url) > LONGEST_IN_LOOP:
            data, declared = await asyncio.to_thread(_decode, url, self.rules.max_bytes)
        else:
            data, declared = _decode(url, self.rules.max_bytes)
        return Fetched(media_type=settle(data, declared, kinds), data=data, url="data:")

    async def _follow(self, given: str, kinds: Collection[str]) -> Fetched:
        url = _parse(given, self.rules)
        for _ in range(self.rules.redirects + 1):
            found = await self._visit(url, kinds)
            if isinstance(found, Fetched):
                return found
            url = _parse(found, self.rules, url)
        raise _Refused("unreachable_url", f"This address redirects more than {self.rules.redirects} times. {_SEND_IT}")

    async def _visit(self, url: URL, kinds: Collection[str]) -> Fetched | str:
        """One exchange: the file, or where its server says it is."""
        import aiohttp

        addresses = await self._look_up(url)
        try:
            async with (
                aiohttp.ClientSession(
                    connector=_connector(addresses, self._tls),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    timeout=aiohttp.ClientTimeout(total=None),
                    auto_decompress=False,
                    trust_env=False,
                ) as session,
                session.get(url, headers=HEADERS, allow_redirects=False) as response,
            ):
                if response.status in (301, 302, 303, 307, 308) and response.headers.get("Location"):
                    return response.headers["Location"]
                if response.status != 200:
                    message = f"The server of this address answered with status {response.status}. {_CHECK_IT}"
                    raise _Refused("unreachable_url", message)
                data = await self._read(response)
        except aiohttp.ClientConnectorCertificateError:
            raise _Refused("unreachable_url", f"The certificate of this address is not valid. {_CHECK_IT}") from None
        except (aiohttp.ClientError, OSError, ValueError, zlib.error):
            raise _Refused("unreachable_url", f"This address could not be read. {_CHECK_IT}") from None
        declared = response.headers.get("Content-Type", "")
        return Fetched(media_type=settle(data, declared, kinds, trusted=False), data=data, url=str(url))

    async def _look_up(self, url: URL) -> list[Address]:
        """Every address of the URL's host, all of them allowed."""
        host, loop, found = url.raw_host or "", asyncio.get_running_loop(), list[Address]()
        literal = _literal(host)
        if literal is not None:
            found = [literal]
        else:
            try:
                answers = await loop.run_in_executor(self._threads, self._resolve, host, url.port or 0)
                found = [ip_address(answer.partition("%")[0]) for answer in answers]
            except (OSError, ValueError):
                pass
        if not found:
            raise _Refused("unreachable_url", f"The host of this address is not known. {_CHECK_IT}")
        if not all(allowed(address, self.rules) for address in found):
            raise _Refused("private_address", f"This address is not one of the public internet. {_SEND_IT}")
        return found

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """The body, decoded, as long as it stays within the limit."""
        most = self.rules.max_bytes
        announced = response.headers.get("Content-Length", "")
        if announced.isdecimal() and int(announced[:18]) > most:
            raise _too_large(most)
        pieces: list[bytes] = []
        size = 0
        async for piece in _decoded(response):
            size += len(piece)
            if size > most:
                raise _too_large(most)
            pieces.append(piece)
        return b"".join(pieces)


_BASE64_URL = bytes.maketrans(b"-_", b"+/")
_SEND_IT = "Use another address, or send the file itself as a data: URL."
_CHECK_IT = "Check that it opens without a login, or send the file itself as a data: URL."


def _too_large(most: int) -> _Refused:
    return _Refused("too_large", f"The file is larger than the {most} bytes that are allowed. Send a smaller one.")


def system_resolve(name: str, port: int) -> list[str]:
    """The addresses that the machine's own resolver knows for a name. Raises OSError."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


async def _decoded(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body piece by piece; gzip and deflate, which were not asked for, in pieces of at most CHUNK_BYTES."""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            yield chunk
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError("a coding that nobody asked for")
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: takes the header of either
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        rest = chunk
        while rest:
            yield inflater.decompress(rest, CHUNK_BYTES)
            rest = inflater.unconsumed_tail
        if inflater.eof:  # what follows would only be hoarded
            return
    raise ValueError("the file was cut off")


def _connector(addresses: Collection[Address], tls: ssl.SSLContext | None) -> aiohttp.BaseConnector:
    """Connects to the checked addresses only, under the URL's own name: Host and the certificate are checked as ever."""
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
            """Nothing is open."""

    def open_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        # The last gate: whatever the library made of the URL, no other address gets a socket.
        if ip_address(info[4][0]) not in addresses:
            raise OSError("an address that was not checked")
        return socket.socket(info[0], info[1], info[2])

    return aiohttp.TCPConnector(
        resolver=Checked(), use_dns_cache=False, force_close=True, ssl=tls or True, socket_factory=open_socket
    )


def _decode(url: str, most: int) -> tuple[bytes, str]:
    """The bytes of a data: URL (RFC 2397) and the type that it declares, "" for none. Raises _Refused."""
    head, comma, body = url[5:].partition(",")
    if not comma or len(head) > LONGEST_DATA_HEAD:
        raise _Refused("invalid_url", "This data: URL is not valid. Write it as data:image/png;base64,….")
    declared, *parameters = [word.strip().lower() for word in head.split(";")]
    if "base64" not in parameters:
        data = unquote_to_bytes(body) if len(body) <= 3 * most else bytes(most + 1)
    elif len(body) > most * 4 // 3 + 4:
        raise _too_large(most)
    else:
        try:
            raw = unquote_to_bytes(body).translate(_BASE64_URL, b"\r\n\t ")
            data = base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
        except ValueError:
            raise _Refused("invalid_url", "The data: URL does not hold valid base64. Encode the file again.") from None
    if len(data) > most:
        raise _too_large(most)
    return data, declared


# Addresses

_CONTROLS = re.compile(r"[\x00-\x1f\x7f\\]")
_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_PRIVATE = _networks(
    "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"
)  # fmt: skip
"""What `allow_private` opens."""
_SECRETS = _networks("100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.192/32", "fd00:ec2::/32")
"""Where clouds tell machines their secrets (Alibaba, Azure, most, Oracle, AWS); some lie inside other networks."""
_PUBLIC_6 = ip_network("2000::/3")
_RESERVED = _networks(
    "0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20",
)  # fmt: skip
"""Not for the public, from IANA's registries of special-purpose addresses (iana.org/assignments/iana-ipv4-special-registry and
-ipv6-): this network, protocol assignments, documentation, 6to4 relays, benchmarks, multicast, the rest; Teredo, ORCHID."""


def allowed(address: Address, rules: FetchRules) -> bool:
    """May a connection be made to this address? One that carries an IPv4 address inside is judged by that."""
    if _within(address, rules.allow_networks):
        return True
    inner = _inner(address)
    if inner is not None:
        return allowed(inner, rules)
    if _within(address, _SECRETS):
        return False
    if _within(address, _PRIVATE):
        return rules.allow_private
    if address.version == 6 and address not in _PUBLIC_6:
        return False
    return not _within(address, _RESERVED)


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _inner(address: Address) -> IPv4Address | None:
    """The IPv4 address inside a mapped, compatible, translated, 6to4 or NAT64 one (RFC 4291 2.5.5, 2765, 3056, 6052)."""
    if isinstance(address, IPv4Address):
        return None
    number = int(address)
    if number >> 32 in (0, 0xFFFF, 0xFFFF_0000, 0x64FF9B << 64) and number > 1:  # above the last 32 bits: the kind
        return IPv4Address(number & 0xFFFF_FFFF)
    return address.sixtofour


def _parse(text: str, rules: FetchRules, base: URL | None = None) -> URL:
    """The URL, absolute, of an allowed scheme and port, without a user. `base` is the one that redirected here."""
    what = "This address redirects to one that" if base else "This address"
    try:
        url = _split(text, base)
        literal = _literal(url.raw_host or "")
    except ValueError:
        raise _Refused("invalid_url", f"{what} is not a valid URL. Give one that begins with https://.") from None
    if url.scheme not in rules.schemes or not (literal or _HOST_NAME.fullmatch(url.raw_host or "")):
        raise _Refused(
            "invalid_url", f"{what} is not a valid URL. Give one that begins with https:// and a host's name."
        )
    if url.user is not None or url.password is not None:
        raise _Refused("invalid_url", f"{what} holds a user name or a password. Give one without them.")
    if not url.port or (url.port in DENIED_PORTS if rules.ports is None else url.port not in rules.ports):
        raise _Refused("invalid_url", f"{what} names a port that is not allowed. Give one without a port.")
    return url.with_host(str(literal)) if literal else url


def _split(text: str, base: URL | None) -> URL:
    """Read by the library that connects, so that nothing can be one host here and another there. Raises ValueError."""
    from yarl import URL

    if len(text) > LONGEST_URL or _CONTROLS.search(text):
        raise ValueError("too long, or with characters that no URL has")
    url = URL(text, encoded=text.isascii() and " " not in text)  # as given: signatures in queries bear no rewriting
    return base.join(url) if base else url


def _literal(host: str) -> Address | None:
    """The address that a host spells, None for a name. Raises ValueError for 0x7f.1, 2130706433 and the like.

    Resolvers take such spellings for IPv4 addresses; browsers too, whenever the last label is a number (url.spec.whatwg.org).
    """
    name = host.removesuffix(".")
    if ":" in name:
        address = IPv6Address(name)
        if address.scope_id is not None:
            raise ValueError("a zone has a meaning on one machine only")
        return address
    return IPv4Address(name) if _NUMBER.fullmatch(name.rpartition(".")[2]) else None
