"""Networks of IP addresses, as allowed addresses are written: ``10.1.0.0/16``, ``fd00::/8``, ``192.0.2.7``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_interface, ip_network

Network = IPv4Network | IPv6Network
_MAPPED_BITS = 96
"""The length of the prefix ``::ffff:0:0/96``, below which IPv6 shows IPv4 addresses."""


def parse_network(text: str) -> Network:
    """Return a network; a single address is a network of one. ``::ffff:192.0.2.7`` becomes the IPv4 address.

    Raises ValueError with a message for the user.
    """
    try:
        network = ip_network(text)
    except ValueError:
        raise ValueError(_describe_fault(text)) from None
    if isinstance(network, IPv4Network):
        return network
    if network.network_address.scope_id is not None:
        raise ValueError("must be an address without a zone: leave out the part from the %")
    mapped = network.network_address.ipv4_mapped
    if mapped is not None and network.prefixlen >= _MAPPED_BITS:
        return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))
    return network


def format_network(network: Network) -> str:
    """Return a network as text; a network of one address as that address."""
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _describe_fault(text: str) -> str:
    shown = text[:60] if text.isprintable() else ascii(text[:60])
    try:
        meant = ip_interface(text).network
    except ValueError:
        return f"must be an address or a network such as 192.0.2.7, 10.1.0.0/16 or fd00::/8, not '{shown}'"
    return f"'{shown}' has bits behind the length of its network; write {meant}, or the address alone"


class NetworkSet:
    """Networks, arranged so that a look-up takes a step for each length of prefix, not for each network."""

    def __init__(self, networks: Iterable[Network]) -> None:
        self._starts: dict[int, dict[int, set[int]]] = {4: {}, 6: {}}
        for network in networks:
            shift = network.max_prefixlen - network.prefixlen
            starts = self._starts[network.version].setdefault(shift, set())
            starts.add(int(network.network_address) >> shift)

    def __contains__(self, address: str) -> bool:
        """Return whether an IP address lies in one of the networks; False for a text that is no address."""
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        number = int(ip)
        return any(number >> shift in starts for shift, starts in self._starts[ip.version].items())


@lru_cache(10_000)
def compile_networks(addresses: tuple[str, ...]) -> NetworkSet:
    """Return the networks of a key's `addresses`. Raises ValueError for an address that is not a network."""
    return NetworkSet(map(parse_network, addresses))
