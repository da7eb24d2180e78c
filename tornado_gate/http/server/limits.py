"""Limits of open connections: a total, so that descriptors are left for other uses, and a limit for each address of a peer."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from tornado_gate.http.server.refusals import Limit

MAX_REFUSED = 32
"""The number of refused connections that may stay open while their 503 is sent; others are closed immediately, without a
response.
"""
UNLIMITED = 1 << 31


class ConnectionLimits:
    """A counter of the open connections of a process.

    `per_address` does not apply to loopback addresses and Unix sockets, because a proxy on this machine uses them.
    """

    def __init__(self, total: int = UNLIMITED, per_address: int = UNLIMITED) -> None:
        self.total = total
        self.per_address = per_address
        self._open: dict[object, str] = {}
        self._by_group: dict[str, int] = {}
        self._refused: set[object] = set()

    def admit(self, connection: object, address: str) -> str | None:
        """Count a new connection. Return the limit, a value of `Limit`, that it exceeds; then it is not counted."""
        if len(self._open) >= self.total:
            return Limit.CONNECTIONS
        group = _group_address(address)
        count = self._by_group.get(group, 0)
        if group and count >= self.per_address:
            return Limit.ADDRESS
        self._open[connection] = group
        self._by_group[group] = count + 1
        return None

    def may_linger(self, connection: object) -> bool:
        """Return whether a connection that was not admitted may stay open until its client has received the response."""
        if len(self._refused) >= MAX_REFUSED:
            return False
        self._refused.add(connection)
        return True

    def release(self, connection: object) -> None:
        """Remove a closed connection from the counts. Repeated calls have no effect."""
        self._refused.discard(connection)
        group = self._open.pop(connection, None)
        if group is None:
            return
        count = self._by_group.pop(group) - 1
        if count:
            self._by_group[group] = count


@lru_cache(maxsize=4096)
def _group_address(address: str) -> str:
    """Return the addresses that count as one peer: an IPv4 address, or the /64 of an IPv6 address; "" without a limit."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return _group_address(str(ip.ipv4_mapped))
        return "" if ip.is_loopback else str(ip_network((ip, 64), strict=False))
    return "" if ip.is_loopback or ip.is_unspecified else str(ip)
