"""The addresses that may be reached, and the parsing of their URLs. Pure, except for `resolve_with_system`."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TYPE_CHECKING

from tornado_gate.config.model import FetchRules
from tornado_gate.types.value import replace

if TYPE_CHECKING:
    from yarl import URL

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Sequence[str]]
"""(name, port) -> addresses. Blocks on the network, so it is called in a thread. Raises OSError."""

LONGEST_URL = 8192

DENIED_PORTS = frozenset((
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 445, 1433, 1521, 2181, 2375, 2379, 3306, 3389, 5432,
    5900, 6379, 9042, 9092, 11211, 27017,
))  # fmt: skip
"""The "bad ports" of the Fetch standard (fetch.spec.whatwg.org), and the ports of well-known databases and of remote control."""


class FetchRefused(Exception):
    """An error: an address cannot be read. `what` is a sentence that is safe to show, `advice` is for the caller.

    `status` is the HTTP status of the address's server, 0 without a response.
    """

    def __init__(self, code: str, what: str, advice: str = "", status: int = 0) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.advice = advice
        self.status = status


SEND_FILE_ADVICE = "Use another address, or send the file itself as a data: URL."
CHECK_LOGIN_ADVICE = "Check that it opens without a login, or send the file itself as a data: URL."


def too_large_error(most: int, key: str = "") -> FetchRefused:
    """Return the error for a file above `most` bytes, the value of the conf key `key`, if that may be named."""
    name = f", {key} of the configuration" if key else ""
    return FetchRefused(
        "too_large", f"The file is larger than the limit of {most} bytes{name}.", "Send a smaller file."
    )


def resolve_with_system(name: str, port: int) -> list[str]:
    """Resolve a name with the machine's resolver. Raises OSError."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


_CONTROLS = re.compile(r"[\x00-\x1f\x7f\\]")
_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


def _parse_networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_PRIVATE_NETWORKS = _parse_networks(
    "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"
)  # fmt: skip
"""Networks that `allow_private` permits."""
_METADATA_NETWORKS = _parse_networks(
    "100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.192/32", "fd00:ec2::/32"
)
"""Metadata services of clouds (Alibaba, Azure, most, Oracle, AWS); some lie inside other networks."""
_PUBLIC_IPV6_NETWORK = ip_network("2000::/3")
_RESERVED_NETWORKS = _parse_networks(
    "0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20",
)  # fmt: skip
"""Not public, from IANA's registries of special-purpose addresses (iana.org/assignments/iana-ipv4-special-registry and -ipv6-):
this network, protocol assignments, documentation, 6to4 relays, benchmarks, multicast, the rest; Teredo, ORCHID."""


def is_allowed(address: Address, rules: FetchRules) -> bool:
    """Return whether a connection to this address is allowed. An IPv4 address inside of the address decides for it."""
    if _is_within(address, rules.allow_networks):
        return True
    inner = _extract_ipv4(address)
    if inner is not None:
        return is_allowed(inner, rules)
    if _is_within(address, _METADATA_NETWORKS):
        return False
    if _is_within(address, _PRIVATE_NETWORKS):
        return rules.allow_private
    if address.version == 6 and address not in _PUBLIC_IPV6_NETWORK:
        return False
    return not _is_within(address, _RESERVED_NETWORKS)


def _is_within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _extract_ipv4(address: Address) -> IPv4Address | None:
    """Return the IPv4 address inside a mapped, compatible, translated, 6to4 or NAT64 one (RFC 4291 2.5.5, 2765, 3056, 6052)."""
    if isinstance(address, IPv4Address):
        return None
    number = int(address)
    if number >> 32 in (0, 0xFFFF, 0xFFFF_0000, 0x64FF9B << 64) and number > 1:  # the upper bits define the kind
        return IPv4Address(number & 0xFFFF_FFFF)
    return address.sixtofour


def rules_for_host(url: URL, rules: FetchRules, own_host: str) -> FetchRules:
    """Return the rules for a URL; for `own_host` they allow private networks and any port.

    `own_host` is a host from the configuration: "host:port", "host" for the default port of the scheme, or "" for none. Metadata
    services of clouds stay blocked.
    """
    port = url.port or 0
    host = f"[{url.raw_host}]" if ":" in (url.raw_host or "") else url.raw_host
    names = {f"{host}:{port}", host if url.is_default_port() else ""}
    if not own_host or own_host.lower() not in names:
        return rules
    return replace(rules, allow_private=True, ports=frozenset({port}), schemes=frozenset({"http", "https"}))


def parse(text: str, rules: FetchRules, base: URL | None = None, own_host: str = "") -> URL:
    """Return the absolute URL. Its scheme and port are allowed, it has no user. `base` is the URL that redirected to it.

    Raises FetchRefused (``invalid_url``).
    """
    subject = "This address redirects to one that" if base else "This address"
    try:
        url = _split(text, base)
        address = parse_literal(url.raw_host or "")
        url = url.with_host(str(address)) if address else url
    except ValueError:
        raise _invalid_url_error(f"{subject} is not a valid URL.", "Use a URL that begins with https://.") from None
    rules = rules_for_host(url, rules, own_host)
    if url.scheme not in rules.schemes or not (address or _HOST_NAME.fullmatch(url.raw_host or "")):
        raise _invalid_url_error(
            f"{subject} is not a valid URL.", "Use a URL that begins with https:// and a host name."
        )
    if url.user is not None or url.password is not None:
        raise _invalid_url_error(f"{subject} contains a user name or a password.", "Remove them from the URL.")
    if not url.port or (url.port in DENIED_PORTS if rules.ports is None else url.port not in rules.ports):
        raise _invalid_url_error(f"{subject} uses a port that is not allowed.", "Use a URL without a port.")
    return url


def _invalid_url_error(message: str, advice: str) -> FetchRefused:
    return FetchRefused("invalid_url", message, advice)


def _split(text: str, base: URL | None) -> URL:
    """Parse with the library that connects, so that both agree on the host. Raises ValueError."""
    from yarl import URL

    if len(text) > LONGEST_URL or _CONTROLS.search(text):
        raise ValueError("the URL is too long or contains invalid characters")
    url = URL(
        text, encoded=text.isascii() and " " not in text
    )  # unchanged: requoting would break signatures in queries
    return base.join(url) if base else url


def parse_literal(host: str) -> Address | None:
    """Return the address if the host is an IP address, None for a name. Raises ValueError for 0x7f.1, 2130706433 and the like.

    Resolvers accept such spellings as IPv4 addresses; browsers too, if the last label is a number (url.spec.whatwg.org).
    """
    name = host.removesuffix(".")
    if ":" in name:
        address = IPv6Address(name)
        if address.scope_id is not None:
            raise ValueError("an IPv6 zone is not allowed")
        return address
    return IPv4Address(name) if _NUMBER.fullmatch(name.rpartition(".")[2]) else None
