"""The limiter of a process, with the store that conf names."""

from __future__ import annotations

from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.limiter import Limiter, LimiterMetrics, Reader
from tornado_gate.admission.store import Store
from tornado_gate.config.model import Config


def make_limiter(config: Config, read_ledger: Reader, metrics: LimiterMetrics) -> Limiter:
    """Make the limiter of a process. Raises ConfigError if the client of the store is not installed."""
    remote: Store | None = None
    if config.limits.store:
        # importing it takes half a second, so only where it is used
        from tornado_gate.admission.redis_store import RedisStore

        remote = RedisStore(config.limits.store)
    local = EmbeddedStore(config.server.data_dir / "limits", on_drop=metrics.count_dropped_counters)
    return Limiter(local, remote, read_ledger, metrics)
