"""Gate: the state that lives as long as the process: current snapshot, connection pools, circuits, keys, metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Protocol

from cachetools import FIFOCache

from tornado_gate.accounts.key_record import KeyRecord
from tornado_gate.accounts.key_ring import KeyRing
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.accounts.limit_overrides import read_overrides
from tornado_gate.admission.body_worker import BodyWorker
from tornado_gate.admission.overload import Overload
from tornado_gate.admission.overrides import Overrides
from tornado_gate.admission.reservations import Admission
from tornado_gate.admission.stores import make_limiter
from tornado_gate.admission.target_queues import TargetQueues
from tornado_gate.config.model import AccountsConfig, Config
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import GateError
from tornado_gate.guards.review_threads import ReviewThreads
from tornado_gate.http.upstream import Pool
from tornado_gate.ledger.ledger import Ledger
from tornado_gate.ledger.spending import Used, find_period, read_subjects
from tornado_gate.pipeline.auth import unknown_key_error
from tornado_gate.pipeline.pricing import load_default_prices
from tornado_gate.pipeline.snapshot import ConfiguredProvider, Snapshot, build
from tornado_gate.plugins.host import PluginHost
from tornado_gate.streams.event_bound import set_event_bytes
from tornado_gate.targets.affinity import MovedSessions
from tornado_gate.targets.circuits import Circuit, CircuitBreakers
from tornado_gate.targets.key_health import KeyHealth
from tornado_gate.targets.shared_health import SharedHealth
from tornado_gate.telemetry.loop_lag import LoopLagMonitor
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import NO_BUDGET, NO_LIMITS, Bound, Budget, Caller, Limits
from tornado_gate.types.answer_budget import set_answers_bytes

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
LONGEST_TIMER = 86400.0
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
        self.shared_health = SharedHealth(
            self.health, self.key_health, metrics, config.server.data_dir / "health" / "shared"
        )
        self.key_turns: dict[str, int] = {}
        """Which of several keys is used next, by provider entry."""
        self.key_warnings: dict[tuple[str, str], float] = {}
        """When the next warning about the key of a provider entry may be logged, by entry and the key's fingerprint."""
        self.moved_sessions = MovedSessions()
        self.metrics = metrics
        self.worker = BodyWorker()
        self.reviews = ReviewThreads(metrics.guards.set_threads)
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
        self.overload = Overload(config.limits, metrics.admission.count_shed_request)
        self._lag = LoopLagMonitor(metrics)
        self._lag.on_delay = self.overload.note_delay
        self.ready_checks += [self.overload.explain_overload, self.reviews.explain_stuck]
        self.idle = asyncio.Event()
        self.idle.set()
        self.snapshot = build(config, host)
        load_default_prices(self.snapshot)
        self._callers: FIFOCache[str, tuple[KeyRecord, Caller]] = FIFOCache(MAX_CALLERS)
        self.keys = KeyRing(keystore, {})
        self.ledger = Ledger(keystore.database, config.server.data_dir, config.ledger, metrics.ledger)
        self.database = keystore.database
        self.admission = Admission(make_limiter(config, self._read_spending, metrics.limits))
        self.target_queues = TargetQueues(
            self.admission.limiter.local, metrics.targets.set_requests, metrics.admission.count_shed_request
        )
        self._reading_overrides: asyncio.Task[None] | None = None
        self._override_end: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._apply(self.snapshot)
        self.keys.on_change.append(self._reread_overrides)
        host.on_failure.append(lambda plugin, _detail: metrics.process.count_plugin_error(plugin))

    async def start(self) -> None:
        """Start watching for revoked keys, plugins that block the loop, and the lag of the loop."""
        await self.keys.start()
        self.ledger.start()
        await self.admission.limiter.start()
        await self.shared_health.start()
        self._loop = asyncio.get_running_loop()
        await self._read_overrides()
        self._lag.start()
        self.host.watchdog.limit_seconds = self.snapshot.config.server.hook_seconds
        self.host.watchdog.start(asyncio.get_running_loop())

    async def close(self) -> None:
        self.host.watchdog.stop()
        self._lag.stop()
        self._loop = None
        if self._reading_overrides is not None:
            self._reading_overrides.cancel()
        if self._override_end is not None:
            self._override_end.cancel()
        self.shared_health.close()
        await self.admission.limiter.close()
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
        return Caller(
            id=record.usage_id,
            account=record.account,
            name=record.name,
            user=record.user,
            team=record.team,
            tags=record.tags,
            addresses=record.addresses,
            bounds=self._list_bounds(record),
            models=tuple(record.models),
            operations=tuple(record.operations),
            role=record.role,
        )

    def _list_bounds(self, record: KeyRecord) -> tuple[Bound, ...]:
        """The bounds of a key, its user and its team. Limits that the key has not are those of conf for all keys."""
        config, find = self.snapshot.config, self.admission.list_bounds
        requests, tokens = record.requests_per_minute, record.tokens_per_minute
        own = Limits(
            requests_per_minute=config.limits.requests_per_minute if requests is None else requests,
            tokens_per_minute=config.limits.tokens_per_minute if tokens is None else tokens,
            concurrent_requests=record.concurrent_requests,
        )
        bounds = find("key", record.usage_id, own, record.budget, record.name)
        user, team = (record.user_limits, record.user_budget), (record.team_limits, record.team_budget)
        if record.source == "conf":
            of_user, of_team = config.users.get(record.user), config.teams.get(record.team)
            user = (of_user.limits, of_user.budget) if of_user else user
            team = (of_team.limits, of_team.budget) if of_team else team
        else:
            user = _fill_bounds(config.accounts, *user)
        if record.user:
            bounds += find("user", record.user, *user, record.user_name)
        if record.team:
            bounds += find("team", record.team, *team, record.team_name)
        return bounds

    # Limits

    def _read_spending(self, bounds: Sequence[Bound]) -> dict[Bound, Used]:
        """What the subjects of bounds have used in this day and month. Blocks. Raises DatabaseError, TimeoutError."""
        if not self.ledger.flush(FLUSH_SECONDS):
            raise TimeoutError("it is not written in time")
        period = find_period(time.time())
        found: dict[Bound, Used] = {}
        models = self.snapshot.models

        def find_entry(model: str) -> str:
            entry = models.find(model)
            return model if entry is None else entry.entry.name

        for kind in {bound.kind for bound in bounds}:
            subjects = {bound.subject: bound for bound in bounds if bound.kind == kind}
            used = read_subjects(self.database, kind, subjects, period, find_entry)
            found |= {bound: used.get(name, Used()) for name, bound in subjects.items()}
        return found

    def _reread_overrides(self) -> None:
        """Keys have changed, and maybe overrides."""
        if self._loop is not None:
            self._reading_overrides = self._loop.create_task(self._read_overrides())

    async def _read_overrides(self) -> None:
        try:
            found = await self.database.run(read_overrides, self.database)
        except DatabaseError as error:
            log.warning("temporary limits cannot be read; those known stay in force: %s", error)
            return
        self._apply_overrides(Overrides(found, time.time()))

    def _apply_overrides(self, overrides: Overrides) -> None:
        if self._override_end is not None:
            self._override_end.cancel()
            self._override_end = None
        before, self.admission.overrides = self.admission.overrides, overrides
        if before != overrides:
            self.admission.apply(self.snapshot)
            self._callers.clear()
        if overrides.next_end is not None:
            seconds = min(max(0.0, overrides.next_end - time.time()) + 0.01, LONGEST_TIMER)
            renew = partial(self._renew_overrides, overrides)
            self._override_end = asyncio.get_running_loop().call_later(seconds, renew)

    def _renew_overrides(self, overrides: Overrides) -> None:
        self._override_end = None
        self._apply_overrides(overrides.renew(time.time()))

    def replace(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the current one. Running requests keep the old one, whose pools close when the last of them ends."""
        old, self.snapshot = self.snapshot, snapshot
        snapshot.loads.adopt(old.loads)
        self.key_health.forget(_list_changed_providers(old, snapshot))
        self._retired[old.number] = old
        self._apply(snapshot)
        self._close_unused()

    def _apply(self, snapshot: Snapshot) -> None:
        config = snapshot.config
        self._callers.clear()
        self.admission.apply(snapshot)
        self.ledger.rules = config.ledger
        self.overload.limits = config.limits
        self.target_queues.keep(frozenset(config.providers))
        set_event_bytes(config.limits.event_bytes)
        set_answers_bytes(config.limits.answers_bytes)
        self.keys.replace(snapshot.keys)
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
            self.metrics.targets.count_circuit_transition(*circuit.labels, is_open=False)

    def pool(self, provider: ConfiguredProvider) -> Pool:
        """The connection pool of a provider entry. Snapshots in which the entry is equal share the pool."""
        pool = self._pools.get(provider.identity)
        if pool is None:
            pool = self._pools[provider.identity] = Pool(provider.entry.timeouts, self.snapshot.config.limits)
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


def _list_changed_providers(old: Snapshot, new: Snapshot) -> set[str]:
    """The provider entries with other keys, addresses, headers or timeouts than before."""
    return {
        name
        for name, provider in new.providers.items()
        if name not in old.providers or old.providers[name].identity != provider.identity
    }


def _fill_bounds(rules: AccountsConfig, limits: Limits, budget: Budget) -> tuple[Limits, Budget]:
    """The bounds of a user of the database: those of conf for users who have none."""
    return (
        rules.default_limits if limits is NO_LIMITS else limits,
        rules.default_budget if budget is NO_BUDGET else budget,
    )


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
