"""Checks of the parts that conf exposes to other machines: short keys, listeners, accounts for everybody."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from tornado_gate.config.faults import Fault
from tornado_gate.config.model import AccountsConfig, ConsoleConfig, ServerConfig
from tornado_gate.types import NO_BUDGET, NO_LIMITS

SHORTEST_KEY = 16
"""Characters. A shorter key can be guessed, and it is often an ordinary word, which logs cannot mask."""


def is_loopback(host: str) -> bool:
    """Return whether a listener on `host` accepts connections from this machine only. A name other than localhost does
    not count.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def find_short_keys(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield each key that is too short to be safe: a fault if other machines reach the gateway, otherwise a warning."""
    for index, entry in enumerate(data.get("keys") or []):
        key = (entry or {}).get("key")
        if key and len(key) < SHORTEST_KEY:
            message = (
                f"has fewer than {SHORTEST_KEY} characters, so it can be guessed; "
                "use a random key, such as the output of `openssl rand -hex 24`"
            )
            yield ("keys", index, "key"), message


def find_sign_up_warnings(console: ConsoleConfig, accounts: AccountsConfig) -> Iterator[Fault]:
    """Yield a warning if everybody may make an account whose keys have no limits."""
    is_bounded = accounts.default_limits is not NO_LIMITS or accounts.default_budget is not NO_BUDGET
    if console.enabled and console.signup == "open" and not is_bounded:
        yield (
            ("console", "signup"),
            "everybody who reaches the gateway may make an account, whose keys have no limits and no budget; set "
            "accounts.default_limits or accounts.default_budget, such as {usd_per_month: 5}",
        )


def find_server_warnings(server: ServerConfig) -> Iterator[Fault]:
    """Yield a warning for each unprotected part that a listener exposes to other machines."""
    if not is_loopback(server.host) and not server.trusted_proxies and server.tls is None:
        yield (
            ("server", "host"),
            f"other machines reach {server.host} over HTTP without encryption, so keys and prompts can be read on the network; "
            "set server.tls, or put a proxy with TLS before the gateway and list its address in server.trusted_proxies",
        )
    if server.metrics_port is not None and not is_loopback(server.metrics_host) and not server.metrics_token:
        yield ("server", "metrics_host"), "other machines can read /metrics without a token; set server.metrics_token"
