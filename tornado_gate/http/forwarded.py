"""The caller's address and the public address of a request that reverse proxies have forwarded.

`X-Forwarded-For` (with `-Proto` and `-Host`) and `Forwarded` (RFC 7239) are believed from the networks in
``server.trusted_proxies`` only. Each proxy appends the address of its peer, so the list is walked from the right. The caller is
the first address that is not a trusted proxy, because everything to the left of it may be invented.

If a trusted proxy has forwarded a request without a readable address of its peer, the request has the address `UNKNOWN`, never
the proxy's address. An unknown address lies in no network, so it matches no list of allowed addresses.

Texts are parsed by splitting, from the right and up to a length, so that a caller's text costs no more than its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from tornado_gate.http.nearness import is_forwarding_header
from tornado_gate.types.value import Value

Networks = tuple[IPv4Network | IPv6Network, ...]

UNKNOWN = "unknown"
"""The address of a caller whose proxy sends none, or an unreadable one. RFC 7239 has the same word."""
MAX_HOPS = 50
MAX_LENGTH = 8192
"""Characters of a header that are read, from its end. The entries of trusted proxies are there."""
_MAX_ADDRESS = 60
"""Characters of an address with its port, in brackets: an IPv6 address has at most 45."""
_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_ONE_KIND = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")


class Origin(Value, frozen=True):
    """The origin of a request: the caller's IP address or `UNKNOWN`, and the scheme and host that the caller used."""

    address: str
    protocol: str
    host: str


class _Hop(Value, frozen=True):
    """The data of one proxy about its peer; "" for missing and unreadable parts."""

    address: str = ""
    protocol: str = ""
    host: str = ""


_UNREADABLE = _Hop()


def find_origin(peer: Origin, headers: Mapping[str, str], trusted: Networks) -> Origin:
    """Return the origin of a request from `peer`, which is the other end of the connection. `headers` have lower-case names.

    If both kinds of headers are present they must name the same caller, otherwise neither is believed: a proxy sets one kind and
    may pass the caller's own headers of the other kind. Then, and after other signs of a proxy, the caller is unknown.
    """
    if not trusted or not is_trusted(peer.address, trusted):
        return peer
    kinds = []
    if any(name in headers for name in _ONE_KIND):
        kinds.append(_parse_x_forwarded(headers))
    if "forwarded" in headers:
        kinds.append(_parse_forwarded(headers["forwarded"]))
    if not kinds:
        return Origin(UNKNOWN, peer.protocol, peer.host) if any(map(is_forwarding_header, headers)) else peer
    origins = [_walk(peer, hops, trusted) for hops in kinds]
    if len(origins) == 1 or origins[0].address == origins[1].address != UNKNOWN:
        return origins[0]
    return Origin(UNKNOWN, peer.protocol, peer.host)


def _walk(peer: Origin, hops: Sequence[_Hop], trusted: Networks) -> Origin:
    """Return the origin after `hops`, which are in the order of the headers: the nearest proxy's is the last.

    Scheme and host of a hop without a readable address count: a trusted proxy sends them about its own listener.
    """
    origin = peer
    for hop in reversed(hops):
        origin = Origin(_read_address(hop.address), hop.protocol or origin.protocol, hop.host or origin.host)
        if not is_trusted(origin.address, trusted):
            break
    return origin


def _parse_x_forwarded(headers: Mapping[str, str]) -> list[_Hop]:
    addresses = _split(headers.get("x-forwarded-for", ""))
    protocols = [_check_protocol(word) for word in _split(headers.get("x-forwarded-proto", ""))]
    hosts = [_check_host(word) for word in _split(headers.get("x-forwarded-host", ""))]
    if "x-forwarded-for" not in headers:
        return [_Hop("", protocols[-1], hosts[-1])]
    count = len(addresses)
    return [
        _Hop(address, _get_from_right(protocols, count - index), _get_from_right(hosts, count - index))
        for index, address in enumerate(addresses)
    ]


