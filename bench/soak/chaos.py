"""What `make chaos` does to a gateway while it is used: kills, restarts, reloads of conf. One after the other, forever."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from bench.soak.records import Disruption, Journal
from bench.soak.site import REVOCABLE_KEY, STEADY, Site
from tests.support.postgres import PostgresServer
from tests.support.valkey import Valkey

GRACE_SECONDS = 1.0
"""A connection that was accepted by a process that ends may be reset a little later."""
CHANGE_SECONDS = 20.0
"""A change of conf is in force in all processes after so long, on a busy machine."""
OUTAGE_SECONDS = 3.0
BROKEN_CONF = ("", "server: {processes: [", "models: {x: {provider: nobody}}\n", "# nothing but a comment\n")


class Chaos:
    """Disturbs a site. `faults` are what did not happen as it must."""

    def __init__(
        self,
        site: Site,
        journal: Journal,
        gap: float,
        postgres: PostgresServer | None = None,
        valkey: Valkey | None = None,
    ) -> None:
        self._site = site
        self._journal = journal
        self._gap = gap
        self._postgres = postgres
        self._valkey = valkey
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.downtimes: list[float] = []

    async def run(self, until: float) -> None:
        """Disturb until the time; ends with a whole site."""
        acts: list[Callable[[int], Awaitable[None]]] = [
            self._kill_worker, self._reload_valid, self._restart_upstream, self._reload_broken, self._revoke_key,
            self._replace_gateway, self._restart_gateway,
        ]  # fmt: skip
        if self._postgres is not None:
            acts.append(self._stop_database)
        if self._valkey is not None:
            acts.insert(2, self._kill_store)
            acts.insert(5, self._hang_store)
        for number, act in enumerate(itertools.cycle(acts)):
            await asyncio.sleep(self._gap)
            if time.time() >= until:
                return
            try:
                await act(number)
            except AssertionError as error:
                self.faults.append(f"{act.__name__}: {error}")

    def _note(self, kind: str, start: float, **rest: Any) -> None:
        self.counts[kind] += 1
        self._journal.disruptions.append(Disruption(kind, start, time.time() + GRACE_SECONDS, **rest))

    async def _kill_worker(self, number: int) -> None:
        """SIGKILL for one serving process: its requests are cut, the others go on."""
        start = time.time()
        gone = await asyncio.to_thread(self._site.kill_worker, number)
        self._note("kill -9 of a worker", start, cuts=True, loses_rows=True)
        await asyncio.to_thread(self._site.wait_for_workers, gone)

    async def _restart_upstream(self, number: int) -> None:
        """SIGKILL for the shaky upstream; the steady one goes on."""
        start = time.time()
        await asyncio.to_thread(self._site.shaky.kill)
        await asyncio.sleep(OUTAGE_SECONDS / 3)
        await asyncio.to_thread(self._site.shaky.start)
        self._note("restart of an upstream", start)

    async def _reload_valid(self, number: int) -> None:
        start = time.time()
        self._site.changes += 1
        self._site.write_conf(self._site.make_conf())
        self._note("valid reload", start)

    async def _reload_broken(self, number: int) -> None:
        """A file that must not take effect: the keys and models of the old one work on."""
        start = time.time()
        self._site.write_conf(BROKEN_CONF[number % len(BROKEN_CONF)])
        await asyncio.sleep(2.0)
        status = await self._ask(REVOCABLE_KEY)
        self._site.write_conf(self._site.make_conf())
        self._note("invalid reload", start)
        if status != 200:
            self.faults.append(f"after an invalid conf file, a key of the old one gets {status}")

    async def _revoke_key(self, number: int) -> None:
        """Remove a key from the file, wait until every process refuses it, and add it again."""
        start = time.time()
        self._site.has_revocable_key = False
        self._site.write_conf(self._site.make_conf())
        await self._wait_for_status(401, "a revoked key still works")
        self._site.has_revocable_key = True
        self._site.write_conf(self._site.make_conf())
        await self._wait_for_status(200, "a key that was added again does not work")
        self._note("key revoked, and given again", start)

    async def _wait_for_status(self, status: int, fault: str) -> None:
        """Until ten answers in a row, on new connections, have this status: more than one process answers."""
        deadline, in_a_row = time.time() + CHANGE_SECONDS, 0
        while in_a_row < 10:
            in_a_row = in_a_row + 1 if await self._ask(REVOCABLE_KEY) == status else 0
            if time.time() > deadline:
                self.faults.append(f"{fault} {CHANGE_SECONDS:.0f} s after the change")
                return
            await asyncio.sleep(0.05)

    async def _ask(self, key: str) -> int:
        return (await self._get(f"/v1/models/{STEADY}-o", Authorization=f"Bearer {key}"))[0]

    async def _read_metric(self, name: str) -> float:
        """The value of a metric without labels; 0 while nothing answers."""
        _, text = await self._get("/metrics")
        found = re.search(rf"^{name} (\S+)$", text, re.M)
        return float(found[1]) if found else 0.0

    async def _get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and body, by a connection of its own; status 0: none."""
        try:
            async with (
                aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=20)) as session,
                session.get(self._site.url + path, headers={**headers, "Connection": "close"}) as answer,
            ):
                return answer.status, await answer.text()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return 0, ""

    async def _restart_gateway(self, number: int) -> None:
        """SIGTERM, wait for the end, start again: what was in flight must be answered."""
        start = time.time()
        await asyncio.to_thread(self._site.stop_gateway)
        await asyncio.to_thread(self._site.start_gateway)
        self.downtimes.append(time.time() - start)
        self._note("restart of the gateway", start, refuses=True, ends_sessions=True)

    async def _replace_gateway(self, number: int) -> None:
        """SIGUSR2: nothing may be refused or cut, except realtime sessions, which have no end of their own."""
        start = time.time()
        await asyncio.to_thread(self._site.replace_gateway)
        self._note("replacement of the gateway", start, ends_sessions=True)

    async def _stop_database(self, number: int) -> None:
        """PostgreSQL is away for a while: requests go on, rows wait on the disk."""
        assert self._postgres is not None
        start = time.time()
        await asyncio.to_thread(self._postgres.stop)
        await asyncio.sleep(OUTAGE_SECONDS)
        await asyncio.to_thread(self._postgres.start)
        self._note("restart of PostgreSQL", start, has_no_database=True)

    async def _kill_store(self, number: int) -> None:
        """Valkey is killed, and comes back without its data: the machine counts meanwhile."""
        assert self._valkey is not None
        start = time.time()
        await asyncio.to_thread(self._valkey.kill)
        await asyncio.sleep(OUTAGE_SECONDS)
        await asyncio.to_thread(self._valkey.start)
        await self._wait_for_store()
        self._note("kill -9 of Valkey", start, moves_limits="lost")

    async def _hang_store(self, number: int) -> None:
        """Valkey does not answer for a while, and goes on with its data."""
        assert self._valkey is not None
        start = time.time()
        self._valkey.hang()
        await asyncio.sleep(OUTAGE_SECONDS)
        self._valkey.go_on()
        await self._wait_for_store()
        self._note("Valkey hangs", start, moves_limits="kept")

    async def _wait_for_store(self) -> None:
        """Until all processes count in Valkey again."""
        deadline = time.time() + CHANGE_SECONDS
        while await self._read_metric("tornado_gate_limit_store_away"):
            if time.time() > deadline:
                self.faults.append(f"limits are not counted in Valkey {CHANGE_SECONDS:.0f} s after it is back")
                return
            await asyncio.sleep(0.2)
