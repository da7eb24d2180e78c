"""The store of counters in Redis or Valkey, for several nodes: one script for each reservation, which Redis runs as a whole.

The script uses the clock of Redis, so nodes need no equal clocks. The counters are the same as in `counters.py`, stored in hashes
that expire. Open requests belong to the lease of a process, which is a key that the process renews. Open requests of an expired
lease do not count.

A command that takes longer than TIMEOUT_SECONDS counts as failed. An amount that cannot be returned now is kept and returned
later.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final

from tornado_gate.admission.bounds import OPEN, PERIOD_NAMES, PERIODS
from tornado_gate.admission.store import Level, Outcome, StoreUnavailable
from tornado_gate.codec.valkey_addresses import make_library_address
from tornado_gate.errors import ConfigError
from tornado_gate.ledger.spending import Period, Used, find_period
from tornado_gate.streams.fair_timeouts import expire_or_extend
from tornado_gate.types import Bound
from tornado_gate.types.bounds import Moment

try:
    from redis import asyncio as client
    from redis.exceptions import NoScriptError, RedisError, ResponseError
except ImportError as error:
    message = "needs the package 'redis': install tornado-gate[redis]"
    raise ConfigError([(("limits", "store"), message)]) from error

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 0.5
CONNECTIONS: Final = 8
HEARTBEAT_SECONDS: Final = 0.5
LEASE_MS: Final = 2000
CONCURRENCY_WAIT: Final = 1.0
UNREAD_SECONDS: Final = 600
REREAD_SECONDS: Final = 60
MOST_PENDING: Final = 100_000
BATCH: Final = 100
"""The maximum number of reservations in one pipeline."""

_LETTERS: Final = {"requests": "w", "tokens": "w", OPEN: "o", PERIODS: "p"}
_FIELDS: Final = dict(zip(PERIOD_NAMES, ("ud", "um", "td", "tm"), strict=True))
_SCRIPT: Final = files("tornado_gate.admission").joinpath("redis.lua").read_text(encoding="utf-8")

_PERMANENT: Final = ("ERR ", "WRONGTYPE ")
"""The beginnings of errors of the script that it would raise again. Others end, such as OOM, READONLY and LOADING."""

Change = tuple[Sequence[Bound], Sequence[int], Moment, str]


class ScriptFailed(StoreUnavailable):
    """The script has failed for its arguments, and would fail again."""


class RedisStore:
    """Counters in the Redis or Valkey at `address`."""

    name = "redis"

    def __init__(self, address: str) -> None:
        self._redis = client.Redis.from_url(
            make_library_address(address),
            protocol=2,  # without the round trips of a greeting
            # Last resorts, which count the time in which this process did not run: `_guard` ends each command earlier.
            socket_timeout=TIMEOUT_SECONDS * 20,
            socket_connect_timeout=TIMEOUT_SECONDS * 20,
            max_connections=CONNECTIONS,
        )
        self._digest = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
        self._waiting: deque[tuple[list[Any], asyncio.Future[Any]]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._is_uncertain = self._is_closing = False
        self._lease = secrets.token_hex(8)
        self._open: dict[Bound, int] = {}
        self._pending: deque[Change] = deque(maxlen=MOST_PENDING)
        self._sending: asyncio.Task[None] | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._used_periods: dict[tuple[int, int], tuple[Bound, float]] = {}

    async def start(self) -> None:
        """Connect, or connect again, and take the lease. Raises StoreUnavailable.

        After a failover the old primary may still answer on open connections, as a replica. The address leads to the new primary.
        """
        await self._redis.connection_pool.disconnect(inuse_connections=False)
        await self._renew_lease()
        self._send_soon()
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._renew_leases(), name="renew the lease of limits")

    async def close(self) -> None:
        self._is_closing = True
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            with suppress(asyncio.CancelledError):
                await self._heartbeat
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=TIMEOUT_SECONDS * 2)
        with suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._redis.delete(_make_lease_name(self._lease))
        with suppress(RedisError, OSError):
            await self._redis.aclose()

    async def reserve(self, bounds: Sequence[Bound], amounts: Sequence[int]) -> Outcome:
        lease = self._lease
        answer = await self._run("reserve", bounds, amounts)
        clock, wall = int(answer[1]), int(answer[2]) / 1000
        period = find_period(wall)
        unread = [bounds[int(index) - 1] for index in answer[4]]
        levels = [
            self._make_level(bounds[int(index) - 1], int(used), float(wait), float(reset), wall, period)
            for index, used, wait, reset in answer[3]
        ]
        for bound in bounds:
            if bound.family == PERIODS:
                self._used_periods.setdefault(bound.counter, (bound, time.monotonic()))
        if not int(answer[0]):
            return Outcome(levels, None, unread)
        moment = Moment(clock, period.day, period.month)
        opened = [amount if bound.family == OPEN else 0 for bound, amount in zip(bounds, amounts, strict=True)]
        if any(opened):
            if self._open and not int(
                answer[5]
            ):  # this process did not run for a while: others may have removed its requests
                self._is_uncertain = True
            self._count_open(bounds, opened)
            if lease != self._lease:  # it has expired, and with it the requests that the script has counted
                self._pending.append((bounds, opened, moment, self._lease))
                self._send_soon()
        return Outcome(levels, moment)

    def _count_open(self, bounds: Sequence[Bound], amounts: Sequence[int]) -> None:
        for bound, amount in zip(bounds, amounts, strict=True):
            if bound.family == OPEN and amount:
                self._open[bound] = self._open.get(bound, 0) + amount
                if self._open[bound] <= 0:
                    del self._open[bound]

    @staticmethod
    def _make_level(bound: Bound, used: int, wait: float, reset: float, wall: float, period: Period) -> Level:
        if bound.family == PERIODS:
            ends = period.next_day if bound.name.endswith("day") else period.next_month
            return Level(bound, used, max(0.0, ends - wall), max(0.0, ends - wall))
        if bound.family == OPEN:
            return Level(bound, used, CONCURRENCY_WAIT, 0.0)
        return Level(bound, used, wait / 1000, reset / 1000)

    def change(self, bounds: Sequence[Bound], amounts: Sequence[int], moment: Moment) -> None:
        self._count_open(bounds, amounts)
        self._pending.append((bounds, amounts, moment, self._lease))
        self._send_soon()

    async def read(self, bounds: Sequence[Bound]) -> Sequence[Level]:
        answer = await self._run("read", bounds, [0] * len(bounds))
        wall = int(answer[2]) / 1000
        period = find_period(wall)
        return [
            self._make_level(bounds[int(index) - 1], int(used), float(wait), float(reset), wall, period)
            for index, used, wait, reset in answer[3]
        ]

    async def raise_used(self, used: Mapping[Bound, Used], period: Period) -> None:
        bounds = list(used)
        sums = [
            ",".join(map(str, (usage.day_cost, usage.month_cost, usage.day_tokens, usage.month_tokens)))
            for usage in used.values()
        ]
        await self._run("raise", bounds, sums, (period.day, period.month))

    def list_old(self, now: float) -> list[Bound]:
        old = [bound for bound, read in self._used_periods.values() if time.monotonic() - read > REREAD_SECONDS]
        for bound in old:
            del self._used_periods[bound.counter]
        return old

    # The connection

    async def _run(
        self,
        operation: str,
        bounds: Sequence[Bound],
        amounts: Sequence[Any],
        moment: Sequence[int] = (0, 0),
        lease: str = "",
    ) -> Any:
        """Return the result of the script. Raises StoreUnavailable."""
        keys = [_make_name(bound) for bound in bounds]
        arguments: list[Any] = [operation, lease or self._lease, LEASE_MS, UNREAD_SECONDS, *moment]
        for bound, amount in zip(bounds, amounts, strict=True):
            arguments += [_LETTERS[bound.family], _FIELDS.get(bound.name, ""), amount, bound.limit]
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(([len(keys), *keys, *arguments], result))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._send_waiting())
        return await result

    async def _send_waiting(self) -> None:
        """Send the commands of waiting requests, in batches over one connection."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH))]
            try:
                answers = await self._guard(self._send([arguments for arguments, _ in batch]))
            except StoreUnavailable as error:
                self._is_uncertain = True  # some of the batch may have been counted
                batch += self._waiting
                self._waiting.clear()
                answers = [error] * len(batch)
            for (_, result), answer in zip(batch, answers, strict=True):
                if result.done():
                    continue
                if isinstance(answer, Exception):
                    result.set_exception(_make_error(answer))
                else:
                    result.set_result(answer)

    async def _send(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        async def send(batch: Sequence[Sequence[Any]]) -> list[Any]:
            pipeline = self._redis.pipeline(transaction=False)
            for command in batch:
                pipeline.evalsha(self._digest, *command)
            responses: list[Any] = await pipeline.execute(raise_on_error=False)
            return responses

        answers = await send(commands)
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:  # the server was restarted
            await self._redis.script_load(_SCRIPT)
            retried = await send([commands[index] for index in unknown])
            for index, answer in zip(unknown, retried, strict=True):
                answers[index] = answer
        return answers

    async def _guard(self, command: Any) -> Any:
        """Return the result of a command. Raises StoreUnavailable when it fails or takes too long."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as limit:
                expiry = loop.call_later(
                    TIMEOUT_SECONDS, expire_or_extend, limit, loop.time() + TIMEOUT_SECONDS, TIMEOUT_SECONDS
                )
                try:
                    return await command
                finally:
                    expiry.cancel()
        except TimeoutError as error:
            raise StoreUnavailable(f"it has not answered within {TIMEOUT_SECONDS:g} s") from error
        except (RedisError, OSError) as error:
            raise StoreUnavailable(f"{type(error).__name__}: {error}") from error

    async def _renew_leases(self) -> None:
        while not self._is_closing:  # the client may replace a cancellation by another error
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(StoreUnavailable):  # the next reservation fails too and reports it
                await self._renew_lease()
                self._send_soon()  # send amounts that could not be returned, although reservations succeeded

    async def _renew_lease(self) -> None:
        """Renew the lease.

        If it had expired, or may have counted too much, take another lease, and count the open requests again.
        """
        name = _make_lease_name(self._lease)
        was_there = await self._guard(self._redis.set(name, "1", px=LEASE_MS, get=True))
        if (was_there is None and self._open) or self._is_uncertain:
            self._is_uncertain = False
            self._lease = secrets.token_hex(8)
            await self._guard(self._redis.set(_make_lease_name(self._lease), "1", px=LEASE_MS))
            opened = dict(self._open)
            if not opened:
                return
            self._pending.appendleft((tuple(opened), tuple(opened.values()), Moment(0, 0, 0), self._lease))
            self._send_soon()

    def _send_soon(self) -> None:
        if self._pending and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_pending())

    async def _send_pending(self) -> None:
        while self._pending:
            bounds, amounts, moment, lease = self._pending.popleft()
            try:
                await self._run("change", bounds, amounts, (moment.day, moment.month, moment.clock), lease)
            except ScriptFailed as error:
                log.error("a change of %d counters of limits is dropped: %s", len(bounds), error)
            except StoreUnavailable:
                self._pending.appendleft((bounds, amounts, moment, lease))
                return  # `start` tries again


def _make_error(answer: Exception) -> StoreUnavailable:
    """Return the error for a command of a batch that has failed."""
    is_permanent = isinstance(answer, ResponseError) and str(answer).startswith(_PERMANENT)
    kind = ScriptFailed if is_permanent else StoreUnavailable
    return kind(f"{type(answer).__name__}: {answer}")


def _make_name(bound: Bound) -> str:
    first, second = (number & (1 << 64) - 1 for number in bound.counter)
    return f"{{tornado-gate}}:limits:{first:016x}{second:016x}"


def _make_lease_name(lease: str) -> str:
    return f"{{tornado-gate}}:limits:lease:{lease}"