def _get_from_right(words: Sequence[str], number: int) -> str:
    """Return the word for the hop `number` from the right.

    A list that is shorter than the list of addresses has one word for all hops.
    """
    return words[-number] if number <= len(words) else words[0]


def _split(text: str) -> list[str]:
    """Return the words of a list, at least one. If the list is too long, an empty word stands for its beginning."""
    words = [word.strip() for word in text[-MAX_LENGTH:].split(",")]
    if len(text) > MAX_LENGTH:
        words[0] = ""
    return words if len(words) <= MAX_HOPS else ["", *words[-MAX_HOPS:]]


def _parse_forwarded(text: str) -> list[_Hop]:
    elements = _split_quoted(text[-MAX_LENGTH:], ",")
    if len(text) > MAX_LENGTH:
        elements[0] = ""
    if len(elements) > MAX_HOPS:
        elements = ["", *elements[-MAX_HOPS:]]
    return [_parse_element(element) for element in elements]


def _split_quoted(text: str, separator: str) -> list[str]:
    """Split where a separator is outside of quoted strings, counted from the right.

    So a quote that a caller has left open cannot swallow the entry that a proxy has appended to it. The text left of the last
    open quote is one unreadable part. An escaped quote within a quoted string counts as its end: no address has one.
    """
    parts: list[str] = []
    words: list[str] = []
    quotes = 0
    for word in reversed(text.split(separator)):
        words.append(word)
        quotes += word.count('"')
        if quotes % 2 == 0:
            parts.append(separator.join(reversed(words)))
            words, quotes = [], 0
    if words:
        parts.append('"')
    return parts[::-1]


def _parse_element(text: str) -> _Hop:
    """Return the pairs of one proxy: ``for="[2001:db8::7]:47";proto=https;by=…``. An unreadable pair makes all unreadable."""
    values: dict[str, str] = {}
    for pair in _split_quoted(text, ";"):
        name, equals, value = pair.partition("=")
        name, value = name.strip().lower(), value.strip()
        if not name and not equals:
            continue
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        if not name or not equals or name in values or '"' in value or "\\" in value:
            return _UNREADABLE
        values[name] = value
    return _Hop(values.get("for", ""), _check_protocol(values.get("proto", "")), _check_host(values.get("host", "")))


def _check_protocol(word: str) -> str:
    return word.lower() if word.lower() in ("http", "https") else ""


def _check_host(word: str) -> str:
    return word if _HOST.fullmatch(word) else ""


def _read_address(text: str) -> str:
    return _parse_address(text) if len(text) <= _MAX_ADDRESS else UNKNOWN


@lru_cache(maxsize=1000)
def _parse_address(text: str) -> str:
    """Return the IP address in ``1.2.3.4``, ``1.2.3.4:80``, ``2001:db8::1`` or ``[2001:db8::1]:80``; else `UNKNOWN`."""
    port = ""
    if text.startswith("[") and "]" in text:
        text, _, port = text[1:].partition("]")
    elif text.count(":") == 1:
        text, _, port = text.partition(":")
        port = ":" + port
    is_port = not port or (port[0] == ":" and port[1:].isascii() and port[1:].isdigit() and len(port) <= 6)
    try:
        return str(_normalize(ip_address(text))) if is_port and "%" not in text else UNKNOWN
    except ValueError:
        return UNKNOWN


@lru_cache(maxsize=1000)
def is_trusted(address: str, trusted: Networks) -> bool:
    """Return whether an IP address lies in one of the networks."""
    try:
        ip = _normalize(ip_address(address))
    except ValueError:
        return False
    return any(ip.version == network.version and ip in network for network in trusted)


def _normalize(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return an IPv4 address that an IPv6 socket shows as ``::ffff:1.2.3.4``, as an IPv4 address."""
    return getattr(address, "ipv4_mapped", None) or address
