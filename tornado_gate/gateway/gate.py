"""Gate: what lives as long as the process. The snapshot in force, connection pools, circuits, keys, metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Hashable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal

from tornado_gate.config.model import Config
from tornado_gate.errors import GateError
from tornado_gate.gateway.auth import unknown_key
from tornado_gate.gateway.body_budget import Bodies
from tornado_gate.gateway.circuits import Health
from tornado_gate.gateway.provider_call import TaskAsker, TaskTeller
from tornado_gate.gateway.rate_limits import RateLimits
from tornado_gate.gateway.snapshot import ProviderInUse, Snapshot, build
from tornado_gate.http.fetch import Fetcher
from tornado_gate.http.upstream import Pool
from tornado_gate.plugins.host import PluginHost
from tornado_gate.realtime.sessions import ClientSecrets, Held, Sessions
from tornado_gate.storage.conversation_state import Memory, MemoryStore
from tornado_gate.storage.files import MediaStore, media_secret
from tornado_gate.storage.keys import KeyRecord, KeyRing, KeyStore, digest
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.filestore import FileTaskStore
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.webhooks import webhook_secret
from tornado_gate.telemetry.metrics import LoopLag, Metrics
from tornado_gate.types import Caller

log = logging.getLogger(__name__)

SECRETS_OWNER = "\0client secrets"
"""Whose memory holds client secrets: no account has such a name."""
MOST_CALLERS = 10_000
"""Keys for which it is kept what they may do."""
SWEEP_SECONDS = 3600.0
"""How often files that have expired are looked for when no new one pushes them out."""


class Gate:
    """Made once for each process, from a checked Config. `start` inside the loop, `close` before it ends."""

    def __init__(self, config: Config, host: PluginHost, keystore: KeyStore, metrics: Metrics) -> None:
        self.host = host
        self.health = Health()
        self.limits = RateLimits()
        data_dir = config.server.data_dir
        self.memory = Memory(MemoryStore(data_dir))
        secret = media_secret(data_dir)
        self.media = MediaStore(data_dir / "media", secret=secret)
        self.videos = MediaStore(data_dir / "videos", secret=secret, address="/videos/", evicts=False)
        self.secrets = ClientSecrets(self.memory.of(SECRETS_OWNER))
        self.sessions = Sessions()
        self.fetcher = Fetcher()
        self.bodies = Bodies(config.limits.bodies_bytes)
        asker = TaskAsker(lambda: self.snapshot, self.holding, self.pool, self.fetcher)
        teller = TaskTeller(self.fetcher, webhook_secret(data_dir))
        self.tasks = TaskEngine(FileTaskStore(data_dir / "tasks"), self.videos, asker, config.videos, teller)
        self.tasks.on_look = self._count_tasks
        self.tasks.on_end = self._note_end
        self.metrics = metrics
        self.draining = False
        self.open_requests = 0
        self._pools: dict[Hashable, Pool] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._users: dict[int, int] = {}
        self._retired: dict[int, Snapshot] = {}
        self._lag = LoopLag(metrics)
        self._sweeping: asyncio.Future[None] | None = None
        self.idle = asyncio.Event()
        self.idle.set()
        self.snapshot = build(config, host)
        self._upstream_http = config.server.upstream_http
        self._callers: dict[str, tuple[KeyRecord, Caller]] = {}
        self.keys = KeyRing(keystore, {})
        self._apply(self.snapshot)
        host.on_failure.append(lambda plugin, _detail: metrics.plugin_error(plugin))

    async def start(self) -> None:
        """Begin to watch: keys that are revoked, plugins that block, the loop's lag."""
        await self.keys.start()
        self._lag.start()
        self.host.watchdog.limit_seconds = self.snapshot.config.server.hook_seconds
        self.host.watchdog.start(asyncio.get_running_loop())
        self._sweeping = asyncio.ensure_future(self._sweep())
        await self.tasks.start()

    async def close(self) -> None:
        self.host.watchdog.stop()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._lag.stop()
        await self.tasks.close()
        await self.keys.stop()
        await self.fetcher.close()
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.media.sweep()
                await self.videos.sweep()
            except GateError as error:
                log.warning("expired files stay for now: %s", error.message)

    def _count_tasks(self) -> None:
        """How many video tasks wait and run, of all processes, and how old the oldest is."""
        names = {self.tasks.store.digest(name): name for name in self.snapshot.config.providers}
        active = Counter(names.get(task.provider, "") for task in self.tasks.active)
        places = self.tasks.rules.concurrency
        counts = {(name, "running"): min(number, places) for name, number in active.items()}
        counts |= {(name, "queued"): max(0, number - places) for name, number in active.items()}
        oldest = time.time() - self.tasks.active[0].created / 1e9 if self.tasks.active else 0.0
        self.metrics.video_tasks(counts, max(0.0, oldest))

    def _note_end(self, record: TaskRecord) -> None:
        seconds = (record.completed_at or record.created_at) - record.created_at
        found = self.snapshot.models.find(record.model)
        model = found.entry.name if found else ""
        outcome: Literal["completed", "failed"] = "completed" if record.status == "completed" else "failed"
        self.metrics.video_ended(record.provider, model, outcome, max(0.0, seconds))

    async def authenticate(self, key: str) -> Caller:
        """Who a key belongs to. Raises AuthenticationFailed."""
        return await self.authenticate_digest(digest(key))

    async def authenticate_digest(self, key_digest: bytes) -> Caller:
        """`authenticate` by the digest of a key."""
        record = await self.keys.find_digest(key_digest)
        if record is None:
            raise unknown_key()
        return self._caller(record)

    def known_caller(self, key_digest: bytes) -> Caller | None:
        """Who a key belongs to that was used lately; None where the store must be asked."""
        record = self.keys.known(key_digest)
        return None if record is None else self._caller(record)

    async def authenticate_secret(self, value: str) -> tuple[Caller, Held]:
        """Who a client secret was made for, and for what. Raises AuthenticationFailed."""
        held = await self.secrets.find(value)
        record = None if held is None else await self.keys.find_digest(held.key_digest)
        if held is None or record is None:
            raise unknown_key()
        return self._caller(record), held

    def _caller(self, record: KeyRecord) -> Caller:
        kept = self._callers.get(record.id)
        if kept is not None and kept[0] is record:
            return kept[1]
        caller = self._make_caller(record)
        self._callers[record.id] = (record, caller)
        if len(self._callers) > MOST_CALLERS:
            self._callers.pop(next(iter(self._callers)))
        return caller

    def _make_caller(self, record: KeyRecord) -> Caller:
        limits = self.snapshot.config.limits
        requests, tokens = record.requests_per_minute, record.tokens_per_minute
        return Caller(
            id=record.id,
            account=record.account,
            name=record.name,
            models=tuple(record.models),
            operations=tuple(record.operations),
            requests_per_minute=limits.requests_per_minute if requests is None else requests,
            tokens_per_minute=limits.tokens_per_minute if tokens is None else tokens,
        )

    def drain(self) -> None:
        """Take nothing new; sessions, which have no end of their own, end now."""
        self.draining = True
        self.sessions.close_all()

    def replace(self, snapshot: Snapshot) -> None:
        """Put a new snapshot in force. Requests that run keep theirs; its pools close when the last of them has ended."""
        old, self.snapshot = self.snapshot, snapshot
        self._retired[old.number] = old
        self._apply(snapshot)
        self._close_unused()

    def _apply(self, snapshot: Snapshot) -> None:
        config = snapshot.config
        self._callers.clear()
        self.keys.replace({digest(entry.key): entry for entry in config.keys})
        self.metrics.known(models=list(config.models), providers=list(config.providers))
        self.host.watchdog.limit_seconds = config.server.hook_seconds
        self.fetcher.rules = config.fetch
        self.bodies.total = config.limits.bodies_bytes
        self.media.max_bytes, self.media.seconds = config.media.max_bytes, config.media.seconds
        self.tasks.rules = config.videos
        self.videos.max_bytes, self.videos.seconds = config.videos.max_bytes, config.videos.keep_seconds

    def pool(self, provider: ProviderInUse) -> Pool:
        """The connections of a provider entry: the same for every snapshot in which the entry is the same."""
        pool = self._pools.get(provider.identity)
        if pool is None:
            pool = self._pools[provider.identity] = Pool(provider.entry.timeouts, self._upstream_http)
        return pool

    def note_failure(self, circuit: tuple[str, str, str], error: GateError) -> None:
        """A target failed in a way that may be its fault: enough of these open its circuit."""
        if error.status == 429:
            self.health.released(circuit)
        else:
            self.health.failed(circuit, self.snapshot.config.circuits)

    def using(self, snapshot: Snapshot) -> AbstractContextManager[None]:
        """Around a request: `entered`, and `left`."""
        return _Use(self, snapshot, waited_for=True)

    def holding(self, snapshot: Snapshot) -> AbstractContextManager[None]:
        """As `using`, for work that draining does not wait for: another process goes on with it."""
        return _Use(self, snapshot, waited_for=False)

    def entered(self, snapshot: Snapshot, *, waited_for: bool = True) -> None:
        """A request begins: its snapshot's pools stay open, and draining waits for it, until it has `left`."""
        number = snapshot.number
        self._users[number] = self._users.get(number, 0) + 1
        if waited_for:
            self.open_requests += 1
            if self.open_requests == 1:
                self.idle.clear()

    def left(self, snapshot: Snapshot, *, waited_for: bool = True) -> None:
        """It has ended."""
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


class _Use:
    __slots__ = ("_gate", "_snapshot", "_waited_for")

    def __init__(self, gate: Gate, snapshot: Snapshot, *, waited_for: bool) -> None:
        self._gate = gate
        self._snapshot = snapshot
        self._waited_for = waited_for

    def __enter__(self) -> None:
        self._gate.entered(self._snapshot, waited_for=self._waited_for)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.left(self._snapshot, waited_for=self._waited_for)
