"""The caller's address and the public address of a request that reverse proxies have forwarded.

`X-Forwarded-For` (with `-Proto` and `-Host`) and `Forwarded` (RFC 7239) are believed from the networks in
``server.trusted_proxies`` only. Each proxy appends the address of its peer, so the list is walked from the right: the caller is
the first address that is not a trusted proxy, because everything to the left of it may be invented.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from tornado_gate.types.value import Value

Networks = tuple[IPv4Network | IPv6Network, ...]

FORWARDING_HEADERS = ("x-forwarded-for", "forwarded")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"\\]*)"|([^",;\s]*))\s*(?:;|$)')
_ELEMENT = re.compile(r'(?:[^,"]|"[^"]*")+')
_PORT = re.compile(r":[0-9]{1,5}$")
MAX_HOPS = 50


class Origin(Value, frozen=True):
    """Where a request comes from: the caller's IP address, and the scheme and host that the caller used."""

    address: str
    protocol: str
    host: str


class _Hop(Value, frozen=True):
    """What one proxy says of its peer; "" where it says nothing."""

    address: str
    protocol: str = ""
    host: str = ""


def find_origin(peer: Origin, headers: Mapping[str, str], trusted: Networks) -> Origin:
    """The origin of a request from `peer`, which is the other end of the connection. `headers` have lower-case names.

    If both kinds of headers are present they must name the same caller, otherwise neither is believed: a proxy sets one kind
    and may pass the caller's own headers of the other kind.
    """
    if not trusted or not is_trusted(peer.address, trusted):
        return peer
    origins = [
        _walk(peer, hops, trusted)
        for hops in (_parse_x_forwarded(headers), _parse_forwarded(headers.get("forwarded", "")))
        if hops
    ]
    if not origins or any(origin.address != origins[0].address for origin in origins):
        return peer
    return origins[0]


def _walk(peer: Origin, hops: Sequence[_Hop], trusted: Networks) -> Origin:
    """The origin after `hops`, which are in the order of the headers: the nearest proxy's is the last."""
    found = peer
    for hop in reversed(hops):
        address = _parse_address(hop.address) if hop.address else found.address
        if not address:
            break
        found = Origin(address, hop.protocol or found.protocol, hop.host or found.host)
        if not hop.address or not is_trusted(address, trusted):
            break
    return found


def _parse_x_forwarded(headers: Mapping[str, str]) -> list[_Hop]:
    addresses = _split(headers.get("x-forwarded-for", ""))
    protocols = [_check_protocol(word) for word in _split(headers.get("x-forwarded-proto", ""))]
    hosts = [_check_host(word) for word in _split(headers.get("x-forwarded-host", ""))]
    if not addresses:
        return [_Hop("", protocols[-1] if protocols else "", hosts[-1] if hosts else "")] if protocols or hosts else []
    count = len(addresses)
    return [
        _Hop(address, _get_from_right(protocols, count - index), _get_from_right(hosts, count - index))
        for index, address in enumerate(addresses)
    ]


def _get_from_right(words: Sequence[str], place: int) -> str:
    """The word for the hop number `place` from the right. A list that is shorter than that of addresses has one for all hops."""
    if not words:
        return ""
    return words[-place] if place <= len(words) else words[0]


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")][-MAX_HOPS:] if text.strip() else []


def _parse_forwarded(text: str) -> list[_Hop]:
    hops = []
    for element in _ELEMENT.findall(text)[-MAX_HOPS:]:
        pairs = {name.lower(): quoted or plain for name, quoted, plain in _PAIR.findall(element)}
        address = pairs.get("for", "")
        hops.append(_Hop(address, _check_protocol(pairs.get("proto", "")), _check_host(pairs.get("host", ""))))
    return hops


def _check_protocol(word: str) -> str:
    return word.lower() if word.lower() in ("http", "https") else ""


def _check_host(word: str) -> str:
    return word if _HOST.fullmatch(word) else ""


@lru_cache(maxsize=1000)
def _parse_address(text: str) -> str:
    """The IP address in ``1.2.3.4``, ``1.2.3.4:80``, ``2001:db8::1`` or ``[2001:db8::1]:80``; "" for anything else."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = _PORT.sub("", text)
    try:
        return str(_normalize(ip_address(text)))
    except ValueError:
        return ""


@lru_cache(maxsize=1000)
def is_trusted(address: str, trusted: Networks) -> bool:
    """Whether an IP address lies in one of the networks."""
    try:
        found = _normalize(ip_address(address))
    except ValueError:
        return False
    return any(found.version == network.version and found in network for network in trusted)


def _normalize(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4 address that an IPv6 socket shows as ``::ffff:1.2.3.4``, as an IPv4 address."""
    return getattr(address, "ipv4_mapped", None) or address
