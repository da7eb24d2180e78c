"""Gate: the state that lives as long as the process: current snapshot, connection pools, circuits, keys, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from cachetools import FIFOCache

from tornado_gate.accounts.key_ring import KeyRecord, KeyRing
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.config.model import Config
from tornado_gate.errors import GateError
from tornado_gate.gateway.affinity import MovedSessions
from tornado_gate.gateway.auth import unknown_key_error
from tornado_gate.gateway.body_worker import BodyWorker
from tornado_gate.gateway.budgets import Budgets
from tornado_gate.gateway.circuits import Circuit, CircuitBreakers
from tornado_gate.gateway.concurrency import ConcurrentRequests
from tornado_gate.gateway.key_health import KeyHealth
from tornado_gate.gateway.overload import Overload
from tornado_gate.gateway.pricing import load_default_prices
from tornado_gate.gateway.rate_limits import RateLimits
from tornado_gate.gateway.snapshot import ConfiguredProvider, Snapshot, build
from tornado_gate.gateway.target_queues import TargetQueues
from tornado_gate.http.upstream import Pool
from tornado_gate.ledger.ledger import Ledger
from tornado_gate.plugins.host import PluginHost
from tornado_gate.streams.event_bound import set_event_bytes
from tornado_gate.telemetry.loop_lag import LoopLagMonitor
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import NO_BUDGET, Budget, Caller

MAX_CALLERS = 10_000
"""The number of keys whose callers are cached."""


class Interruptible(Protocol):
    """A request that is being answered."""

    def interrupt(self, error: GateError) -> None:
        """End the request: its caller gets `error`, in the stream if one has begun."""


class Gate:
    """Created once for each process, from a checked Config. Call `start` inside the event loop, and `close` before it ends."""

    def __init__(self, config: Config, host: PluginHost, keystore: KeyStore, metrics: Metrics) -> None:
        self.host = host
        self.health = CircuitBreakers()
        self.health.on_forget = self._count_forgotten_circuit
        self.key_health = KeyHealth()
        self.key_turns: dict[str, int] = {}
        """Which of several keys is used next, by provider entry."""
        self.key_warnings: dict[tuple[str, str], float] = {}
        """When the next warning about the key of a provider entry may be logged, by entry and the key's fingerprint."""
        self.moved_sessions = MovedSessions()
        self.limits = RateLimits()
        self.concurrency = ConcurrentRequests()
        self.metrics = metrics
        self.worker = BodyWorker()
        self.draining = False
        """The process ends soon, and no other one takes its place: /readyz answers 503."""
        self.closing = False
        """The port is closed: no new WebSocket session is opened."""
        self.running: set[Interruptible] = set()
        """The requests that are being answered, so that those which take too long can be ended."""
        self.is_crash_loop: Callable[[], bool] = lambda: False
        """Whether the processes of this gateway end again and again: /readyz answers 503."""
        self.ready_checks: list[Callable[[], str]] = []
        """Each returns why the process should get no more requests for now, or "". /readyz calls them."""
        self.open_requests = 0
        self._pools: dict[Hashable, Pool] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._users: dict[int, int] = {}
        self._retired: dict[int, Snapshot] = {}
        self.overload = Overload(config.limits, metrics.count_shed_request)
        self.target_queues = TargetQueues(metrics.set_target_requests, metrics.count_shed_request)
        self._lag = LoopLagMonitor(metrics)
        self._lag.on_delay = self.overload.note_delay
        self.ready_checks.append(self.overload.explain_overload)
        self.idle = asyncio.Event()
        self.idle.set()
        self.snapshot = build(config, host)
        load_default_prices(self.snapshot)
        self._upstream_http = config.server.upstream_http
        self._callers: FIFOCache[str, tuple[KeyRecord, Caller]] = FIFOCache(MAX_CALLERS)
        self.keys = KeyRing(keystore, {})
        self.ledger = Ledger(keystore.database, config.server.data_dir, config.ledger, metrics)
        self.budgets = Budgets(keystore.database, self.ledger.flush)
        self._apply(self.snapshot)
        host.on_failure.append(lambda plugin, _detail: metrics.count_plugin_error(plugin))

    async def start(self) -> None:
        """Start watching for revoked keys, plugins that block the loop, and the lag of the loop."""
        await self.keys.start()
        self.ledger.start()
        self._lag.start()
        self.host.watchdog.limit_seconds = self.snapshot.config.server.hook_seconds
        self.host.watchdog.start(asyncio.get_running_loop())

    async def close(self) -> None:
        self.host.watchdog.stop()
        self._lag.stop()
        await self.ledger.close()
        await self.keys.stop()
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()
        self.worker.close()

    async def authenticate(self, key: str) -> Caller:
        """The caller that a key belongs to. Raises AuthenticationFailed."""
        return await self.authenticate_digest(digest_key(key))

    async def authenticate_digest(self, key_digest: bytes) -> Caller:
        """The caller that the key with this digest belongs to. Raises AuthenticationFailed."""
        record = await self.keys.find_by_digest(key_digest)
        if record is None:
            raise unknown_key_error()
        return self._get_caller(record)

    async def describe_caller(self, key_digest: bytes) -> Caller:
        """As `authenticate_digest`, for somebody else than the caller: this is no use of the key."""
        record = await self.keys.peek(key_digest)
        if record is None:
            raise unknown_key_error()
        return self._get_caller(record)

    def find_cached_caller(self, key_digest: bytes) -> Caller | None:
        """The caller of a key from the cache; None when the key store must be read."""
        record = self.keys.find_cached(key_digest)
        return None if record is None else self._get_caller(record)

    def _get_caller(self, record: KeyRecord) -> Caller:
        kept = self._callers.get(record.id)
        if kept is not None and kept[0] is record:
            return kept[1]
        caller = self._make_caller(record)
        self._callers[record.id] = (record, caller)
        return caller

    def _make_caller(self, record: KeyRecord) -> Caller:
        limits = self.snapshot.config.limits
        requests, tokens = record.requests_per_minute, record.tokens_per_minute
        return Caller(
            id=record.usage_id,
            account=record.account,
            name=record.name,
            user=record.user,
            team=record.team,
            tags=record.tags,
            addresses=record.addresses,
            concurrent_requests=record.concurrent_requests,
            budget=record.budget,
            team_budget=self._find_team_budget(record),
            team_limits=record.team_limits,
            models=tuple(record.models),
            operations=tuple(record.operations),
            requests_per_minute=limits.requests_per_minute if requests is None else requests,
            tokens_per_minute=limits.tokens_per_minute if tokens is None else tokens,
            role=record.role,
        )

    def _find_team_budget(self, record: KeyRecord) -> Budget:
        if record.source == "store":
            return record.team_budget
        team = self.snapshot.config.teams.get(record.team)
        return NO_BUDGET if team is None else team.budget

    def replace(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the current one. Running requests keep the old one, whose pools close when the last of them ends."""
        old, self.snapshot = self.snapshot, snapshot
        snapshot.loads.adopt(old.loads)
        self._retired[old.number] = old
        self._apply(snapshot)
        self._close_unused()

    def _apply(self, snapshot: Snapshot) -> None:
        config = snapshot.config
        self._callers.clear()
        self.ledger.rules = config.ledger
        self.overload.limits = config.limits
        self.target_queues.keep(frozenset(config.providers))
        set_event_bytes(config.limits.event_bytes)
        self.keys.replace({digest_key(entry.key): entry for entry in config.keys})
        for pool in self._pools.values():
            pool.limits = config.limits
        self.health.rules = config.circuits
        self._forget_removed_keys(snapshot)
        self.metrics.set_known_names(models=list(config.models), providers=list(config.providers))
        self.host.watchdog.limit_seconds = config.server.hook_seconds

    def _forget_removed_keys(self, snapshot: Snapshot) -> None:
        known = {
            (name, key)
            for name, provider in snapshot.providers.items()
            for key in ("", *(each.fingerprint for each in provider.keys))
        }
        self.key_health.keep(known)
        self.key_warnings = {name: when for name, when in self.key_warnings.items() if name in known}
        self.key_turns = {name: turn for name, turn in self.key_turns.items() if name in snapshot.providers}

    def _count_forgotten_circuit(self, circuit: Circuit) -> None:
        if circuit.blocked is not None:
            self.metrics.count_circuit_transition(*circuit.labels, is_open=False)

    def pool(self, provider: ConfiguredProvider) -> Pool:
        """The connection pool of a provider entry. Snapshots in which the entry is equal share the pool."""
        pool = self._pools.get(provider.identity)
        if pool is None:
            pool = self._pools[provider.identity] = Pool(
                provider.entry.timeouts, self._upstream_http, self.snapshot.config.limits
            )
        return pool

    def use_snapshot(self, snapshot: Snapshot) -> AbstractContextManager[None]:
        """A context manager around a request: `acquire_snapshot`, then `release_snapshot`."""
        return _SnapshotUse(self, snapshot, waited_for=True)

    def use_snapshot_in_background(self, snapshot: Snapshot) -> AbstractContextManager[None]:
        """Like `use_snapshot`, for work that draining does not wait for, because another process continues it."""
        return _SnapshotUse(self, snapshot, waited_for=False)

    def acquire_snapshot(self, snapshot: Snapshot, *, waited_for: bool = True) -> None:
        """Count a request that starts: until `release_snapshot` the snapshot's pools stay open and draining waits for it."""
        number = snapshot.number
        self._users[number] = self._users.get(number, 0) + 1
        if waited_for:
            self.open_requests += 1
            if self.open_requests == 1:
                self.idle.clear()

    def release_snapshot(self, snapshot: Snapshot, *, waited_for: bool = True) -> None:
        """Count a request that has ended; closes pools that no snapshot needs any more."""
        number = snapshot.number
        if waited_for:
            self.open_requests -= 1
            if not self.open_requests:
                self.idle.set()
        self._users[number] -= 1
        if not self._users[number]:
            del self._users[number]
            if number in self._retired:
                self._close_unused()

    def _close_unused(self) -> None:
        self._retired = {number: old for number, old in self._retired.items() if number in self._users}
        needed = {
            provider.identity
            for snapshot in (self.snapshot, *self._retired.values())
            for provider in snapshot.providers.values()
        }
        for identity in set(self._pools) - needed:
            closing = asyncio.ensure_future(self._pools.pop(identity).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class _SnapshotUse:
    __slots__ = ("_gate", "_snapshot", "_waited_for")

    def __init__(self, gate: Gate, snapshot: Snapshot, *, waited_for: bool) -> None:
        self._gate = gate
        self._snapshot = snapshot
        self._waited_for = waited_for

    def __enter__(self) -> None:
        self._gate.acquire_snapshot(self._snapshot, waited_for=self._waited_for)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.release_snapshot(self._snapshot, waited_for=self._waited_for)
