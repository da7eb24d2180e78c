"""The network of one node, in Linux network namespaces: a router between the node and this machine drops packets.

The node reaches each engine at an address of its own. `Network.drop` discards the packets between the node and an address in
both directions without a word, as a firewall or a broken switch does. Connections stay open and get no answer.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import subprocess

_NUMBERS = itertools.count(1)
_PRIORITY = "100"


class Network:
    """The namespaces of a node and of its router. `host` and `engines` are addresses of this machine, `node` is the node's."""

    def __init__(self) -> None:
        number, prefix = next(_NUMBERS), f"10.213.{os.getpid() % 250}"
        name, offset = f"tg{os.getpid()}x{number}", number * 16 % 256
        self._router, self._node = f"{name}r", f"{name}n"
        self._link = f"{name}h"[-15:]
        self.host, router_up = f"{prefix}.{offset + 1}", f"{prefix}.{offset + 2}"
        router_down, self.node = f"{prefix}.{offset + 5}", f"{prefix}.{offset + 6}"
        self.engines = [f"{prefix}.{offset + 8 + index}" for index in range(4)]
        self.prefix = ("ip", "netns", "exec", self._node)
        self.close()
        try:
            self._make(router_up, router_down, f"{prefix}.{offset}", f"{prefix}.{offset + 4}", f"{prefix}.{offset + 8}")
        except BaseException:
            self.close()
            raise

    def _make(self, router_up: str, router_down: str, up: str, down: str, engines: str) -> None:
        router, node = ("-n", self._router), ("-n", self._node)
        _run("netns", "add", self._router)
        _run("netns", "add", self._node)
        _run("link", "add", self._link, "type", "veth", "peer", "name", "outer", "netns", self._router)
        _run(*router, "link", "add", "inner", "type", "veth", "peer", "name", "eth0", "netns", self._node)
        for address in (f"{self.host}/30", *(f"{engine}/32" for engine in self.engines)):
            _run("address", "add", address, "dev", self._link)
        _run(*router, "address", "add", f"{router_up}/30", "dev", "outer")
        _run(*router, "address", "add", f"{router_down}/30", "dev", "inner")
        _run(*node, "address", "add", f"{self.node}/30", "dev", "eth0")
        _run("link", "set", self._link, "up")
        for place, device in ((router, "outer"), (router, "inner"), (node, "eth0"), (node, "lo")):
            _run(*place, "link", "set", device, "up")
        _run("route", "add", f"{down}/30", "via", router_up)
        _run(*router, "route", "add", f"{engines}/29", "via", self.host)
        _run(*node, "route", "add", "default", "via", router_down)
        _run("netns", "exec", self._router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")

    def drop(self, engine: str) -> None:
        """Discard all packets between the node and an engine."""
        for direction in ("to", "from"):
            _run("-n", self._router, "rule", "add", direction, engine, "priority", _PRIORITY, "blackhole")

    def let_pass(self, engine: str) -> None:
        for direction in ("to", "from"):
            with contextlib.suppress(subprocess.CalledProcessError):
                _run("-n", self._router, "rule", "del", direction, engine, "priority", _PRIORITY)

    def close(self) -> None:
        """Delete everything. The device of this machine goes with its peer."""
        for name in (self._node, self._router):
            with contextlib.suppress(subprocess.CalledProcessError):
                _run("netns", "del", name)
        with contextlib.suppress(subprocess.CalledProcessError):
            _run("link", "del", self._link)


@functools.cache
def can_make_networks() -> bool:
    """Return whether this machine lets this process make network namespaces: usually, whether it is root on Linux."""
    try:
        Network().close()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _run(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
