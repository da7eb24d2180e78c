"""Active health checks of provider entries, once for all processes of a machine.

The process that holds the lock of a file runs the checks. It writes the results to a file that the other processes read. The lock
ends with its process. Another process then takes it within a second. A failed check does not concern a key: a response of 401 to
403 or 429 counts as an answer.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from tornado_gate.config.routing import HealthCheck
from tornado_gate.errors import GateError, UpstreamError, UpstreamKeyRefused, UpstreamRateLimited
from tornado_gate.http.upstream import call_upstream
from tornado_gate.pipeline.attempts import call_provider
from tornado_gate.pipeline.calls import make_target_call
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.storage.private import make_folder, open_private
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.fair_timeouts import limit_running_time
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.types import Call, Caller, ChatRequest, Message, Text, UpstreamRequest
from tornado_gate.types.call import LazyExitStack
from tornado_gate.types.value import State, replace

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
FOLDER: Final = "health"
CHECK_ID: Final = "health-check"


class CheckState(State):
    """The state of one provider entry: consecutive results, and whether it counts as down."""

    due: float = 0.0
    failures: int = 0
    successes: int = 0
    is_down: bool = False

    def note(self, ok: bool, rules: HealthCheck) -> None:
        self.failures, self.successes = (0, self.successes + 1) if ok else (self.failures + 1, 0)
        if self.failures >= rules.failures:
            self.is_down = True
        elif self.successes >= rules.successes:
            self.is_down = False


class HealthChecks:
    """The runner of the current snapshot's checks. Call `start` inside the event loop, and `close` before it ends."""

    def __init__(self, gate: Gate, data_dir: Path) -> None:
        self._gate = gate
        self._folder = data_dir / FOLDER
        self._states: dict[str, CheckState] = {}
        self._lock: int | None = None
        self._written = b""
        self._runner: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._runner = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _run(self) -> None:
        while True:
            snapshot = self._gate.snapshot
            rules = list_checks(snapshot)
            if rules or self._gate.health.circuits.down:
                try:
                    await self.run_once(snapshot, rules)
                except OSError as error:
                    log.warning("health checks: %s", error)
            shortest = min((rule.interval for rule in rules.values()), default=TICK_SECONDS)
            await asyncio.sleep(min(TICK_SECONDS, shortest))

    async def run_once(self, snapshot: Snapshot, rules: Mapping[str, HealthCheck]) -> None:
        """Run the checks that are due, or read the results of another process."""
        if self._lock is None:
            self._lock = await asyncio.to_thread(self._take_lock)
        if self._lock is None:
            self._apply(set(await asyncio.to_thread(self._read)) & rules.keys(), snapshot)
            return
        self._states = {name: self._states.get(name) or _make_state(rule) for name, rule in rules.items()}
        now = time.monotonic()
        due = [name for name, state in self._states.items() if state.due <= now]
        await asyncio.gather(*(self._check(snapshot, name, rules[name]) for name in due))
        down = {name for name, state in self._states.items() if state.is_down}
        self._apply(down, snapshot)
        text = orjson.dumps(sorted(down))
        if text != self._written:
            await asyncio.to_thread(self._write, text)
            self._written = text

    def _take_lock(self) -> int | None:
        make_folder(self._folder)
        opened = open_private(self._folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(opened)
            return None
        return opened

    def _read(self) -> list[str]:
        try:
            names = orjson.loads((self._folder / "down.json").read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return []
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def _write(self, text: bytes) -> None:
        path = self._folder / "down.json"
        part = path.with_suffix(".part")
        part.write_bytes(text)
        part.replace(path)

    def _apply(self, down: set[str], snapshot: Snapshot) -> None:
        """Report to the circuits which entries are down. The circuits of a recovered entry are due for a probe immediately."""
        health, metrics = self._gate.health.circuits, self._gate.metrics
        for name in down - health.down.keys():
            health.mark_down(name)
            metrics.targets.set_down(name, is_down=True)
            log.warning("the provider '%s' fails its health checks: its targets are skipped", name)
        for name in health.down.keys() - down:
            health.mark_up(name)
            metrics.targets.set_down(name, is_down=False)
            if name in snapshot.targets.providers:
                log.info("the provider '%s' passes its health checks again", name)

    async def _check(self, snapshot: Snapshot, name: str, rules: HealthCheck) -> None:
        state = self._states[name]
        state.due = time.monotonic() + rules.interval
        provider = snapshot.targets.providers[name]
        try:
            with self._gate.requests.hold_in_background(snapshot):
                async with limit_running_time(rules.timeout):
                    await check_provider(self._gate, snapshot, provider, rules)
        except (UpstreamKeyRefused, UpstreamRateLimited):
            state.note(True, rules)
        except (UpstreamError, TimeoutError) as error:
            state.note(False, rules)
            code = error.code if isinstance(error, GateError) else "timeout"
            self._gate.metrics.targets.count_health_check(name, "failed")
            log.info("health check of the provider '%s' failed: %s", name, code)
            return
        except GateError as error:  # a plugin failed, so the state of the upstream is unknown
            self._gate.metrics.targets.count_health_check(name, "not_sent")
            log.warning("the health check of the provider '%s' could not be sent: %s", name, error.message)
            return
        else:
            state.note(True, rules)
        self._gate.metrics.targets.count_health_check(name, "passed")


def _make_state(rules: HealthCheck) -> CheckState:
    """Return a state whose first check is at a random time, so that the checks of many entries do not coincide."""
    return CheckState(due=time.monotonic() + random.uniform(0, min(rules.interval, TICK_SECONDS)))


def list_checks(snapshot: Snapshot) -> dict[str, HealthCheck]:
    """Return the checks of conf by provider entry. Omit entries whose plugin has failed."""
    return {
        name: provider.entry.health_check
        for name, provider in snapshot.targets.providers.items()
        if provider.entry.health_check is not None and provider.lane is not None
    }


async def check_provider(gate: Gate, snapshot: Snapshot, provider: ConfiguredProvider, rules: HealthCheck) -> None:
    """Send one check. Raises GateError when it fails."""
    lane, name = provider.usable_lane, provider.entry.name
    target = snapshot.targets.make_task_target(rules.model or CHECK_ID, name, rules.model or CHECK_ID)
    limits = replace(target.timeouts, first_event=rules.timeout, whole=None, total=rules.timeout)
    async with LazyExitStack() as closing:
        caller, pool = Caller(id="", account=""), gate.pools.get_pool(provider)
        target = replace(target, timeouts=limits)
        call = make_target_call(CHECK_ID, "chat", target.upstream_model, caller, target, pool, closing)
        request = ChatRequest(
            model=target.upstream_model,
            messages=(Message(role="user", parts=(Text(text="ping"),)),),
            max_tokens=16,
            stream=True,
        )
        if rules.model:
            deadlines = Deadlines(limits, name, streaming=True)
            async for _ in await call_provider(call, lane, request, deadlines):
                return
            return
        await call_upstream(call, await _make_get(call, lane, request, rules.path))


async def _make_get(call: Call, lane: Any, request: ChatRequest, path: str) -> UpstreamRequest:
    """Return a GET request with the plugin's headers for a chat request, which include the key."""
    try:
        headers = (await lane.translate_request(call, request)).headers
    except GateError:
        headers = call.target.headers
    kept = {key: value for key, value in headers.items() if key.lower() not in ("content-type", "content-length")}
    return UpstreamRequest(method="GET", url=call.target.base_url + path, headers=kept)
