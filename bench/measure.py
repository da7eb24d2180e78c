"""One measurement of one running side, each a function. Times are seconds, memory kilobytes, unless a name says otherwise."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import statistics
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

from bench import upstream
from bench.cases import SLOW, Case
from bench.load import Load, first_chunks, while_running
from bench.meter import Memory, cpu_seconds, memory
from bench.side import LOAD_CORE, Running

T = TypeVar("T")
WARM_SHARE = 0.25
GLANCE_SECONDS = 0.25


def prepare() -> None:
    """This process makes the load: on its core, with as many files as the machine lets it open; what it starts ends with it."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if LOAD_CORE in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {LOAD_CORE})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def in_loop(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one request: CPU time of the side, and how many came through in a second."""

    micros: float
    per_second: float


def cost(side: Running, case: Case, seconds: float) -> Cost:
    """Raises BadAnswer when one answer was wrong."""

    async def measured() -> Cost:
        load = Load(side.port, side.request(case), case.expected)
        try:
            await load.open(case.connections)
            (await load.run(seconds * WARM_SHARE)).checked()
            used = cpu_seconds(side.process)
            tally = (await load.run(seconds)).checked()
            used = cpu_seconds(side.process) - used
        finally:
            load.close()
        return Cost(used / tally.answers * 1e6, tally.answers / tally.seconds)

    return in_loop(measured())


@dataclass(frozen=True, slots=True)
class Delay:
    """Milliseconds until the first piece of a stream, of requests one at a time."""

    p50: float
    p99: float


def delay(port: int, request: bytes, case: Case, count: int, gap: float = 0.01) -> Delay:
    """Raises BadAnswer."""
    in_loop(first_chunks(port, request, case.expected, 10, gap))
    found = in_loop(first_chunks(port, request, case.expected, count, gap))
    cuts = statistics.quantiles(found, n=100)
    return Delay(statistics.median(found) * 1e3, cuts[98] * 1e3)


@dataclass(frozen=True, slots=True)
class Streams:
    """So many slow streams at once."""

    count: int
    complete: int
    wall: float  # ideal: upstream.CHUNKS times the gap
    rss_each: float  # kilobytes
    pss_each: float
    micros: float  # CPU time of a stream


IDEAL_SECONDS = upstream.CHUNKS * upstream.GAP_SECONDS


def slow_streams(port: int, request: bytes, process: int | None, count: int) -> Streams:
    """Memory is the most that was seen, less what was used before; `process` None: nothing of the kind."""

    async def measured() -> Streams:
        load = Load(port, request, SLOW.expected)
        before = memory(process) if process else Memory(0, 0)
        seen = [before]
        await load.open(count)
        used = cpu_seconds(process) if process else 0.0
        tally = await while_running(load, lambda: seen.append(memory(process)) if process else None, GLANCE_SECONDS)
        used = cpu_seconds(process) - used if process else 0.0
        load.close()
        rss, pss = max(one.rss for one in seen) - before.rss, max(one.pss for one in seen) - before.pss
        return Streams(count, tally.answers, tally.seconds, rss / count, pss / count, used / count * 1e6)

    return in_loop(measured())
