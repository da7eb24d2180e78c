"""The connection pools of provider entries. Entries of two snapshots with the same account share a pool."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Hashable

from tornado_gate.account_shares import Report
from tornado_gate.config.model import LimitsConfig
from tornado_gate.http.large_responses import LargeResponses
from tornado_gate.http.upstream import Pool, make_size_bounds
from tornado_gate.targets.configured_provider import ConfiguredProvider


class ProviderPools:
    """The connection pools of a process. `report` receives the number of bytes that all large responses hold."""

    def __init__(self, limits: LimitsConfig, report: Report | None = None) -> None:
        self._limits = limits
        self.large_responses = LargeResponses(limits.answers_bytes, report)
        self._pools: dict[Hashable, Pool] = {}
        self._closing: set[asyncio.Future[None]] = set()

    def get_pool(self, provider: ConfiguredProvider) -> Pool:
        """Return the connection pool of a provider entry."""
        pool = self._pools.get(provider.identity)
        if pool is None:
            entry = provider.entry
            pool = Pool(entry.timeouts, self._limits, self.large_responses, entry.network)
            self._pools[provider.identity] = pool
        return pool

    def apply(self, limits: LimitsConfig) -> None:
        """Use the limits of a configuration."""
        self._limits = limits
        self.large_responses.shares.total = limits.answers_bytes
        for pool in self._pools.values():
            pool.bounds = make_size_bounds(limits)

    def keep(self, needed: Container[Hashable]) -> None:
        """Close the pools of accounts that are not in `needed`."""
        for identity in [identity for identity in self._pools if identity not in needed]:
            closing = asyncio.ensure_future(self._pools.pop(identity).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all pools."""
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()
