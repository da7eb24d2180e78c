"""Gate: the state with the lifetime of the process. Its parts are independent of each other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from tornado_gate.accounts.key_ring import KeyRing
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.admission.body_worker import BodyWorker
from tornado_gate.admission.overload import Overload
from tornado_gate.admission.override_watch import OverrideWatch
from tornado_gate.admission.overrides import Overrides
from tornado_gate.admission.reservations import Admission
from tornado_gate.admission.stores import make_limiter
from tornado_gate.admission.target_queues import TargetQueues
from tornado_gate.config.model import Config
from tornado_gate.guards.decisions import GuardServices
from tornado_gate.guards.review_threads import ReviewThreads
from tornado_gate.ledger.ledger import Ledger
from tornado_gate.ledger.spending import Used, find_period, read_subjects
from tornado_gate.pipeline.callers import Callers
from tornado_gate.pipeline.open_requests import OpenRequests
from tornado_gate.pipeline.plans import Plans
from tornado_gate.pipeline.pricing import load_default_prices
from tornado_gate.pipeline.provider_pools import ProviderPools
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.plugins.host import PluginHost
from tornado_gate.streams.event_bound import set_event_bytes
from tornado_gate.targets.health import TargetHealth
from tornado_gate.telemetry.loop_lag import LoopLagMonitor
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Bound

FLUSH_SECONDS = 2.0


class Readiness:
    """The readiness of the process for more requests.

    `is_draining`: the process ends soon, and no other process replaces it. `is_closing`: the port is closed, and no new WebSocket
    session is opened. `is_crash_loop` returns whether the processes of this gateway end repeatedly. Each of `checks`
    returns why the process should get no more requests for now, or "". `notes` return further members of /readyz.
    """

    def __init__(self, *checks: Callable[[], str]) -> None:
        self.is_draining = False
        self.is_closing = False
        self.is_crash_loop: Callable[[], bool] = lambda: False
        self.checks = list(checks)
        self.notes: list[Callable[[], Mapping[str, Any]]] = []


class Gate:
    """The state of one process, made from a checked Config. Call `start` inside the event loop, and `close` before it ends."""

    def __init__(self, config: Config, host: PluginHost, keystore: KeyStore, metrics: Metrics) -> None:
        self.host = host
        self.metrics = metrics
        self.database = keystore.database
        self.worker = BodyWorker()
        self.guarding = GuardServices(metrics, self.worker, ReviewThreads(metrics.guards.set_threads))
        self.health = TargetHealth(metrics, config.server.data_dir / "health")
        self.pools = ProviderPools(config.limits, partial(metrics.admission.set_shared, "large_responses"))
        self.plans = Plans(self.pools)
        self.requests = OpenRequests(self._close_unused_pools)
        self.overload = Overload(config.limits, metrics.admission.count_shed_request)
        self.readiness = Readiness(self.overload.explain_overload, self.guarding.threads.explain_stuck)
        self._lag = LoopLagMonitor(metrics)
        self._lag.on_delay = self._note_delay
        self.snapshot = build(config, host)
        load_default_prices(self.snapshot)
        self.keys = KeyRing(keystore, {})
        self.ledger = Ledger(keystore.database, config.server.data_dir, config.ledger, metrics.ledger)
        self.admission = Admission(make_limiter(config, self._read_spending, metrics.limits))
        self.callers = Callers(self.keys, self.admission, config)
        self.target_queues = TargetQueues(
            self.admission.limiter.local, metrics.targets.set_requests, metrics.admission.count_shed_request
        )
        self._overrides = OverrideWatch(keystore.database, self._apply_overrides)
        self._apply(self.snapshot)
        self.keys.on_change.append(self._overrides.read_again)
        host.on_failure.append(lambda plugin, _detail: metrics.process.count_plugin_error(plugin))

    async def start(self) -> None:
        """Start to watch for revoked keys, for plugins that block the loop, and for the lag of the loop."""
        await self.keys.start()
        self.ledger.start()
        await self.admission.limiter.start()
        await self.health.shared.start()
        await self._overrides.start()
        self._lag.start()
        self.host.watchdog.limit_seconds = self.snapshot.config.server.hook_seconds
        self.host.watchdog.start(asyncio.get_running_loop())

    async def close(self) -> None:
        self.host.watchdog.stop()
        self._lag.stop()
        self._overrides.close()
        self.health.shared.close()
        await self.admission.limiter.close()
        await self.ledger.close()
        await self.keys.stop()
        await self.pools.close()
        self.worker.close()

    # The configuration

    def replace(self, snapshot: Snapshot) -> None:
        """Make `snapshot` current. Running requests keep the old snapshot. Its pools close when the last of them ends."""
        old, self.snapshot = self.snapshot, snapshot
        snapshot.targets.loads.adopt(old.targets.loads)
        self._apply(snapshot)
        self.requests.retire(old)

    def _apply(self, snapshot: Snapshot) -> None:
        config, targets = snapshot.config, snapshot.targets
        self.admission.apply(config, targets.find_entry_name)
        self.callers.apply(config)
        self.ledger.rules = config.ledger
        self.overload.apply(config.limits)
        self.target_queues.keep(frozenset(config.providers))
        set_event_bytes(config.limits.event_bytes)
        self.keys.replace(snapshot.keys)
        self.pools.apply(config.limits)
        self.plans.clear()
        self.health.apply(config.circuits, targets.providers)
        self.metrics.set_known_names(models=list(config.models), providers=list(config.providers))
        self.host.watchdog.limit_seconds = config.server.hook_seconds

    def _note_delay(self, seconds: float) -> None:
        """Pass a measured delay of the event loop on, and show the number of open requests."""
        self.overload.note_delay(seconds)
        self.metrics.admission.set_open_requests(self.overload.open)

    def _close_unused_pools(self, retired: Iterable[Snapshot]) -> None:
        """Close the pools that neither the current snapshot nor a retired one in use needs."""
        used = (self.snapshot, *retired)
        self.pools.keep({provider.identity for each in used for provider in each.targets.providers.values()})

    def _apply_overrides(self, overrides: Overrides) -> None:
        if self.admission.override(overrides):
            self.callers.forget()

    # Limits

    def _read_spending(self, bounds: Sequence[Bound]) -> dict[Bound, Used]:
        """Return the usage of the subjects of bounds in this day and month. Blocks. Raises DatabaseError, TimeoutError."""
        if not self.ledger.flush_to_database(FLUSH_SECONDS):
            raise TimeoutError("it is not written in time")
        period, find_entry_name = find_period(time.time()), self.snapshot.targets.find_entry_name
        spending: dict[Bound, Used] = {}
        for kind in {bound.kind for bound in bounds}:
            subjects = {bound.subject: bound for bound in bounds if bound.kind == kind}
            used = read_subjects(self.database, kind, subjects, period, find_entry_name)
            spending |= {bound: used.get(name, Used()) for name, bound in subjects.items()}
        return spending
